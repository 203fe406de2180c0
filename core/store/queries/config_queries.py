"""The client's configuration and claude-memory's saves; deleted files only on request."""

from sqlite3 import Connection
from typing import Any, Final, NamedTuple

import msgspec

from ...model.config_records import (
    DefinitionRecord,
    FileMark,
    HookHandler,
    MemoryPluginRecord,
    PluginRecord,
    SaveEventRecord,
    SaveFileRecord,
    SaveLogFile,
    SettingsFileRecord,
    StagingFolderRecord,
)
from ...model.stored_rows import HookRun
from ...model.transcript_records import MemoryNoteRecord, StopBlockRecord, TailState
from ...store import config_writer as records
from ..writer import GONE_SIZE
from .query_rows import PROJECT_ROOT, RecordT, columns, fetch_records


class SeenFile(NamedTuple):
    mark: FileMark
    problem: str | None


def project_folders(db: Connection) -> list[str]:
    """List the folders that sessions worked in, newest activity first."""
    return _session_folders(db, "s.cwd")


def project_roots(db: Connection) -> list[str]:
    """List the folders that sessions began in, newest activity first; their policies are read."""
    return _session_folders(db, PROJECT_ROOT.format(session="s"))


def _session_folders(db: Connection, folder: str) -> list[str]:
    rows = db.execute(
        f"SELECT {folder} AS folder FROM session s JOIN file f USING (file_id)"
        " WHERE f.kind = 'session' AND folder IS NOT NULL"
        " GROUP BY folder ORDER BY MAX(f.mtime_ns) DESC, folder"
    )
    return [str(row[0]) for row in rows]


def files_seen(db: Connection, table: str) -> dict[str, dict[str, SeenFile]]:
    """Return the files of `settings_file`, `definition` or `save_file`, by folder and path."""
    found: dict[str, dict[str, SeenFile]] = {}
    sql = f"SELECT folder, path, size, mtime_ns, inode, problem FROM {table} WHERE gone = 0"
    for folder, path, *mark, problem in db.execute(sql):
        found.setdefault(folder, {})[path] = SeenFile(FileMark(*mark), problem)
    return found


_JSON_COLUMNS: Final = ("skills", "content", "hooks")


def read_record(kind: type[RecordT], row: dict[str, Any]) -> RecordT:
    """Make a record of its columns, as `config_records` stores them."""
    if "inode" in row:
        row["mark"] = {name: row[name] for name in FileMark.__struct_fields__}
    row |= {name: msgspec.json.decode(row[name]) for name in _JSON_COLUMNS if row.get(name)}
    return msgspec.convert(row, kind, strict=False)


def _read_table(db: Connection, table: str, rest: str) -> list[dict[str, Any]]:
    cursor = db.execute(f"SELECT * FROM {table} {rest}")
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]


def settings_files(db: Connection) -> list[SettingsFileRecord]:
    values: dict[str, dict[str, Any]] = {}
    for path, key, value in db.execute("SELECT path, key, value FROM setting ORDER BY path, key"):
        values.setdefault(path, {})[key] = msgspec.json.decode(value)
    files = _read_records(db, SettingsFileRecord, records.SETTINGS_TABLE)
    return [msgspec.structs.replace(file, values=values.get(file.path, {})) for file in files]


def plugins(db: Connection) -> list[PluginRecord]:
    sql = f"SELECT {columns(PluginRecord)} FROM plugin ORDER BY 1, 2, 3"
    return fetch_records(PluginRecord, db, sql)


def _read_records(
    db: Connection, kind: type[RecordT], table: str, rest: str = "WHERE gone = 0 ORDER BY path"
) -> list[RecordT]:
    return [read_record(kind, row) for row in _read_table(db, table, rest)]


def definitions(db: Connection) -> list[DefinitionRecord]:
    return _read_records(db, DefinitionRecord, records.DEFINITIONS_TABLE)


def definitions_fingerprint(db: Connection) -> tuple[object, ...]:
    """Return a value that changes when a definition of an agent or a skill, or a worktree, does."""
    sql = """SELECT COUNT(*), SUM(gone), MAX(mtime_ns), SUM(mtime_ns % 1000003),
        (SELECT COUNT(*) FROM worktree) FROM definition"""
    return tuple(db.execute(sql).fetchone())


def staging_folders(db: Connection) -> list[StagingFolderRecord]:
    return _read_records(db, StagingFolderRecord, records.STAGING_FOLDERS_TABLE)


def current_save_files(db: Connection) -> list[SaveFileRecord]:
    return _read_records(db, SaveFileRecord, records.SAVE_FILES_TABLE)


def earlier_save_files(db: Connection) -> list[SaveFileRecord]:
    """List versions that are gone or were replaced, oldest first."""
    rest = "WHERE gone = 1 ORDER BY path, version"
    return _read_records(db, SaveFileRecord, records.SAVE_FILES_TABLE, rest)


def memory_plugins(db: Connection) -> list[MemoryPluginRecord]:
    rest = "ORDER BY install_path"
    return _read_records(db, MemoryPluginRecord, records.MEMORY_PLUGINS_TABLE, rest)


def save_log_files(db: Connection) -> dict[str, tuple[SaveLogFile, TailState]]:
    """Return logs of the save flow by path, and how far each was read; a gone one has GONE_SIZE."""
    rows = db.execute(
        "SELECT path, folder, project, category, device, inode, offset, anchor,"
        f" IIF(gone, {GONE_SIZE}, size), mtime_ns FROM save_log"
    )
    return {
        row[0]: (SaveLogFile(*row[:4]), TailState(int(row[4]), int(row[5]), *row[6:]))
        for row in rows
    }


def save_events(db: Connection, project: str) -> list[SaveEventRecord]:
    """List the events of one project's logs, in the order of their times."""
    sql = f"""SELECT {columns(SaveEventRecord)} FROM save_event
        WHERE path IN (SELECT path FROM save_log WHERE project = ?) ORDER BY at, path, offset"""
    return fetch_records(SaveEventRecord, db, sql, [project])


def hook_handlers(db: Connection) -> list[HookHandler]:
    """List the hooks of all settings files and plugins."""
    return [hook for file in settings_files(db) for hook in file.hooks]


def hook_runs(db: Connection, session_id: str | None = None) -> list[HookRun]:
    """List the runs of Stop hooks of one session or of all, oldest first."""
    sql = """SELECT f.session_id, s.cwd, h.at, h.event, h.command, h.duration_ms, h.reason
        FROM hook_run h JOIN file f USING (file_id) LEFT JOIN session s USING (file_id)
        WHERE :session IS NULL OR f.session_id = :session
        ORDER BY h.at, f.path, h.offset, h.number"""
    return fetch_records(HookRun, db, sql, {"session": session_id})


class StopBlockRow(StopBlockRecord, frozen=True):
    session_id: str
    path: str
    cwd: str | None
    client_version: str | None
    noise: str | None  # of `encode_noise`; None if not measured, or not claude-memory's


class MemoryNoteRow(MemoryNoteRecord, frozen=True):
    session_id: str
    path: str
    cwd: str | None


def stop_blocks(db: Connection) -> list[StopBlockRow]:
    """List the blocks of every session, in the order of the lines; copies in forks are left out."""
    found: dict[str, StopBlockRow] = {}
    sql = f"""SELECT {columns(StopBlockRecord, "b.")},
            f.session_id, f.path, s.cwd, s.client_version, n.noise
        FROM stop_block b JOIN file f USING (file_id) LEFT JOIN session s USING (file_id)
        LEFT JOIN save_noise n ON n.file_id = b.file_id AND n.offset = b.offset
        ORDER BY f.mtime_ns, f.session_id, f.path, b.offset"""
    for row in fetch_records(StopBlockRow, db, sql):
        found.setdefault(row.uuid, row)
    return list(found.values())


def memory_notes(db: Connection) -> list[MemoryNoteRow]:
    sql = f"""SELECT {columns(MemoryNoteRecord, "n.")}, f.session_id, f.path, s.cwd
        FROM memory_note n JOIN file f USING (file_id) LEFT JOIN session s USING (file_id)
        ORDER BY n.at, f.path, n.offset"""
    return fetch_records(MemoryNoteRow, db, sql)


def saves_fingerprint(db: Connection) -> tuple[object, ...]:
    """Return a value that changes when anything changes that a save is judged by."""
    sql = """SELECT
        (SELECT COUNT(*) || ' ' || COALESCE(MAX(version), 0) || ' ' || TOTAL(gone) FROM save_file),
        (SELECT COUNT(*) || ' ' || TOTAL(LENGTH(path) + mode + gone) FROM save_place),
        (SELECT TOTAL(offset) FROM save_log), (SELECT COUNT(*) FROM memory_note),
        (SELECT COUNT(*) FROM stop_block), (SELECT COUNT(*) FROM hook_run),
        (SELECT COUNT(*) || ' ' || TOTAL(read_to) FROM save_noise),
        (SELECT GROUP_CONCAT(mark) FROM save_plugin)"""
    return tuple(db.execute(sql).fetchone())
