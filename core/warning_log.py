"""The log of warnings: what was said of each context, each once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from .levels import Level, LevelWarning, Line, Point
from .store import warning_queries

if TYPE_CHECKING:
    import sqlite3

    from .agents import Agent
    from .sessions import Session
    from .store.warning_queries import WarningRow


class ContextWarning(msgspec.Struct, frozen=True):
    """A level that a session's or agent's context reached."""

    session_id: str
    agent_id: str | None
    warning: LevelWarning
    log_id: int = 0
    """Its place in the log; a later one is higher."""


def read_log(
    db: sqlite3.Connection, session_id: str | None = None, after: int = 0
) -> list[ContextWarning]:
    """Read what was said of every context, or of one session and its agents, in that order.

    Only what was logged after the row of number `after`.
    """
    rows = warning_queries.warnings(db, session_id, after)
    return [
        ContextWarning(row.session_id, row.agent_id, from_row(row, row.line_ratio), row.warning_id)
        for row in rows
    ]


def session_warnings(db: sqlite3.Connection, session: Session) -> list[ContextWarning]:
    """Read what was said of a session's own context."""
    return _of_context(db, session.session_id, None)


def agent_warnings(db: sqlite3.Connection, agent: Agent) -> list[ContextWarning]:
    """Read what was said of an agent's context."""
    return _of_context(db, agent.session_id, agent.agent_id)


def _of_context(
    db: sqlite3.Connection, session_id: str, agent_id: str | None
) -> list[ContextWarning]:
    return [
        ContextWarning(session_id, agent_id, from_row(row, row.line_ratio), row.warning_id)
        for row in warning_queries.context_warnings(db, session_id, agent_id)
    ]


def from_row(row: WarningRow, line_ratio: float) -> LevelWarning:
    """Make a warning of its row, with its line where it lies in the window that is meant."""
    point = Point(
        row.at, row.ratio, tokens=row.tokens, mark=row.mark, path=row.path, offset=row.offset
    )
    ended = None if row.cleared_mark is None else Point(row.cleared_at, None, mark=row.cleared_mark)
    return LevelWarning(Line(line_ratio, Level(row.level), row.threshold), point, ended)
