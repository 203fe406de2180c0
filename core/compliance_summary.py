"""Compliance over many agents: scores by type and day, costs, and what reviewers found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from .compliance.codes import FAILED, PASSED, Format
from .compliance.cost import Cost, Weighed, cost, is_too_wide, typical_tokens
from .compliance.score import Score, day_of, score
from .tokens import count_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from .agents import Agent
    from .compliance.expected import Terms
    from .compliance.findings import ReviewFinding
    from .compliance.states import Ruling


class Part(msgspec.Struct, frozen=True):
    """The score and the cost of some agents."""

    name: str
    score: Score
    cost: Cost
    formats: tuple[Format, ...]
    """That were expected of them."""
    drift: Format | None = None
    """What the rules table says of the type, where its definition says something else."""


class Day(msgspec.Struct, frozen=True):
    """The score of the agents that ended on one day (UTC)."""

    at: int
    """Its beginning, in milliseconds since 1970."""
    score: Score
    cost: Cost


class Reviewed(msgspec.Struct, frozen=True):
    """One finding of a reviewer, and whose it is."""

    session_id: str
    agent_id: str
    agent_type: str
    at: int | None
    finding: ReviewFinding


class Compliance(msgspec.Struct, frozen=True):
    """All that is told of compliance."""

    score: Score
    cost: Cost
    types: tuple[Part, ...]
    """The types of which something is expected first, then by how many agents they have."""
    days: tuple[Day, ...]
    """Oldest first, of what was judged."""
    reviewed: tuple[Reviewed, ...]
    """Newest review first, in the review's own order."""
    too_wide: tuple[Agent, ...]
    """Reviews of more files than one holds well."""
    failed: tuple[Agent, ...]
    """Agents that did not comply, newest first."""
    min_samples: int


def sum_up(agents: Iterable[Agent], terms: Terms) -> Compliance:
    """Sum up what is known of the agents' compliance; those without a ruling are left out."""
    ruled = [(each, each.ruling) for each in agents if each.ruling is not None]
    ruled.sort(key=lambda pair: -(pair[0].ended_at or 0))
    weighed = [_weigh(agent, ruling) for agent, ruling in ruled]
    typical = typical_tokens(weighed, terms.limits)
    least = terms.min_samples

    def told(some: Sequence[Weighed]) -> tuple[Score, Cost]:
        return score([each.ruling for each in some], least), cost(some, typical)

    by_type = _grouped(ruled, weighed, lambda agent, _: agent.agent_type)
    parts = [
        Part(
            name,
            *told(some),
            tuple(sorted({each.ruling.expected.format for each in some})),
            next((each.ruling.expected.rule for each in some if each.ruling.expected.drifts), None),
        )
        for name, some in by_type.items()
    ]
    parts.sort(key=lambda part: (not part.score.judged, -sum(part.score.verdicts.values())))
    by_day = _grouped(ruled, weighed, _day)
    return Compliance(
        *told(weighed),
        tuple(parts),
        tuple(Day(int(day), *told(by_day[day])) for day in sorted(by_day, key=int)),
        tuple(
            Reviewed(agent.session_id, agent.agent_id, agent.agent_type, agent.ended_at, found)
            for agent, ruling in ruled
            for found in ruling.judgement.review
        ),
        tuple(agent for agent, ruling in ruled if is_too_wide(ruling, terms.limits)),
        tuple(agent for agent, ruling in ruled if ruling.failed),
        least,
    )


def _weigh(agent: Agent, ruling: Ruling) -> Weighed:
    result = agent.result
    return Weighed(ruling, count_of(result.estimated_tokens, result.text) if result else 0)


def _day(agent: Agent, ruling: Ruling) -> str | None:
    if agent.ended_at is None or ruling.verdict not in PASSED | FAILED:
        return None
    return str(day_of(agent.ended_at))


def _grouped(
    ruled: Sequence[tuple[Agent, Ruling]],
    weighed: Sequence[Weighed],
    name: Callable[[Agent, Ruling], str | None],
) -> dict[str, list[Weighed]]:
    found: dict[str, list[Weighed]] = {}
    for (agent, ruling), each in zip(ruled, weighed, strict=True):
        key = name(agent, ruling)
        if key is not None:
            found.setdefault(key, []).append(each)
    return found
