"""What earlier agents returned, for those that start: one question, asked in milliseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from .records import records

if TYPE_CHECKING:
    import sqlite3

MOST: Final = 300
"""Of the newest results: six times what all stages of any preset give."""


class PastRow(msgspec.Struct, frozen=True):
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


def results_of_project(db: sqlite3.Connection, project: str) -> list[PastRow]:
    """List the results of a project's agents, newest first, at most MOST."""
    return records(PastRow, db, _RESULTS.format(where="f.project = ?"), [project, MOST])


def results_of_type(db: sqlite3.Connection, agent_type: str) -> list[PastRow]:
    """List the results of all agents of a type, wherever they worked, newest first."""
    return records(PastRow, db, _RESULTS.format(where=f"{_TYPE} = ?"), [agent_type, MOST])


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
