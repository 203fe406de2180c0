"""The fleet kept between commits: only what changed is read again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .evidence import NO_EVIDENCE, Evidence, read_facts
from .fleet import by_need, read_session, session_warnings
from .forecast import Prior
from .outlook import read_prior
from .sessions import ACTIVE_MS, Session, Status
from .store import queries

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    from .fleet import ContextWarning
    from .levels import LevelWarning
    from .store.rows import SessionRow

MOST_AT_ONCE: Final = 500
"""Sessions named in one query; SQLite takes 999 values at the least."""


class FleetReader:
    """Reads sessions from one read-only connection; it belongs to one thread."""

    def __init__(self, db: sqlite3.Connection, watching_since_ms: int) -> None:
        self._db: Final = db
        self._since: Final = watching_since_ms
        self._sessions: dict[str, Session] = {}
        self._evidence = NO_EVIDENCE
        self._prior = Prior()
        self._announced: set[tuple[object, ...]] = set()

    def read(self, changed: Iterable[str] | None, now_ms: int) -> tuple[Session, ...]:
        """Read the sessions that changed, or all (None); the list is in order of need.

        A window is judged by what all sessions show: new evidence reads them all again.
        """
        facts = read_facts(self._db)
        if changed is None or facts != self._evidence.facts:
            self._evidence = Evidence(facts)
            self._prior = read_prior(self._db)
            self._sessions = self._made(queries.sessions(self._db), now_ms)
        else:
            stale = set(changed) | self._no_longer_sure(now_ms)
            for some in _in_parts(sorted(stale)):
                self._sessions |= self._made(queries.sessions(self._db, some), now_ms)
        return tuple(sorted(self._sessions.values(), key=by_need))

    def new_warnings(self, changed: Iterable[str]) -> list[tuple[Session, ContextWarning]]:
        """Name the levels that these sessions reached since we watch, each once."""
        found: list[tuple[Session, ContextWarning]] = []
        for session_id in changed:
            session = self._sessions.get(session_id)
            if session is None:
                continue
            new = [
                warned
                for warned in session_warnings(self._db, session)
                if self._is_new(session_id, warned.warning)
            ]
            if new:
                # One step can pass several thresholds: a person is told of the highest.
                found.append((session, new[-1]))
        return found

    def _is_new(self, session_id: str, warning: LevelWarning) -> bool:
        key = (session_id, warning.level, warning.at)
        if warning.at is None or warning.at < self._since or key in self._announced:
            return False
        self._announced.add(key)
        return warning.cleared_at is None

    def is_sure(self, now_ms: int) -> bool:
        """Say whether time alone has changed nothing that was read."""
        return not self._no_longer_sure(now_ms)

    def _made(self, rows: Iterable[SessionRow], now_ms: int) -> dict[str, Session]:
        return {
            row.session_id: read_session(self._db, row, self._evidence, self._prior, now_ms)
            for row in rows
        }

    def _no_longer_sure(self, now_ms: int) -> set[str]:
        """Sessions that were live only because they wrote, and that was too long ago."""
        return {
            session.session_id
            for session in self._sessions.values()
            if session.status is Status.ACTIVE
            and now_ms - (session.last_activity_at or 0) >= ACTIVE_MS
        }


def _in_parts(values: list[str]) -> Iterable[list[str]]:
    for start in range(0, len(values), MOST_AT_ONCE):
        yield values[start : start + MOST_AT_ONCE]
