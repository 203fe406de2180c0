"""How sessions hang together: what their lines say, and which answers they share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .records import records
from .rows import LinkRow, SharedRow

if TYPE_CHECKING:
    import sqlite3


def links(db: sqlite3.Connection, session_id: str) -> list[LinkRow]:
    """List what a session's lines say of others, and what others' lines say of it.

    In the order of each file; the other session is empty where the line names none.
    """
    return records(LinkRow, db, _LINKS, {"session_id": session_id})


def shared_answers(db: sqlite3.Connection, session_id: str) -> list[SharedRow]:
    """List the sessions that hold the same answers, most of them first.

    A fork copies its parent's answers with their ids, also where no line names the
    parent (`--fork-session`); the id of an answer is the API's own.
    """
    return records(SharedRow, db, _SHARED, {"session_id": session_id})


_LINKS: Final = """
SELECT f.session_id, l.kind, l.session_id, l.at, l.detail, l.offset
FROM session_link l JOIN file f USING (file_id)
WHERE f.session_id = :session_id OR l.session_id = :session_id
ORDER BY f.path, l.offset
"""

_SHARED: Final = """
SELECT g.session_id, COUNT(DISTINCT o.message_id),
    (SELECT COUNT(*) FROM response n WHERE n.file_id = g.file_id),
    s.opened_at, s.forked_from
FROM response r JOIN file f ON f.file_id = r.file_id AND f.kind = 'session'
JOIN response o ON o.message_id = r.message_id AND o.file_id <> r.file_id
JOIN file g ON g.file_id = o.file_id AND g.kind = 'session' AND g.session_id <> f.session_id
LEFT JOIN session s ON s.file_id = g.file_id
WHERE f.session_id = :session_id
GROUP BY g.session_id ORDER BY 2 DESC, g.session_id
"""
