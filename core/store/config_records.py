"""What was read of the client's configuration and of the files of claude-memory's saves.

Times are milliseconds since 1970 (UTC), sizes are bytes. None means that the source did not say. A
record with a problem holds only what could be read beside it.

Each function that stores them is one transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Final

import msgspec

from .transcript_records import TailState
from .writer import StaleTailError, Writer

SettingValue = str | int | float | bool


class ConfigScope(StrEnum):
    """Who a file is for; the first that says something wins (claude-code-formats 1.6, 6.2)."""

    MANAGED = "managed"
    LOCAL = "local"
    PROJECT = "project"
    USER = "user"
    PLUGIN = "plugin"


class FileMark(msgspec.Struct, frozen=True):
    """How to tell that a file did not change since it was read."""

    size: int
    mtime_ns: int
    inode: int


class HookHandlerRecord(msgspec.Struct, frozen=True):
    """One handler of a settings file."""

    position: int
    event: str
    matcher: str
    kind: str
    command: str  # in one line, without what looks like a secret
    timeout_s: float | None
    in_background: bool
    mark: str  # hash of the whole handler: identical handlers run once


class SettingsFileRecord(msgspec.Struct, frozen=True):
    """A settings file; one with a problem says nothing, as the client ignores it whole."""

    path: str
    folder: str
    scope: ConfigScope
    project: str | None
    mark: FileMark
    values: dict[str, SettingValue] = {}
    """By dotted key: `model`, `env.DISABLE_COMPACT`, `modelSettings.opus.autoCompactWindow`."""
    hooks: tuple[HookHandlerRecord, ...] = ()
    problem: str | None = None


class PluginRecord(msgspec.Struct, frozen=True):
    """One installation of a plugin, by its id `name@marketplace`."""

    plugin_id: str
    scope: str
    project: str  # empty where the plugin is installed for every project
    install_path: str
    version: str | None


class DefinitionKind(StrEnum):
    """What a definition defines."""

    AGENT = "agent"
    SKILL = "skill"


class DefinitionRecord(msgspec.Struct, frozen=True):
    """The definition of an agent or a skill, named as the client names it."""

    path: str
    folder: str
    kind: DefinitionKind
    scope: ConfigScope
    project: str | None
    plugin_id: str | None
    mark: FileMark
    name: str  # a plugin's is `plugin:name`
    description: str = ""
    model: str | None = None
    skills: tuple[str, ...] = ()
    tools: tuple[str, ...] | None = None  # none where the agent has all that its parent has
    color: str | None = None
    background: bool | None = None
    auto_compact_window: int | None = None
    body_bytes: int | None = None
    body_estimated_tokens: int | None = None
    sha256: str | None = None
    problem: str | None = None


class StagingLocation(StrEnum):
    """Where a version of claude-memory kept its files (R004-01), oldest first."""

    GLOBAL = "global"
    PROJECT = "project"
    TMP = "tmp"
    TMP_OF_USER = "tmp of user"
    XDG_RUNTIME = "XDG_RUNTIME_DIR"
    RUN_USER = "run user"
    MAC_TEMP = "macOS temp"
    CACHE = "cache"


class StagingFolderRecord(msgspec.Struct, frozen=True):
    """A staging folder; one with a problem is not looked into (R004-16)."""

    path: str
    generation: StagingLocation
    project: str
    mode: int
    problem: str | None = None


class SaveFileKind(StrEnum):
    """What a file of the save flow is for."""

    RESULT = "result"
    TRIAGE = "triage"
    CONTEXT = "context"
    PENDING = "pending"
    HANDLED = "handled"
    STOP_FLAG = "stop flag"
    LOCK = "lock"
    FIRE_COUNT = "fire count"


class SaveError(msgspec.Struct, frozen=True):
    """A category that could not be saved."""

    category: str
    error: str


class TriageCategory(msgspec.Struct, frozen=True, omit_defaults=True):
    """A category that the triage wants to be saved (004-36)."""

    category: str
    score: float | None = None
    context_file: str | None = None
    description: str | None = None


class SaveFileContent(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a file of the save flow says, whatever version wrote it (R004-02, -03, -06)."""

    at: int | None = None
    session_id: str | None = None
    state: str | None = None
    pid: int | None = None
    count: int | None = None
    reason: str | None = None
    project: str | None = None  # named by the old global result alone
    categories: tuple[str, ...] | None = None
    """As written: none at all, or `all`, are told apart from None."""
    titles: tuple[str, ...] | None = None
    succeeded: tuple[str, ...] | None = None
    errors: tuple[SaveError, ...] | None = None
    phase_ms: dict[str, float] | None = None
    triage: tuple[TriageCategory, ...] | None = None
    models: dict[str, str] | None = None
    """Of the triage's `parallel_config`, by category; also `default` and `verification`."""
    parallel: bool | None = None


class SaveFileRecord(msgspec.Struct, frozen=True):
    """One version of a file of the save flow; of a context file only that it is there."""

    path: str
    folder: str
    kind: SaveFileKind
    generation: StagingLocation
    project: str | None
    mark: FileMark
    content: SaveFileContent | None = None
    problem: str | None = None


class MemoryPluginRecord(msgspec.Struct, frozen=True):
    """What the files of an installed claude-memory mention (004-37); None where one is missing."""

    install_path: str
    plugin_id: str
    version: str | None
    mark: str  # how to tell that its files did not change
    skill_takes_file: bool | None
    triage_writes_file: bool | None
    has_orchestrator: bool


class SaveLogFile(msgspec.Struct, frozen=True):
    """A day's log of one category of events (R004-10)."""

    path: str
    folder: str
    project: str
    category: str


class SaveEventRecord(msgspec.Struct, frozen=True):
    """A line of such a log; one with a problem could not be read whole."""

    offset: int
    event: str
    at: int | None = None
    level: str | None = None
    hook: str | None = None
    script: str | None = None
    session_id: str | None = None
    duration_ms: float | None = None
    data: str | None = None  # JSON
    error: str | None = None  # JSON
    problem: str | None = None


MAX_VERSIONS: Final = 20
"""Of one file of the save flow: a day of saves in one project, in a few kilobytes."""


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
            db.execute(
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
