"""What the store knows of the surroundings; what is gone is left out unless it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from .facts import TailState
from .surroundings_facts import (
    DefinitionFact,
    DefinitionKind,
    FileMark,
    Generation,
    HookFact,
    PluginFact,
    SaveContent,
    SaveEventFact,
    SaveFileFact,
    SaveKind,
    SaveLog,
    SavePlaceFact,
    SavePluginFact,
    Scope,
    SettingsFact,
)
from .writer import GONE

if TYPE_CHECKING:
    import sqlite3


class Seen(NamedTuple):
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


def files_seen(db: sqlite3.Connection, table: str) -> dict[str, dict[str, Seen]]:
    """Files of `settings_file`, `definition` or `save_file`, by folder and path."""
    found: dict[str, dict[str, Seen]] = {}
    rows = db.execute(
        f"SELECT folder, path, size, mtime_ns, inode, problem FROM {table} WHERE gone = 0"
    )
    for row in rows:
        found.setdefault(row[0], {})[row[1]] = Seen(FileMark(row[2], row[3], row[4]), row[5])
    return found


def settings_files(db: sqlite3.Connection) -> list[SettingsFact]:
    """Every settings file that is there, in the order of their paths."""
    values: dict[str, dict[str, Any]] = {}
    for path, key, value in db.execute("SELECT path, key, value FROM setting ORDER BY path, key"):
        values.setdefault(path, {})[key] = msgspec.json.decode(value)
    hooks: dict[str, list[HookFact]] = {}
    for path, *row in db.execute(_HOOKS):
        row[6] = bool(row[6])
        hooks.setdefault(path, []).append(HookFact(*row))
    return [
        SettingsFact(
            path=row[0],
            folder=row[1],
            scope=Scope(row[2]),
            project=row[3],
            mark=FileMark(*row[4:7]),
            values=values.get(row[0], {}),
            hooks=tuple(hooks.get(row[0], ())),
            problem=row[7],
        )
        for row in db.execute(_SETTINGS)
    ]


def plugins(db: sqlite3.Connection) -> list[PluginFact]:
    """Every installation of a plugin."""
    rows = db.execute(
        "SELECT plugin_id, scope, project, install_path, version FROM plugin ORDER BY 1, 2, 3"
    )
    return [PluginFact(*row) for row in rows]


def definitions(db: sqlite3.Connection) -> list[DefinitionFact]:
    """Every definition that is there, in the order of their paths."""
    return [
        DefinitionFact(
            path=row["path"],
            folder=row["folder"],
            kind=DefinitionKind(row["kind"]),
            scope=Scope(row["scope"]),
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
        for row in _named(db, "SELECT * FROM definition WHERE gone = 0 ORDER BY path")
    ]


def save_places(db: sqlite3.Connection) -> list[SavePlaceFact]:
    """Every staging folder that is there."""
    rows = db.execute(
        "SELECT path, generation, project, mode, problem FROM save_place"
        " WHERE gone = 0 ORDER BY path"
    )
    return [SavePlaceFact(row[0], Generation(row[1]), *row[2:]) for row in rows]


def save_files(db: sqlite3.Connection) -> list[SaveFileFact]:
    """Every file of the save flow as it stands."""
    return _save_files(db, "gone = 0")


def past_save_files(db: sqlite3.Connection) -> list[SaveFileFact]:
    """Versions of such files that are gone or replaced, oldest first."""
    return _save_files(db, "gone = 1")


def save_raw(db: sqlite3.Connection, path: str) -> list[tuple[FileMark, bytes]]:
    """Each version of a file of the save flow word for word, oldest first; long ones are cut."""
    rows = db.execute(
        "SELECT size, mtime_ns, inode, raw FROM save_file JOIN save_raw USING (version)"
        " WHERE path = ? ORDER BY version",
        [path],
    )
    return [(FileMark(*row[:3]), bytes(row[3])) for row in rows]


def save_plugins(db: sqlite3.Connection) -> list[SavePluginFact]:
    """What the files of each installation of claude-memory mention."""
    rows = db.execute(
        "SELECT install_path, plugin_id, version, mark, skill_takes_file, triage_writes_file,"
        " has_orchestrator FROM save_plugin ORDER BY install_path"
    )
    return [
        SavePluginFact(
            install_path=row[0],
            plugin_id=row[1],
            version=row[2],
            mark=row[3],
            skill_takes_file=_flag(row[4]),
            triage_writes_file=_flag(row[5]),
            has_orchestrator=bool(row[6]),
        )
        for row in rows
    ]


def save_logs(db: sqlite3.Connection) -> dict[str, tuple[SaveLog, TailState]]:
    """Logs of the save flow by path, with how far each was read; what is gone has GONE bytes."""
    rows = db.execute(
        "SELECT path, folder, project, category, device, inode, offset, anchor,"
        f" IIF(gone, {GONE}, size), mtime_ns FROM save_log"
    )
    return {
        row[0]: (SaveLog(*row[:4]), TailState(int(row[4]), int(row[5]), *row[6:])) for row in rows
    }


def save_events(db: sqlite3.Connection, project: str) -> list[SaveEventFact]:
    """Events that one project's logs told, in the order of their times."""
    rows = db.execute(_EVENTS, [project])
    return [SaveEventFact(*row) for row in rows]


def _save_files(db: sqlite3.Connection, where: str) -> list[SaveFileFact]:
    rows = db.execute(
        "SELECT path, folder, kind, generation, project, size, mtime_ns, inode, content, problem"
        f" FROM save_file WHERE {where} ORDER BY path, version"
    )
    return [
        SaveFileFact(
            path=row[0],
            folder=row[1],
            kind=SaveKind(row[2]),
            generation=Generation(row[3]),
            project=row[4],
            mark=FileMark(*row[5:8]),
            content=None if row[8] is None else msgspec.json.decode(row[8], type=SaveContent),
            problem=row[9],
        )
        for row in rows
    ]


def _flag(value: int | None) -> bool | None:
    return None if value is None else bool(value)


def _named(db: sqlite3.Connection, sql: str) -> list[dict[str, Any]]:
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
