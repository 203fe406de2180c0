"""Whether agents compressed their results: verdicts, sums by type and day, and findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeVar

import msgspec

from ..compliance.findings import (
    FAILED_VERDICTS,
    PASSED_VERDICTS,
    ComplianceSettings,
    ComplianceVerdict,
    ResultFormat,
    ReviewFinding,
)
from ..compliance.judge import SEVERITIES
from ..compliance.run_verdict import (
    ComplianceCost,
    ComplianceScore,
    RunVerdict,
    WeighedResult,
    day_start,
    is_review_too_wide,
    make_score,
    sum_cost,
    typical_result_tokens,
)
from ..model.agent import Agent, AgentStatus
from .robust_statistics import nearest_rank
from .tokens import tokens_or_estimate

MEDIAN_SHARE: Final = 0.5
P90_SHARE: Final = 0.9
"""One result in ten is larger: what a parent has to reckon with (reference: peers 0.6)."""


class ResultSizes(msgspec.Struct, frozen=True):
    """Of some results; lines as they stand in the text, tokens estimated."""

    results: int = 0
    median_lines: int = 0  # of half of them, no more
    p90_lines: int = 0  # of nine in ten, no more
    median_tokens: int = 0
    p90_tokens: int = 0


NO_RESULT_SIZES: Final = ResultSizes()


def measure_result_sizes(agents: Iterable[Agent]) -> ResultSizes:
    """Measure what agents put into their parents; those that returned nothing are left out."""
    results = [each.result for each in agents if each.result is not None]
    if not results:
        return NO_RESULT_SIZES
    lines = sorted(each.lines for each in results)
    tokens = sorted(tokens_or_estimate(each.estimated_tokens, each.text) for each in results)
    return ResultSizes(
        len(results),
        nearest_rank(lines, MEDIAN_SHARE),
        nearest_rank(lines, P90_SHARE),
        nearest_rank(tokens, MEDIAN_SHARE),
        nearest_rank(tokens, P90_SHARE),
    )


AgentKey = tuple[str, str]  # a session's id and an agent's


GroupKey = TypeVar("GroupKey", int, str)

LAST_VERDICTS: Final = 10  # of a type: as many as decide whether its share is told (R004-13)


class ComplianceDay(msgspec.Struct, frozen=True):
    """The score of the agents that ended on one day (UTC)."""

    at: int  # its beginning, in milliseconds since 1970
    score: ComplianceScore
    cost: ComplianceCost


class AgentTypeCompliance(msgspec.Struct, frozen=True):
    """The score and the cost of some agents."""

    name: str
    score: ComplianceScore
    cost: ComplianceCost
    formats: tuple[ResultFormat, ...]  # that were expected of them
    drift: ResultFormat | None = None
    """What the rules table says of the type, where its definition says something else."""
    running: int = 0
    sizes: ResultSizes = NO_RESULT_SIZES
    days: tuple[ComplianceDay, ...] = ()  # oldest first, of what was judged
    last_verdicts: tuple[ComplianceVerdict, ...] = ()
    """Of the newest that were judged, newest first, at most LAST_VERDICTS."""

    @property
    def runs(self) -> int:
        """How many agents they are."""
        return sum(self.score.verdicts.values())


class ReviewedFinding(msgspec.Struct, frozen=True):
    """One finding of a reviewer, and whose it is."""

    session_id: str
    agent_id: str
    agent_type: str
    at: int | None
    finding: ReviewFinding


class ComplianceSummary(msgspec.Struct, frozen=True):
    """All that is told of compliance."""

    score: ComplianceScore
    cost: ComplianceCost
    types: tuple[AgentTypeCompliance, ...]
    """The types of which something is expected first, then by how many agents they have."""
    days: tuple[ComplianceDay, ...]  # oldest first, of what was judged
    findings: tuple[ReviewedFinding, ...]  # newest review first, in the review's own order
    oversized_reviews: tuple[Agent, ...]  # reviews of more files than one holds well
    noncompliant: tuple[Agent, ...]  # agents that did not comply, newest first
    min_samples: int


def summarize_compliance(agents: Iterable[Agent], terms: ComplianceSettings) -> ComplianceSummary:
    """Sum up what is known of the agents' compliance; those without a ruling are left out."""
    judged = _judged_agents(agents)
    typical = typical_result_tokens((each.weighed for each in judged), terms.limits)
    least = terms.min_samples

    def told(some: Sequence[_JudgedAgent]) -> tuple[ComplianceScore, ComplianceCost]:
        rulings = [each.ruling for each in some]
        return make_score(rulings, least), sum_cost([each.weighed for each in some], typical)

    def days(some: Sequence[_JudgedAgent]) -> tuple[ComplianceDay, ...]:
        by_day = _group_by(some, _judged_day)
        return tuple(ComplianceDay(day, *told(by_day[day])) for day in sorted(by_day))

    parts = [
        AgentTypeCompliance(
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
            measure_result_sizes(each.agent for each in some),
            days(some),
            _last_verdicts(some),
        )
        for name, some in _group_by(judged, lambda each: each.agent.agent_type).items()
    ]
    parts.sort(key=lambda part: (not part.score.judged_count, -part.runs))
    return ComplianceSummary(
        *told(judged),
        tuple(parts),
        days(judged),
        tuple(
            ReviewedFinding(
                each.agent.session_id, each.agent.agent_id, each.agent.agent_type, at, found
            )
            for each in judged
            for at in (each.agent.ended_at,)
            for found in each.ruling.judgement.review_findings
        ),
        tuple(each.agent for each in judged if is_review_too_wide(each.ruling, terms.limits)),
        tuple(each.agent for each in judged if each.ruling.failed),
        least,
    )


@dataclass(frozen=True, slots=True)
class _JudgedAgent:
    """An agent, its ruling, and its result's weight."""

    agent: Agent
    ruling: RunVerdict
    weighed: WeighedResult


def _judged_agents(agents: Iterable[Agent]) -> list[_JudgedAgent]:
    """Return the agents that have a ruling, newest first."""
    found = [
        _JudgedAgent(each, each.compliance, _weigh_result(each, each.compliance))
        for each in agents
        if each.compliance
    ]
    found.sort(key=lambda each: -(each.agent.ended_at or 0))
    return found


def _weigh_result(agent: Agent, ruling: RunVerdict) -> WeighedResult:
    result = agent.result
    return WeighedResult(
        ruling, tokens_or_estimate(result.estimated_tokens, result.text) if result else 0
    )


def _judged_day(each: _JudgedAgent) -> int | None:
    ended_at = each.agent.ended_at
    if ended_at is None or each.ruling.verdict not in PASSED_VERDICTS | FAILED_VERDICTS:
        return None
    return day_start(ended_at)


def _last_verdicts(some: Iterable[_JudgedAgent]) -> tuple[ComplianceVerdict, ...]:
    verdicts = (each.ruling.verdict for each in some)
    return tuple(
        islice(
            (each for each in verdicts if each in PASSED_VERDICTS | FAILED_VERDICTS), LAST_VERDICTS
        )
    )


def _group_by(
    some: Iterable[_JudgedAgent], name: Callable[[_JudgedAgent], GroupKey | None]
) -> dict[GroupKey, list[_JudgedAgent]]:
    found: dict[GroupKey, list[_JudgedAgent]] = {}
    for each in some:
        key = name(each)
        if key is not None:
            found.setdefault(key, []).append(each)
    return found


FINDING_SEVERITIES: Final = tuple(each.lower() for each in SEVERITIES)  # the most severe first


class GroupedFinding(msgspec.Struct, frozen=True):
    """One thing, and all reviews that say it in the same words."""

    project: str
    finding: ReviewFinding
    reviews: tuple[ReviewedFinding, ...]  # newest first; never empty

    @property
    def location(self) -> str:
        """File and lines, as people write them: `src/a.py:3-5`."""
        found = self.finding
        last = f"-{found.last_line}" if found.last_line > found.line else ""
        return f"{found.path}:{found.line}{last}"


class FileFindings(msgspec.Struct, frozen=True):
    """What was found in one file of one project."""

    project: str
    path: str
    findings: tuple[GroupedFinding, ...]  # from its first line on


class SeverityFindings(msgspec.Struct, frozen=True):
    """What is of one severity."""

    severity: str
    files: tuple[FileFindings, ...]  # those with the most first

    @property
    def count(self) -> int:
        """How many things they are."""
        return sum(len(each.findings) for each in self.files)


def group_findings(
    reviewed: Iterable[ReviewedFinding], project_of: Mapping[str, str]
) -> list[GroupedFinding]:
    """Put what several reviews say in the same words together; `project_of` a session's id.

    The order is that of the reviews.
    """
    said: dict[tuple[str, ReviewFinding], list[ReviewedFinding]] = {}
    for each in reviewed:
        said.setdefault((project_of.get(each.session_id, ""), each.finding), []).append(each)
    return [
        GroupedFinding(project, finding, tuple(sorted(who, key=lambda each: -(each.at or 0))))
        for (project, finding), who in said.items()
    ]


def group_by_severity(found: Iterable[GroupedFinding]) -> tuple[SeverityFindings, ...]:
    """Group by severity, then by file; only severities of which there is something."""
    grouped: dict[str, dict[tuple[str, str], list[GroupedFinding]]] = {}
    for each in found:
        files = grouped.setdefault(each.finding.severity, {})
        files.setdefault((each.project, each.finding.path), []).append(each)
    return tuple(
        SeverityFindings(severity, _file_findings(grouped[severity]))
        for severity in sorted(grouped, key=_severity_rank)
    )


def _file_findings(
    files: Mapping[tuple[str, str], list[GroupedFinding]],
) -> tuple[FileFindings, ...]:
    listed = [
        FileFindings(project, path, tuple(sorted(found, key=lambda each: each.finding.line)))
        for (project, path), found in files.items()
    ]
    return tuple(sorted(listed, key=lambda each: (-len(each.findings), each.project, each.path)))


def _severity_rank(severity: str) -> tuple[int, str]:
    known = severity in FINDING_SEVERITIES
    place = FINDING_SEVERITIES.index(severity) if known else len(FINDING_SEVERITIES)
    return place, severity
