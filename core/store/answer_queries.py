"""What ctxtop's answers gave the client."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from .records import records

if TYPE_CHECKING:
    import sqlite3


class GivenRow(msgspec.Struct, frozen=True):
    """A thing that was given, to an agent or to a session."""

    session_id: str
    agent_id: str | None
    at: int
    kind: str
    text: str
    tokens: int | None
    from_session_id: str | None
    from_agent_id: str | None


def given(db: sqlite3.Connection, feature: str, session_id: str | None = None) -> list[GivenRow]:
    """List what a feature (inject, steer, remember) gave, oldest first, of one session or all."""
    return records(
        GivenRow,
        db,
        "SELECT session_id, agent_id, at, kind, text, tokens, from_session_id, from_agent_id"
        " FROM answer_item WHERE feature = :feature AND (:session IS NULL OR session_id = :session)"
        " ORDER BY at, part_id, offset",
        {"feature": feature, "session": session_id},
    )
