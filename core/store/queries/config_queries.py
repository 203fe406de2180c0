"""The client's configuration and claude-memory's saves; deleted files only on request."""

from __future__ import annotations

import sqlite3
from typing import Any, Final, NamedTuple

import msgspec

from ..config_records import (
    ConfigScope,
    DefinitionKind,
    DefinitionRecord,
    FileMark,
    HookHandlerRecord,
    MemoryPluginRecord,
    PluginRecord,
    SaveEventRecord,
    SaveFileContent,
    SaveFileKind,
    SaveFileRecord,
    SaveLogFile,
    SettingsFileRecord,
    StagingFolderRecord,
    StagingLocation,
)
from ..transcript_records import TailState
from ..writer import GONE_SIZE
from .query_rows import fetch_records


class SeenFile(NamedTuple):
    """How a file stood when it was read, and what was wrong with it."""

    mark: FileMark
    problem: str | None


def project_folders(db: sqlite3.Connection) -> list[str]:
    """Folders that sessions worked in, newest activity first."""
    rows = db.execute(
        "SELECT s.cwd FROM session s JOIN file f USING (file_id)"
        " WHERE f.kind = 'session' AND s.cwd IS NOT NULL"
        " GROUP BY s.cwd ORDER BY MAX(f.mtime_ns) DESC, s.cwd"
    )
    return [str(row[0]) for row in rows]


def project_roots(db: sqlite3.Connection) -> list[str]:
    """Folders that sessions began in, newest activity first: those whose policy is read."""
    rows = db.execute(
        "SELECT COALESCE(s.began_in, s.launched_in) AS root"
        " FROM session s JOIN file f USING (file_id)"
        " WHERE f.kind = 'session' AND root IS NOT NULL"
        " GROUP BY root ORDER BY MAX(f.mtime_ns) DESC, root"
    )
    return [str(row[0]) for row in rows]


def files_seen(db: sqlite3.Connection, table: str) -> dict[str, dict[str, SeenFile]]:
    """Files of `settings_file`, `definition` or `save_file`, by folder and path."""
    found: dict[str, dict[str, SeenFile]] = {}
    rows = db.execute(
        f"SELECT folder, path, size, mtime_ns, inode, problem FROM {table} WHERE gone = 0"
    )
    for row in rows:
        found.setdefault(row[0], {})[row[1]] = SeenFile(FileMark(row[2], row[3], row[4]), row[5])
    return found


def settings_files(db: sqlite3.Connection) -> list[SettingsFileRecord]:
    """Every settings file that is there, in the order of their paths."""
    values: dict[str, dict[str, Any]] = {}
    for path, key, value in db.execute("SELECT path, key, value FROM setting ORDER BY path, key"):
        values.setdefault(path, {})[key] = msgspec.json.decode(value)
    hooks: dict[str, list[HookHandlerRecord]] = {}
    for path, *row in db.execute(_HOOKS):
        row[6] = bool(row[6])
        hooks.setdefault(path, []).append(HookHandlerRecord(*row))
    return [
        SettingsFileRecord(
            path=row[0],
            folder=row[1],
            scope=ConfigScope(row[2]),
            project=row[3],
            mark=FileMark(*row[4:7]),
            values=values.get(row[0], {}),
            hooks=tuple(hooks.get(row[0], ())),
            problem=row[7],
        )
        for row in db.execute(_SETTINGS)
    ]


def plugins(db: sqlite3.Connection) -> list[PluginRecord]:
    """Every installation of a plugin."""
    rows = db.execute(
        "SELECT plugin_id, scope, project, install_path, version FROM plugin ORDER BY 1, 2, 3"
    )
    return [PluginRecord(*row) for row in rows]


def definitions(db: sqlite3.Connection) -> list[DefinitionRecord]:
    """Every definition that is there, in the order of their paths."""
    return [
        DefinitionRecord(
            path=row["path"],
            folder=row["folder"],
            kind=DefinitionKind(row["kind"]),
            scope=ConfigScope(row["scope"]),
            project=row["project"],
            plugin_id=row["plugin_id"],
            mark=FileMark(row["size"], row["mtime_ns"], row["inode"]),
            name=row["name"],
            description=row["description"],
            model=row["model"],
            skills=tuple(msgspec.json.decode(row["skills"])),
            tools=None if row["tools"] is None else tuple(msgspec.json.decode(row["tools"])),
            color=row["color"],
            background=None if row["background"] is None else bool(row["background"]),
            auto_compact_window=row["auto_compact_window"],
            body_bytes=row["body_bytes"],
            body_estimated_tokens=row["body_estimated_tokens"],
            sha256=row["sha256"],
            problem=row["problem"],
        )
        for row in _fetch_dicts(db, "SELECT * FROM definition WHERE gone = 0 ORDER BY path")
    ]


def staging_folders(db: sqlite3.Connection) -> list[StagingFolderRecord]:
    """Every staging folder that is there."""
    rows = db.execute(
        "SELECT path, generation, project, mode, problem FROM save_place"
        " WHERE gone = 0 ORDER BY path"
    )
    return [StagingFolderRecord(row[0], StagingLocation(row[1]), *row[2:]) for row in rows]


def current_save_files(db: sqlite3.Connection) -> list[SaveFileRecord]:
    """Every file of the save flow as it stands."""
    return _save_files(db, "gone = 0")


def earlier_save_files(db: sqlite3.Connection) -> list[SaveFileRecord]:
    """Versions of such files that are gone or replaced, oldest first."""
    return _save_files(db, "gone = 1")


def memory_plugins(db: sqlite3.Connection) -> list[MemoryPluginRecord]:
    """What the files of each installation of claude-memory mention."""
    rows = db.execute(
        "SELECT install_path, plugin_id, version, mark, skill_takes_file, triage_writes_file,"
        " has_orchestrator FROM save_plugin ORDER BY install_path"
    )
    return [
        MemoryPluginRecord(
            install_path=row[0],
            plugin_id=row[1],
            version=row[2],
            mark=row[3],
            skill_takes_file=_optional_bool(row[4]),
            triage_writes_file=_optional_bool(row[5]),
            has_orchestrator=bool(row[6]),
        )
        for row in rows
    ]


def save_log_files(db: sqlite3.Connection) -> dict[str, tuple[SaveLogFile, TailState]]:
    """Logs of the save flow by path, and how far each was read; a gone one has GONE_SIZE."""
    rows = db.execute(
        "SELECT path, folder, project, category, device, inode, offset, anchor,"
        f" IIF(gone, {GONE_SIZE}, size), mtime_ns FROM save_log"
    )
    return {
        row[0]: (SaveLogFile(*row[:4]), TailState(int(row[4]), int(row[5]), *row[6:]))
        for row in rows
    }


def save_events(db: sqlite3.Connection, project: str) -> list[SaveEventRecord]:
    """Events that one project's logs told, in the order of their times."""
    rows = db.execute(_EVENTS, [project])
    return [SaveEventRecord(*row) for row in rows]


def _save_files(db: sqlite3.Connection, where: str) -> list[SaveFileRecord]:
    rows = db.execute(
        "SELECT path, folder, kind, generation, project, size, mtime_ns, inode, content, problem"
        f" FROM save_file WHERE {where} ORDER BY path, version"
    )
    return [
        SaveFileRecord(
            path=row[0],
            folder=row[1],
            kind=SaveFileKind(row[2]),
            generation=StagingLocation(row[3]),
            project=row[4],
            mark=FileMark(*row[5:8]),
            content=None if row[8] is None else msgspec.json.decode(row[8], type=SaveFileContent),
            problem=row[9],
        )
        for row in rows
    ]


def _optional_bool(value: int | None) -> bool | None:
    return None if value is None else bool(value)


def _fetch_dicts(db: sqlite3.Connection, sql: str) -> list[dict[str, Any]]:
    cursor = db.execute(sql)
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]


_SETTINGS: Final = """
SELECT path, folder, scope, project, size, mtime_ns, inode, problem
FROM settings_file WHERE gone = 0 ORDER BY path
"""

_HOOKS: Final = """
SELECT path, position, event, matcher, kind, command, timeout_s, in_background, mark
FROM hook ORDER BY path, position
"""

_EVENTS: Final = """
SELECT e.offset, e.event, e.at, e.level, e.hook, e.script, e.session_id, e.duration_ms,
    e.data, e.error, e.problem
FROM save_event e JOIN save_log l USING (path)
WHERE l.project = ? ORDER BY e.at, e.path, e.offset
"""


class StopBlockRow(msgspec.Struct, frozen=True):
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
    """As `encode_noise` writes it; None where it is not measured yet, or not claude-memory's."""


class MemoryNoteRow(msgspec.Struct, frozen=True):
    """What claude-memory told at a session's prompt."""

    session_id: str
    path: str
    cwd: str | None
    offset: int
    at: int | None
    text: str


class StopHookRow(msgspec.Struct, frozen=True):
    """The Stop hooks of one end of a turn."""

    session_id: str
    offset: int
    at: int | None
    hooks: int
    blocked: int
    duration_ms: int | None
    commands: str


def stop_blocks(db: sqlite3.Connection) -> list[StopBlockRow]:
    """Every block, session by session, in the order of the lines; one that a fork copied once."""
    found: dict[str, StopBlockRow] = {}
    for row in fetch_records(StopBlockRow, db, _STOP_BLOCKS):
        found.setdefault(row.uuid, row)
    return list(found.values())


def memory_notes(db: sqlite3.Connection) -> list[MemoryNoteRow]:
    """Every note, oldest first."""
    return fetch_records(MemoryNoteRow, db, _MEMORY_NOTES)


def stop_hooks(db: sqlite3.Connection, session_id: str) -> list[StopHookRow]:
    """The Stop hooks of a session, in the order of the lines."""
    return fetch_records(StopHookRow, db, _STOP_HOOKS, [session_id])


def saves_fingerprint(db: sqlite3.Connection) -> tuple[object, ...]:
    """Return a value that changes when anything does that a save is judged by."""
    return tuple(db.execute(_FINGERPRINT).fetchone())


_FINGERPRINT: Final = """
SELECT (SELECT COUNT(*) || ' ' || COALESCE(MAX(version), 0) || ' ' || TOTAL(gone) FROM save_file),
    (SELECT COUNT(*) || ' ' || TOTAL(LENGTH(path) + mode + gone) FROM save_place),
    (SELECT TOTAL(offset) FROM save_log), (SELECT COUNT(*) FROM memory_note),
    (SELECT COUNT(*) FROM stop_block), (SELECT COUNT(*) || ' ' || TOTAL(read_to) FROM save_noise),
    (SELECT GROUP_CONCAT(mark) FROM save_plugin)
"""

_STOP_BLOCKS: Final = """
SELECT f.session_id, f.path, s.cwd, s.client_version, b.offset, b.uuid, b.at, b.text, b.lines,
    b.chars, n.noise
FROM stop_block b JOIN file f USING (file_id) LEFT JOIN session s USING (file_id)
LEFT JOIN save_noise n ON n.file_id = b.file_id AND n.offset = b.offset
ORDER BY f.mtime_ns, f.session_id, f.path, b.offset
"""

_MEMORY_NOTES: Final = """
SELECT f.session_id, f.path, s.cwd, n.offset, n.at, n.text
FROM memory_note n JOIN file f USING (file_id) LEFT JOIN session s USING (file_id)
ORDER BY n.at, f.path, n.offset
"""

_STOP_HOOKS: Final = """
SELECT f.session_id, h.offset, h.at, h.hooks, h.blocked, h.duration_ms, h.commands
FROM stop_hook h JOIN file f USING (file_id) WHERE f.session_id = ? ORDER BY f.path, h.offset
"""
