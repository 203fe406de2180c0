"""Whether agents compressed their results: verdicts, sums by type and day, and findings."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from ..compliance.codes import FAILED_VERDICTS, PASSED_VERDICTS, ComplianceVerdict, ResultFormat
from ..compliance.compliance_score import (
    ComplianceCost,
    ComplianceScore,
    WeighedResult,
    day_start,
    is_review_too_wide,
    make_score,
    sum_cost,
    typical_result_tokens,
)
from ..compliance.expected import (
    FORMAT_OF_SKILL,
    OFF,
    compliance_settings,
    find_expected_format,
    format_of_skills,
)
from ..compliance.result_formats import SEVERITIES
from ..compliance.run_verdict import AgentRun, MarkerLine, judge_run
from ..model.agent import AgentStatus
from ..store.config_records import DefinitionKind
from ..store.queries import compliance_queries, config_queries
from .effective_config import enabled_plugins, resolve_definitions, resolve_settings
from .robust_statistics import nearest_rank
from .tokens import tokens_or_estimate

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ..compliance.expected import ComplianceSettings
    from ..compliance.findings import ReviewFinding
    from ..compliance.run_verdict import RunVerdict
    from ..model.agent import Agent
    from ..policy.resolve import Policies
    from ..store.queries.compliance_queries import FinalMessageRow, SubagentStopRow


MEDIAN_SHARE: Final = 0.5
P90_SHARE: Final = 0.9
"""One result in ten is larger: what a parent has to reckon with (reference: peers 0.6)."""


class ResultSizes(msgspec.Struct, frozen=True):
    """Of some results; lines as they stand in the text, tokens estimated."""

    results: int = 0
    median_lines: int = 0
    """Of half of them, no more."""
    p90_lines: int = 0
    """Of nine in ten, no more."""
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


AgentKey = tuple[str, str]
"""A session's id and an agent's."""

_ENDED = frozenset({AgentStatus.COMPLETED, AgentStatus.UNKNOWN})
"""One that failed or was stopped has no last words that are a result."""


class ComplianceReader:
    """Reads what rulings are made of, once for many agents; it belongs to one thread."""

    def __init__(
        self, db: sqlite3.Connection, policies: Policies, only: Iterable[str] | None = None
    ) -> None:
        named = None if only is None else list(only)
        self._policies = policies
        self._finals = {
            (row.session_id, row.agent_id): row
            for row in compliance_queries.final_messages(db, named)
        }
        self._stops = {
            (row.session_id, row.agent_id): row
            for row in compliance_queries.subagent_stops(db, named)
        }
        self._places: dict[int, list[MarkerLine]] = defaultdict(list)
        for marker in compliance_queries.markers(db, named):
            place = MarkerLine(marker.offset, marker.origin, marker.message_id, marker.text)
            self._places[marker.file_id].append(place)
        self._blocks: dict[int, list[int]] = defaultdict(list)
        for block in compliance_queries.stop_feedback(db, named):
            self._blocks[block.file_id].append(block.offset)
        self._given: dict[int, list[tuple[int, str]]] = defaultdict(list)
        for skill in compliance_queries.given_skills(db, named):
            self._given[skill.file_id].append((skill.offset, skill.name))
        self._declared = _DeclaredSkills(db)

    def check_agent(self, agent: Agent, cwd: str | None) -> RunVerdict | None:
        """Judge one run of an agent; None where the policy of its folder says not to."""
        terms = compliance_settings(self._policies.for_project(agent.project_root))
        if terms.mode == OFF:
            return None
        key = agent.session_id, agent.agent_id
        own = self._finals.get(key)
        expected = find_expected_format(
            agent.agent_type,
            self._preloaded(own),
            self._declared.skills(agent.agent_type, cwd),
            terms,
            agent.prompted_skill,
        )
        return judge_run(self._run(agent, own, self._stops.get(key)), expected, terms)

    def _preloaded(self, own: FinalMessageRow | None) -> list[str]:
        """Name the skills that stand before the first answer: later ones the agent took itself."""
        if own is None:
            return []
        first = own.first_answer_offset
        given = self._given.get(own.file_id, ())
        return [name for offset, name in given if first is None or offset < first]

    def _run(
        self, agent: Agent, own: FinalMessageRow | None, stops: SubagentStopRow | None
    ) -> AgentRun:
        text = own.text if own else None
        result = agent.result.text if agent.result else None
        return AgentRun(
            agent_type=agent.agent_type,
            has_ended=agent.status in _ENDED,
            final_text=text if text is not None else result,
            final_message_id=own.message_id if own else None,
            final_offset=own.offset if own else None,
            marker_lines=tuple(self._places.get(own.file_id, ())) if own else (),
            block_offsets=tuple(self._blocks.get(own.file_id, ())) if own else (),
            stops=stops.stops if stops else 0,
            was_released=bool(stops and stops.was_released),
            retry_tokens=(own.retry_tokens or 0) if own else 0,
        )


def sessions_to_check(db: sqlite3.Connection, policies: Policies) -> frozenset[str]:
    """Name the sessions with an agent of which a compressed result may be expected."""
    types = {
        each.name
        for each in config_queries.definitions(db)
        if each.kind is DefinitionKind.AGENT and format_of_skills(each.skills)
    }
    for policy in policies.all:
        terms = compliance_settings(policy)
        types.update((terms.preset_rules if terms.rules is None else terms.rules) or ())
    return compliance_queries.sessions_with_agents(db, types, FORMAT_OF_SKILL)


class _DeclaredSkills:
    """The skills that definitions declare, by folder and agent type."""

    def __init__(self, db: sqlite3.Connection) -> None:
        definitions = config_queries.definitions(db)
        self._agents = [each for each in definitions if each.kind is DefinitionKind.AGENT]
        self._plugins = config_queries.plugins(db)
        self._settings = config_queries.settings_files(db) if self._plugins else []
        self._by_folder: dict[str | None, Mapping[str, Sequence[str]]] = {}

    def skills(self, agent_type: str, cwd: str | None) -> Sequence[str] | None:
        """Name what a type declares in a folder; None where nobody defines it readably."""
        known = self._by_folder.get(cwd)
        if known is None:
            switched = enabled_plugins(self._plugins, resolve_settings(self._settings, cwd), cwd)
            found = resolve_definitions(self._agents, cwd, switched)
            known = {name: each.skills for (_, name), each in found.items() if not each.problem}
            self._by_folder[cwd] = known
        return known.get(agent_type)


GroupKey = TypeVar("GroupKey", int, str)

LAST_VERDICTS: Final = 10
"""Of a type: as many as decide whether its share is told (R004-13)."""


class ComplianceDay(msgspec.Struct, frozen=True):
    """The score of the agents that ended on one day (UTC)."""

    at: int
    """Its beginning, in milliseconds since 1970."""
    score: ComplianceScore
    cost: ComplianceCost


class AgentTypeCompliance(msgspec.Struct, frozen=True):
    """The score and the cost of some agents."""

    name: str
    score: ComplianceScore
    cost: ComplianceCost
    formats: tuple[ResultFormat, ...]
    """That were expected of them."""
    drift: ResultFormat | None = None
    """What the rules table says of the type, where its definition says something else."""
    running: int = 0
    sizes: ResultSizes = NO_RESULT_SIZES
    days: tuple[ComplianceDay, ...] = ()
    """Oldest first, of what was judged."""
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
    days: tuple[ComplianceDay, ...]
    """Oldest first, of what was judged."""
    findings: tuple[ReviewedFinding, ...]
    """Newest review first, in the review's own order."""
    oversized_reviews: tuple[Agent, ...]
    """Reviews of more files than one holds well."""
    noncompliant: tuple[Agent, ...]
    """Agents that did not comply, newest first."""
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


FINDING_SEVERITIES: Final = tuple(each.lower() for each in SEVERITIES)
"""The most severe first."""


class GroupedFinding(msgspec.Struct, frozen=True):
    """One thing, and all reviews that say it in the same words."""

    project: str
    finding: ReviewFinding
    reviews: tuple[ReviewedFinding, ...]
    """Newest first; never empty."""

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
    findings: tuple[GroupedFinding, ...]
    """From its first line on."""


class SeverityFindings(msgspec.Struct, frozen=True):
    """What is of one severity."""

    severity: str
    files: tuple[FileFindings, ...]
    """Those with the most first."""

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
