"""Reads what agents returned, and judges each run by the policy of its project."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from ...compliance.judge import (
    FORMAT_OF_SKILL,
    OFF,
    compliance_settings,
    find_expected_format,
    format_of_skills,
)
from ...compliance.run_verdict import AgentRun, MarkerLine, RunVerdict, judge_run
from ...measure.effective_config import enabled_plugins, resolve_definitions, resolve_settings
from ...model.agent import Agent, AgentStatus
from ...policy.resolve import Policies
from ..config_records import DefinitionKind
from ..queries import compliance_queries, config_queries
from ..queries.compliance_queries import FinalMessageRow, SubagentStopRow

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
