"""What was read of the client's configuration and of the files of claude-memory's saves.

Times are milliseconds since 1970 (UTC), sizes are bytes. None means that the source did not say. A
record with a problem holds only what could be read beside it.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

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
    command: str
    """In one line, without what looks like a secret."""
    timeout_s: float | None
    in_background: bool
    mark: str
    """Hash of the whole handler: identical handlers run once."""


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
    project: str
    """Empty where the plugin is installed for every project."""
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
    name: str
    """A plugin's is `plugin:name`."""
    description: str = ""
    model: str | None = None
    skills: tuple[str, ...] = ()
    tools: tuple[str, ...] | None = None
    """None where the agent has all that its parent has."""
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
    project: str | None = None
    """Named by the old global result alone."""
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
    raw: bytes | None = None
    """Word for word, as it was read; the store gives it back when it is asked for."""


class MemoryPluginRecord(msgspec.Struct, frozen=True):
    """What the files of an installed claude-memory mention (004-37); None where one is missing."""

    install_path: str
    plugin_id: str
    version: str | None
    mark: str
    """How to tell that its files did not change."""
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
    data: str | None = None
    """JSON."""
    error: str | None = None
    """JSON."""
    problem: str | None = None
