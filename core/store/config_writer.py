"""Stores the client's configuration and the files of saves; each call is one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from .writer import StaleTailError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    from .config_records import (
        DefinitionRecord,
        FileMark,
        MemoryPluginRecord,
        PluginRecord,
        SaveEventRecord,
        SaveFileRecord,
        SaveLogFile,
        SettingsFileRecord,
        StagingFolderRecord,
    )
    from .transcript_records import TailState
    from .writer import Writer


MAX_VERSIONS: Final = 20
"""Of one file of the save flow: a day of saves in one project, in a few kilobytes."""

MAX_RAW_BYTES: Final = 32 * 1024
"""Of each version that is kept word for word: three times the largest result (R004-02)."""

SETTINGS_TABLE: Final = "settings_file"
DEFINITIONS_TABLE: Final = "definition"
SAVE_FILES_TABLE: Final = "save_file"
STAGING_FOLDERS_TABLE: Final = "save_place"
SAVE_LOGS_TABLE: Final = "save_log"


def save_settings(writer: Writer, fact: SettingsFileRecord) -> None:
    """Replace what one settings file says."""
    db = writer.connection
    with writer.transaction():
        # The rows below it go with it.
        db.execute("DELETE FROM settings_file WHERE path = ?", [fact.path])
        _insert(
            db,
            "settings_file",
            {
                "path": fact.path,
                "folder": fact.folder,
                "scope": fact.scope.value,
                "project": fact.project,
                **_mark_columns(fact.mark),
                "problem": fact.problem,
            },
        )
        for key, value in fact.values.items():
            _insert(db, "setting", {"path": fact.path, "key": key, "value": _json(value)})
        for hook in fact.hooks:
            _insert(db, "hook", {"path": fact.path} | msgspec.structs.asdict(hook))


def save_plugins(writer: Writer, plugins: Iterable[PluginRecord]) -> None:
    """Replace the list of installed plugins."""
    db = writer.connection
    with writer.transaction():
        db.execute("DELETE FROM plugin")
        for plugin in plugins:
            _insert(db, "plugin", msgspec.structs.asdict(plugin))


def save_definitions(writer: Writer, facts: Iterable[DefinitionRecord]) -> None:
    """Keep definitions that are new or changed."""
    db = writer.connection
    with writer.transaction():
        for fact in facts:
            row = msgspec.structs.asdict(fact) | _mark_columns(fact.mark)
            del row["mark"]
            row |= {
                "kind": fact.kind.value,
                "scope": fact.scope.value,
                "skills": _json(fact.skills),
                "tools": None if fact.tools is None else _json(fact.tools),
            }
            _insert(db, "definition", row)


def save_staging_folder(writer: Writer, fact: StagingFolderRecord) -> None:
    """Keep a staging folder that is new or changed."""
    row = msgspec.structs.asdict(fact) | {"generation": fact.generation.value}
    with writer.transaction():
        _insert(writer.connection, "save_place", row)


def save_files(writer: Writer, facts: Iterable[SaveFileRecord]) -> None:
    """Keep new versions of files of the save flow, and the newest of the earlier ones."""
    db = writer.connection
    with writer.transaction():
        for fact in facts:
            content = None if fact.content is None else _json(fact.content)
            db.execute("UPDATE save_file SET gone = 1 WHERE path = ?", [fact.path])
            row = db.execute(
                _VERSION_UPSERT,
                {
                    "path": fact.path,
                    "folder": fact.folder,
                    "kind": fact.kind.value,
                    "generation": fact.generation.value,
                    "project": fact.project,
                    "content": content,
                    "problem": fact.problem,
                    **_mark_columns(fact.mark),
                },
            ).fetchone()
            if fact.raw is not None:
                kept = fact.raw[:MAX_RAW_BYTES]
                _insert(
                    db,
                    "save_raw",
                    {"version": row[0], "raw": kept, "cut": len(kept) < len(fact.raw)},
                )
            db.execute(_DELETE_OLD_VERSIONS, {"path": fact.path, "kept": MAX_VERSIONS})


def append_save_log(
    writer: Writer,
    log: SaveLogFile,
    before: TailState,
    after: TailState,
    events: Iterable[SaveEventRecord],
) -> None:
    """Add the events that were read from `before.offset` to `after.offset`.

    Raises StaleTailError where the store stands elsewhere than `before`.
    """
    db = writer.connection
    with writer.transaction():
        _check_tail(db, log, before)
        db.execute(
            _LOG_UPSERT,
            msgspec.structs.asdict(log) | msgspec.structs.asdict(after) | _inode_columns(after),
        )
        for event in events:
            _insert(db, "save_event", {"path": log.path} | msgspec.structs.asdict(event))


def restart_save_log(writer: Writer, log: SaveLogFile, before: TailState) -> None:
    """Forget the events of a log that was rewritten; it is read again from its start."""
    db = writer.connection
    with writer.transaction():
        _check_tail(db, log, before)
        # Its events go with it.
        db.execute("DELETE FROM save_log WHERE path = ?", [log.path])


def save_memory_plugin(writer: Writer, fact: MemoryPluginRecord) -> None:
    """Keep what the files of an installation of claude-memory mention."""
    with writer.transaction():
        _insert(writer.connection, "save_plugin", msgspec.structs.asdict(fact))


def delete_memory_plugins(writer: Writer, places: Iterable[str]) -> None:
    """Forget installations that are no more."""
    with writer.transaction():
        writer.connection.executemany(
            "DELETE FROM save_plugin WHERE install_path = ?", [(place,) for place in places]
        )


def mark_gone(writer: Writer, table: str, paths: Iterable[str]) -> None:
    """Note that files of one of the tables named above are gone; what they said is kept."""
    with writer.transaction():
        writer.connection.executemany(
            f"UPDATE {table} SET gone = 1 WHERE path = ?", [(path,) for path in paths]
        )


def _check_tail(db: sqlite3.Connection, log: SaveLogFile, before: TailState) -> None:
    row = db.execute("SELECT offset, anchor FROM save_log WHERE path = ?", [log.path]).fetchone()
    if (tuple(row) if row else (0, "")) != (before.offset, before.anchor):
        raise StaleTailError(log.path)


def _insert(db: sqlite3.Connection, table: str, row: dict[str, Any]) -> None:
    names = ", ".join(row)
    places = ", ".join(f":{name}" for name in row)
    db.execute(f"INSERT OR REPLACE INTO {table} ({names}) VALUES ({places})", row)


def _mark_columns(mark: FileMark) -> dict[str, int]:
    return msgspec.structs.asdict(mark)


def _inode_columns(tail: TailState) -> dict[str, str]:
    # As text: some network mounts have numbers that SQLite's integer does not hold.
    return {"device": str(tail.device), "inode": str(tail.inode)}


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


_VERSION_UPSERT: Final = """
INSERT INTO save_file
    (path, folder, kind, generation, project, size, mtime_ns, inode, content, problem)
VALUES (:path, :folder, :kind, :generation, :project, :size, :mtime_ns, :inode, :content, :problem)
ON CONFLICT (path, size, mtime_ns, inode) DO UPDATE SET
    gone = 0, project = excluded.project, content = excluded.content, problem = excluded.problem
RETURNING version
"""

_DELETE_OLD_VERSIONS: Final = """
DELETE FROM save_file WHERE path = :path AND gone = 1 AND version NOT IN
    (SELECT version FROM save_file WHERE path = :path ORDER BY version DESC LIMIT :kept)
"""

_LOG_UPSERT: Final = """
INSERT INTO save_log
    (path, folder, project, category, device, inode, offset, anchor, size, mtime_ns)
VALUES
    (:path, :folder, :project, :category, :device, :inode, :offset, :anchor, :size, :mtime_ns)
ON CONFLICT (path) DO UPDATE SET device = excluded.device, inode = excluded.inode,
    offset = excluded.offset, anchor = excluded.anchor, size = excluded.size,
    mtime_ns = excluded.mtime_ns, gone = 0
"""
