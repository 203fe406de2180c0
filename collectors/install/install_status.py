"""The plugin's files in Claude Code's folder: which hooks are installed where, and what is wrong.

The client loads every plugin in `skills/` of its own folder (seen in 2.1.329): no settings name
it, nothing of it is copied elsewhere, `claude plugin list` shows it, and it is gone with the
folder. A marketplace of a folder does the same through two settings, but the client then keeps
the folder's name for ever.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ctxtop import __version__

from ...core.files.file_operations import write_file_atomically
from ...core.files.json_edit import JsonTextError, decode_utf8
from ...core.files.safe_open import open_regular
from ..claude_code.config.client_settings import MAX_SETTINGS_BYTES
from ..claude_code.config.config_files import (
    InvalidJsonError,
    as_object,
    decode_json,
    read_config_file,
    resolve_folder,
)
from ..claude_code.config.config_reader import MANAGED_SETTINGS_FILE
from ..claude_code.config.definition_files import SKILLS_MARKETPLACE
from ..plugin.compact_requests import request_folder
from ..plugin.installed_commands import (
    InstalledCommand,
    hook_command,
    parse_command,
    statusline_command,
)
from .hook_settings import (
    RECORDED_EVENTS,
    HookHandler,
    HookSettings,
    SettingsLocation,
    SettingsScope,
    parse_hook_settings,
)
from .settings_file import (
    TEMPORARY_NAME,
    NotSafeError,
    read_settings_file,
    resolve_links,
)

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable


PLUGIN_NAME: Final = "ctxtop"
MANIFEST_FILE: Final = ".claude-plugin/plugin.json"
HOOKS_FILE: Final = "hooks/hooks.json"
MODULE_SETTINGS_FILE: Final = "hooks/register.json"
"""What register.js reads: how to run ctxtop, and where it is asked."""

SKILLS_FOLDER: Final = "skills"

READ_ATTEMPTS: Final = 3
"""While other processes install and uninstall: each attempt takes about a millisecond."""

MAX_PLUGIN_FILE_BYTES: Final = 1024 * 1024  # bytes of one of its files


def plugin_folder(config_dir: Path) -> Path:
    """Name the folder in which the client finds the plugin."""
    return config_dir / SKILLS_FOLDER / PLUGIN_NAME


def skills_folder(config_dir: Path) -> Path:
    """Name the folder of skills without links: people keep it among their dotfiles.

    Raises NotSafeError where it leads out of the user's folders.
    """
    folder = config_dir / SKILLS_FOLDER
    real = resolve_links(folder)
    if not any(real.is_relative_to(root.resolve()) for root in (config_dir, Path.home())):
        raise NotSafeError(f"{folder} is a link to {real}, outside of your folders")
    return real


def plugin_files(store: Path, handlers: Mapping[str, HookHandler]) -> dict[str, bytes]:
    """Make the plugin's files, by their names in its folder."""
    made = dict(_shipped_files(files("ctxtop.collectors.plugin") / "shipped", ""))
    manifest = json.loads(made[MANIFEST_FILE]) | {"version": __version__}
    hooks = json.loads(made[HOOKS_FILE])
    hooks["hooks"] = {event: [{"hooks": [handler]}] for event, handler in handlers.items()}
    command = [sys.executable, "-I", "-m", "ctxtop.collectors.plugin.register_command", str(store)]
    module = {"command": command, "folder": request_folder(str(store))}
    texts = {MANIFEST_FILE: manifest, HOOKS_FILE: hooks, MODULE_SETTINGS_FILE: module}
    return made | {name: _json(value) for name, value in texts.items()}


def read_plugin(folder: Path, older: Iterable[str] = ()) -> dict[str, bytes] | None:
    """Read the plugin's files that stand in a folder; None where there is no folder.

    `older` are names of files that an earlier ctxtop had put there.

    Raises NotSafeError where what stands there is not ours, OSError where it cannot be read.
    """
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise NotSafeError(f"{folder} is no folder of ctxtop's: move it away")
    if not folder.exists():
        return None
    # Unlike rglob, walk does not mind when another process removes the folder meanwhile.
    places = (Path(at, name) for at, *names in os.walk(folder) for name in chain(*names))
    if any(place.is_symlink() for place in places):
        raise NotSafeError(f"{folder} holds a link: remove it")
    names = {*_file_names(), *older}
    found, has_manifest = _read_files(folder, names)
    for _ in range(READ_ATTEMPTS):
        if MANIFEST_FILE in found or not has_manifest:
            break
        # Another process has just written the manifest, which comes last.
        found, has_manifest = _read_files(folder, names)
    if not is_own_plugin(found) and (has_manifest or not _holds_only(folder, names)):
        raise NotSafeError(f"{folder} holds another plugin than ctxtop's: move it away")
    return found


def _read_files(folder: Path, names: Iterable[str]) -> tuple[dict[str, bytes], bool]:
    found = {name: data for name in names if (data := _read(folder / name)) is not None}
    return found, (folder / MANIFEST_FILE).exists()


def is_own_plugin(found: Mapping[str, bytes]) -> bool:
    return read_manifest(found).get("name") == PLUGIN_NAME


def _holds_only(folder: Path, names: Container[str]) -> bool:
    """Return whether a folder without a manifest is what a crash left: our files alone.

    The manifest is written last and removed first.
    """
    # The walk knows what is a folder when it lists it: another process may remove it meanwhile.
    return all(
        (Path(place) / name).relative_to(folder).as_posix() in names
        or TEMPORARY_NAME.fullmatch(name)
        for place, _, found in os.walk(folder)
        for name in found
    )


def read_manifest(found: Mapping[str, bytes]) -> dict[str, Any]:
    """Read the plugin's manifest; empty where there is none that can be read."""
    return _object(found.get(MANIFEST_FILE))


def read_hooks_text(found: Mapping[str, bytes]) -> str:
    """Return the text of the plugin's hooks file; it has the form of a settings file."""
    return found.get(HOOKS_FILE, b"{}").decode("utf-8", "replace")


def write_plugin(folder: Path, wanted: Mapping[str, bytes]) -> None:
    """Write the files; the client knows the plugin by its manifest, which comes last."""
    for name in sorted(wanted, key=lambda each: each == MANIFEST_FILE):
        write_file_atomically(folder / name, wanted[name])


def remove_plugin(folder: Path, names: Mapping[str, object]) -> None:
    """Remove these files and the folders that are empty then; what a person added stays."""
    for name in sorted(names, key=lambda each: each != MANIFEST_FILE):
        (folder / name).unlink(missing_ok=True)
    for place in folder.rglob("*"):
        if TEMPORARY_NAME.fullmatch(place.name):
            place.unlink(missing_ok=True)
    for place in sorted(folder.rglob("*"), reverse=True):
        if place.is_dir() and not place.is_symlink():
            _remove_empty(place)
    _remove_empty(folder)


def _remove_empty(folder: Path) -> None:
    if not any(folder.iterdir()):
        folder.rmdir()


def _shipped_files(folder: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    for each in folder.iterdir():
        if each.is_dir():
            yield from _shipped_files(each, f"{prefix}{each.name}/")
        else:
            yield f"{prefix}{each.name}", each.read_bytes()


def _file_names() -> list[str]:
    return [
        *dict(_shipped_files(files("ctxtop.collectors.plugin") / "shipped", "")),
        MODULE_SETTINGS_FILE,
    ]


def _read(path: Path) -> bytes | None:
    try:
        with open_regular(path) as file:
            return file.read(MAX_PLUGIN_FILE_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _object(data: bytes | None) -> dict[str, Any]:
    try:
        value = json.loads(data or b"{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


REINSTALL_HINT: Final = "run `ctxtop hooks install` again"
PLUGIN_ID: Final = f"{PLUGIN_NAME}@{SKILLS_MARKETPLACE}"
"""Under which a person switches the plugin off (seen in 2.1.329)."""


class InstallState(StrEnum):
    CLEAN = "clean"
    ABSENT = "absent"
    FAULTY = "faulty"


@dataclass(frozen=True, slots=True)
class CommandStatus:
    """A command of ours that the client runs."""

    event: str  # empty for the status line
    scope: SettingsScope
    path: Path  # the file that names it
    command: str
    own_command: InstalledCommand
    problem: str | None


@dataclass(frozen=True, slots=True)
class InstallStatus:
    """All that is installed of ctxtop's, and what is wrong with it."""

    hooks: tuple[CommandStatus, ...] = ()
    status_line: CommandStatus | None = None
    plugin: Path | None = None
    version: str | None = None  # of the plugin's files; None where there is no plugin
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
    folder = plugin_folder(config_dir)
    plugin = reader.plugin(folder)
    hooks = [one for place, settings in read for one in reader.hooks(place, settings)]
    if plugin is not None:
        text = read_hooks_text(plugin)
        hooks += reader.plugin_hooks(SettingsScope.USER, folder / HOOKS_FILE, text)
    lines = [one for place, settings in read if (one := reader.status_line(place, settings))]
    problems = [*reader.problems, *(one.problem for one in [*hooks, *lines] if one.problem)]
    if hooks or plugin is not None:
        problems += _event_problems(hooks)
        problems += _disabled_problems(dict(read), managed, has_plugin=plugin is not None)
    version = read_manifest(plugin).get("version") if plugin is not None else None
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
            return read_plugin(folder)
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
