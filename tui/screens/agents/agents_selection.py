"""Which agents, types and findings are shown: of which sessions, by which filter and order.

retry !draft                       in type, task, model, state, verdict; ! negates
type:reviewer  model:opus          in that field
verdict:forced  verdict:V05        with that verdict, or with that code
is:running  is:done  is:failed     in that state; `running` alone does it too
broke:                             noncompliant
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from ....core.compliance.codes import FAILED_VERDICTS
from ....core.compliance.compliance_score import DEFAULT_CHARS_PER_TOKEN
from ....core.compliance.findings import finding_labels
from ....core.model.agent import AgentStatus
from ...cycle_enum import CycleEnum
from ...text.compliance_text import VERDICT_NAMES
from ...text.formats import model_name

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ....core.measure.agent_compliance import (
        AgentTypeCompliance,
        ComplianceSummary,
        GroupedFinding,
    )
    from ....core.model.agent import Agent
    from ....core.model.session import Session
    from ....core.policy.resolve import Policies

    Fields = Mapping[str, str]


class AgentScope(Enum):
    """Of which sessions agents are shown; `a` goes from one to the next."""

    SESSION = "this session"
    LIVE = "live sessions"
    ALL = "all sessions"


@dataclass(frozen=True, slots=True)
class AgentsOverview:
    """One moment of some sessions' agents."""

    scope: AgentScope
    agents: tuple[Agent, ...]
    """In the order they started."""
    compliance: ComplianceSummary
    findings: tuple[GroupedFinding, ...]
    """What their reviewers found, newest review first."""


def read_agents_overview(
    db: sqlite3.Connection,
    scope: AgentScope,
    session_id: str | None,
    sessions: Sequence[Session],
    policies: Policies,
) -> AgentsOverview:
    """Read the agents of a scope, and sum them up as `ctxtop compliance` does."""
    from ....core.compliance.expected import compliance_settings
    from ....core.measure.agent_compliance import group_findings, summarize_compliance
    from ....core.measure.fleet_reader import read_agents

    agents = read_agents(db, sessions, _session_ids(scope, session_id, sessions), policies)
    summed = summarize_compliance(agents, compliance_settings(policies.common))
    projects = {each.session_id: each.project for each in sessions}
    return AgentsOverview(
        scope, tuple(agents), summed, tuple(group_findings(summed.findings, projects))
    )


def _session_ids(
    scope: AgentScope, session_id: str | None, sessions: Sequence[Session]
) -> list[str] | None:
    if scope is AgentScope.SESSION:
        return [session_id or ""]
    if scope is AgentScope.LIVE:
        return [each.session_id for each in sessions if each.live]
    return None


NONCOMPLIANT_WORD: Final = "broke:"
"""The word that `v` puts into the filter and takes out again."""

_STATE_WORDS: Final = {AgentStatus.COMPLETED: "completed done"}


class AgentOrder(CycleEnum):
    """How those that one agent started are sorted; `s` goes from one to the next."""

    STARTED = "as started"
    NEWEST = "newest"
    FULLEST = "fullest"
    LARGEST = "largest result"


def filter_agents(
    agents: Iterable[Agent], words: str, order: AgentOrder = AgentOrder.STARTED
) -> list[Agent]:
    """Return the agents that match every word, sorted by `order`."""
    takes = _word_test(words)
    chosen = [each for each in agents if takes(_agent_fields(each))] if words else list(agents)
    if order is not AgentOrder.STARTED:
        chosen.sort(key=_SORT_KEYS[order])
    return chosen


def filter_types(parts: Iterable[AgentTypeCompliance], words: str) -> list[AgentTypeCompliance]:
    """Return the agent types that match every word."""
    takes = _word_test(words)
    return [each for each in parts if takes(_type_fields(each))]


def filter_findings(found: Iterable[GroupedFinding], words: str) -> list[GroupedFinding]:
    """Return the findings that match every word.

    Words may be qualified: `severity:`, `file:`, `type:`, `project:`.
    """
    takes = _word_test(words)
    return [each for each in found if takes(_finding_fields(each))]


def toggle_word(words: str, word: str) -> str:
    """Put a word into a filter, or take it out."""
    listed = words.split()
    return " ".join(
        [each for each in listed if each != word] if word in listed else [*listed, word]
    )


def _word_test(words: str) -> Callable[[Fields], bool]:
    asked = [(word.removeprefix("!"), word.startswith("!")) for word in words.casefold().split()]
    return lambda fields: all(_matches(word, fields) is not negated for word, negated in asked)


def _matches(word: str, fields: Fields) -> bool:
    key, colon, value = word.partition(":")
    if colon and key in fields:
        return value in fields[key]
    if colon and not value and key == NONCOMPLIANT_WORD[:-1]:
        return False
    # A path or a time may well hold a colon.
    return any(word in each for each in fields.values())


def _agent_fields(agent: Agent) -> Fields:
    ruling = agent.compliance
    fields = {
        "type": agent.agent_type,
        "model": f"{agent.model} {model_name(agent.model)}",
        "is": _STATE_WORDS.get(agent.status, agent.status.label),
        "task": agent.description,
        "id": agent.agent_id,
    }
    if ruling is not None:
        codes = " ".join(finding_labels((*ruling.violations, *ruling.warnings)))
        fields["verdict"] = f"{ruling.verdict.value} {VERDICT_NAMES[ruling.verdict]} {codes}"
    if ruling is not None and ruling.failed:
        fields["broke"] = ""
    return {key: value.casefold() for key, value in fields.items()}


def _type_fields(part: AgentTypeCompliance) -> Fields:
    fields = {
        "type": part.name.casefold(),
        "format": " ".join(each.value for each in part.formats),
        "verdict": " ".join(f"{each.value} {VERDICT_NAMES[each]}" for each in part.last_verdicts),
        "is": "running" if part.running else "",
    }
    if any(each in FAILED_VERDICTS for each in part.score.verdicts if part.score.verdicts[each]):
        fields["broke"] = ""
    return fields


def _finding_fields(found: GroupedFinding) -> Fields:
    finding = found.finding
    fields = {
        "severity": finding.severity,
        "file": finding.path,
        "project": found.project,
        "type": " ".join(each.agent_type for each in found.reviews),
        "text": f"{found.location} {finding.text}",
    }
    return {key: value.casefold() for key, value in fields.items()}


def _result_tokens(agent: Agent) -> int:
    result = agent.result
    if result is None:
        return -1
    estimate = result.estimated_tokens
    return result.chars // DEFAULT_CHARS_PER_TOKEN if estimate is None else estimate


_SORT_KEYS: Final[dict[AgentOrder, Callable[[Agent], tuple[float, str]]]] = {
    AgentOrder.NEWEST: lambda agent: (
        -(agent.ended_at or agent.started_at or 0)
        if agent.status is not AgentStatus.RUNNING
        else float("-inf"),
        agent.agent_id,
    ),
    AgentOrder.FULLEST: lambda agent: (-(agent.context.ratio or 0.0), agent.agent_id),
    AgentOrder.LARGEST: lambda agent: (-_result_tokens(agent), agent.agent_id),
}
