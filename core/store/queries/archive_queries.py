"""Which sessions can be archived, and which of their lines are shown after their files are gone."""

from sqlite3 import Connection
from typing import Final

import msgspec

from .query_rows import fetch_records


class ArchivableRow(msgspec.Struct, frozen=True):
    session_id: str
    path: str  # of its transcript, below projects/
    mtime_ns: int
    size: int  # bytes


def archivable_sessions(db: Connection) -> list[ArchivableRow]:
    """List the sessions whose transcripts exist; of one in two folders the newest."""
    sql = """SELECT f.session_id, f.path, f.mtime_ns, f.size FROM file f
        WHERE f.kind = 'session' AND f.gone = 0 AND f.archived = '' AND NOT EXISTS (
            SELECT 1 FROM file o WHERE o.kind = 'session' AND o.session_id = f.session_id
                AND o.gone = 0 AND o.archived = ''
                AND (-o.mtime_ns, o.path) < (-f.mtime_ns, f.path))
        ORDER BY f.mtime_ns"""
    return fetch_records(ArchivableRow, db, sql)


def agent_paths(db: Connection, session_id: str) -> list[str]:
    """List the transcripts of a session's agents that exist."""
    sql = """SELECT path FROM file WHERE session_id = ? AND kind <> 'session'
        AND gone = 0 AND archived = '' ORDER BY path"""
    return [row[0] for row in db.execute(sql, [session_id])]


def shown_line_offsets(db: Connection, path: str) -> frozenset[int]:
    """Return the byte offsets of a file's lines that summaries, agents and compactions are of."""
    return frozenset(row[0] for row in db.execute(_SHOWN_LINES, {"path": path}))


_SHOWN_TABLES: Final = ("summary", "launch", "agent_return", "boundary", "reply", "step_agent")

_SHOWN_LINES: Final = " UNION ".join(
    f"SELECT t.offset FROM {table} t JOIN file f USING (file_id) WHERE f.path = :path"
    for table in _SHOWN_TABLES
)
