"""The verdicts on agents' results, made of the store's rows and of what is asked of them."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from .agents import AgentStatus
from .compliance.expected import OFF, SKILLS, asked_by, expect, terms_of
from .compliance.origin import Place
from .compliance.states import Run, rule
from .definitions import resolve_definitions, visible_plugins
from .settings import resolve_settings
from .store import compliance_queries, surroundings_queries
from .store.surroundings_facts import DefinitionKind

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping, Sequence

    from .agents import Agent
    from .compliance.states import Ruling
    from .policy.layers import Policies
    from .store.compliance_queries import FinalRow, StopRow

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
            (row.session_id, row.agent_id): row for row in compliance_queries.finals(db, named)
        }
        self._stops = {
            (row.session_id, row.agent_id): row for row in compliance_queries.stops(db, named)
        }
        self._places: dict[int, list[Place]] = defaultdict(list)
        for marker in compliance_queries.markers(db, named):
            place = Place(marker.offset, marker.origin, marker.message_id, marker.text)
            self._places[marker.file_id].append(place)
        self._blocks: dict[int, list[int]] = defaultdict(list)
        for block in compliance_queries.blocks(db, named):
            self._blocks[block.file_id].append(block.offset)
        self._given: dict[int, list[tuple[int, str]]] = defaultdict(list)
        for skill in compliance_queries.given_skills(db, named):
            self._given[skill.file_id].append((skill.offset, skill.name))
        self._declared = _Declared(db)

    def check_agent(self, agent: Agent, cwd: str | None) -> Ruling | None:
        """Judge one run of an agent; None where the policy of its folder says not to."""
        terms = terms_of(self._policies.for_project(agent.project_root))
        if terms.mode == OFF:
            return None
        key = agent.session_id, agent.agent_id
        own = self._finals.get(key)
        expected = expect(
            agent.agent_type,
            self._preloaded(own),
            self._declared.skills(agent.agent_type, cwd),
            terms,
            agent.prompted_skill,
        )
        return rule(self._run(agent, own, self._stops.get(key)), expected, terms)

    def _preloaded(self, own: FinalRow | None) -> list[str]:
        """Name the skills that stand before the first answer: later ones the agent took itself."""
        if own is None:
            return []
        first = own.first_answer_offset
        given = self._given.get(own.file_id, ())
        return [name for offset, name in given if first is None or offset < first]

    def _run(self, agent: Agent, own: FinalRow | None, stops: StopRow | None) -> Run:
        text = own.text if own else None
        result = agent.result.text if agent.result else None
        return Run(
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


def watched_sessions(db: sqlite3.Connection, policies: Policies) -> frozenset[str]:
    """Name the sessions with an agent of which a compressed result may be expected."""
    types = {
        each.name
        for each in surroundings_queries.definitions(db)
        if each.kind is DefinitionKind.AGENT and asked_by(each.skills)
    }
    for policy in policies.all:
        terms = terms_of(policy)
        types.update((terms.preset_rules if terms.rules is None else terms.rules) or ())
    return compliance_queries.candidates(db, types, SKILLS)


class _Declared:
    """The skills that definitions declare, by folder and agent type."""

    def __init__(self, db: sqlite3.Connection) -> None:
        definitions = surroundings_queries.definitions(db)
        self._agents = [each for each in definitions if each.kind is DefinitionKind.AGENT]
        self._plugins = surroundings_queries.plugins(db)
        self._settings = surroundings_queries.settings_files(db) if self._plugins else []
        self._by_folder: dict[str | None, Mapping[str, Sequence[str]]] = {}

    def skills(self, agent_type: str, cwd: str | None) -> Sequence[str] | None:
        """Name what a type declares in a folder; None where nobody defines it readably."""
        known = self._by_folder.get(cwd)
        if known is None:
            switched = visible_plugins(self._plugins, resolve_settings(self._settings, cwd), cwd)
            found = resolve_definitions(self._agents, cwd, switched)
            known = {name: each.skills for (_, name), each in found.items() if not each.problem}
            self._by_folder[cwd] = known
        return known.get(agent_type)
