"""The warning log as it is stored, and which contexts are still to be evaluated for it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import msgspec

from .queries.query_rows import fetch_records, in_condition

if TYPE_CHECKING:
    import sqlite3

    from ..measure.levels import FillPoint, LevelWarning
    from .writer import Writer


SIDECHAIN_AGENTS: Final = "aside"
"""How the ids of agents begin whose lines stand in the session's own file (agent_queries)."""

ContextKey = tuple[str, str | None]
"""A session's id, and an agent's or None for the session's own context."""


class WarningRow(msgspec.Struct, frozen=True):
    """A level that a context reached; ratios are of the window that was known then."""

    warning_id: int
    session_id: str
    agent_id: str | None
    threshold: str  # its name
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
    cleared_mark: str | None  # what ended it; None while it stands


class EvaluatedContextRow(msgspec.Struct, frozen=True):
    """The last point of a context's fill that was judged."""

    session_id: str
    agent_id: str | None
    offset: int
    mark: str
    at: int | None


class PendingContextRow(msgspec.Struct, frozen=True):
    """A file whose lines were not all judged, and a context in it that may have reached a line."""

    file_id: int
    size: int  # bytes that were read of it
    session_id: str
    agent_id: str | None  # ASIDE for every agent whose lines stand in the session's own file


def logged_warnings(
    db: sqlite3.Connection, session_id: str | None = None, after: int = 0
) -> list[WarningRow]:
    """List the log, or one session's part of it, after a row's number; oldest row first."""
    where, values = in_condition("session_id", None if session_id is None else [session_id])
    return fetch_records(
        WarningRow, db, f"{_LOG} WHERE {where} AND warning_id > ? ORDER BY 1", [*values, after]
    )


def context_warnings(
    db: sqlite3.Connection, session_id: str, agent_id: str | None
) -> list[WarningRow]:
    """List what was logged of one context, oldest row first."""
    return fetch_records(
        WarningRow,
        db,
        f"{_LOG} WHERE session_id = ? AND agent_id = ? ORDER BY 1",
        [session_id, agent_id or ""],
    )


def last_warning_id(db: sqlite3.Connection) -> int:
    """Return the id of the newest row, 0 if there is none."""
    return int(db.execute("SELECT COALESCE(MAX(warning_id), 0) FROM warning").fetchone()[0])


def logged_by_context(
    db: sqlite3.Connection, session_ids: Iterable[str]
) -> dict[ContextKey, list[WarningRow]]:
    """List what was logged of sessions and their agents, by context, oldest row first."""
    where, values = in_condition("session_id", session_ids)
    found: dict[ContextKey, list[WarningRow]] = {}
    for row in fetch_records(WarningRow, db, f"{_LOG} WHERE {where} ORDER BY 1", values):
        found.setdefault((row.session_id, row.agent_id), []).append(row)
    return found


def evaluated_contexts(
    db: sqlite3.Connection, session_ids: Iterable[str]
) -> dict[ContextKey, EvaluatedContextRow]:
    """Return the last evaluated point of each context of these sessions and their agents."""
    where, values = in_condition("session_id", session_ids)
    rows = fetch_records(EvaluatedContextRow, db, f"{_EVALUATED} WHERE {where}", values)
    return {(row.session_id, row.agent_id): row for row in rows}


def pending_contexts(
    db: sqlite3.Connection, min_tokens: int, session_ids: Iterable[str] | None = None
) -> list[PendingContextRow]:
    """List the contexts with an answer of `floor` tokens or more in files not wholly judged."""
    where, values = in_condition("f.session_id", session_ids)
    return fetch_records(
        PendingContextRow,
        db,
        _PENDING.format(where=where),
        [min_tokens, *values, min_tokens, *values],
    )


_LOG: Final = (
    "SELECT warning_id, session_id, NULLIF(agent_id, ''), threshold, level, line_ratio, ratio,"
    " tokens, window_tokens, at, path, offset, mark, logged_at, cleared_at, cleared_mark"
    " FROM warning"
)

_EVALUATED: Final = "SELECT session_id, NULLIF(agent_id, ''), offset, mark, at FROM judged_context"

_PENDING: Final = f"""
SELECT DISTINCT f.file_id, f.offset, f.session_id,
    IIF(f.kind = 'session', IIF(u.sidechain, '{SIDECHAIN_AGENTS}', NULL), f.agent_id)
FROM model_use u JOIN file f USING (file_id) LEFT JOIN judged_file j USING (file_id)
WHERE u.peak_tokens >= ? AND j.offset IS NOT f.offset AND {{where}}
UNION
SELECT f.file_id, f.offset, f.session_id, s.agent_id
FROM step s JOIN file f USING (file_id) LEFT JOIN judged_file j USING (file_id)
WHERE s.context_tokens >= ? AND j.offset IS NOT f.offset AND {{where}}
ORDER BY 3
"""


class EvaluatedContext(msgspec.Struct, frozen=True):
    """What a context's new answers say."""

    session_id: str
    agent_id: str | None
    window_tokens: int  # by which the ratios are
    last_point: FillPoint  # the newest of the answers and boundaries that were judged
    new_warnings: tuple[LevelWarning, ...] = ()
    cleared: tuple[tuple[int, FillPoint], ...] = ()  # numbers of rows, and what ended them


def save_evaluations(writer: Writer, contexts: Iterable[EvaluatedContext], now_ms: int) -> None:
    """Add to the log; belongs into the transaction in which it was read."""
    run = writer.connection
    for each in contexts:
        who = (each.session_id, each.agent_id or "")
        run.executemany(
            _INSERT_WARNING,
            [_warning_columns(each, warning, now_ms) for warning in each.new_warnings],
        )
        run.executemany(_CLEAR_WARNING, [(by.at, by.mark, row) for row, by in each.cleared])
        run.execute(
            _SAVE_EVALUATED,
            (*who, each.last_point.offset, each.last_point.mark, each.last_point.at),
        )


def mark_evaluated(writer: Writer, files: Iterable[tuple[int, int]]) -> None:
    """Note up to which byte files were judged, by their numbers."""
    writer.connection.executemany("INSERT OR REPLACE INTO judged_file VALUES (?, ?)", files)


def _warning_columns(
    judged: EvaluatedContext, warning: LevelWarning, now_ms: int
) -> tuple[object, ...]:
    point, ended = warning.point, warning.cleared_by
    return (
        judged.session_id,
        judged.agent_id or "",
        warning.placed_threshold.name,
        warning.level.value,
        warning.threshold,
        warning.ratio,
        point.tokens or 0,
        judged.window_tokens,
        point.at,
        point.path,
        point.offset,
        point.mark,
        now_ms,
        ended.at if ended else None,
        ended.mark if ended else None,
    )


_INSERT_WARNING: Final = f"""
INSERT OR IGNORE INTO warning (session_id, agent_id, threshold, level, line_ratio, ratio, tokens,
    window_tokens, at, path, offset, mark, logged_at, cleared_at, cleared_mark)
VALUES ({", ".join("?" * 15)})
"""

_CLEAR_WARNING: Final = "UPDATE warning SET cleared_at = ?, cleared_mark = ? WHERE warning_id = ?"

_SAVE_EVALUATED: Final = "INSERT OR REPLACE INTO judged_context VALUES (?, ?, ?, ?, ?)"
