"""What earlier agents returned, and what ctxtop's hook answers gave the client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from ..sql import fetch_records

if TYPE_CHECKING:
    import sqlite3


MAX_RESULTS: Final = 300
"""Of the newest results: six times what all stages of any preset give."""


class EarlierResultRow(msgspec.Struct, frozen=True):
    """A result as its agent returned it."""

    project: str
    session_id: str
    agent_id: str
    agent_type: str
    parent_agent_id: str | None
    at: int | None
    text: str
    status: str | None
    """As the client named it; None for clients that did not."""
    last_message_at: int | None
    """When the agent last said something in a file of its own."""


def results_of_project(db: sqlite3.Connection, project: str) -> list[EarlierResultRow]:
    """List the results of a project's agents, newest first, at most MAX_RESULTS."""
    return fetch_records(
        EarlierResultRow, db, _RESULTS.format(where="f.project = ?"), [project, MAX_RESULTS]
    )


def results_of_type(db: sqlite3.Connection, agent_type: str) -> list[EarlierResultRow]:
    """List the results of all agents of a type, wherever they worked, newest first."""
    return fetch_records(
        EarlierResultRow, db, _RESULTS.format(where=f"{_TYPE} = ?"), [agent_type, MAX_RESULTS]
    )


_TYPE: Final = "COALESCE(NULLIF(m.agent_type, ''), l.agent_type, '')"

_RESULTS: Final = (
    f"SELECT f.project, f.session_id, s.agent_id, {_TYPE}, m.parent_agent_id,"
    """ s.at, s.text, r.status,
        (SELECT MAX(p.at) FROM file o JOIN reply p USING (file_id)
            WHERE o.session_id = f.session_id AND o.kind = 'agent' AND o.agent_id = s.agent_id)
FROM summary s JOIN file f USING (file_id)
LEFT JOIN agent_return r ON r.file_id = s.file_id AND r.uuid = s.uuid
LEFT JOIN agent_meta m ON m.session_id = f.session_id AND m.agent_id = s.agent_id
LEFT JOIN launch l ON l.tool_use_id = COALESCE(m.tool_use_id, r.tool_use_id)
    AND l.file_id IN (SELECT x.file_id FROM file x WHERE x.session_id = f.session_id)
WHERE s.kind = 'agent' AND s.agent_id IS NOT NULL AND {where}
ORDER BY s.at DESC LIMIT ?"""
)


class AnswerItemRow(msgspec.Struct, frozen=True):
    """A thing that was given, to an agent or to a session."""

    session_id: str
    agent_id: str | None
    at: int
    kind: str
    text: str
    tokens: int | None
    from_session_id: str | None
    from_agent_id: str | None


def answer_items(
    db: sqlite3.Connection, feature: str, session_id: str | None = None
) -> list[AnswerItemRow]:
    """List what a feature (inject, steer, remember) gave, oldest first, of one session or all."""
    return fetch_records(
        AnswerItemRow,
        db,
        "SELECT session_id, agent_id, at, kind, text, tokens, from_session_id, from_agent_id"
        " FROM answer_item WHERE feature = :feature AND (:session IS NULL OR session_id = :session)"
        " ORDER BY at, part_id, offset",
        {"feature": feature, "session": session_id},
    )
