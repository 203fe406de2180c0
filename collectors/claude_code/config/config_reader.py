"""Keeps the stored configuration current: settings without secrets, definitions, plugins."""

import os
import time
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

from ....core.measure.effective_config import MANAGED_DROP_INS_FOLDER
from ....core.model.config_records import (
    ConfigScope,
    DefinitionKind,
    DefinitionRecord,
    FileMark,
    PluginRecord,
    SettingsFileRecord,
    SettingValue,
)
from ....core.model.problem import ProblemReporter
from ....core.store.bulkhead import NOT_READ, bulkhead
from ....core.store.config_writer import (
    DEFINITIONS_TABLE,
    SETTINGS_TABLE,
    save_plugins,
    save_records,
    save_settings,
)
from ....core.store.queries import config_queries as queries
from ....core.store.writer import Writer
from ...locations.discover import ClaudeFolder
from .config_files import (
    MAX_JSON_ITEMS,
    ConfigPath,
    FileFollower,
    InvalidJsonError,
    add_content,
    as_int,
    as_object,
    as_title,
    decode_object,
    find_child,
    list_children,
    read_problem,
    resolve_folder,
)
from .definition_files import (
    MAX_DEFINITIONS,
    PLUGIN_LIST_FILES,
    DefinitionFolder,
    find_definitions,
    find_skill_plugins,
    read_definition,
    read_plugin_list,
    read_skill_plugin,
)
from .hook_settings import handler_command, mask_secrets, read_hooks
from .memory_saves_reader import MemoryPluginFollower, SaveFollower, is_memory_plugin
from .save_files import SystemFolders, find_system_folders
from .worktree_owner import WorktreeFollower

MAX_SETTINGS_BYTES: Final = 1024 * 1024  # bytes; long lists of permissions make about 50,000


def read_settings(found: ConfigPath, scope: ConfigScope, project: str | None) -> SettingsFileRecord:
    record = SettingsFileRecord(
        path=str(found.path),
        folder=str(found.path.parent),
        scope=scope,
        project=project,
        mark=found.mark,
        problem=read_problem(found),
    )
    return add_content(record, found, MAX_SETTINGS_BYTES, _read_fields)


def read_plugin_hooks(found: ConfigPath) -> SettingsFileRecord:
    """Read the hooks of a plugin; no settings are taken from there."""
    record = SettingsFileRecord(
        path=str(found.path),
        folder=str(found.path.parent),
        scope=ConfigScope.PLUGIN,
        project=None,
        mark=found.mark,
        problem=read_problem(found),
    )
    return add_content(
        record, found, MAX_SETTINGS_BYTES, lambda data: {"hooks": read_hooks(decode_object(data))}
    )


def _read_fields(data: bytes) -> dict[str, Any]:
    # The client treats an empty file as one without settings.
    settings = decode_object(data) if data.strip() else {}
    return {"values": _setting_values(settings), "hooks": read_hooks(settings)}


_SETTINGS: Final = (
    "model autoCompactEnabled autoCompactWindow precomputeCompactionEnabled idleCompaction "
    "disableAllHooks allowManagedHooksOnly cleanupPeriodDays outputStyle"
)
_VARIABLES: Final = (
    "ANTHROPIC_DEFAULT_HAIKU_MODEL ANTHROPIC_DEFAULT_OPUS_MODEL "
    "ANTHROPIC_DEFAULT_SONNET_MODEL ANTHROPIC_MODEL ANTHROPIC_SMALL_FAST_MODEL "
    "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE CLAUDE_CODE_AUTO_COMPACT_WINDOW "
    "CLAUDE_CODE_BLOCKING_LIMIT_OVERRIDE CLAUDE_CODE_DISABLE_1M_CONTEXT "
    "CLAUDE_CODE_DISABLE_PRECOMPACT_SKIP CLAUDE_CODE_IDLE_COMPACT_MIN_TOKENS "
    "CLAUDE_CODE_MAX_CONTEXT_TOKENS "
    "CLAUDE_CODE_MAX_OUTPUT_TOKENS CLAUDE_CODE_SESSIONEND_HOOKS_TIMEOUT_MS "
    "CLAUDE_CODE_SKIP_PROMPT_HISTORY CLAUDE_CODE_SUBAGENT_MODEL DISABLE_AUTO_COMPACT "
    "DISABLE_COMPACT"
)
"""Switches of the context (claude-code-formats 3.5, 4.1); any other variable may be a secret."""


def _setting_values(settings: dict[str, Any]) -> dict[str, SettingValue]:
    env, line = as_object(settings.get("env")), as_object(settings.get("statusLine"))
    values: dict[str, object] = {key: settings.get(key) for key in _SETTINGS.split()}
    values |= {f"env.{name}": env.get(name) for name in _VARIABLES.split()}
    values |= {"statusLine.type": line.get("type"), "statusLine.command": handler_command(line)}
    for model, chosen in list(as_object(settings.get("modelSettings")).items())[:MAX_JSON_ITEMS]:
        window = as_object(chosen).get("autoCompactWindow")
        values[f"modelSettings.{as_title(model)}.autoCompactWindow"] = window
    for plugin, enabled in list(as_object(settings.get("enabledPlugins")).items())[:MAX_JSON_ITEMS]:
        values[f"enabledPlugins.{as_title(plugin)}"] = enabled
    return {key: kept for key, value in values.items() if (kept := _to_scalar(value)) is not None}


def _to_scalar(value: object) -> SettingValue | None:
    if isinstance(value, str):
        return as_title(mask_secrets(value))
    return value if isinstance(value, (bool, float)) else as_int(value)


SCAN_BUDGET_S: Final = 1.0
TICK_BUDGET_S: Final = 0.02  # enough for a hundred projects; the next refresh continues
SETTINGS_FILE: Final = "settings.json"
PLUGIN_HOOKS_FILE: Final = "hooks.json"  # in a plugin's folder hooks/
LOCAL_SETTINGS_FILE: Final = "settings.local.json"
MANAGED_SETTINGS_FILE: Final = "managed-settings.json"

_DEFINITION_FOLDERS: Final = (("agents", DefinitionKind.AGENT), ("skills", DefinitionKind.SKILL))


class ClientConfigReader:
    """Keeps the stored configuration current; used by the collector's thread alone.

    Files that did not change are neither read nor stored again. In a project only its .claude/ is
    read, and no link is followed out of the project.
    """

    def __init__(
        self,
        folder: ClaudeFolder,
        writer: Writer,
        problems: ProblemReporter,
        machine: SystemFolders | None = None,
    ) -> None:
        self._root: Final = folder.root.resolve()
        self._writer: Final = writer
        self._problems: Final = problems
        self._folders: Final = machine or find_system_folders(os.environ, Path.home())
        self._settings: Final = FileFollower(
            writer,
            problems,
            SETTINGS_TABLE,
            _save_all_settings,
            "correct it: Claude Code ignores the whole file until then",
        )
        self._definitions: Final = FileFollower(
            writer, problems, DEFINITIONS_TABLE, _save_definitions
        )
        self._saves: Final = SaveFollower(writer, self._folders, problems)
        self._memory_plugins: Final = MemoryPluginFollower(writer)
        self._worktrees: Final = WorktreeFollower(writer)
        self._plugins = queries.plugins(writer.connection)
        self._plugin_marks: dict[str, FileMark] | None = None
        self._refresh_newest: Callable[[], None] | None = None
        self._pending: deque[Callable[[], None]] = deque()

    def refresh(self, budget_s: float) -> None:
        """Refresh the user's files and the newest project, then the other projects in turn.

        Stops after about `budget_s` seconds, or once every project was refreshed.
        """
        deadline = time.monotonic() + budget_s
        self._report_problems_of(self._refresh_managed, self._folders.managed_folder)
        self._report_problems_of(self._refresh_user, self._root)
        if not self._pending:
            self._begin_round()
        elif self._refresh_newest:
            self._refresh_newest()
        while self._pending:
            self._pending.popleft()()
            if time.monotonic() >= deadline:
                return

    def _begin_round(self) -> None:
        folders = map(Path, queries.project_folders(self._writer.connection))
        projects = [
            partial(self._report_problems_of, self._refresh_project, folder)
            for folder in folders
            if folder.is_absolute()
        ]
        self._refresh_newest = projects[0] if projects else None
        self._pending.extend(projects)
        self._memory_plugins.keep_only(
            plugin.install_path for plugin in self._plugins if is_memory_plugin(plugin.plugin_id)
        )
        for place, plugin in {each.install_path: each for each in self._plugins}.items():
            refresh = partial(self._refresh_plugin, plugin)
            self._pending.append(partial(self._report_problems_of, refresh, Path(place)))

    def _report_problems_of(self, refresh: Callable[[Path], None], place: Path) -> None:
        """Report a path that cannot be read, and resolve the problem once it can again."""
        report = self._problems.report
        with bulkhead(str(place), NOT_READ, self._writer.path, report):
            try:
                refresh(place)
            except OSError as error:
                self._problems.report_unreadable(str(place), error)
            else:
                self._problems.resolve(str(place))

    def _refresh_managed(self, place: Path) -> None:
        folder = resolve_folder(place)
        root = folder.real if folder else place
        self._follow_settings(place, MANAGED_SETTINGS_FILE, ConfigScope.MANAGED, folder, root)
        drop_ins = list_children(find_child(folder, MANAGED_DROP_INS_FOLDER, root), root)
        self._settings.follow_folder(
            place / MANAGED_DROP_INS_FOLDER,
            [found for found in drop_ins if found.path.name.endswith(".json")],
            partial(read_settings, scope=ConfigScope.MANAGED, project=None),
        )

    def _refresh_user(self, place: Path) -> None:
        folder = resolve_folder(place)
        if folder is None:
            return
        self._follow_settings(place, SETTINGS_FILE, ConfigScope.USER, folder, self._root)
        self._follow_definitions(place, ConfigScope.USER, folder, self._root)
        manifests = find_skill_plugins(find_child(folder, "skills", self._root), self._root)
        self._follow_plugins(find_child(folder, "plugins", self._root), manifests)
        self._saves.follow_global(folder, self._root)

    def _refresh_project(self, place: Path) -> None:
        project = resolve_folder(place)
        if project is not None:
            self._worktrees.follow(project.path)
        root = project.real if project else place
        claude = find_child(project, ".claude", root)
        folder = place / ".claude"
        problem = claude.problem if claude else None
        self._problems.report_or_resolve(
            str(folder), problem, "it is skipped: ctxtop does not follow such links"
        )
        if problem:
            claude = None
        cwd = str(place)
        self._follow_settings(folder, LOCAL_SETTINGS_FILE, ConfigScope.LOCAL, claude, root, cwd)
        if claude is None or claude.real != self._root:
            # Else a session in the home folder would take the user's own files for its project's.
            self._follow_settings(folder, SETTINGS_FILE, ConfigScope.PROJECT, claude, root, cwd)
            self._follow_definitions(folder, ConfigScope.PROJECT, claude, root, cwd)
        self._saves.follow_project(cwd, root, claude)

    def _refresh_plugin(self, plugin: PluginRecord, place: Path) -> None:
        plugin_id = plugin.plugin_id
        folder = resolve_folder(place)
        root = folder.real if folder else place
        outside = not root.is_relative_to(self._root)
        what = f"is installed in {place}, outside {self._root}" if outside else None
        self._problems.report_or_resolve(plugin_id, what, "it is skipped; install it again")
        if outside:
            folder, root = None, place
        self._follow_definitions(place, ConfigScope.PLUGIN, folder, root, plugin_id=plugin_id)
        hooks = find_child(find_child(folder, "hooks", root), PLUGIN_HOOKS_FILE, root)
        self._settings.follow_file(place / "hooks" / PLUGIN_HOOKS_FILE, hooks, read_plugin_hooks)
        if is_memory_plugin(plugin_id):
            self._memory_plugins.follow(plugin_id, plugin.version, place, folder, root)

    def _follow_settings(
        self,
        place: Path,
        name: str,
        scope: ConfigScope,
        folder: ConfigPath | None,
        root: Path,
        project: str | None = None,
    ) -> None:
        read = partial(read_settings, scope=scope, project=project)
        self._settings.follow_file(place / name, find_child(folder, name, root), read)

    def _follow_definitions(
        self,
        place: Path,
        scope: ConfigScope,
        parent: ConfigPath | None,
        root: Path,
        project: str | None = None,
        plugin_id: str | None = None,
    ) -> None:
        for name, kind in _DEFINITION_FOLDERS:
            home = DefinitionFolder(place / name, kind, scope, project, plugin_id)
            top = find_child(parent, name, root)
            found = find_definitions(kind, top, root) if top else ()
            definitions = list(islice(found, MAX_DEFINITIONS + 1))
            problem = top.problem if top else None
            if len(definitions) > MAX_DEFINITIONS:
                problem = problem or f"contains more than {MAX_DEFINITIONS} definitions"
            self._problems.report_or_resolve(str(home.folder), problem, "the others are skipped")
            self._definitions.follow_folder(
                home.folder, definitions[:MAX_DEFINITIONS], partial(read_definition, home=home)
            )

    def _follow_plugins(self, folder: ConfigPath | None, manifests: Iterable[ConfigPath]) -> None:
        lists = (find_child(folder, name, self._root) for name in PLUGIN_LIST_FILES if folder)
        sources: list[tuple[ConfigPath, Callable[[ConfigPath], list[PluginRecord]]]]
        sources = [(found, read_plugin_list) for found in lists if found]
        sources += [(found, read_skill_plugin) for found in manifests]
        marks = {str(found.path): found.mark for found, _ in sources}
        if marks == self._plugin_marks:
            return
        problems: dict[str, str] = {}
        installed: dict[tuple[str, str, str], PluginRecord] = {}
        for found, read in sources:
            try:
                plugins = read(found)
            except InvalidJsonError as error:
                problems[str(found.path)] = str(error)
            else:
                installed |= {(each.plugin_id, each.scope, each.project): each for each in plugins}
        self._plugin_marks = marks
        for place in marks:
            self._problems.report_or_resolve(
                place, problems.get(place), "its last valid content applies; run /plugin"
            )
        if not problems:
            self._replace_plugins([installed[key] for key in sorted(installed)])

    def _replace_plugins(self, plugins: list[PluginRecord]) -> None:
        if plugins == self._plugins:
            return
        removed = {plugin.install_path for plugin in self._plugins}
        removed -= {plugin.install_path for plugin in plugins}
        with self._writer.transaction():
            save_plugins(self._writer, plugins)
            for place in removed:
                self._settings.forget(Path(place, "hooks"))
                for name, _ in _DEFINITION_FOLDERS:
                    self._definitions.forget(Path(place, name))
        for plugin in self._plugins:
            self._problems.resolve(plugin.plugin_id)
        self._plugins = plugins
        # The next refresh begins with the new ones.
        self._pending.clear()


def _save_definitions(writer: Writer, definitions: list[DefinitionRecord]) -> None:
    save_records(writer, DEFINITIONS_TABLE, definitions)


def _save_all_settings(writer: Writer, files: list[SettingsFileRecord]) -> None:
    for record in files:
        save_settings(writer, record)
