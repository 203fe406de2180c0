"""Reads the agents' results and judges each run by the policy of its project."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ...compliance.findings import FORMAT_OF_SKILL, OFF, find_expected_format, format_of_skills
from ...compliance.judge import compliance_settings
from ...compliance.run_verdict import AgentRun, MarkerLine, RunVerdict, judge_run
from ...measure.effective_config import enabled_plugins, resolve_definitions, resolve_settings
from ...model.agent import Agent, AgentStatus
from ...policy.resolve import Policies
from ..config_records import DefinitionKind
from ..queries import compliance_queries, config_queries
from ..queries.compliance_queries import FinalMessageRow, SubagentStopRow, agent_records
from ..transcript_records import GivenSkillRecord, MarkerRecord, StopFeedbackRecord

_ENDED = frozenset({AgentStatus.COMPLETED, AgentStatus.UNKNOWN})
"""The last message of an agent that failed or was stopped is not a result."""


class ComplianceReader:
    """Reads what verdicts are based on, once for many agents; it belongs to one thread."""

    def __init__(
        self, db: sqlite3.Connection, policies: Policies, only: Iterable[str] | None = None
    ) -> None:
        names = None if only is None else list(only)
        self._policies = policies
        self._finals = {
            (row.session_id, row.agent_id): row
            for row in compliance_queries.final_messages(db, names)
        }
        self._stops = {
            (row.session_id, row.agent_id): row
            for row in compliance_queries.subagent_stops(db, names)
        }
        self._markers: dict[int, list[MarkerLine]] = defaultdict(list)
        for file_id, marker in agent_records(db, MarkerRecord, "marker", names):
            line = MarkerLine(marker.offset, marker.origin, marker.message_id, marker.text)
            self._markers[file_id].append(line)
        self._blocks: dict[int, list[int]] = defaultdict(list)
        for file_id, block in agent_records(db, StopFeedbackRecord, "feedback", names):
            self._blocks[file_id].append(block.offset)
        self._skills: dict[int, list[tuple[int, str]]] = defaultdict(list)
        for file_id, skill in agent_records(db, GivenSkillRecord, "given_skill", names):
            self._skills[file_id].append((skill.offset, skill.name))
        self._declared = _DeclaredSkills(db)

    def check_agent(self, agent: Agent, cwd: str | None) -> RunVerdict | None:
        """Judge one run of an agent; None if the policy of its folder says not to."""
        settings = compliance_settings(self._policies.for_project(agent.project_root))
        if settings.mode == OFF:
            return None
        key = agent.session_id, agent.agent_id
        final = self._finals.get(key)
        expected = find_expected_format(
            agent.agent_type,
            self._preloaded_skills(final),
            self._declared.skills(agent.agent_type, cwd),
            settings,
            agent.prompted_skill,
        )
        return judge_run(self._run(agent, final, self._stops.get(key)), expected, settings)

    def _preloaded_skills(self, final: FinalMessageRow | None) -> list[str]:
        """Name the skills before the first answer: the agent loaded later ones itself."""
        if final is None:
            return []
        first = final.first_answer_offset
        given = self._skills.get(final.file_id, ())
        return [name for offset, name in given if first is None or offset < first]

    def _run(
        self, agent: Agent, final: FinalMessageRow | None, stops: SubagentStopRow | None
    ) -> AgentRun:
        run = AgentRun(
            agent_type=agent.agent_type,
            has_ended=agent.status in _ENDED,
            final_text=agent.result.text if agent.result else None,
            stops=stops.stops if stops else 0,
            was_released=bool(stops and stops.was_released),
        )
        if final is None:
            return run
        return replace(
            run,
            final_text=run.final_text if final.text is None else final.text,
            final_message_id=final.message_id,
            final_offset=final.offset,
            marker_lines=tuple(self._markers.get(final.file_id, ())),
            block_offsets=tuple(self._blocks.get(final.file_id, ())),
            retry_tokens=final.retry_tokens or 0,
        )


def sessions_to_check(db: sqlite3.Connection, policies: Policies) -> frozenset[str]:
    """Name the sessions with an agent that may be expected to compress its result."""
    types = {
        each.name
        for each in config_queries.definitions(db)
        if each.kind is DefinitionKind.AGENT and format_of_skills(each.skills)
    }
    for policy in policies.all:
        settings = compliance_settings(policy)
        types.update((settings.preset_rules if settings.rules is None else settings.rules) or ())
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
        """Name what a type declares in a folder; None if no readable file defines it."""
        if cwd not in self._by_folder:
            enabled = enabled_plugins(self._plugins, resolve_settings(self._settings, cwd), cwd)
            agents = resolve_definitions(self._agents, cwd, enabled)
            self._by_folder[cwd] = {
                name: each.skills for (_, name), each in agents.items() if not each.problem
            }
        return self._by_folder[cwd].get(agent_type)
