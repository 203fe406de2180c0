"""Which of ctxtop's hooks are installed where, and what is wrong with them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ctxtop import __version__

from ...core.files.json_edit import JsonTextError, decode_utf8
from ..claude_code.config.client_settings import MAX_SETTINGS_BYTES
from ..claude_code.config.config_files import read_config_file, resolve_folder
from ..claude_code.config.config_reader import MANAGED_SETTINGS_FILE
from ..claude_code.config.definition_files import SKILLS_MARKETPLACE
from ..claude_code.config.lenient_json import InvalidJsonError, as_object, decode_json
from ..plugin.installed_commands import hook_command, parse_command, statusline_command
from . import installed_plugin
from .hook_settings import RECORDED_EVENTS, SettingsScope, parse_hook_settings
from .settings_file import NotSafeError, read_settings_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..plugin.installed_commands import InstalledCommand
    from .hook_settings import HookSettings, SettingsLocation


REINSTALL_HINT: Final = "run `ctxtop hooks install` again"
PLUGIN_ID: Final = f"{installed_plugin.PLUGIN_NAME}@{SKILLS_MARKETPLACE}"
"""Under which a person switches the plugin off (seen in 2.1.329)."""


class InstallState(StrEnum):
    """In one word."""

    CLEAN = "clean"
    ABSENT = "absent"
    FAULTY = "faulty"


@dataclass(frozen=True, slots=True)
class CommandStatus:
    """A command of ours that the client runs."""

    event: str
    """Empty for the status line."""
    scope: SettingsScope
    path: Path
    """The file that names it."""
    command: str
    own_command: InstalledCommand
    problem: str | None


@dataclass(frozen=True, slots=True)
class InstallStatus:
    """All that is installed of ctxtop's, and what is wrong with it."""

    hooks: tuple[CommandStatus, ...] = ()
    status_line: CommandStatus | None = None
    plugin: Path | None = None
    version: str | None = None
    """Of the plugin's files; None where there is no plugin."""
    problems: tuple[str, ...] = ()

    @property
    def state(self) -> InstallState:
        """Clean where all is right, absent where nothing is there."""
        if not self.hooks and self.status_line is None and self.plugin is None:
            return InstallState.ABSENT
        return InstallState.FAULTY if self.problems else InstallState.CLEAN


def read_install_status(
    locations: Sequence[SettingsLocation], config_dir: Path, store: Path, managed: Path
) -> InstallStatus:
    """Look at the settings files and at the plugin; nothing is written.

    `managed` is the administrator's folder. What cannot be read is among the problems.
    """
    reader = _StatusReader(store)
    read = [(place, settings) for place in locations if (settings := reader.settings(place))]
    folder = installed_plugin.plugin_folder(config_dir)
    plugin = reader.plugin(folder)
    hooks = [one for place, settings in read for one in reader.hooks(place, settings)]
    if plugin is not None:
        text = installed_plugin.read_hooks_text(plugin)
        hooks += reader.plugin_hooks(SettingsScope.USER, folder / installed_plugin.HOOKS_FILE, text)
    lines = [one for place, settings in read if (one := reader.status_line(place, settings))]
    problems = [*reader.problems, *(one.problem for one in [*hooks, *lines] if one.problem)]
    if hooks or plugin is not None:
        problems += _event_problems(hooks)
        problems += _disabled_problems(dict(read), managed, has_plugin=plugin is not None)
    version = installed_plugin.read_manifest(plugin).get("version") if plugin is not None else None
    if plugin is not None and version != __version__:
        problems.append(
            f"the plugin is of ctxtop {version}, this is {__version__}: {REINSTALL_HINT}"
        )
    return InstallStatus(
        hooks=tuple(hooks),
        status_line=lines[-1] if lines else None,
        plugin=folder if plugin is not None else None,
        version=str(version) if version else None,
        problems=tuple(dict.fromkeys(problems)),
    )


class _StatusReader:
    def __init__(self, store: Path) -> None:
        self._store = store
        self.problems: list[str] = []

    def settings(self, place: SettingsLocation) -> HookSettings | None:
        try:
            file = read_settings_file(place.settings, place.roots)
            settings = parse_hook_settings(decode_utf8(file.data or b""))
        except OSError as error:
            self.problems.append(f"{place.settings} cannot be read: {error.strerror or error}")
        except (JsonTextError, NotSafeError) as error:
            self.problems.append(_error_line(place.settings, error))
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
            return installed_plugin.read_plugin(folder)
        except OSError as error:
            self.problems.append(f"{folder} cannot be read: {error.strerror or error}")
        except NotSafeError:
            # Another plugin of that name is its author's.
            return None
        return None

    def hooks(self, place: SettingsLocation, settings: HookSettings) -> Iterable[CommandStatus]:
        for hook in settings.hooks:
            if hook.own_command:
                yield self._installed(place.scope, place.settings, hook.event, hook.command)

    def plugin_hooks(self, scope: SettingsScope, path: Path, text: str) -> list[CommandStatus]:
        try:
            found = parse_hook_settings(text).hooks
        except (JsonTextError, NotSafeError) as error:
            self.problems.append(_error_line(path, error))
            return []
        return [
            self._installed(scope, path, one.event, one.command) for one in found if one.own_command
        ]

    def status_line(self, place: SettingsLocation, settings: HookSettings) -> CommandStatus | None:
        if settings.status_command is None or settings.own_status_command is None:
            return None
        return self._installed(place.scope, place.settings, "", settings.status_command)

    def _installed(
        self, scope: SettingsScope, path: Path, event: str, command: str
    ) -> CommandStatus:
        found = parse_command(command)
        assert found is not None  # noqa: S101 -- only what is ours comes here
        return CommandStatus(
            event, scope, path, command, found, self._problem(event, command, found)
        )

    def _problem(self, event: str, command: str, found: InstalledCommand) -> str | None:
        what = f"hook {event}" if event else "status line"
        if not Path(found.interpreter).exists():
            return f"{what}: there is no {found.interpreter} any more: {REINSTALL_HINT}"
        if not Path(found.script).exists():
            return f"{what}: there is no {found.script} any more: {REINSTALL_HINT}"
        if Path(found.store) != self._store:
            return f"{what}: it writes for the store {found.store}, this is {self._store}"
        if event:
            expected = hook_command(self._store, event, found.features)
        else:
            expected = statusline_command(self._store, found.wrapped)
        return None if command == expected else f"{what}: it is of another ctxtop: {REINSTALL_HINT}"


def _event_problems(hooks: Sequence[CommandStatus]) -> list[str]:
    found = [hook.event for hook in hooks]
    missing = [event for event in RECORDED_EVENTS if event not in found]
    problems = [f"no hook at {', '.join(missing)}: {REINSTALL_HINT}"] if missing else []
    for event in dict.fromkeys(found):
        if found.count(event) > 1:
            paths = ", ".join(str(hook.path) for hook in hooks if hook.event == event)
            problems.append(f"hook {event} is there {found.count(event)} times: {paths}")
    return problems


def _disabled_problems(
    read: Mapping[SettingsLocation, HookSettings], managed: Path, *, has_plugin: bool
) -> list[str]:
    problems = [
        f"{place.settings} has disableAllHooks: no hook runs"
        for place, settings in read.items()
        if settings.value.get("disableAllHooks") is True
    ]
    for place, settings in read.items():
        if has_plugin and as_object(settings.value.get("enabledPlugins")).get(PLUGIN_ID) is False:
            problems.append(f"{place.settings} switches {PLUGIN_ID} off")
    for path in _managed_files(managed):
        values = _managed_values(path)
        problems += [
            f"{path} has {key}: no hook of yours runs"
            for key in ("disableAllHooks", "allowManagedHooksOnly")
            if values.get(key) is True
        ]
    return problems


def _managed_files(managed: Path) -> list[Path]:
    from ...core.measure.effective_config import MANAGED_DROP_INS_FOLDER

    return [
        managed / MANAGED_SETTINGS_FILE,
        *sorted((managed / MANAGED_DROP_INS_FOLDER).glob("*.json")),
    ]


def _managed_values(path: Path) -> dict[str, Any]:
    try:
        found = resolve_folder(path)
        return as_object(decode_json(read_config_file(found, MAX_SETTINGS_BYTES))) if found else {}
    except (OSError, InvalidJsonError):
        # The administrator's files are theirs; `ctxtop doctor` tells of them.
        return {}


def _error_line(path: Path, error: Exception) -> str:
    return str(error) if str(path) in str(error) else f"{path}: {error}"
