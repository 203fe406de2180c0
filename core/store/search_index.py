"""The index of the search: which transcripts it lacks, and how blocks of turns enter and leave it.

It is a part of the store, so that a rewritten transcript takes its turns along in the transaction
that notices it, and that a search reads one commit of both.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from ..model.transcript_records import FileKind
from ..transcript.turn_search import TurnRole
from .queries.query_rows import fetch_records
from .queries.search_queries import INDEXED_KINDS
from .writer import Writer

BLOCK_CHARS: Final = 8_000
"""Characters of text in a block. An index of single turns takes 18 % of their bytes, one of such
blocks 11 %; with larger blocks a search reads more turns in vain."""

SEARCH_RULES: Final = "2"
"""The version of what is indexed and how words are split; a new one rebuilds the index."""

MAX_BLOCKS_RATIO: Final = 2.0  # of all blocks ever stored to those of a new index
MIN_WASTED_BLOCKS: Final = 5_000  # fewer are not worth a rebuild

_ROLES: Final = tuple(TurnRole)
_decode_numbers: Final = msgspec.msgpack.Decoder(list[int]).decode


class UnindexedTranscript(msgspec.Struct, frozen=True):
    """A transcript with lines that are not indexed yet; offsets in bytes."""

    file_id: int
    path: str  # below projects/
    kind: FileKind
    start: int  # how far it is indexed
    read_to: int  # how far the store has read it
    anchor: str  # of the store's reading: another one means that the file was rewritten


class TurnPlace(msgspec.Struct, frozen=True):
    offset: int  # of its line, in bytes
    role: TurnRole


class TurnBlock(msgspec.Struct, frozen=True):
    turns: tuple[TurnPlace, ...]
    at: int  # ms since 1970; of the latest turn, or of a line before it; 0 if none has a time
    chars: int
    words: str  # each once, separated by blanks


def encode_places(turns: Sequence[TurnPlace]) -> bytes:
    """Encode each place in one number, and its offset as a difference: about 3 bytes for each."""
    numbers: list[int] = []
    offset = 0
    for turn in turns:
        numbers.append((turn.offset - offset) * len(_ROLES) + _ROLES.index(turn.role))
        offset = turn.offset
    return msgspec.msgpack.encode(numbers)


def decode_places(data: bytes) -> list[TurnPlace]:
    turns: list[TurnPlace] = []
    offset = 0
    for number in _decode_numbers(data):
        more, role = divmod(number, len(_ROLES))
        offset += more
        turns.append(TurnPlace(offset, _ROLES[role]))
    return turns


def unindexed_transcripts(writer: Writer, limit: int) -> list[UnindexedTranscript]:
    """List transcripts with lines that are not indexed, the newest first."""
    sql = """SELECT file_id, path, kind, search_offset, offset, anchor
        FROM file WHERE gone = 0 AND kind IN (?, ?) AND offset > search_offset
        ORDER BY mtime_ns DESC, path LIMIT ?"""
    rows = fetch_records(UnindexedTranscript, writer.connection, sql, [*INDEXED_KINDS, limit])
    return [replace(row, kind=FileKind(row.kind)) for row in rows]


def save_blocks(
    writer: Writer, source: UnindexedTranscript, blocks: Iterable[TurnBlock], end: int
) -> bool:
    """Store blocks and how far they reach, in one transaction.

    Returns False, and stores nothing, if the file was rewritten or another ctxtop indexed it.
    """
    db = writer.connection
    with writer.transaction():
        row = db.execute(
            "SELECT anchor, offset, gone, search_offset FROM file WHERE file_id = ?",
            [source.file_id],
        ).fetchone()
        if row is None or tuple(row) != (source.anchor, source.read_to, 0, source.start):
            return False
        for block in blocks:
            block_id = db.execute(
                "INSERT INTO searched_block (file_id, at, chars, turns) VALUES (?, ?, ?, ?)",
                [source.file_id, block.at, block.chars, encode_places(block.turns)],
            ).lastrowid
            db.execute(
                "INSERT INTO search_fts (rowid, words) VALUES (?, ?)", [block_id, block.words]
            )
        db.execute("UPDATE file SET search_offset = ? WHERE file_id = ?", [end, source.file_id])
    return True


def remove_stale_blocks(writer: Writer) -> None:
    """Remove the turns of deleted transcripts, or the whole index if it is outdated.

    The words of removed blocks stay in the index, where no query finds them, until it is rebuilt.
    """
    db = writer.connection
    rules = db.execute("SELECT value FROM about WHERE key = 'search_rules'").fetchone()
    if rules is None or rules[0] != SEARCH_RULES or _is_wasteful(writer):
        _clear_index(writer)
        return
    gone = "gone = 1 AND search_offset > 0"
    if db.execute(f"SELECT 1 FROM file WHERE {gone} LIMIT 1").fetchone():
        with writer.transaction():
            deleted = f"SELECT file_id FROM file WHERE {gone}"
            db.execute(f"DELETE FROM searched_block WHERE file_id IN ({deleted})")
            db.execute(f"UPDATE file SET search_offset = 0 WHERE {gone}")


def _is_wasteful(writer: Writer) -> bool:
    """Whether the index has far more blocks than a new one would.

    Those of rewritten transcripts are dead, and a session that is watched adds small ones.
    """
    ever = "SELECT seq FROM sqlite_sequence WHERE name = 'searched_block'"
    row = writer.connection.execute(ever).fetchone()
    if row is None or row[0] < MIN_WASTED_BLOCKS:
        return False
    needed = f"""SELECT COALESCE(SUM(blocks), 0) FROM (
        SELECT 1 + SUM(chars) / {BLOCK_CHARS} AS blocks FROM searched_block GROUP BY file_id)"""
    blocks = int(writer.connection.execute(needed).fetchone()[0])
    return bool(row[0] > MAX_BLOCKS_RATIO * blocks + MIN_WASTED_BLOCKS)


def _clear_index(writer: Writer) -> None:
    db = writer.connection
    with writer.transaction():
        for statement in (
            "UPDATE file SET search_offset = 0",
            "DELETE FROM searched_block",
            "DELETE FROM sqlite_sequence WHERE name = 'searched_block'",
            "INSERT INTO search_fts (search_fts) VALUES ('delete-all')",
            "DELETE FROM about WHERE key = 'search_seconds'",
        ):
            db.execute(statement)
        db.execute("INSERT OR REPLACE INTO about VALUES ('search_rules', ?)", [SEARCH_RULES])


def add_indexing_time(writer: Writer, seconds: float) -> None:
    """Add to the time that indexing took since the index was last built from nothing."""
    with writer.transaction():
        writer.connection.execute(
            "INSERT INTO about VALUES ('search_seconds', ?) ON CONFLICT (key)"
            " DO UPDATE SET value = CAST(value AS REAL) + CAST(excluded.value AS REAL)",
            [f"{seconds:.3f}"],
        )


def merge_index(writer: Writer) -> None:
    """Merge the segments of the index: it gets smaller, and prefix queries get faster."""
    with writer.transaction():
        writer.connection.execute("INSERT INTO search_fts (search_fts) VALUES ('optimize')")
