"""Whether agents compressed their results: verdicts, sums by type and day, and findings."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple, TypeVar

import msgspec

from ..compliance import run_verdict
from ..measure.stored_tokens import tokens_or_estimate
from ..measure.token_estimate import nearest_rank
from ..model.agent import Agent, AgentStatus, each_once
from ..model.findings import (
    FAILED_VERDICTS,
    PASSED_VERDICTS,
    ComplianceVerdict,
    ExpectationSource,
    ExpectedFormat,
    ReviewFinding,
    RunVerdict,
)
from ..model.result_formats import ResultFormat
from .agent_inventory import NO_INVENTORY, AgentInventory, DefinedAgent, ForceHook
from .expectations import ComplianceSettings
from .judge import SEVERITIES
from .run_verdict import ComplianceCost, ComplianceScore, WeighedResult

NONE: Final = ResultFormat.NONE
Key = TypeVar("Key")
Item = TypeVar("Item")
AgentKey = tuple[str, str]  # a session's id and an agent's

LAST_VERDICTS: Final = 10  # of a type: as many as decide whether its share is shown (R004-13)


class ResultSizes(msgspec.Struct, frozen=True):
    """Sizes of results; tokens are estimates."""

    results: int = 0
    median_lines: int = 0
    p90_lines: int = 0  # one in ten is larger: what a parent has to expect (reference: peers 0.6)
    median_tokens: int = 0
    p90_tokens: int = 0


NO_RESULT_SIZES: Final = ResultSizes()


def measure_result_sizes(agents: Iterable[Agent]) -> ResultSizes:
    """Measure what agents returned to their parents; agents without a result do not count."""
    results = [agent.result for agent in agents if agent.result is not None]
    if not results:
        return NO_RESULT_SIZES
    lines = sorted(each.lines for each in results)
    tokens = sorted(tokens_or_estimate(each.estimated_tokens, each.text) for each in results)
    ranks = (nearest_rank(sizes, share) for sizes in (lines, tokens) for share in (0.5, 0.9))
    return ResultSizes(len(results), *ranks)


class ComplianceDay(msgspec.Struct, frozen=True):
    """The score of the agents that ended on one day (UTC)."""

    at: int  # its beginning, in milliseconds since 1970
    score: ComplianceScore
    cost: ComplianceCost


class AgentTypeCompliance(msgspec.Struct, frozen=True):
    name: str
    score: ComplianceScore
    cost: ComplianceCost
    formats: tuple[ResultFormat, ...]  # expected of its agents
    line_limit: int | None = None  # of its results; None if no format is expected
    drift: ResultFormat | None = None  # the policy's format, if the type's definition differs
    running: int = 0
    sizes: ResultSizes = NO_RESULT_SIZES
    days: tuple[ComplianceDay, ...] = ()  # oldest first, of judged results
    last_verdicts: tuple[ComplianceVerdict, ...] = ()  # judged ones, newest first
    definitions: tuple[DefinedAgent, ...] = ()

    @property
    def runs(self) -> int:
        return sum(self.score.verdicts.values())


class ReviewedFinding(msgspec.Struct, frozen=True):
    session_id: str
    agent_id: str
    agent_type: str
    at: int | None
    finding: ReviewFinding


class ComplianceSummary(msgspec.Struct, frozen=True):
    score: ComplianceScore
    cost: ComplianceCost
    types: tuple[AgentTypeCompliance, ...]  # judged types first, then by number of runs
    days: tuple[ComplianceDay, ...]  # oldest first, of judged results
    findings: tuple[ReviewedFinding, ...]  # newest review first, in the review's own order
    oversized_reviews: tuple[Agent, ...]  # of more files than one review handles well
    noncompliant: tuple[Agent, ...]  # newest first
    min_samples: int
    force_hooks: tuple[ForceHook, ...] = ()


class _JudgedAgent(NamedTuple):
    agent: Agent
    verdict: RunVerdict
    tokens: int

    @property
    def day(self) -> int | None:
        if self.agent.ended_at is None or not self.is_judged:
            return None
        return run_verdict.day_start(self.agent.ended_at)

    @property
    def is_judged(self) -> bool:
        return self.verdict.verdict in PASSED_VERDICTS | FAILED_VERDICTS


def summarize_compliance(
    agents: Iterable[Agent],
    settings: ComplianceSettings,
    inventory: AgentInventory = NO_INVENTORY,
) -> ComplianceSummary:
    """Sum up the agents' compliance, each once; those without a verdict are left out.

    Types of the inventory, and with it those that the policy's rules name, are listed even if no
    agent of them ran (000-40 to 000-44).
    """
    rules = settings.format_rules if inventory is not NO_INVENTORY else {}
    judged = [
        _JudgedAgent(agent, agent.compliance, _result_tokens(agent))
        for agent in each_once(agents)
        if agent.compliance
    ]
    judged.sort(key=lambda each: -(each.agent.ended_at or 0))
    typical = run_verdict.typical_result_tokens(_weighed(judged), settings.limits)

    def measure(some: Sequence[_JudgedAgent]) -> tuple[ComplianceScore, ComplianceCost]:
        score = run_verdict.make_score((each.verdict for each in some), settings.min_samples)
        return score, run_verdict.sum_cost(_weighed(some), typical)

    def days(some: Sequence[_JudgedAgent]) -> tuple[ComplianceDay, ...]:
        by_day = _group_by(some, lambda each: each.day)
        known = sorted(day for day in by_day if day is not None)
        return tuple(ComplianceDay(day, *measure(by_day[day])) for day in known)

    def summarize_type(name: str, some: Sequence[_JudgedAgent]) -> AgentTypeCompliance:
        expected = [each.verdict.expected for each in some]
        expected += [
            ExpectedFormat(each.expected, ExpectationSource.DECLARED, rules.get(name, NONE))
            for each in defined.get(name, ())
        ]
        formats = {each.format for each in expected[: len(some)] or expected}
        formats = formats or {rules.get(name, NONE)}
        return AgentTypeCompliance(
            name,
            *measure(some),
            formats=tuple(sorted(formats)),
            line_limit=max(map(settings.limits.max_lines, formats - {NONE}), default=None),
            drift=next((each.policy_format for each in expected if each.differs_from_policy), None),
            running=sum(each.agent.status is AgentStatus.RUNNING for each in some),
            sizes=measure_result_sizes(each.agent for each in some),
            days=days(some),
            last_verdicts=tuple(
                islice((each.verdict.verdict for each in some if each.is_judged), LAST_VERDICTS)
            ),
            definitions=tuple(defined.get(name, ())),
        )

    defined = _group_by(inventory.agents, lambda each: each.name)
    by_type = _group_by(judged, lambda each: each.agent.agent_type)
    names = {**by_type, **defined, **rules}
    types = [summarize_type(name, by_type.get(name, ())) for name in names]
    types.sort(key=lambda each: (not each.score.judged_count, -each.runs))
    return ComplianceSummary(
        *measure(judged),
        types=tuple(types),
        days=days(judged),
        findings=tuple(
            ReviewedFinding(
                agent.session_id, agent.agent_id, agent.agent_type, agent.ended_at, finding
            )
            for agent, verdict, _ in judged
            for finding in verdict.judgment.review_findings
        ),
        oversized_reviews=tuple(
            agent
            for agent, verdict, _ in judged
            if run_verdict.is_review_too_wide(verdict, settings.limits)
        ),
        noncompliant=tuple(agent for agent, verdict, _ in judged if verdict.failed),
        min_samples=settings.min_samples,
        force_hooks=inventory.force_hooks,
    )


def _weighed(judged: Iterable[_JudgedAgent]) -> list[WeighedResult]:
    return [WeighedResult(each.verdict, each.tokens) for each in judged]


def _result_tokens(agent: Agent) -> int:
    result = agent.result
    return tokens_or_estimate(result.estimated_tokens, result.text) if result else 0


def _group_by(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


FINDING_SEVERITIES: Final = tuple(each.lower() for each in SEVERITIES)  # the most severe first


class GroupedFinding(msgspec.Struct, frozen=True):
    """One finding, and all reviews that report it in the same words."""

    project: str
    finding: ReviewFinding
    reviews: tuple[ReviewedFinding, ...]  # newest first; never empty

    @property
    def location(self) -> str:
        """File and lines, as people write them: `src/a.py:3-5`."""
        finding = self.finding
        last = f"-{finding.last_line}" if finding.last_line > finding.line else ""
        return f"{finding.path}:{finding.line}{last}"


class FileFindings(msgspec.Struct, frozen=True):
    project: str
    path: str
    findings: tuple[GroupedFinding, ...]  # by line


class SeverityFindings(msgspec.Struct, frozen=True):
    severity: str
    files: tuple[FileFindings, ...]  # those with the most findings first

    @property
    def count(self) -> int:
        return sum(len(each.findings) for each in self.files)


def group_findings(
    reviewed: Iterable[ReviewedFinding], project_of: Mapping[str, str]
) -> list[GroupedFinding]:
    """Join findings of the same words, in the order of the reviews.

    `project_of` maps session ids to projects.
    """
    groups = _group_by(reviewed, lambda each: (project_of.get(each.session_id, ""), each.finding))
    return [
        GroupedFinding(project, finding, tuple(sorted(reviews, key=lambda each: -(each.at or 0))))
        for (project, finding), reviews in groups.items()
    ]


def group_by_severity(findings: Iterable[GroupedFinding]) -> tuple[SeverityFindings, ...]:
    """Group by severity, the most severe first, then by file."""
    groups = _group_by(findings, lambda each: each.finding.severity)
    ranks = {severity: rank for rank, severity in enumerate(FINDING_SEVERITIES)}
    return tuple(
        SeverityFindings(severity, _group_by_file(groups[severity]))
        for severity in sorted(groups, key=lambda each: (ranks.get(each, len(ranks)), each))
    )


def _group_by_file(findings: Iterable[GroupedFinding]) -> tuple[FileFindings, ...]:
    groups = _group_by(findings, lambda each: (each.project, each.finding.path))
    files = [
        FileFindings(project, path, tuple(sorted(group, key=lambda each: each.finding.line)))
        for (project, path), group in groups.items()
    ]
    return tuple(sorted(files, key=lambda each: (-len(each.findings), each.project, each.path)))
