"""Stores what was read of the client's configuration and of claude-memory's saves.

Each function is one transaction.
"""

from collections.abc import Iterable, Sequence
from sqlite3 import Connection
from typing import Final

import msgspec
from msgspec.structs import asdict

from ..model.config_records import (
    FileMark,
    PluginRecord,
    SaveEventRecord,
    SaveFileRecord,
    SaveLogFile,
    SettingsFileRecord,
)
from ..model.transcript_records import TailState
from .inserts import insert_records
from .writer import StaleTailError, Writer

MAX_VERSIONS: Final = 20  # of one file: a day of saves in one project, a few kilobytes


SETTINGS_TABLE: Final = "settings_file"
DEFINITIONS_TABLE: Final = "definition"
SAVE_FILES_TABLE: Final = "save_file"
STAGING_FOLDERS_TABLE: Final = "save_place"
SAVE_LOGS_TABLE: Final = "save_log"
MEMORY_PLUGINS_TABLE: Final = "save_plugin"


def _columns(record: msgspec.Struct) -> dict[str, object]:
    """Return a record as columns: a mark's fields are columns, what else is nested is JSON.

    `config_queries.read_record` is the reverse.
    """
    columns: dict[str, object] = {}
    for name, value in asdict(record).items():
        if isinstance(value, FileMark):
            columns |= asdict(value)
        elif isinstance(value, (tuple, msgspec.Struct)):
            columns[name] = msgspec.json.encode(value).decode()
        else:
            columns[name] = value
    return columns


def _insert(db: Connection, table: str, row: dict[str, object], conflict: str = "") -> None:
    how, places = "" if conflict else "OR REPLACE", ", ".join(f":{name}" for name in row)
    db.execute(f"INSERT {how} INTO {table} ({', '.join(row)}) VALUES ({places}) {conflict}", row)


def save_records(writer: Writer, table: str, records: Iterable[msgspec.Struct]) -> None:
    """Save new or changed records in the table of their type."""
    with writer.transaction():
        for record in records:
            _insert(writer.connection, table, _columns(record))


def save_settings(writer: Writer, settings: SettingsFileRecord) -> None:
    db, row = writer.connection, _columns(settings)
    del row["values"]
    with writer.transaction():
        # The rows of `setting` are deleted with it.
        db.execute("DELETE FROM settings_file WHERE path = ?", [settings.path])
        _insert(db, SETTINGS_TABLE, row)
        db.executemany(
            "INSERT OR REPLACE INTO setting (path, key, value) VALUES (?, ?, ?)",
            [
                (settings.path, key, msgspec.json.encode(value).decode())
                for key, value in settings.values.items()
            ],
        )


def save_plugins(writer: Writer, plugins: Sequence[PluginRecord]) -> None:
    with writer.transaction():
        writer.connection.execute("DELETE FROM plugin")
        insert_records(writer.connection, "plugin", plugins, "OR REPLACE")


def save_files(writer: Writer, files: Iterable[SaveFileRecord]) -> None:
    """Save new versions of files of the save flow, and keep the newest of the earlier ones."""
    db = writer.connection
    with writer.transaction():
        for file in files:
            db.execute("UPDATE save_file SET gone = 1 WHERE path = ?", [file.path])
            sql = """ON CONFLICT (path, size, mtime_ns, inode) DO UPDATE SET
                    gone = 0, project = excluded.project, content = excluded.content,
                        problem = excluded.problem"""
            _insert(db, SAVE_FILES_TABLE, _columns(file), sql)
            db.execute(
                "DELETE FROM save_file WHERE path = ?1 AND gone = 1 AND version NOT IN"
                " (SELECT version FROM save_file WHERE path = ?1 ORDER BY version DESC LIMIT ?2)",
                (file.path, MAX_VERSIONS),
            )


def append_save_log(
    writer: Writer,
    log: SaveLogFile,
    before: TailState,
    after: TailState,
    events: Sequence[SaveEventRecord],
) -> None:
    """Add what was read from `before.offset` to `after.offset`; may raise StaleTailError."""
    db = writer.connection
    with writer.transaction():
        _check_tail(db, log, before)
        tail = asdict(after)
        del tail["ctime_ns"], tail["places"]
        # As text: some network mounts have numbers that SQLite's integer does not hold.
        tail |= {"device": str(after.device), "inode": str(after.inode)}
        update = ", ".join(f"{name} = excluded.{name}" for name in tail)
        conflict = f"ON CONFLICT (path) DO UPDATE SET {update}, gone = 0"
        _insert(db, SAVE_LOGS_TABLE, asdict(log) | tail, conflict)
        insert_records(db, "save_event", events, "OR REPLACE", path=log.path)


def restart_save_log(writer: Writer, log: SaveLogFile, before: TailState) -> None:
    """Delete a log that was rewritten, with its events; it is read again from its start."""
    with writer.transaction():
        _check_tail(writer.connection, log, before)
        writer.connection.execute("DELETE FROM save_log WHERE path = ?", [log.path])


def _check_tail(db: Connection, log: SaveLogFile, before: TailState) -> None:
    row = db.execute("SELECT offset, anchor FROM save_log WHERE path = ?", [log.path]).fetchone()
    if (tuple(row) if row else (0, "")) != (before.offset, before.anchor):
        raise StaleTailError(log.path)


def delete_memory_plugins(writer: Writer, install_paths: Iterable[str]) -> None:
    with writer.transaction():
        sql = "DELETE FROM save_plugin WHERE install_path = ?"
        writer.connection.executemany(sql, [(path,) for path in install_paths])


def mark_gone(writer: Writer, table: str, paths: Iterable[str]) -> None:
    """Record that files of one of the tables above are gone; their rows are kept."""
    with writer.transaction():
        sql = f"UPDATE {table} SET gone = 1 WHERE path = ?"
        writer.connection.executemany(sql, [(path,) for path in paths])
