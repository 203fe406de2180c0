"""Keeps the stored configuration current, the user's own and that of all projects."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ....core.measure.effective_config import MANAGED_DROP_INS_FOLDER
from ....core.store.config_records import (
    DEFINITIONS_TABLE,
    ConfigScope,
    DefinitionKind,
    FileMark,
    PluginRecord,
    mark_gone,
    save_plugins,
    save_records,
)
from ....core.store.queries import config_queries as queries
from ....core.store.queries.config_queries import SeenFile, files_seen
from ....core.store.writer import Writer
from .client_settings import SettingsFollower
from .config_files import (
    ConfigPath,
    InvalidJsonError,
    find_child,
    list_children,
    read_changed_files,
    resolve_folder,
)
from .definition_files import (
    MAX_DEFINITIONS,
    PLUGIN_LIST_FILES,
    DefinitionFolder,
    SkillPlugin,
    find_definitions,
    find_skill_plugins,
    read_definition,
    read_plugin_list,
    read_skill_plugin,
)
from .memory_saves_reader import MemoryPluginFollower, SaveFollower, is_memory_plugin
from .save_files import SystemFolders, find_system_folders

if TYPE_CHECKING:
    from ....core.model.problem import ProblemReporter
    from ..discover import ClaudeFolder


class DefinitionFollower:
    """The definitions that the store knows, by folder."""

    def __init__(self, writer: Writer, tell: ProblemReporter) -> None:
        self._writer: Final = writer
        self._problems: Final = tell
        self._known: Final = files_seen(writer.connection, DEFINITIONS_TABLE)

    def follow(self, home: DefinitionFolder, top: ConfigPath | None, root: Path) -> None:
        """Bring the store up to date with one folder, or with that it is not there.

        Raises OSError where it cannot be looked into.
        """
        known = self._known.get(str(home.folder), {})
        if top is None and not known:
            return
        present = self._present(home, top, root)
        changed = read_changed_files(
            present, known, lambda found: read_definition(found, home), self._problems
        )
        gone = known.keys() - present.keys()
        if changed or gone:
            with self._writer.transaction():
                save_records(self._writer, DEFINITIONS_TABLE, changed)
                mark_gone(self._writer, DEFINITIONS_TABLE, gone)
            known = {path: seen for path, seen in known.items() if path not in gone}
            known |= {fact.path: SeenFile(fact.mark, fact.problem) for fact in changed}
            self._known[str(home.folder)] = known

    def forget_below(self, places: Iterable[Path]) -> None:
        """Note that folders are gone with all that they held."""
        for place in places:
            for folder in [str(place / "agents"), str(place / "skills")]:
                mark_gone(self._writer, DEFINITIONS_TABLE, self._known.pop(folder, {}))

    def _present(
        self, home: DefinitionFolder, top: ConfigPath | None, root: Path
    ) -> dict[str, ConfigPath]:
        place = str(home.folder)
        if top is None:
            self._problems.resolve(place)
            return {}
        found = list(islice(find_definitions(home.kind, top, root), MAX_DEFINITIONS + 1))
        too_many = (
            f"holds more than {MAX_DEFINITIONS} definitions"
            if len(found) > MAX_DEFINITIONS
            else None
        )
        self._problems.report_or_resolve(
            place, top.problem or too_many, "the rest of it is left alone"
        )
        return {str(each.path): each for each in found[:MAX_DEFINITIONS]}


SCAN_BUDGET_S: Final = 1.0
TICK_BUDGET_S: Final = 0.02
"""How long one look may take: a hundred projects; the others have their turn in the next."""

SETTINGS_FILE: Final = "settings.json"
LOCAL_SETTINGS_FILE: Final = "settings.local.json"
MANAGED_SETTINGS_FILE: Final = "managed-settings.json"

_DEFINITION_FOLDERS: Final = (("agents", DefinitionKind.AGENT), ("skills", DefinitionKind.SKILL))


class ClientConfigReader:
    """Keeps the store up to date with them; it belongs to the collector's thread.

    Nothing is read, and nothing written, of what did not change. Of a project only what
    stands below its .claude/ is looked at, and no link is followed out of the project.
    """

    def __init__(
        self,
        folder: ClaudeFolder,
        writer: Writer,
        tell: ProblemReporter,
        machine: SystemFolders | None = None,
    ) -> None:
        self._root: Final = folder.root.resolve()
        self._writer: Final = writer
        self._problems: Final = tell
        self._folders: Final = machine or find_system_folders(os.environ, Path.home())
        self._settings: Final = SettingsFollower(writer, tell)
        self._definitions: Final = DefinitionFollower(writer, tell)
        self._saves: Final = SaveFollower(writer, self._folders, tell)
        self._memory_plugins: Final = MemoryPluginFollower(writer)
        self._plugins = queries.plugins(writer.connection)
        self._plugin_lists: dict[str, FileMark] | None = None
        self._refresh_newest: Callable[[], None] | None = None
        self._pending: deque[Callable[[], None]] = deque()

    def refresh(self, budget_s: float) -> None:
        """Look at the user's files and at the newest project, then at the others in turn.

        Stops after about `within_s` seconds, at the latest when all were looked at once.
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
        folders = [
            Path(cwd)
            for cwd in queries.project_folders(self._writer.connection)
            if Path(cwd).is_absolute()
        ]
        projects = [
            partial(self._report_problems_of, self._refresh_project, folder) for folder in folders
        ]
        self._refresh_newest = projects[0] if projects else None
        self._pending.extend(projects)
        self._memory_plugins.keep_only(
            each.install_path for each in self._plugins if is_memory_plugin(each.plugin_id)
        )
        for place, plugin in {each.install_path: each for each in self._plugins}.items():
            look = partial(self._refresh_plugin, plugin)
            self._pending.append(partial(self._report_problems_of, look, Path(place)))

    def _report_problems_of(self, look: Callable[[Path], None], place: Path) -> None:
        """Report a path that cannot be read, and resolve the problem once it can again."""
        try:
            look(place)
        except OSError as error:
            self._problems.report_unreadable(str(place), error)
        else:
            self._problems.resolve(str(place))

    def _refresh_managed(self, place: Path) -> None:
        folder = resolve_folder(place)
        root = folder.real if folder else place
        found = find_child(folder, MANAGED_SETTINGS_FILE, root) if folder else None
        self._settings.follow(place / MANAGED_SETTINGS_FILE, found, ConfigScope.MANAGED, None)
        drop_ins = find_child(folder, MANAGED_DROP_INS_FOLDER, root) if folder else None
        present = (
            {each.path.name: each for each in list_children(drop_ins, root)} if drop_ins else {}
        )
        names = {name for name in present if name.endswith(".json")}
        for name in sorted(names | self._settings.known_names(place / MANAGED_DROP_INS_FOLDER)):
            path = place / MANAGED_DROP_INS_FOLDER / name
            self._settings.follow(path, present.get(name), ConfigScope.MANAGED, None)

    def _refresh_user(self, place: Path) -> None:
        folder = resolve_folder(place)
        if folder is None:
            return
        found = find_child(folder, SETTINGS_FILE, self._root)
        self._settings.follow(place / SETTINGS_FILE, found, ConfigScope.USER, None)
        for name, kind in _DEFINITION_FOLDERS:
            home = DefinitionFolder(place / name, kind, ConfigScope.USER)
            self._definitions.follow(home, find_child(folder, name, self._root), self._root)
        skills = find_child(folder, "skills", self._root)
        placed = find_skill_plugins(skills, self._root) if skills else []
        self._follow_plugins(find_child(folder, "plugins", self._root), placed)
        self._saves.follow_global(folder, self._root)

    def _refresh_project(self, place: Path) -> None:
        project = resolve_folder(place)
        root = project.real if project else place
        claude = find_child(project, ".claude", root) if project else None
        folder = place / ".claude"
        problem = claude.problem if claude else None
        self._problems.report_or_resolve(
            str(folder), problem, "it is left alone: ctxtop follows no such link"
        )
        if problem:
            claude = None
        self._follow_in_project(folder, LOCAL_SETTINGS_FILE, ConfigScope.LOCAL, claude, root)
        if claude is None or claude.real != self._root:
            # A session in the home folder would have the user's own files for its project's.
            self._follow_in_project(folder, SETTINGS_FILE, ConfigScope.PROJECT, claude, root)
            for name, kind in _DEFINITION_FOLDERS:
                home = DefinitionFolder(folder / name, kind, ConfigScope.PROJECT, str(place))
                found = find_child(claude, name, root) if claude else None
                self._definitions.follow(home, found, root)
        self._saves.follow_project(str(place), root, claude)

    def _follow_in_project(
        self, folder: Path, name: str, scope: ConfigScope, claude: ConfigPath | None, root: Path
    ) -> None:
        found = find_child(claude, name, root) if claude else None
        self._settings.follow(folder / name, found, scope, str(folder.parent))

    def _refresh_plugin(self, plugin: PluginRecord, place: Path) -> None:
        plugin_id = plugin.plugin_id
        folder = resolve_folder(place)
        root = folder.real if folder else place
        outside = not root.is_relative_to(self._root)
        what = f"is installed in {place}, outside of {self._root}" if outside else None
        self._problems.report_or_resolve(plugin_id, what, "it is left alone; install it again")
        if outside:
            folder, root = None, place
        for name, kind in _DEFINITION_FOLDERS:
            home = DefinitionFolder(place / name, kind, ConfigScope.PLUGIN, None, plugin_id)
            found = find_child(folder, name, root) if folder else None
            self._definitions.follow(home, found, root)
        if is_memory_plugin(plugin_id):
            self._memory_plugins.follow(plugin_id, plugin.version, place, folder, root)

    def _follow_plugins(self, folder: ConfigPath | None, placed: Iterable[SkillPlugin]) -> None:
        found = (
            (find_child(folder, name, self._root) for name in PLUGIN_LIST_FILES) if folder else ()
        )
        lists = [each for each in found if each]
        marks = {str(each.path): each.mark for each in lists}
        manifests = {str(each.manifest.path): each for each in placed}
        marks |= {place: each.manifest.mark for place, each in manifests.items()}
        if marks == self._plugin_lists:
            return
        problems: dict[str, str] = {}
        installed: dict[tuple[str, str, str], PluginRecord] = {}
        for each in lists:
            try:
                plugins = read_plugin_list(each)
            except InvalidJsonError as error:
                problems[str(each.path)] = str(error)
            else:
                installed |= {(one.plugin_id, one.scope, one.project): one for one in plugins}
        for place, one in manifests.items():
            try:
                plugin = read_skill_plugin(one)
            except InvalidJsonError as error:
                problems[place] = str(error)
            else:
                installed[plugin.plugin_id, plugin.scope, plugin.project] = plugin
        self._plugin_lists = marks
        for place in marks:
            self._problems.report_or_resolve(
                place, problems.get(place), "what it said before holds; run /plugin"
            )
        if not problems:
            self._take_plugins([installed[key] for key in sorted(installed)])

    def _take_plugins(self, plugins: list[PluginRecord]) -> None:
        if plugins == self._plugins:
            return
        left = {each.install_path for each in self._plugins}
        left -= {each.install_path for each in plugins}
        with self._writer.transaction():
            save_plugins(self._writer, plugins)
            self._definitions.forget_below(map(Path, left))
        for each in self._plugins:
            self._problems.resolve(each.plugin_id)
        self._plugins = plugins
        # The new ones have their turn at once.
        self._pending.clear()
