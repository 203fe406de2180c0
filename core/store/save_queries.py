"""What the store knows of saves from transcripts: hooks that blocked, their noise, and notes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from .records import records

if TYPE_CHECKING:
    import sqlite3


class BlockRow(msgspec.Struct, frozen=True):
    """A line in which a session was told what a Stop hook kept it for, with its noise."""

    session_id: str
    path: str
    cwd: str | None
    client_version: str | None
    offset: int
    uuid: str
    at: int | None
    text: str
    lines: int
    chars: int
    noise: str | None
    """As `saves.noise` packs it; None where it is not measured yet, or not claude-memory's."""


class NoteRow(msgspec.Struct, frozen=True):
    """What claude-memory told at a session's prompt."""

    session_id: str
    path: str
    cwd: str | None
    offset: int
    at: int | None
    text: str


class StopRow(msgspec.Struct, frozen=True):
    """The Stop hooks of one end of a turn."""

    session_id: str
    offset: int
    at: int | None
    hooks: int
    blocked: int
    duration_ms: int | None
    commands: str


def stop_blocks(db: sqlite3.Connection) -> list[BlockRow]:
    """Every block, session by session, in the order of the lines; one that a fork copied once."""
    found: dict[str, BlockRow] = {}
    for row in records(BlockRow, db, _BLOCKS):
        found.setdefault(row.uuid, row)
    return list(found.values())


def memory_notes(db: sqlite3.Connection) -> list[NoteRow]:
    """Every note, oldest first."""
    return records(NoteRow, db, _NOTES)


def stop_hooks(db: sqlite3.Connection, session_id: str) -> list[StopRow]:
    """The Stop hooks of a session, in the order of the lines."""
    return records(StopRow, db, _STOPS, [session_id])


def save_mark(db: sqlite3.Connection) -> tuple[object, ...]:
    """Tell whether anything that a save is judged by has changed since the same mark."""
    return tuple(db.execute(_MARK).fetchone())


_MARK: Final = """
SELECT (SELECT COUNT(*) || ' ' || COALESCE(MAX(version), 0) || ' ' || TOTAL(gone) FROM save_file),
    (SELECT COUNT(*) || ' ' || TOTAL(LENGTH(path) + mode + gone) FROM save_place),
    (SELECT TOTAL(offset) FROM save_log), (SELECT COUNT(*) FROM memory_note),
    (SELECT COUNT(*) FROM stop_block), (SELECT COUNT(*) || ' ' || TOTAL(read_to) FROM save_noise),
    (SELECT GROUP_CONCAT(mark) FROM save_plugin)
"""

_BLOCKS: Final = """
SELECT f.session_id, f.path, s.cwd, s.client_version, b.offset, b.uuid, b.at, b.text, b.lines,
    b.chars, n.noise
FROM stop_block b JOIN file f USING (file_id) LEFT JOIN session s USING (file_id)
LEFT JOIN save_noise n ON n.file_id = b.file_id AND n.offset = b.offset
ORDER BY f.mtime_ns, f.session_id, f.path, b.offset
"""

_NOTES: Final = """
SELECT f.session_id, f.path, s.cwd, n.offset, n.at, n.text
FROM memory_note n JOIN file f USING (file_id) LEFT JOIN session s USING (file_id)
ORDER BY n.at, f.path, n.offset
"""

_STOPS: Final = """
SELECT f.session_id, h.offset, h.at, h.hooks, h.blocked, h.duration_ms, h.commands
FROM stop_hook h JOIN file f USING (file_id) WHERE f.session_id = ? ORDER BY f.path, h.offset
"""
