"""The log of warnings as the screen and the commands read it, and what is still to judge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from .records import only_in, records

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

ASIDE: Final = "aside"
"""How the ids of agents begin whose lines stand in the session's own file (agent_queries)."""

ContextKey = tuple[str, str | None]
"""A session's id, and an agent's or None for the session's own context."""


class WarningRow(msgspec.Struct, frozen=True):
    """A level that a context reached; ratios are of the window that was known then."""

    warning_id: int
    session_id: str
    agent_id: str | None
    threshold: str
    """Its name."""
    level: str
    line_ratio: float
    ratio: float
    tokens: int
    window_tokens: int
    at: int | None
    path: str
    offset: int
    mark: str
    logged_at: int
    cleared_at: int | None
    cleared_mark: str | None
    """What ended it; None while it stands."""


class StandRow(msgspec.Struct, frozen=True):
    """The last point of a context's fill that was judged."""

    session_id: str
    agent_id: str | None
    offset: int
    mark: str
    at: int | None


class HotRow(msgspec.Struct, frozen=True):
    """A file whose lines were not all judged, and a context in it that may have reached a line."""

    file_id: int
    size: int
    """Bytes that were read of it."""
    session_id: str
    agent_id: str | None
    """ASIDE for every agent whose lines stand in the session's own file."""


def warnings(
    db: sqlite3.Connection, session_id: str | None = None, after: int = 0
) -> list[WarningRow]:
    """List the log, or one session's part of it, after a row's number; oldest row first."""
    where, values = only_in("session_id", None if session_id is None else [session_id])
    return records(
        WarningRow, db, f"{_LOG} WHERE {where} AND warning_id > ? ORDER BY 1", [*values, after]
    )


def context_warnings(
    db: sqlite3.Connection, session_id: str, agent_id: str | None
) -> list[WarningRow]:
    """List what was logged of one context, oldest row first."""
    return records(
        WarningRow,
        db,
        f"{_LOG} WHERE session_id = ? AND agent_id = ? ORDER BY 1",
        [session_id, agent_id or ""],
    )


def last_id(db: sqlite3.Connection) -> int:
    """Give the number of the newest row."""
    return int(db.execute("SELECT COALESCE(MAX(warning_id), 0) FROM warning").fetchone()[0])


def logged(
    db: sqlite3.Connection, session_ids: Iterable[str]
) -> dict[ContextKey, list[WarningRow]]:
    """List what was logged of sessions and their agents, by context, oldest row first."""
    where, values = only_in("session_id", session_ids)
    found: dict[ContextKey, list[WarningRow]] = {}
    for row in records(WarningRow, db, f"{_LOG} WHERE {where} ORDER BY 1", values):
        found.setdefault((row.session_id, row.agent_id), []).append(row)
    return found


def stands(db: sqlite3.Connection, session_ids: Iterable[str]) -> dict[ContextKey, StandRow]:
    """Say how far the contexts of sessions and their agents were judged."""
    where, values = only_in("session_id", session_ids)
    rows = records(StandRow, db, f"{_STANDS} WHERE {where}", values)
    return {(row.session_id, row.agent_id): row for row in rows}


def hot(
    db: sqlite3.Connection, min_tokens: int, session_ids: Iterable[str] | None = None
) -> list[HotRow]:
    """List the contexts with an answer of `floor` tokens or more in files not wholly judged."""
    where, values = only_in("f.session_id", session_ids)
    return records(HotRow, db, _HOT.format(where=where), [min_tokens, *values, min_tokens, *values])


_LOG: Final = (
    "SELECT warning_id, session_id, NULLIF(agent_id, ''), threshold, level, line_ratio, ratio,"
    " tokens, window_tokens, at, path, offset, mark, logged_at, cleared_at, cleared_mark"
    " FROM warning"
)

_STANDS: Final = "SELECT session_id, NULLIF(agent_id, ''), offset, mark, at FROM judged_context"

_HOT: Final = f"""
SELECT DISTINCT f.file_id, f.offset, f.session_id,
    IIF(f.kind = 'session', IIF(u.sidechain, '{ASIDE}', NULL), f.agent_id)
FROM model_use u JOIN file f USING (file_id) LEFT JOIN judged_file j USING (file_id)
WHERE u.peak_tokens >= ? AND j.offset IS NOT f.offset AND {{where}}
UNION
SELECT f.file_id, f.offset, f.session_id, s.agent_id
FROM step s JOIN file f USING (file_id) LEFT JOIN judged_file j USING (file_id)
WHERE s.context_tokens >= ? AND j.offset IS NOT f.offset AND {{where}}
ORDER BY 3
"""
