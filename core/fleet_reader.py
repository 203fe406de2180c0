"""The fleet kept between commits: only what changed is read again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .evidence import NO_EVIDENCE, Evidence, read_facts
from .fleet import LOOKS_AHEAD, MOST_AT_ONCE, SessionReader, by_need
from .levels import urgency
from .policy.layers import COMMON
from .sessions import ACTIVE_MS, Session, Status
from .store import queries, warning_queries
from .store.compliance_queries import definitions_mark
from .warning_log import read_log

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    from .policy.layers import Policies
    from .warning_log import ContextWarning

FIRST_PART: Final = 100
"""Sessions of the first view: more than any screen shows, and read within a tenth of a second."""


class FleetReader:
    """Reads sessions from one read-only connection; it belongs to one thread."""

    def __init__(self, db: sqlite3.Connection, watching_since_ms: int) -> None:
        self._db: Final = db
        self._since: Final = watching_since_ms
        self._sessions: dict[str, Session] = {}
        self._in_order: tuple[Session, ...] | None = None
        """The same in order of need; None where one was read since."""
        self._evidence = NO_EVIDENCE
        self._reader: SessionReader | None = None
        self._defined: object = None
        """How the definitions stood by which agents were judged."""
        self._unread: list[str] = []
        self._part = FIRST_PART
        self._looks_ahead: set[str] = set()
        self._logged = warning_queries.last_id(db)
        self._untold: list[ContextWarning] = []

    @property
    def unread_count(self) -> int:
        """Sessions that are still to be read: of many only the most important come at once."""
        return len(self._unread)

    def read(
        self, changed: Iterable[str] | None, now_ms: int, policies: Policies = COMMON
    ) -> tuple[Session, ...]:
        """Read the sessions that changed, or all (None); the list is in order of need.

        A window is judged by what all sessions show, and an agent by its definition: new
        evidence, another definition or a new policy reads them all again. Of many sessions
        one call reads a part, the open and the newest ones first; until `unread` is 0 the
        others are missing, or are as they were. Where none was read it is the list from before.
        """
        evidence = Evidence(read_facts(self._db), policies)
        defined = definitions_mark(self._db)
        is_same = evidence.is_equivalent_to(self._evidence) and defined == self._defined
        if changed is None or not is_same or self._reader is None:
            self._evidence, self._defined = evidence, defined
            self._reader = SessionReader(self._db, evidence, policies)
            self._restart()
        elif stale := set(changed) | self._stale_sessions(now_ms):
            self._read(self._reader, sorted(stale), now_ms)
        self._read_next_batch(self._reader, now_ms)
        if self._in_order is None:
            self._in_order = tuple(sorted(self._sessions.values(), key=by_need))
        return self._in_order

    def _restart(self) -> None:
        names = dict.fromkeys(queries.open_sessions(self._db))
        names |= dict.fromkeys(queries.newest_sessions(self._db))
        self._sessions = {name: each for name, each in self._sessions.items() if name in names}
        self._in_order = None
        self._unread = list(names)
        self._part = FIRST_PART
        self._looks_ahead = set(self._unread[:LOOKS_AHEAD])

    def _read_next_batch(self, reader: SessionReader, now_ms: int) -> None:
        """Read the next part; each is twice as large as the one before."""
        part, self._unread = self._unread[: self._part], self._unread[self._part :]
        self._part *= 2
        ahead = [name for name in part if name in self._looks_ahead]
        self._read(reader, ahead, now_ms)
        self._read(reader, part[len(ahead) :], now_ms, looks_ahead=False)

    def _read(
        self, reader: SessionReader, names: list[str], now_ms: int, *, looks_ahead: bool = True
    ) -> None:
        for some in _in_parts(names):
            self._in_order = None
            found = reader.read(some, now_ms, with_forecast=looks_ahead)
            # A client that was closed before its first prompt leaves nothing behind.
            for name in some:
                self._sessions.pop(name, None)
            self._sessions |= {session.session_id: session for session in found}

    def new_warnings(self) -> list[tuple[Session, ContextWarning]]:
        """Name the levels that contexts reached and that were logged since we last asked.

        Only what was reached since we watch, and still stands. Another ctxtop may have logged
        it: each screen shows it once.
        """
        logged = read_log(self._db, after=self._logged)
        if logged:
            self._logged = logged[-1].log_id
        by_context: dict[tuple[str, str | None], list[ContextWarning]] = {}
        for found in (*self._untold, *filter(self._is_new, logged)):
            by_context.setdefault((found.session_id, found.agent_id), []).append(found)
        # One step can pass several thresholds: a person is told of the most urgent.
        urgent = [max(each, key=lambda one: urgency(one.warning)) for each in by_context.values()]
        # A session can be stored between our reading of sessions and of the log.
        self._untold = [each for each in urgent if each.session_id not in self._sessions]
        return [
            (self._sessions[each.session_id], each)
            for each in urgent
            if each.session_id in self._sessions
        ]

    def _is_new(self, found: ContextWarning) -> bool:
        at = found.warning.at
        return at is not None and at >= self._since and found.warning.cleared_by is None

    def is_current(self, now_ms: int) -> bool:
        """Return whether everything was read and the passing of time changed none of it."""
        return not self._unread and not self._stale_sessions(now_ms)

    def _stale_sessions(self, now_ms: int) -> set[str]:
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
