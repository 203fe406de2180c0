"""What of ctxtop's is installed where, and whether it can do its work."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ctxtop import __version__

from ..plugin.command_line import hook_command, read_command, statusline_command
from ..surroundings.contained import read_found, top
from ..surroundings.loose import BadJsonError, decode_json, fields
from ..surroundings.settings import LARGEST
from ..surroundings.skill_plugins import MARKET
from ..surroundings.surroundings import MANAGED_SETTINGS
from . import plugin_copy
from .json_text import JsonTextError, decode_text
from .places import SettingsScope
from .refused import NotSafeError
from .settings_file import read_settings_file
from .settings_text import read_settings
from .wanted import RECORDED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..plugin.command_line import Own
    from .places import Place
    from .settings_text import Settings

AGAIN: Final = "run `ctxtop hooks install` again"
PLUGIN_ID: Final = f"{plugin_copy.NAME}@{MARKET}"
"""Under which a person switches the plugin off (seen in 2.1.329)."""


class State(StrEnum):
    """In one word."""

    CLEAN = "clean"
    ABSENT = "absent"
    FAULTY = "faulty"


@dataclass(frozen=True, slots=True)
class Installed:
    """A command of ours that the client runs."""

    event: str
    """Empty for the status line."""
    scope: SettingsScope
    path: Path
    """The file that names it."""
    command: str
    own_command: Own
    problem: str | None


@dataclass(frozen=True, slots=True)
class Status:
    """All that is installed of ctxtop's, and what is wrong with it."""

    hooks: tuple[Installed, ...] = ()
    status_line: Installed | None = None
    plugin: Path | None = None
    version: str | None = None
    """Of the plugin's files; None where there is no plugin."""
    problems: tuple[str, ...] = ()

    @property
    def state(self) -> State:
        """Clean where all is right, absent where nothing is there."""
        if not self.hooks and self.status_line is None and self.plugin is None:
            return State.ABSENT
        return State.FAULTY if self.problems else State.CLEAN


def read_status(locations: Sequence[Place], config_dir: Path, store: Path, managed: Path) -> Status:
    """Look at the settings files and at the plugin; nothing is written.

    `managed` is the administrator's folder. What cannot be read is among the problems.
    """
    reader = _Reader(store)
    read = [(place, settings) for place in locations if (settings := reader.settings(place))]
    folder = plugin_copy.plugin_folder(config_dir)
    plugin = reader.plugin(folder)
    hooks = [one for place, settings in read for one in reader.hooks(place, settings)]
    if plugin is not None:
        text = plugin_copy.hooks_text(plugin)
        hooks += reader.plugin_hooks(SettingsScope.USER, folder / plugin_copy.HOOKS, text)
    lines = [one for place, settings in read if (one := reader.status_line(place, settings))]
    problems = [*reader.problems, *(one.problem for one in [*hooks, *lines] if one.problem)]
    if hooks or plugin is not None:
        problems += _events(hooks)
        problems += _switched_off(dict(read), managed, has_plugin=plugin is not None)
    version = plugin_copy.manifest(plugin).get("version") if plugin is not None else None
    if plugin is not None and version != __version__:
        problems.append(f"the plugin is of ctxtop {version}, this is {__version__}: {AGAIN}")
    return Status(
        hooks=tuple(hooks),
        status_line=lines[-1] if lines else None,
        plugin=folder if plugin is not None else None,
        version=str(version) if version else None,
        problems=tuple(dict.fromkeys(problems)),
    )


class _Reader:
    def __init__(self, store: Path) -> None:
        self._store = store
        self.problems: list[str] = []

    def settings(self, place: Place) -> Settings | None:
        try:
            file = read_settings_file(place.settings, place.roots)
            settings = read_settings(decode_text(file.data or b""))
        except OSError as error:
            self.problems.append(f"{place.settings} cannot be read: {error.strerror or error}")
        except (JsonTextError, NotSafeError) as error:
            self.problems.append(_told(place.settings, error))
        else:
            is_used = settings.own_status_command or any(
                hook.own_command for hook in settings.hooks
            )
            if is_used and not settings.is_strict:
                self.problems.append(
                    f"{place.settings} has comments or trailing commas: Claude Code ignores it"
                )
            return settings
        return None

    def plugin(self, folder: Path) -> Mapping[str, bytes] | None:
        try:
            return plugin_copy.read_plugin(folder)
        except OSError as error:
            self.problems.append(f"{folder} cannot be read: {error.strerror or error}")
        except NotSafeError:
            # Another plugin of that name is its author's.
            return None
        return None

    def hooks(self, place: Place, settings: Settings) -> Iterable[Installed]:
        for hook in settings.hooks:
            if hook.own_command:
                yield self._installed(place.scope, place.settings, hook.event, hook.command)

    def plugin_hooks(self, scope: SettingsScope, path: Path, text: str) -> list[Installed]:
        try:
            found = read_settings(text).hooks
        except (JsonTextError, NotSafeError) as error:
            self.problems.append(_told(path, error))
            return []
        return [
            self._installed(scope, path, one.event, one.command) for one in found if one.own_command
        ]

    def status_line(self, place: Place, settings: Settings) -> Installed | None:
        if settings.status_command is None or settings.own_status_command is None:
            return None
        return self._installed(place.scope, place.settings, "", settings.status_command)

    def _installed(self, scope: SettingsScope, path: Path, event: str, command: str) -> Installed:
        found = read_command(command)
        assert found is not None  # noqa: S101 -- only what is ours comes here
        return Installed(event, scope, path, command, found, self._problem(event, command, found))

    def _problem(self, event: str, command: str, found: Own) -> str | None:
        what = f"hook {event}" if event else "status line"
        if not Path(found.interpreter).exists():
            return f"{what}: there is no {found.interpreter} any more: {AGAIN}"
        if not Path(found.script).exists():
            return f"{what}: there is no {found.script} any more: {AGAIN}"
        if Path(found.store) != self._store:
            return f"{what}: it writes for the store {found.store}, this is {self._store}"
        if event:
            expected = hook_command(self._store, event, found.features)
        else:
            expected = statusline_command(self._store, found.wrapped)
        return None if command == expected else f"{what}: it is of another ctxtop: {AGAIN}"


def _events(hooks: Sequence[Installed]) -> list[str]:
    found = [hook.event for hook in hooks]
    missing = [event for event in RECORDED if event not in found]
    problems = [f"no hook at {', '.join(missing)}: {AGAIN}"] if missing else []
    for event in dict.fromkeys(found):
        if found.count(event) > 1:
            paths = ", ".join(str(hook.path) for hook in hooks if hook.event == event)
            problems.append(f"hook {event} is there {found.count(event)} times: {paths}")
    return problems


def _switched_off(read: Mapping[Place, Settings], managed: Path, *, has_plugin: bool) -> list[str]:
    problems = [
        f"{place.settings} has disableAllHooks: no hook runs"
        for place, settings in read.items()
        if settings.value.get("disableAllHooks") is True
    ]
    for place, settings in read.items():
        if has_plugin and fields(settings.value.get("enabledPlugins")).get(PLUGIN_ID) is False:
            problems.append(f"{place.settings} switches {PLUGIN_ID} off")
    for path in _managed_files(managed):
        values = _values(path)
        problems += [
            f"{path} has {key}: no hook of yours runs"
            for key in ("disableAllHooks", "allowManagedHooksOnly")
            if values.get(key) is True
        ]
    return problems


def _managed_files(managed: Path) -> list[Path]:
    from ...core.settings import DROP_INS

    return [managed / MANAGED_SETTINGS, *sorted((managed / DROP_INS).glob("*.json"))]


def _values(path: Path) -> dict[str, Any]:
    try:
        found = top(path)
        return fields(decode_json(read_found(found, LARGEST))) if found else {}
    except (OSError, BadJsonError):
        # The administrator's files are theirs; `ctxtop doctor` tells of them.
        return {}


def _told(path: Path, error: Exception) -> str:
    return str(error) if str(path) in str(error) else f"{path}: {error}"
