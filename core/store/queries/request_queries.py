"""The requests that were sent to the API, and the messages that each of them held.

A request, a message and a shape are known by their key (64 bits of the client's own hash).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from ..transcript_records import RequestPartRecord
from .query_rows import RequestRow, columns, fetch_records

if TYPE_CHECKING:
    import sqlite3


KEYS_PER_QUERY: Final = 500  # keys in one query; SQLite takes at least 999 values


def requests(
    db: sqlite3.Connection, session_id: str, agent_id: str | None = None
) -> list[RequestRow]:
    """List what a session, or one of its agents, sent; in the order of its file."""
    return fetch_records(
        RequestRow, db, _REQUESTS, {"session_id": session_id, "agent_id": agent_id}
    )


def find_transcript(
    db: sqlite3.Connection, session_id: str, agent_id: str | None = None
) -> tuple[int, str] | None:
    """Return the file id and the path under projects/ of a session's or an agent's transcript."""
    asked = {"session_id": session_id, "agent_id": agent_id}
    row = db.execute(_TRANSCRIPT, asked).fetchone()
    return (row["file_id"], row["path"]) if row else None


def sent_messages(db: sqlite3.Connection, file_id: int, request: int) -> list[int] | None:
    """List the keys of a request's messages; None where a request that it repeats is missing.

    A request names the messages that it keeps of an earlier one by their number, and those
    after them by key; so its list is put together from where that chain begins.
    """
    tails: list[tuple[int, tuple[int, ...]]] = []
    row = db.execute(_ONE_REQUEST, [file_id, request]).fetchone()
    while row is not None and len(tails) <= row["all"]:
        tails.append((row["keep"], unpack_keys(row["tail"])))
        if row["keep"] == 0:
            return _join_messages(tails)
        if row["base"] is None:
            row = db.execute(_REQUEST_BEFORE, [file_id, row["offset"]]).fetchone()
        else:
            row = db.execute(_ONE_REQUEST, [file_id, row["base"]]).fetchone()
    return None


def request_parts(
    db: sqlite3.Connection, file_id: int, parts: Iterable[int]
) -> dict[int, RequestPartRecord]:
    """Locate parts of requests in a file; a message without a blob is left out."""
    asked, found = list(dict.fromkeys(parts)), dict[int, RequestPartRecord]()
    for start in range(0, len(asked), KEYS_PER_QUERY):
        some = asked[start : start + KEYS_PER_QUERY]
        sql = (
            f"SELECT {columns(RequestPartRecord)} FROM request_part"
            f" WHERE file_id = ? AND part IN ({', '.join('?' * len(some))})"
        )
        found |= {
            row.part: row for row in fetch_records(RequestPartRecord, db, sql, [file_id, *some])
        }
    return found


def unpack_keys(packed: bytes) -> tuple[int, ...]:
    """Read keys as a request's row keeps them."""
    return struct.unpack(f">{len(packed) // 8}q", packed)


def _join_messages(tails: list[tuple[int, tuple[int, ...]]]) -> list[int] | None:
    messages: list[int] = []
    for keep, tail in reversed(tails):
        if keep > len(messages):
            return None
        messages[keep:] = tail
    return messages


_TRANSCRIPT: Final = """
SELECT file_id, path FROM file WHERE session_id = :session_id
    AND ((:agent_id IS NULL AND kind = 'session') OR agent_id = :agent_id)
ORDER BY gone, mtime_ns DESC, path LIMIT 1
"""

_REQUESTS: Final = f"""
WITH chosen AS ({_TRANSCRIPT})
SELECT r.file_id, r.request, r.offset, r.length, r.at, r.model, r.query_source, r.shape,
    (SELECT MIN(a.message_id) FROM response a
        WHERE a.file_id = r.file_id AND a.request = r.request)
FROM request r WHERE r.file_id = (SELECT file_id FROM chosen) ORDER BY r.offset
"""

_ONE_REQUEST: Final = """
SELECT offset, base, keep, tail, (SELECT COUNT(*) FROM request WHERE file_id = ?1) AS "all"
FROM request WHERE file_id = ?1 AND request = ?2 ORDER BY offset LIMIT 1
"""

_REQUEST_BEFORE: Final = """
SELECT offset, base, keep, tail, (SELECT COUNT(*) FROM request WHERE file_id = ?1) AS "all"
FROM request WHERE file_id = ?1 AND offset < ?2 ORDER BY offset DESC LIMIT 1
"""
