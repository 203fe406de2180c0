"""The sessions that a pause is about, as the store and Claude Code's registry show them."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from ..core.actions.pause_rules import PauseCandidate, PauseItem, preview_pause
from ..core.actions.session_access import Via
from ..core.actions.session_pause import PauseLook, PauseTarget, write_hand_off
from ..core.measure.effective_config import resolve_settings
from ..core.measure.window import read_auto_compact_config
from ..core.model.agent import AgentStatus
from ..core.model.config_records import SettingsFileRecord
from ..core.model.session import Session
from ..core.model.transcript_records import LiveSession
from ..core.policy.resolve import Policies
from ..core.readers import fleet_reader
from ..core.readers.limits_reader import read_sessions_near_limits
from ..core.store.automation_records import (
    PauseRecord,
    ReadTranscript,
    open_transcripts,
    read_pauses,
)
from ..core.store.queries import config_queries
from .claude_code.registry import list_open_sessions, read_client_environment
from .locations.discover import ClaudeFolder
from .locations.places import Places
from .session_target import open_session
from .terminal.client_compaction import is_plugin_alive
from .terminal.tmux_panes import find_pane

_AT_WORK: Final = frozenset({AgentStatus.RUNNING})


class PausePreview(msgspec.Struct, frozen=True):
    items: tuple[PauseItem, ...]  # in the order of the sessions
    places: Places
    policies: Policies

    @property
    def acting(self) -> tuple[PauseItem, ...]:
        """The sessions that would be paused."""
        return tuple(item for item in self.items if item.acts)

    def targets(self) -> list[PauseTarget]:
        """Open the sessions that would be paused."""
        return [self._target(item) for item in self.acting]

    def _target(self, item: PauseItem) -> PauseTarget:
        session, folder = item.session, self.places.folder
        policy = self.policies.acting.for_project(session.project_root)
        access = open_session(folder, self.places.store, session, policy)
        path = folder.projects / session.path
        return PauseTarget(
            item,
            access,
            look=lambda: _look(folder, session.session_id, path),
            write_note=lambda: write_hand_off(access, item.candidate),
        )


def preview_pauses(
    db: sqlite3.Connection,
    sessions: Sequence[Session],
    places: Places,
    policies: Policies,
    now_ms: int,
) -> PausePreview:
    """Decide for each session what a pause would do to it; changes nothing."""
    facts = _read_facts(db, sessions, places, policies, now_ms)
    items = [
        preview_pause(
            facts.candidate(session),
            policies.acting.for_project(session.project_root),
            now_ms,
        )
        for session in sessions
    ]
    return PausePreview(tuple(items), places, policies)


class _Facts(msgspec.Struct, frozen=True):
    """What is read once for all sessions."""

    places: Places
    clients: dict[str, LiveSession]
    settings: list[SettingsFileRecord]
    transcripts: dict[str, ReadTranscript]  # by their paths
    agents_at_work: Counter[str]
    pauses: dict[tuple[str, int], PauseRecord]
    near_limits: frozenset[str]  # sessions

    def candidate(self, session: Session) -> PauseCandidate:
        session_id = session.session_id
        client, transcript = self.clients.get(session_id), self.transcripts.get(session.path)
        answered_at = transcript.answered_at if transcript else None
        return PauseCandidate(
            session,
            bytes=transcript.bytes if transcript else 0,
            answered_at=answered_at,
            via=_find_way(self.places.store, client) if client else None,
            running_agents=self.agents_at_work[session_id],
            idle_from=self._idle_from(session, client) if client else None,
            opened_at=client.started_at if client else None,
            near_limit=session_id in self.near_limits,
            earlier=self.pauses.get((session_id, answered_at or 0)),
        )

    def _idle_from(self, session: Session, client: LiveSession) -> int | None:
        settings = resolve_settings(self.settings, session.cwd)
        environment = read_client_environment(client) or {}
        return read_auto_compact_config(settings, environment, session.model).idle_from


def _read_facts(
    db: sqlite3.Connection,
    sessions: Iterable[Session],
    places: Places,
    policies: Policies,
    now_ms: int,
) -> _Facts:
    live = [session for session in sessions if session.live]
    ids = [session.session_id for session in live]
    agents = fleet_reader.read_agents(db, live, now_ms, ids, policies)
    clients = list_open_sessions(places.folder)
    return _Facts(
        places,
        {client.session_id: client for client in clients},
        config_queries.settings_files(db),
        {each.path: each for each in open_transcripts(db)},
        Counter(each.session_id for each in agents if each.status in _AT_WORK),
        {(each.session_id, each.answered_at): each for each in read_pauses(db)},
        read_sessions_near_limits(db),
    )


def _find_way(store: Path, client: LiveSession) -> Via | None:
    """Return how an open client can be asked to compact: the plugin is sure, tmux looks first."""
    if is_plugin_alive(store, client):
        return Via.PLUGIN
    return Via.TMUX if find_pane(client.pid) is not None else None


def _look(folder: ClaudeFolder, session_id: str, transcript: Path) -> PauseLook:
    clients = list_open_sessions(folder)
    client = next((each for each in clients if each.session_id == session_id), None)
    return PauseLook(client.status if client else None, transcript.stat().st_size)
