"""Blocks of turns that may match a search, and how complete and how large its index is."""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from sqlite3 import Connection
from typing import Final

import msgspec

from ...model.transcript_records import FileKind
from .query_rows import LISTED, fetch_records

INDEXED_KINDS: Final = (str(FileKind.SESSION), str(FileKind.AGENT))


class BlockRow(msgspec.Struct, frozen=True):
    """A block of turns, at least one of which may match."""

    path: str  # below projects/
    session_id: str
    agent_id: str | None
    is_fork: int
    at: int  # ms since 1970; of its latest turn
    turns: bytes  # as `search_index.decode_places` reads them


class SearchProgress(msgspec.Struct, frozen=True):
    """How many of the transcripts are indexed whole."""

    indexed: int
    total: int

    def __str__(self) -> str:
        return f"{self.indexed:,} of {self.total:,}"

    @property
    def is_complete(self) -> bool:
        return self.indexed >= self.total


class SearchIndexSize(msgspec.Struct, frozen=True):
    chars: int  # of the prompts and answers
    size: int  # bytes
    seconds: float  # that indexing took


def find_blocks(
    db: Connection, fts_match: str, since: int | None, session_ids: Sequence[str] | None
) -> Iterator[BlockRow]:
    """Yield the blocks that have all words, newest first; every block for an empty expression.

    `session_ids` are the only ones to search, None for all.
    """
    conditions: dict[str, object] = {
        "search_fts MATCH ?": fts_match or None,
        "b.at >= ?": since,
        f"f.session_id IN {LISTED}": None if session_ids is None else json.dumps(session_ids),
    }
    needed = {sql: value for sql, value in conditions.items() if value is not None}
    words = "search_fts x CROSS JOIN searched_block b ON b.block_id = x.rowid"
    sql = f"""SELECT f.path, f.session_id, f.agent_id, s.forked_from IS NOT NULL, b.at, b.turns
        FROM {words if fts_match else "searched_block b"}
        CROSS JOIN file f ON f.file_id = b.file_id AND f.gone = 0
        LEFT JOIN session s ON s.file_id = b.file_id
        WHERE {" AND ".join(["1", *needed])} ORDER BY b.at DESC, b.block_id DESC"""
    for row in db.execute(sql, list(needed.values())):
        yield BlockRow(*row)


def search_progress(db: Connection) -> SearchProgress:
    sql = """SELECT COALESCE(SUM(search_offset >= offset), 0), COUNT(*)
        FROM file WHERE gone = 0 AND kind IN (?, ?)"""
    return fetch_records(SearchProgress, db, sql, INDEXED_KINDS)[0]


def search_index_size(db: Connection) -> SearchIndexSize:
    chars = int(db.execute("SELECT COALESCE(SUM(chars), 0) FROM searched_block").fetchone()[0])
    seconds = db.execute("SELECT value FROM about WHERE key = 'search_seconds'").fetchone()
    return SearchIndexSize(chars, _index_bytes(db), float(seconds[0]) if seconds else 0.0)


def _index_bytes(db: Connection) -> int:
    """Return the size of the index's pages, or of what they hold where SQLite has no `dbstat`."""
    pages = """SELECT COALESCE(SUM(pgsize), 0) FROM dbstat WHERE aggregate = TRUE
        AND (name GLOB 'search_fts*' OR name = 'searched_block')"""
    content = """SELECT (SELECT COALESCE(SUM(LENGTH(block)), 0) FROM search_fts_data)
        + (SELECT COALESCE(SUM(LENGTH(turns) + 16), 0) FROM searched_block)"""
    try:
        return int(db.execute(pages).fetchone()[0])
    except sqlite3.OperationalError:
        return int(db.execute(content).fetchone()[0])
