"""Reads the agents' results and judges each run by the policy of its project."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from sqlite3 import Connection
from typing import Final

import msgspec

from ..compliance.agent_inventory import AgentInventory, find_force_hooks, list_defined_agents
from ..compliance.expectations import OFF, compliance_settings, find_expected_format
from ..compliance.run_verdict import AgentRun, MarkerLine, judge_run
from ..measure.effective_config import (
    enabled_plugins,
    installed_skills,
    resolve_definitions,
    resolve_settings,
)
from ..model.agent import Agent, AgentStatus
from ..model.config_records import DefinitionKind
from ..model.findings import RunVerdict
from ..model.transcript_records import GivenSkillRecord, MarkerRecord, StopFeedbackRecord
from ..policy.resolve import Policies
from ..store.queries import config_queries
from ..store.queries.query_rows import RecordT, SessionIds, columns, fetch_records, in_condition

# The last message of an agent that failed or was stopped is not a result.
_ENDED: Final = frozenset({AgentStatus.COMPLETED, AgentStatus.UNKNOWN})


class FinalMessageRow(msgspec.Struct, frozen=True):
    """An agent's own file, and its last message."""

    file_id: int
    session_id: str
    agent_id: str
    text: str | None
    message_id: str | None
    offset: int | None
    first_answer_offset: int | None  # byte offset of its first answer
    retry_tokens: int | None  # spent after it was first blocked; None if it never was


_NO_FILE: Final = FinalMessageRow(-1, "", "", None, None, None, None, None)


class ComplianceReader:
    """Reads what verdicts are based on, once for many agents; it belongs to one thread."""

    def __init__(self, db: Connection, policies: Policies, only: SessionIds = None) -> None:
        names = None if only is None else list(only)
        self._policies = policies
        where, ids = in_condition("f.session_id", names)
        self._finals = {
            (row.session_id, row.agent_id): row
            for row in fetch_records(FinalMessageRow, db, _FINAL_MESSAGES.format(where=where), ids)
        }
        rows = db.execute(_SUBAGENT_STOPS.format(where=where), ids)
        self._stops = {(row[0], row[1]): (row[2], bool(row[3])) for row in rows}
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
        final = self._finals.get((agent.session_id, agent.agent_id), _NO_FILE)
        expected = find_expected_format(
            agent.agent_type,
            self._preloaded_skills(final),
            self._declared.skills(agent.agent_type, cwd),
            settings,
            agent.prompted_skill,
        )
        return judge_run(self._run(agent, final), expected, settings)

    def _preloaded_skills(self, final: FinalMessageRow) -> list[str]:
        """Return the skills before the first answer: the agent loaded later ones itself."""
        first = final.first_answer_offset
        given = self._skills.get(final.file_id, ())
        return [name for offset, name in given if first is None or offset < first]

    def _run(self, agent: Agent, final: FinalMessageRow) -> AgentRun:
        stops, was_released = self._stops.get((agent.session_id, agent.agent_id), (0, False))
        result = agent.result.text if agent.result else None
        return AgentRun(
            agent_type=agent.agent_type,
            has_ended=agent.status in _ENDED,
            final_text=result if final.text is None else final.text,
            final_message_id=final.message_id,
            final_offset=final.offset,
            marker_lines=tuple(self._markers.get(final.file_id, ())),
            block_offsets=tuple(self._blocks.get(final.file_id, ())),
            stops=stops,
            was_released=was_released,
            retry_tokens=final.retry_tokens or 0,
        )


def read_inventory(db: Connection) -> AgentInventory:
    """Read which agents are defined, and which hooks enforce compression."""
    settings = config_queries.settings_files(db)
    definitions, plugins = config_queries.definitions(db), config_queries.plugins(db)
    return AgentInventory(
        list_defined_agents(definitions, plugins, settings), tuple(find_force_hooks(settings))
    )


def agent_records(
    db: Connection, kind: type[RecordT], table: str, session_ids: SessionIds = None
) -> list[tuple[int, RecordT]]:
    """List the records in a table with their file ids, in the order of the files."""
    where, values = in_condition("f.session_id", session_ids)
    sql = (
        f"SELECT t.file_id, {columns(kind, 't.')} FROM {table} t JOIN file f USING (file_id)"
        f" WHERE {where} ORDER BY t.file_id, t.offset"
    )
    return [(file_id, kind(*row)) for file_id, *row in db.execute(sql, values)]


class _DeclaredSkills:
    """The skills that definitions declare, by folder and agent type."""

    def __init__(self, db: Connection) -> None:
        self._definitions = config_queries.definitions(db)
        self._plugins = config_queries.plugins(db)
        self._settings = config_queries.settings_files(db) if self._plugins else []
        self._by_folder: dict[str | None, Mapping[str, Sequence[str]]] = {}

    def skills(self, agent_type: str, cwd: str | None) -> Sequence[str] | None:
        """Return the installed skills that a type declares; None if no readable file defines it."""
        if cwd not in self._by_folder:
            enabled = enabled_plugins(self._plugins, resolve_settings(self._settings, cwd), cwd)
            visible = resolve_definitions(self._definitions, cwd, enabled)
            self._by_folder[cwd] = {
                name: installed_skills(each, visible)
                for (kind, name), each in visible.items()
                if kind is DefinitionKind.AGENT and not each.problem
            }
        return self._by_folder[cwd].get(agent_type)


# If an agent has two files, the one that still exists or the newest counts, as in agent_queries.
_FINAL_MESSAGES: Final = """
SELECT f.file_id, f.session_id, f.agent_id, p.text, p.message_id, p.offset,
    (SELECT MIN(r.offset) FROM response r WHERE r.file_id = f.file_id),
    (SELECT SUM(r.input_tokens + r.cache_creation_tokens + r.cache_read_tokens + r.output_tokens)
        FROM response r WHERE r.file_id = f.file_id AND r.offset >
            (SELECT MIN(b.offset) FROM feedback b WHERE b.file_id = f.file_id))
FROM file f LEFT JOIN reply p USING (file_id)
WHERE f.kind = 'agent' AND {where} AND NOT EXISTS (
    SELECT 1 FROM file o WHERE o.session_id = f.session_id AND o.agent_id = f.agent_id
        AND (o.gone, -o.mtime_ns, o.path) < (f.gone, -f.mtime_ns, f.path))
"""

_SUBAGENT_STOPS: Final = """
SELECT session_id, agent_id, COUNT(*),
    MAX(json_extract(detail, '$.given.stop_hook_active') IS 1)
FROM hook_event f
WHERE event = 'SubagentStop' AND agent_id IS NOT NULL AND session_id IS NOT NULL AND {where}
GROUP BY session_id, agent_id
"""
