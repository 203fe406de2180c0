"""Following what the client is set up with: settings, definitions, plugins, the save flow."""

from __future__ import annotations

import os
import time
from collections import deque
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...core.settings import DROP_INS
from ...core.store import surroundings_queries as queries
from ...core.store.surroundings_facts import DefinitionKind, Scope
from ...core.store.surroundings_writer import save_plugins
from .contained import child, children, top
from .definitions import Home
from .follow_definitions import FollowedDefinitions
from .follow_saves import FollowedSaves
from .follow_settings import FollowedSettings
from .loose import BadJsonError
from .machine import this_machine
from .memory_plugin import FollowedMemoryPlugins, is_memory_plugin
from .plugins import INSTALLED, read_plugins
from .skill_plugins import find_skill_plugins, read_skill_plugin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ...core.store.surroundings_facts import FileMark, PluginFact
    from ...core.store.writer import Writer
    from ..folder import ClaudeFolder
    from .contained import Found
    from .machine import Machine
    from .skill_plugins import SkillPlugin
    from .tell import Tell

SCAN_S: Final = 1.0
TICK_S: Final = 0.02
"""How long one look may take: a hundred projects; the others have their turn in the next."""

SETTINGS: Final = "settings.json"
LOCAL_SETTINGS: Final = "settings.local.json"
MANAGED_SETTINGS: Final = "managed-settings.json"

_DEFINITIONS: Final = (("agents", DefinitionKind.AGENT), ("skills", DefinitionKind.SKILL))


class Surroundings:
    """Keeps the store up to date with them; it belongs to the collector's thread.

    Nothing is read, and nothing written, of what did not change. Of a project only what
    stands below its .claude/ is looked at, and no link is followed out of the project.
    """

    def __init__(
        self, folder: ClaudeFolder, writer: Writer, tell: Tell, machine: Machine | None = None
    ) -> None:
        self._root: Final = folder.root.resolve()
        self._writer: Final = writer
        self._problems: Final = tell
        self._folders: Final = machine or this_machine(os.environ, Path.home())
        self._settings: Final = FollowedSettings(writer, tell)
        self._definitions: Final = FollowedDefinitions(writer, tell)
        self._saves: Final = FollowedSaves(writer, self._folders, tell)
        self._memory_plugins: Final = FollowedMemoryPlugins(writer)
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
        """Tell of what cannot be looked at, and of its end when it can again."""
        try:
            look(place)
        except OSError as error:
            self._problems.report_unreadable(str(place), error)
        else:
            self._problems.resolve(str(place))

    def _refresh_managed(self, place: Path) -> None:
        folder = top(place)
        root = folder.real if folder else place
        found = child(folder, MANAGED_SETTINGS, root) if folder else None
        self._settings.follow(place / MANAGED_SETTINGS, found, Scope.MANAGED, None)
        drop_ins = child(folder, DROP_INS, root) if folder else None
        present = {each.path.name: each for each in children(drop_ins, root)} if drop_ins else {}
        names = {name for name in present if name.endswith(".json")}
        for name in sorted(names | self._settings.known_names(place / DROP_INS)):
            path = place / DROP_INS / name
            self._settings.follow(path, present.get(name), Scope.MANAGED, None)

    def _refresh_user(self, place: Path) -> None:
        folder = top(place)
        if folder is None:
            return
        found = child(folder, SETTINGS, self._root)
        self._settings.follow(place / SETTINGS, found, Scope.USER, None)
        for name, kind in _DEFINITIONS:
            home = Home(place / name, kind, Scope.USER)
            self._definitions.follow(home, child(folder, name, self._root), self._root)
        skills = child(folder, "skills", self._root)
        placed = find_skill_plugins(skills, self._root) if skills else []
        self._follow_plugins(child(folder, "plugins", self._root), placed)
        self._saves.follow_global(folder, self._root)

    def _refresh_project(self, place: Path) -> None:
        project = top(place)
        root = project.real if project else place
        claude = child(project, ".claude", root) if project else None
        folder = place / ".claude"
        problem = claude.problem if claude else None
        self._problems.report_or_resolve(
            str(folder), problem, "it is left alone: ctxtop follows no such link"
        )
        if problem:
            claude = None
        self._follow_in_project(folder, LOCAL_SETTINGS, Scope.LOCAL, claude, root)
        if claude is None or claude.real != self._root:
            # A session in the home folder would have the user's own files for its project's.
            self._follow_in_project(folder, SETTINGS, Scope.PROJECT, claude, root)
            for name, kind in _DEFINITIONS:
                home = Home(folder / name, kind, Scope.PROJECT, str(place))
                found = child(claude, name, root) if claude else None
                self._definitions.follow(home, found, root)
        self._saves.follow_project(str(place), root, claude)

    def _follow_in_project(
        self, folder: Path, name: str, scope: Scope, claude: Found | None, root: Path
    ) -> None:
        found = child(claude, name, root) if claude else None
        self._settings.follow(folder / name, found, scope, str(folder.parent))

    def _refresh_plugin(self, plugin: PluginFact, place: Path) -> None:
        plugin_id = plugin.plugin_id
        folder = top(place)
        root = folder.real if folder else place
        outside = not root.is_relative_to(self._root)
        what = f"is installed in {place}, outside of {self._root}" if outside else None
        self._problems.report_or_resolve(plugin_id, what, "it is left alone; install it again")
        if outside:
            folder, root = None, place
        for name, kind in _DEFINITIONS:
            home = Home(place / name, kind, Scope.PLUGIN, None, plugin_id)
            found = child(folder, name, root) if folder else None
            self._definitions.follow(home, found, root)
        if is_memory_plugin(plugin_id):
            self._memory_plugins.follow(plugin_id, plugin.version, place, folder, root)

    def _follow_plugins(self, folder: Found | None, placed: Iterable[SkillPlugin]) -> None:
        found = (child(folder, name, self._root) for name in INSTALLED) if folder else ()
        lists = [each for each in found if each]
        marks = {str(each.path): each.mark for each in lists}
        manifests = {str(each.manifest.path): each for each in placed}
        marks |= {place: each.manifest.mark for place, each in manifests.items()}
        if marks == self._plugin_lists:
            return
        problems: dict[str, str] = {}
        installed: dict[tuple[str, str, str], PluginFact] = {}
        for each in lists:
            try:
                plugins = read_plugins(each)
            except BadJsonError as error:
                problems[str(each.path)] = str(error)
            else:
                installed |= {(one.plugin_id, one.scope, one.project): one for one in plugins}
        for place, one in manifests.items():
            try:
                plugin = read_skill_plugin(one)
            except BadJsonError as error:
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

    def _take_plugins(self, plugins: list[PluginFact]) -> None:
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
