"""Compliance over many agents: scores by type and day, costs, and what reviewers found."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from .agents import AgentStatus
from .compliance.codes import FAILED, PASSED, Format, Verdict
from .compliance.cost import Cost, Weighed, cost, is_too_wide, typical_tokens
from .compliance.score import Score, day_of, score
from .result_sizes import NO_SIZES, Sizes, sizes
from .tokens import count_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from .agents import Agent
    from .compliance.expected import Terms
    from .compliance.findings import ReviewFinding
    from .compliance.states import Ruling

Key = TypeVar("Key", int, str)

LAST_VERDICTS: Final = 10
"""Of a type: as many as decide whether its share is told (R004-13)."""


class Day(msgspec.Struct, frozen=True):
    """The score of the agents that ended on one day (UTC)."""

    at: int
    """Its beginning, in milliseconds since 1970."""
    score: Score
    cost: Cost


class Part(msgspec.Struct, frozen=True):
    """The score and the cost of some agents."""

    name: str
    score: Score
    cost: Cost
    formats: tuple[Format, ...]
    """That were expected of them."""
    drift: Format | None = None
    """What the rules table says of the type, where its definition says something else."""
    running: int = 0
    sizes: Sizes = NO_SIZES
    days: tuple[Day, ...] = ()
    """Oldest first, of what was judged."""
    last_verdicts: tuple[Verdict, ...] = ()
    """Of the newest that were judged, newest first, at most LAST_VERDICTS."""

    @property
    def runs(self) -> int:
        """How many agents they are."""
        return sum(self.score.verdicts.values())


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
    findings: tuple[Reviewed, ...]
    """Newest review first, in the review's own order."""
    oversized_reviews: tuple[Agent, ...]
    """Reviews of more files than one holds well."""
    noncompliant: tuple[Agent, ...]
    """Agents that did not comply, newest first."""
    min_samples: int


def sum_up(agents: Iterable[Agent], terms: Terms) -> Compliance:
    """Sum up what is known of the agents' compliance; those without a ruling are left out."""
    judged = _judged(agents)
    typical = typical_tokens((each.weighed for each in judged), terms.limits)
    least = terms.min_samples

    def told(some: Sequence[_Judged]) -> tuple[Score, Cost]:
        rulings = [each.ruling for each in some]
        return score(rulings, least), cost([each.weighed for each in some], typical)

    def days(some: Sequence[_Judged]) -> tuple[Day, ...]:
        by_day = _grouped(some, _day)
        return tuple(Day(day, *told(by_day[day])) for day in sorted(by_day))

    parts = [
        Part(
            name,
            *told(some),
            tuple(sorted({each.ruling.expected.format for each in some})),
            next(
                (
                    each.ruling.expected.policy_format
                    for each in some
                    if each.ruling.expected.differs_from_policy
                ),
                None,
            ),
            sum(each.agent.status is AgentStatus.RUNNING for each in some),
            sizes(each.agent for each in some),
            days(some),
            _last(some),
        )
        for name, some in _grouped(judged, lambda each: each.agent.agent_type).items()
    ]
    parts.sort(key=lambda part: (not part.score.judged_count, -part.runs))
    return Compliance(
        *told(judged),
        tuple(parts),
        days(judged),
        tuple(
            Reviewed(each.agent.session_id, each.agent.agent_id, each.agent.agent_type, at, found)
            for each in judged
            for at in (each.agent.ended_at,)
            for found in each.ruling.judgement.review_findings
        ),
        tuple(each.agent for each in judged if is_too_wide(each.ruling, terms.limits)),
        tuple(each.agent for each in judged if each.ruling.failed),
        least,
    )


@dataclass(frozen=True, slots=True)
class _Judged:
    """An agent, its ruling, and its result's weight."""

    agent: Agent
    ruling: Ruling
    weighed: Weighed


def _judged(agents: Iterable[Agent]) -> list[_Judged]:
    """Take the agents that have a ruling, the newest first."""
    found = [
        _Judged(each, each.compliance, _weigh(each, each.compliance))
        for each in agents
        if each.compliance
    ]
    found.sort(key=lambda each: -(each.agent.ended_at or 0))
    return found


def _weigh(agent: Agent, ruling: Ruling) -> Weighed:
    result = agent.result
    return Weighed(ruling, count_of(result.estimated_tokens, result.text) if result else 0)


def _day(each: _Judged) -> int | None:
    ended_at = each.agent.ended_at
    if ended_at is None or each.ruling.verdict not in PASSED | FAILED:
        return None
    return day_of(ended_at)


def _last(some: Iterable[_Judged]) -> tuple[Verdict, ...]:
    verdicts = (each.ruling.verdict for each in some)
    return tuple(islice((each for each in verdicts if each in PASSED | FAILED), LAST_VERDICTS))


def _grouped(
    some: Iterable[_Judged], name: Callable[[_Judged], Key | None]
) -> dict[Key, list[_Judged]]:
    found: dict[Key, list[_Judged]] = {}
    for each in some:
        key = name(each)
        if key is not None:
            found.setdefault(key, []).append(each)
    return found
