"""The warnings that were logged, and the contexts whose evaluation is pending."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from ...measure.levels import FillPoint, Level, LevelWarning, PlacedThreshold
from ...model.session import Session
from ...policy.resolve import Policies
from .. import warning_records
from ..warning_records import (
    PendingContextRow,
    WarningRow,
)

SESSIONS_PER_BATCH: Final = 200
"""Sessions judged in one transaction: a live commit of another ctxtop waits for no more."""


class EvaluationBatch(msgspec.Struct, frozen=True):
    """What one transaction is to judge: the contexts of some sessions."""

    sessions: frozenset[str]
    contexts: frozenset[tuple[str, str | None]]
    files: tuple[tuple[int, int], ...]  # numbers, and how far each was read


def pending_batches(
    db: sqlite3.Connection, policies: Policies, only: Iterable[str] | None = None
) -> list[EvaluationBatch]:
    """Find what has grown since it was judged and is full enough to have reached a line.

    In all sessions, or in those named.
    """
    floors = [policy.lowest_threshold_tokens for policy in policies.all]
    known = [floor for floor in floors if floor is not None]
    if not known:
        return []
    by_session: dict[str, list[PendingContextRow]] = {}
    for row in warning_records.pending_contexts(db, min(known), only):
        by_session.setdefault(row.session_id, []).append(row)
    ids = sorted(by_session)
    return [
        _make_batch(
            [row for each in ids[start : start + SESSIONS_PER_BATCH] for row in by_session[each]]
        )
        for start in range(0, len(ids), SESSIONS_PER_BATCH)
    ]


def _make_batch(rows: Sequence[PendingContextRow]) -> EvaluationBatch:
    return EvaluationBatch(
        frozenset(row.session_id for row in rows),
        frozenset((row.session_id, row.agent_id) for row in rows),
        tuple(sorted({(row.file_id, row.size) for row in rows})),
    )


class ContextWarning(msgspec.Struct, frozen=True):
    """A level that a session's or agent's context reached."""

    session_id: str
    agent_id: str | None
    warning: LevelWarning
    log_id: int = 0  # its place in the log; a later one is higher


def read_warnings(
    db: sqlite3.Connection, session_id: str | None = None, after: int = 0
) -> list[ContextWarning]:
    """Read what was said of every context, or of one session and its agents, in that order.

    Only what was logged after the row of number `after`.
    """
    rows = warning_records.logged_warnings(db, session_id, after)
    return [
        ContextWarning(
            row.session_id, row.agent_id, warning_from_row(row, row.line_ratio), row.warning_id
        )
        for row in rows
    ]


def session_warnings(db: sqlite3.Connection, session: Session) -> list[ContextWarning]:
    """Read what was said of a session's own context."""
    return _context_warnings(db, session.session_id, None)


def _context_warnings(
    db: sqlite3.Connection, session_id: str, agent_id: str | None
) -> list[ContextWarning]:
    return [
        ContextWarning(session_id, agent_id, warning_from_row(row, row.line_ratio), row.warning_id)
        for row in warning_records.context_warnings(db, session_id, agent_id)
    ]


def warning_from_row(row: WarningRow, line_ratio: float) -> LevelWarning:
    """Make a warning of its row, with its line where it lies in the window that is meant."""
    point = FillPoint(
        row.at, row.ratio, tokens=row.tokens, mark=row.mark, path=row.path, offset=row.offset
    )
    ended = (
        None if row.cleared_mark is None else FillPoint(row.cleared_at, None, mark=row.cleared_mark)
    )
    return LevelWarning(PlacedThreshold(line_ratio, Level(row.level), row.threshold), point, ended)
