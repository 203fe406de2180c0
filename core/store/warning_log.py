"""The warning log: what was logged, which contexts are still to be evaluated, and what is added."""

from collections.abc import Iterable, Sequence
from sqlite3 import Connection
from typing import Any, Final

import msgspec

from ..model.levels import FillPoint, Level, LevelWarning, PlacedThreshold
from ..policy.resolve import Policies
from .queries.query_rows import SessionIds, fetch_records, in_condition
from .writer import Writer

SIDECHAIN_AGENTS: Final = "aside"  # prefix of ids of agents in the session's own file

ContextKey = tuple[str, str | None]  # a session's id, and an agent's or None for the session itself


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
    cleared_at: int | None
    cleared_mark: str | None  # what ended it; None while it is active

    def to_warning(self, window: int | None = None) -> LevelWarning:
        """Return the warning, with its line as a ratio of `window` if that is given."""
        at = self.line_ratio
        if window and window != self.window_tokens:
            at = at * self.window_tokens / window
        point = FillPoint(
            self.at,
            self.ratio,
            tokens=self.tokens,
            mark=self.mark,
            path=self.path,
            offset=self.offset,
        )
        cleared_by = None
        if self.cleared_mark is not None:
            cleared_by = FillPoint(self.cleared_at, None, mark=self.cleared_mark)
        placed = PlacedThreshold(at, Level(self.level), self.threshold)
        return LevelWarning(placed, point, cleared_by)


class ContextWarning(msgspec.Struct, frozen=True):
    session_id: str
    agent_id: str | None
    warning: LevelWarning
    log_id: int = 0  # grows with each row of the log


def logged_warnings(
    db: Connection, session_id: str | None = None, after: int = 0
) -> list[WarningRow]:
    """List the log, or one session's part of it, after a row's id, oldest first."""
    where, values = in_condition("session_id", None if session_id is None else [session_id])
    return _rows(db, f"{where} AND warning_id > ?", [*values, after])


def logged_by_context(
    db: Connection, session_ids: Iterable[str]
) -> dict[ContextKey, list[WarningRow]]:
    by_context: dict[ContextKey, list[WarningRow]] = {}
    for row in _rows(db, *in_condition("session_id", session_ids)):
        by_context.setdefault((row.session_id, row.agent_id), []).append(row)
    return by_context


def read_warnings(
    db: Connection, session_id: str | None = None, after: int = 0
) -> list[ContextWarning]:
    """Read the warnings of all contexts, or of one session and its agents, in that order.

    Only those that were logged after the row `after`.
    """
    return _context_warnings(logged_warnings(db, session_id, after))


def context_warnings(
    db: Connection, session_id: str, agent_id: str | None = None
) -> list[ContextWarning]:
    """Read the warnings of a session's own context, or of an agent's, oldest first."""
    rows = _rows(db, "session_id = ? AND agent_id = ?", [session_id, agent_id or ""])
    return _context_warnings(rows)


def _context_warnings(rows: Iterable[WarningRow]) -> list[ContextWarning]:
    return [
        ContextWarning(row.session_id, row.agent_id, row.to_warning(), row.warning_id)
        for row in rows
    ]


def _rows(db: Connection, where: str, values: Sequence[object]) -> list[WarningRow]:
    return fetch_records(WarningRow, db, f"{_LOG} WHERE {where} ORDER BY 1", values)


_LOG: Final = (
    "SELECT warning_id, session_id, NULLIF(agent_id, ''), threshold, level, line_ratio, ratio,"
    " tokens, window_tokens, at, path, offset, mark, cleared_at, cleared_mark"
    " FROM warning"
)


def last_warning_id(db: Connection) -> int:
    return int(db.execute("SELECT COALESCE(MAX(warning_id), 0) FROM warning").fetchone()[0])


SESSIONS_PER_BATCH: Final = 200  # in one transaction, for which another ctxtop may have to wait


class EvaluationBatch(msgspec.Struct, frozen=True):
    """What one transaction evaluates: the contexts of some sessions."""

    sessions: frozenset[str]
    contexts: frozenset[ContextKey]  # SIDECHAIN_AGENTS for all agents in the session's file
    files: tuple[tuple[int, int], ...]  # ids, and how far each was read


def pending_batches(
    db: Connection, policies: Policies, only: SessionIds = None
) -> list[EvaluationBatch]:
    """Find the contexts that grew since their evaluation and may have reached a threshold.

    In all sessions, or in those named.
    """
    return _batches(db, policies, only, "AND j.offset IS NOT f.offset")


def all_batches(
    db: Connection, policies: Policies, only: SessionIds = None
) -> list[EvaluationBatch]:
    """Find all contexts that may have reached a threshold, evaluated or not."""
    return _batches(db, policies, only, "")


def _batches(
    db: Connection, policies: Policies, only: SessionIds, condition: str
) -> list[EvaluationBatch]:
    least = [policy.lowest_threshold_tokens for policy in policies.all]
    known = [tokens for tokens in least if tokens is not None]
    if not known:
        return []
    where, names = in_condition("f.session_id", only)
    values = [min(known), *names]
    by_session: dict[str, list[Any]] = {}
    for row in db.execute(_CONTEXTS.format(where=where, condition=condition), values * 2):
        by_session.setdefault(row[2], []).append(row)
    ids = sorted(by_session)
    return [
        _make_batch(
            [row for each in ids[start : start + SESSIONS_PER_BATCH] for row in by_session[each]]
        )
        for start in range(0, len(ids), SESSIONS_PER_BATCH)
    ]


def _make_batch(rows: Sequence[Any]) -> EvaluationBatch:
    return EvaluationBatch(
        frozenset(session_id for _, _, session_id, _ in rows),
        frozenset((session_id, agent_id) for _, _, session_id, agent_id in rows),
        tuple(sorted({(file_id, size) for file_id, size, _, _ in rows})),
    )


_CONTEXTS: Final = f"""
SELECT DISTINCT f.file_id, f.offset, f.session_id,
    IIF(f.kind = 'session', IIF(u.sidechain, '{SIDECHAIN_AGENTS}', NULL), f.agent_id)
FROM model_use u JOIN file f USING (file_id) LEFT JOIN judged_file j USING (file_id)
WHERE u.peak_tokens >= ? AND {{where}} {{condition}}
UNION
SELECT f.file_id, f.offset, f.session_id, s.agent_id
FROM step s JOIN file f USING (file_id) LEFT JOIN judged_file j USING (file_id)
WHERE s.context_tokens >= ? AND {{where}} {{condition}}
ORDER BY 3
"""


def evaluated_points(db: Connection, session_ids: Iterable[str]) -> dict[ContextKey, FillPoint]:
    where, values = in_condition("session_id", session_ids)
    sql = f"SELECT session_id, agent_id, offset, mark, at FROM judged_context WHERE {where}"
    return {
        (session_id, agent_id or None): FillPoint(at, None, mark=mark, offset=offset)
        for session_id, agent_id, offset, mark, at in db.execute(sql, values)
    }


class EvaluatedContext(msgspec.Struct, frozen=True):
    session_id: str
    agent_id: str | None
    window_tokens: int  # by which the ratios are
    last_point: FillPoint  # the newest answer or boundary that was evaluated
    new_warnings: tuple[LevelWarning, ...] = ()
    cleared: tuple[tuple[int, FillPoint], ...] = ()  # ids of rows, and what ended them


def save_evaluations(writer: Writer, contexts: Iterable[EvaluatedContext]) -> None:
    """Add to the log, in the transaction in which it was read."""
    db = writer.connection
    for each in contexts:
        key, last = (each.session_id, each.agent_id or ""), each.last_point
        sql = f"""INSERT OR IGNORE INTO warning (session_id, agent_id, threshold, level, line_ratio,
                ratio, tokens, window_tokens, at, path, offset, mark, cleared_at, cleared_mark)
            VALUES ({", ".join("?" * 14)})"""
        db.executemany(sql, [(*key, *_warning_columns(each, new)) for new in each.new_warnings])
        db.executemany(
            "UPDATE warning SET cleared_at = ?, cleared_mark = ? WHERE warning_id = ?",
            [(point.at, point.mark, row) for row, point in each.cleared],
        )
        db.execute(
            "INSERT OR REPLACE INTO judged_context VALUES (?, ?, ?, ?, ?)",
            (*key, last.offset, last.mark, last.at),
        )


def _warning_columns(context: EvaluatedContext, warning: LevelWarning) -> tuple[object, ...]:
    point, end = warning.point, warning.cleared_by
    return (
        *(warning.placed_threshold.name, warning.level.value, warning.threshold, warning.ratio),
        *(point.tokens or 0, context.window_tokens, point.at, point.path, point.offset, point.mark),
        *(end.at if end else None, end.mark if end else None),
    )


def mark_evaluated(writer: Writer, files: Iterable[tuple[int, int]]) -> None:
    """Record up to which byte files were evaluated, by their ids."""
    writer.connection.executemany("INSERT OR REPLACE INTO judged_file VALUES (?, ?)", files)
