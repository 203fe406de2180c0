"""The plugin's files in Claude Code's folder, what is installed where, and what is wrong with it.

The client loads every plugin in `skills/` of its own folder (seen in 2.1.329): no settings name
it, nothing of it is copied elsewhere, `claude plugin list` shows it, and removing the folder
removes it. A marketplace of a folder does the same through two settings, but the client then keeps
the folder's name forever.
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import as_file, files
from itertools import chain
from pathlib import Path
from typing import Any, Final

from ctxtop import __version__

from ...core.compliance.agent_inventory import is_force_hook
from ...core.files.file_operations import write_file_atomically
from ...core.files.json_edit import JsonTextError, decode_utf8
from ...core.files.safe_open import open_regular
from ...core.measure.effective_config import MANAGED_DROP_INS_FOLDER
from ..claude_code.config.config_files import (
    InvalidJsonError,
    as_object,
    decode_json,
    read_config_file,
    resolve_folder,
)
from ..claude_code.config.config_reader import MANAGED_SETTINGS_FILE, MAX_SETTINGS_BYTES
from ..claude_code.config.definition_files import SKILLS_MARKETPLACE
from ..claude_code.config.save_files import find_system_folders
from ..locations.places import Places
from ..plugin.installed_commands import (
    InstalledCommand,
    hook_command,
    statusline_command,
)
from ..plugin_files.compact_requests import request_folder
from .settings_file import (
    RECORDED_EVENTS,
    TEMPORARY_NAME,
    HookHandler,
    HookSettings,
    NotSafeError,
    SettingsLocation,
    SettingsScope,
    parse_hook_settings,
    read_settings_file,
    resolve_links,
)

PLUGIN_NAME: Final = "ctxtop"
MANIFEST_FILE: Final = ".claude-plugin/plugin.json"
HOOKS_FILE: Final = "hooks/hooks.json"
MODULE_SETTINGS_FILE: Final = "hooks/register.json"  # register.js reads ctxtop's command there
READ_ATTEMPTS: Final = 3  # while other processes install; each takes about a millisecond
MAX_PLUGIN_FILE_BYTES: Final = 1024 * 1024


def plugin_folder(config_dir: Path) -> Path:
    return config_dir / "skills" / PLUGIN_NAME


def skills_folder(config_dir: Path) -> Path:
    """Return the folder of skills without links, as some people keep it among their dotfiles.

    Raises NotSafeError if it leads out of the user's folders.
    """
    folder = config_dir / "skills"
    real = resolve_links(folder)
    if not any(real.is_relative_to(root.resolve()) for root in (config_dir, Path.home())):
        raise NotSafeError(f"{folder} is a link to {real}, outside your folders")
    return real


def plugin_files(store: Path, handlers: Mapping[str, HookHandler]) -> dict[str, bytes]:
    """Return the plugin's files, by their names in its folder."""
    shipped = _shipped_files()
    manifest = json.loads(shipped[MANIFEST_FILE]) | {"version": __version__}
    hooks = json.loads(shipped[HOOKS_FILE])
    hooks["hooks"] = {event: [{"hooks": [handler]}] for event, handler in handlers.items()}
    command = [sys.executable, "-I", "-m", "ctxtop.collectors.plugin.register_command", str(store)]
    module = {"command": command, "folder": request_folder(str(store))}
    made = {MANIFEST_FILE: manifest, HOOKS_FILE: hooks, MODULE_SETTINGS_FILE: module}
    return shipped | {
        name: (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()
        for name, value in made.items()
    }


def _shipped_files() -> dict[str, bytes]:
    with as_file(files("ctxtop.collectors.plugin") / "shipped") as folder:
        paths = [path for path in folder.rglob("*") if path.is_file()]
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def read_plugin(folder: Path, older: Iterable[str] = ()) -> dict[str, bytes] | None:
    """Read the plugin's files in a folder; None if the folder does not exist.

    `older` are names of files that an earlier ctxtop had put there.

    Raises NotSafeError if the folder is not ours, OSError if it cannot be read.
    """
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise NotSafeError(f"{folder} was not created by ctxtop: move it away")
    if not folder.exists():
        return None
    # Unlike rglob, walk accepts that another process removes the folder meanwhile.
    paths = (Path(at, name) for at, *names in os.walk(folder) for name in chain(*names))
    if any(path.is_symlink() for path in paths):
        raise NotSafeError(f"{folder} contains a link: remove it")
    names = {*_shipped_files(), MODULE_SETTINGS_FILE, *older}
    found: dict[str, bytes] = {}
    has_manifest = False
    for _ in range(1 + READ_ATTEMPTS):
        found = {name: data for name in names if (data := _read(folder / name)) is not None}
        has_manifest = (folder / MANIFEST_FILE).exists()
        if MANIFEST_FILE in found or not has_manifest:
            break
        # Another process has just written the manifest, which comes last.
    is_own = read_manifest(found).get("name") == PLUGIN_NAME
    if not is_own and (has_manifest or not _holds_only(folder, names)):
        raise NotSafeError(f"{folder} contains another plugin: move it away")
    return found


def _holds_only(folder: Path, names: Container[str]) -> bool:
    """Whether a folder without a manifest is what a crash left: nothing but our files.

    The manifest is written last and removed first.
    """
    # The walk knows what is a folder when it lists it: another process may remove it meanwhile.
    return all(
        (Path(at) / name).relative_to(folder).as_posix() in names or TEMPORARY_NAME.fullmatch(name)
        for at, _, file_names in os.walk(folder)
        for name in file_names
    )


def _read(path: Path) -> bytes | None:
    try:
        with open_regular(path) as file:
            return file.read(MAX_PLUGIN_FILE_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None


def read_manifest(plugin: Mapping[str, bytes]) -> dict[str, Any]:
    """Decode the plugin's manifest; empty if there is none that can be decoded."""
    try:
        return as_object(json.loads(plugin.get(MANIFEST_FILE, b"{}")))
    except (ValueError, RecursionError):
        return {}


def write_plugin(folder: Path, plugin: Mapping[str, bytes]) -> None:
    """Write the files; the client recognizes the plugin by its manifest, which comes last."""
    for name in sorted(plugin, key=lambda name: name == MANIFEST_FILE):
        write_file_atomically(folder / name, plugin[name])


def remove_plugin(folder: Path, names: Iterable[str]) -> None:
    """Remove these files and the folders that are empty then; other files stay."""
    for name in sorted(names, key=lambda name: name != MANIFEST_FILE):
        (folder / name).unlink(missing_ok=True)
    for path in folder.rglob("*"):
        if TEMPORARY_NAME.fullmatch(path.name):
            path.unlink(missing_ok=True)
    for path in (*sorted(folder.rglob("*"), reverse=True), folder):
        if path.is_dir() and not path.is_symlink() and not any(path.iterdir()):
            path.rmdir()


REINSTALL_HINT: Final = "run `ctxtop hooks install` again"
PLUGIN_ID: Final = f"{PLUGIN_NAME}@{SKILLS_MARKETPLACE}"  # by which it is disabled


class InstallState(StrEnum):
    CLEAN = "clean"
    ABSENT = "absent"
    FAULTY = "faulty"


@dataclass(frozen=True, slots=True)
class CommandStatus:
    """A command of ours that the client runs."""

    event: str  # empty for the status line
    scope: SettingsScope
    path: Path  # of the file that contains it
    command: str
    own_command: InstalledCommand
    problem: str | None


@dataclass(frozen=True, slots=True)
class InstallStatus:
    hooks: tuple[CommandStatus, ...] = ()
    status_line: CommandStatus | None = None
    plugin: Path | None = None
    version: str | None = None  # of the plugin's files
    problems: tuple[str, ...] = ()

    @property
    def state(self) -> InstallState:
        if not self.hooks and self.status_line is None and self.plugin is None:
            return InstallState.ABSENT
        return InstallState.FAULTY if self.problems else InstallState.CLEAN


def read_install_status(
    locations: Sequence[SettingsLocation], config_dir: Path, store: Path, managed: Path
) -> InstallStatus:
    """Read the settings files and the plugin.

    `managed` is the administrator's folder. Files that cannot be read are among the problems.
    """
    reader = _StatusReader(store)
    read = {at: settings for at in locations if (settings := reader.read_settings(at)) is not None}
    folder = plugin_folder(config_dir)
    plugin = reader.read_plugin(folder)
    hooks: list[CommandStatus] = []
    lines: list[CommandStatus] = []
    for location, settings in read.items():
        hooks += reader.hooks(location.scope, location.settings, settings)
        if settings.status_command and (own := settings.own_status_command):
            command = settings.status_command
            lines.append(reader.check(location.scope, location.settings, "", command, own))
    if plugin is not None:
        hooks += reader.plugin_hooks(folder / HOOKS_FILE, plugin.get(HOOKS_FILE, b"{}"))
    problems = [*reader.problems, *(one.problem for one in [*hooks, *lines] if one.problem)]
    if hooks or plugin is not None:
        problems += _event_problems(hooks)
        problems += _enforcing_problems(hooks, read)
        problems += _disabled_problems(read, managed, has_plugin=plugin is not None)
    version = read_manifest(plugin).get("version") if plugin is not None else None
    if plugin is not None and version != __version__:
        problems.append(
            f"the plugin is from ctxtop {version}, but this is {__version__}: {REINSTALL_HINT}"
        )
    return InstallStatus(
        hooks=tuple(hooks),
        status_line=lines[-1] if lines else None,
        plugin=folder if plugin is not None else None,
        version=str(version) if version else None,
        problems=tuple(dict.fromkeys(problems)),
    )


def read_status(locations: Sequence[SettingsLocation], places: Places) -> InstallStatus:
    """Read the status, with the managed settings of this machine."""
    managed = find_system_folders(os.environ, Path.home()).managed_folder
    return read_install_status(locations, places.config_dir, places.store, managed)


class _StatusReader:
    def __init__(self, store: Path) -> None:
        self._store = store
        self.problems: list[str] = []

    def read_settings(self, location: SettingsLocation) -> HookSettings | None:
        path = location.settings
        try:
            file = read_settings_file(path, location.roots)
            settings = parse_hook_settings(decode_utf8(file.data or b""))
        except (OSError, JsonTextError, NotSafeError) as error:
            self._add_error(path, error)
            return None
        is_used = settings.own_status_command or any(hook.own_command for hook in settings.hooks)
        if is_used and not settings.is_strict:
            self.problems.append(f"{path} has comments or trailing commas: Claude Code ignores it")
        return settings

    def read_plugin(self, folder: Path) -> Mapping[str, bytes] | None:
        try:
            return read_plugin(folder)
        except OSError as error:
            self._add_error(folder, error)
        except NotSafeError:
            # Another plugin of that name is its author's.
            pass
        return None

    def _add_error(self, path: Path, error: Exception) -> None:
        if isinstance(error, OSError):
            self.problems.append(f"{path} cannot be read: {error.strerror or error}")
        else:
            self.problems.append(str(error) if str(path) in str(error) else f"{path}: {error}")

    def plugin_hooks(self, path: Path, data: bytes) -> list[CommandStatus]:
        try:
            settings = parse_hook_settings(data.decode("utf-8", "replace"))
        except (JsonTextError, NotSafeError) as error:
            self._add_error(path, error)
            return []
        return self.hooks(SettingsScope.USER, path, settings)

    def hooks(
        self, scope: SettingsScope, path: Path, settings: HookSettings
    ) -> list[CommandStatus]:
        return [
            self.check(scope, path, hook.event, hook.command, hook.own_command)
            for hook in settings.hooks
            if hook.own_command
        ]

    def check(
        self, scope: SettingsScope, path: Path, event: str, command: str, own: InstalledCommand
    ) -> CommandStatus:
        problem = self._problem(event, command, own)
        if problem:
            problem = f"hook {event}: {problem}" if event else f"status line: {problem}"
        return CommandStatus(event, scope, path, command, own, problem)

    def _problem(self, event: str, command: str, own: InstalledCommand) -> str | None:
        for file in (own.interpreter, own.script):
            if not Path(file).exists():
                return f"{file} no longer exists: {REINSTALL_HINT}"
        if Path(own.store) != self._store:
            return f"it writes to the store {own.store}, but this ctxtop uses {self._store}"
        if event:
            expected = hook_command(self._store, event, own.features)
        else:
            expected = statusline_command(self._store, own.wrapped)
        return None if command == expected else f"it belongs to another ctxtop: {REINSTALL_HINT}"


def _event_problems(hooks: Sequence[CommandStatus]) -> list[str]:
    events = [hook.event for hook in hooks]
    missing = [event for event in RECORDED_EVENTS if event not in events]
    problems = [f"no hook for {', '.join(missing)}: {REINSTALL_HINT}"] if missing else []
    for event, count in Counter(events).items():
        if count > 1:
            paths = ", ".join(str(hook.path) for hook in hooks if hook.event == event)
            problems.append(f"hook {event} is installed {count} times: {paths}")
    return problems


def _enforcing_problems(
    hooks: Sequence[CommandStatus], read: Mapping[SettingsLocation, HookSettings]
) -> list[str]:
    """Report another hook that blocks agents beside ours: each of them blocks an agent once."""
    own = [hook.path for hook in hooks if is_force_hook(hook.event, hook.command)]
    foreign = [
        at.settings
        for at, settings in read.items()
        for hook in settings.hooks
        if hook.own_command is None and is_force_hook(hook.event, hook.command)
    ]
    if not (own and foreign):
        return []
    places = f"one in {foreign[0]}, and ctxtop's `enforce` in {own[0]}"
    return [f"two hooks block agents whose results are not compressed: {places}; remove one"]


def _disabled_problems(
    read: Mapping[SettingsLocation, HookSettings], managed: Path, *, has_plugin: bool
) -> list[str]:
    values = {location.settings: settings.value for location, settings in read.items()}
    problems = [
        f"{path} has disableAllHooks: no hook runs"
        for path, value in values.items()
        if value.get("disableAllHooks") is True
    ]
    problems += [
        f"{path} turns {PLUGIN_ID} off"
        for path, value in values.items()
        if has_plugin and as_object(value.get("enabledPlugins")).get(PLUGIN_ID) is False
    ]
    drop_ins = sorted((managed / MANAGED_DROP_INS_FOLDER).glob("*.json"))
    for path in (managed / MANAGED_SETTINGS_FILE, *drop_ins):
        value = _managed_value(path)
        problems += [
            f"{path} has {key}: none of your hooks run"
            for key in ("disableAllHooks", "allowManagedHooksOnly")
            if value.get(key) is True
        ]
    return problems


def _managed_value(path: Path) -> dict[str, Any]:
    try:
        found = resolve_folder(path)
        return as_object(decode_json(read_config_file(found, MAX_SETTINGS_BYTES))) if found else {}
    except (OSError, InvalidJsonError):
        # `ctxtop doctor` reports these: the administrator's files are not ours.
        return {}
