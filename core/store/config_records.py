"""What was read of the client's configuration and of the files of claude-memory's saves.

Times are milliseconds since 1970 (UTC), sizes are bytes. None means that the source has no value. A
record with a problem has only what could still be read.

Each function that stores them is one transaction.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from sqlite3 import Connection
from typing import Final

import msgspec
from msgspec.structs import asdict

from .inserts import insert_records
from .transcript_records import TailState
from .writer import StaleTailError, Writer

SettingValue = str | int | float | bool


class ConfigScope(StrEnum):
    """Who a file is for; the first one that sets a value wins (claude-code-formats 1.6, 6.2)."""

    MANAGED = "managed"
    LOCAL = "local"
    PROJECT = "project"
    USER = "user"
    PLUGIN = "plugin"


class FileMark(msgspec.Struct, frozen=True):
    """If none of these changed, the file is unchanged since it was read."""

    size: int
    mtime_ns: int
    inode: int


class HookHandler(msgspec.Struct, frozen=True):
    """A hook in a settings file or of a plugin."""

    event: str
    kind: str  # command, http, mcp_tool, prompt or agent
    command: str  # in one line, without what looks like a secret
    timeout_s: float | None = None  # None for the client's default
    status_message: str | None = None  # what its runs are recorded by, instead of the command
    matcher: str | None = None  # which of the event's kinds it is for; None for all


class SettingsFileRecord(msgspec.Struct, frozen=True):
    """A settings file; one with a problem has no values, because the client ignores it."""

    path: str
    folder: str
    scope: ConfigScope
    project: str | None
    mark: FileMark
    values: dict[str, SettingValue] = {}  # by dotted key: `model`, `env.DISABLE_COMPACT`
    hooks: tuple[HookHandler, ...] = ()
    problem: str | None = None


class PluginRecord(msgspec.Struct, frozen=True):
    plugin_id: str  # `name@marketplace`
    scope: str
    project: str  # empty if the plugin is installed for every project
    install_path: str
    version: str | None


class DefinitionKind(StrEnum):
    AGENT = "agent"
    SKILL = "skill"


class DefinitionRecord(msgspec.Struct, frozen=True):
    path: str
    folder: str
    kind: DefinitionKind
    scope: ConfigScope
    project: str | None
    plugin_id: str | None
    mark: FileMark
    name: str  # a plugin's is `plugin:name`
    skills: tuple[str, ...] = ()
    auto_compact_window: int | None = None
    model: str | None = None  # that an agent is defined with
    problem: str | None = None


class StagingLocation(StrEnum):
    """Where the versions of claude-memory put their files (R004-01), oldest first."""

    GLOBAL = "global"
    PROJECT = "project"
    TMP = "tmp"
    TMP_OF_USER = "tmp of user"
    XDG_RUNTIME = "XDG_RUNTIME_DIR"
    RUN_USER = "run user"
    MAC_TEMP = "macOS temp"
    CACHE = "cache"


class StagingFolderRecord(msgspec.Struct, frozen=True):
    """A staging folder; one with a problem is not read (R004-16)."""

    path: str
    generation: StagingLocation
    project: str
    mode: int
    problem: str | None = None


class SaveFileKind(StrEnum):
    RESULT = "result"
    TRIAGE = "triage"
    CONTEXT = "context"
    PENDING = "pending"
    HANDLED = "handled"
    STOP_FLAG = "stop flag"
    LOCK = "lock"
    FIRE_COUNT = "fire count"
    CONFIG = "configuration"


class SaveError(msgspec.Struct, frozen=True):
    category: str
    error: str


class TriageCategory(msgspec.Struct, frozen=True, omit_defaults=True):
    category: str
    score: float | None = None
    description: str | None = None


class SaveFileContent(msgspec.Struct, frozen=True, omit_defaults=True):
    """The content of a file of the save flow, of any version (R004-02, -03, -06)."""

    at: int | None = None
    session_id: str | None = None
    state: str | None = None
    pid: int | None = None
    count: int | None = None
    reason: str | None = None
    project: str | None = None  # named by the old global result alone
    categories: tuple[str, ...] | None = None  # as written; () and `all` are not None
    titles: tuple[str, ...] | None = None
    succeeded: tuple[str, ...] | None = None
    errors: tuple[SaveError, ...] | None = None
    phase_ms: dict[str, float] | None = None
    triage: tuple[TriageCategory, ...] | None = None
    save_mode: str | None = None  # of the plugin's configuration: inline, or deferred (004-68)


class SaveFileRecord(msgspec.Struct, frozen=True):
    """One version of a file of the save flow; of a context file only that it exists."""

    path: str
    folder: str
    kind: SaveFileKind
    generation: StagingLocation
    project: str | None
    mark: FileMark
    content: SaveFileContent | None = None
    problem: str | None = None


class MemoryPluginRecord(msgspec.Struct, frozen=True):
    """What the files of an installed claude-memory mention (004-37); None if one is missing."""

    install_path: str
    plugin_id: str
    version: str | None
    mark: str  # changes when one of its files does
    skill_takes_file: bool | None
    triage_writes_file: bool | None
    has_orchestrator: bool


class SaveLogFile(msgspec.Struct, frozen=True):
    path: str
    folder: str
    project: str
    category: str


class SaveEventRecord(msgspec.Struct, frozen=True):
    """A line of such a log; one with a problem could not be read completely."""

    offset: int
    event: str
    at: int | None = None
    duration_ms: float | None = None
    data: str | None = None  # JSON
    error: str | None = None  # JSON
    problem: str | None = None


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
