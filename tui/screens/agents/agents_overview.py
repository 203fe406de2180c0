"""The agents of one, of the live or of all sessions; which of them and their findings are shown.

retry -draft                       in type, task, model, state, verdict; - or ! negates
type:reviewer  model:opus          in that field
verdict:forced  verdict:V05        with that verdict, or with that code
is:running  is:done  is:zombie     in that state; `running` alone does it too
noncompliant:                      noncompliant
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from ....core.compliance.run_verdict import DEFAULT_CHARS_PER_TOKEN
from ....core.model.agent import Agent, AgentStatus, newest_agent_order
from ....core.model.findings import FAILED_VERDICTS, finding_labels
from ....core.model.problem import Problem
from ....core.transcript.filter_language import Fields, fields_filter
from ...text.compliance_text import VERDICT_NAMES
from ...text.cycle_enum import CycleEnum
from ...text.formats import model_name

if TYPE_CHECKING:
    from ....collectors.locations.places import Places
    from ....core.compliance.agent_compliance import (
        AgentTypeCompliance,
        ComplianceSummary,
        GroupedFinding,
    )
    from ....core.model.session import Session
    from ....core.policy.resolve import Policies


class AgentScope(Enum):
    """Whose agents are shown; `a` goes from one to the next."""

    SESSION = "this session"
    LIVE = "live sessions"
    ALL = "all sessions"


EMPTY_SCOPE_NOTES: Final = {
    AgentScope.SESSION: "none in this session",
    AgentScope.LIVE: "none in live sessions",
}


@dataclass(frozen=True, slots=True)
class AgentsOverview:
    scope: AgentScope
    agents: tuple[Agent, ...]  # in the order they started
    compliance: ComplianceSummary
    findings: tuple[GroupedFinding, ...]  # of their reviewers, newest review first

    def count(self, tab: str) -> int:
        shown = {"agents": self.agents, "types": self.compliance.types}
        return len(shown.get(tab, self.findings))


def read_agents_overview(
    db: sqlite3.Connection,
    scope: AgentScope,
    session_id: str | None,
    sessions: Sequence[Session],
    now_ms: int,
    policies: Policies,
) -> AgentsOverview:
    """Read the agents of a scope, and sum them up as `ctxtop compliance` does."""
    from ....core.compliance.agent_compliance import group_findings, summarize_compliance
    from ....core.compliance.agent_inventory import NO_INVENTORY
    from ....core.compliance.expectations import compliance_settings
    from ....core.readers.compliance_reader import read_inventory
    from ....core.readers.fleet_reader import read_agents

    ids = {
        AgentScope.SESSION: [session_id or ""],
        AgentScope.LIVE: [session.session_id for session in sessions if session.live],
    }
    agents = read_agents(db, sessions, now_ms, ids.get(scope), policies)
    inventory = read_inventory(db) if scope is AgentScope.ALL else NO_INVENTORY
    summary = summarize_compliance(agents, compliance_settings(policies.common), inventory)
    projects = {session.session_id: session.project for session in sessions}
    findings = tuple(group_findings(summary.findings, projects))
    return AgentsOverview(scope, tuple(agents), summary, findings)


def close_zombie(places: Places, agent: Agent, now_ms: int) -> Agent | Problem:
    """Close a silent agent; an error becomes a problem."""
    from ....collectors.locations.places import PlaceError
    from ....collectors.store_update import close_silent_agent
    from ....core.store.database import StoreError

    try:
        close_silent_agent(places, agent, now_ms)
    except (PlaceError, StoreError) as error:
        return Problem("store", f"{agent.agent_type} was not closed: {error}", "try again")
    return agent


NONCOMPLIANT_WORD: Final = "noncompliant:"  # `v` adds it to the filter, and removes it again
_NONCOMPLIANT_KEYS: Final = ("noncompliant", "broke")  # the second is an older word


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
    matches = _filter(words)
    chosen = [agent for agent in agents if matches(_agent_fields(agent))] if words else list(agents)
    if order is not AgentOrder.STARTED:
        chosen.sort(key=_SORT_KEYS[order])
    return chosen


def filter_findings(found: Iterable[GroupedFinding], words: str) -> list[GroupedFinding]:
    """Return the findings that match every word.

    Words may be qualified: `severity:`, `file:`, `type:`, `project:`.
    """
    matches = _filter(words)
    return [each for each in found if matches(_finding_fields(each))]


def filter_types(
    found: Iterable[AgentTypeCompliance], words: str
) -> dict[str, AgentTypeCompliance]:
    """Return the agent types that match every word, by name."""
    matches = _filter(words)
    return {each.name: each for each in found if matches(_type_fields(each))}


def _filter(words: str) -> Callable[[Fields], bool]:
    return fields_filter(words, _NONCOMPLIANT_KEYS)


def toggle_word(words: str, word: str) -> str:
    """Add a word to a filter, or remove it."""
    listed = words.split()
    others = [each for each in listed if each != word]
    return " ".join(others if word in listed else [*listed, word])


def _agent_fields(agent: Agent) -> Fields:
    verdict = agent.compliance
    fields = {
        "type": agent.agent_type,
        "model": f"{agent.model} {model_name(agent.model)}",
        "is": "completed done" if agent.status is AgentStatus.COMPLETED else agent.status.label,
        "task": agent.description,
        "id": agent.agent_id,
    }
    if verdict is not None:
        codes = " ".join(finding_labels((*verdict.violations, *verdict.warnings)))
        fields["verdict"] = f"{verdict.verdict.value} {VERDICT_NAMES[verdict.verdict]} {codes}"
    if verdict is not None and verdict.failed:
        fields |= dict.fromkeys(_NONCOMPLIANT_KEYS, "")
    return {key: value.casefold() for key, value in fields.items()}


def _type_fields(found: AgentTypeCompliance) -> Fields:
    fields = {
        "type": found.name.casefold(),
        "format": " ".join(each.value for each in found.formats),
        "verdict": " ".join(f"{each.value} {VERDICT_NAMES[each]}" for each in found.last_verdicts),
        "is": "running" if found.running else "",
    }
    if any(found.score.verdicts[each] for each in FAILED_VERDICTS):
        fields |= dict.fromkeys(_NONCOMPLIANT_KEYS, "")
    return fields


def _finding_fields(found: GroupedFinding) -> Fields:
    fields = {
        "severity": found.finding.severity,
        "file": found.finding.path,
        "project": found.project,
        "type": " ".join(review.agent_type for review in found.reviews),
        "text": f"{found.location} {found.finding.text}",
    }
    return {key: value.casefold() for key, value in fields.items()}


def _result_tokens(agent: Agent) -> int:
    result = agent.result
    if result is None:
        return -1
    estimate = result.estimated_tokens
    return result.chars // DEFAULT_CHARS_PER_TOKEN if estimate is None else estimate


_SORT_KEYS: Final[dict[AgentOrder, Callable[[Agent], tuple[object, ...]]]] = {
    AgentOrder.NEWEST: newest_agent_order,
    AgentOrder.FULLEST: lambda agent: (-(agent.context.limit_ratio or 0.0), agent.agent_id),
    AgentOrder.LARGEST: lambda agent: (-_result_tokens(agent), agent.agent_id),
}
