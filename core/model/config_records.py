"""What was read of the client's configuration and of the files of claude-memory's saves.

Times are milliseconds since 1970 (UTC), sizes are bytes. None means that the source has no value. A
record with a problem has only what could still be read.
"""

from enum import StrEnum

import msgspec

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
