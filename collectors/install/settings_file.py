"""Settings files: read, edited for our hooks and status line, and replaced atomically."""

import errno
import os
import re
import stat
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from ...core.files import file_operations, json_edit
from ...core.files.safe_open import open_regular
from ..claude_code.config.config_files import as_object
from ..claude_code.config.config_reader import (
    LOCAL_SETTINGS_FILE,
    MAX_SETTINGS_BYTES,
    SETTINGS_FILE,
)
from ..plugin.installed_commands import (
    FEATURE_EVENTS,
    InstalledCommand,
    hook_command,
    parse_command,
)


class NotSafeError(Exception):
    """The settings cannot be changed safely; the message says why and what to do."""


class ChangedError(NotSafeError):
    """Something was written since the plan was made: a new plan may work."""


TEMPORARY_NAME: Final = re.compile(r"\..+\.[0-9a-f]{12}\.ctxtop")  # of a half-written file


@dataclass(frozen=True, slots=True)
class SettingsFile:
    path: Path  # as it was named
    real: Path  # the same without links: this one is written
    data: bytes | None  # None if there is no file
    is_link: bool = False  # a link is part of `path`
    status: os.stat_result | None = None  # owner and mode


def shown_lines(data: bytes | None) -> list[str]:
    """Split a file's content for a difference; only what ends a line in a file does it here."""
    text = (data or b"").decode("utf-8", "replace").replace("\r\n", "\n")
    return text.removesuffix("\n").split("\n") if text else []


def read_settings_file(path: Path, roots: Sequence[Path]) -> SettingsFile:
    """Read a file that may be a link into one of the folders `roots`.

    Some people link their settings to a folder of dotfiles: the link stays, and its target is
    written. Raises NotSafeError if the file is not a regular one, a link out of the roots,
    larger than settings are, or somebody else's; OSError if it cannot be read.
    """
    real = resolve_links(path)
    is_link = path.is_symlink() or _is_below_link(path, roots)
    if is_link and not any(real.is_relative_to(root.resolve()) for root in roots):
        raise NotSafeError(
            f"{path} is a link to {real}, outside your folders: use that file instead"
        )
    try:
        status = real.stat()
    except FileNotFoundError:
        if path.is_symlink():
            raise NotSafeError(f"{path} is a broken link: remove it") from None
        return SettingsFile(path, real, None, is_link)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotSafeError(f"{path} is a circular link: remove it") from error
        raise
    _check_file(path, status)
    with open_regular(real) as file:
        data = file.read(MAX_SETTINGS_BYTES + 1)
    if len(data) > MAX_SETTINGS_BYTES:
        raise NotSafeError(
            f"{path} is larger than {MAX_SETTINGS_BYTES >> 10} KiB: too large for settings"
        )
    return SettingsFile(path, real, data, is_link, status)


def write_settings_file(file: SettingsFile, data: bytes | None) -> None:
    """Write these bytes to the file, or delete it for None; mode and attributes are kept.

    Raises NotSafeError if it was changed since it was read, OSError if it cannot be written;
    then nothing has changed.
    """
    if data is None:
        _check_unchanged(file)
        file.real.unlink()
        return
    file_operations.make_private_folder(file.real.parent)
    temporary = file_operations.write_temporary(file.real, [data], file.status)
    try:
        _check_unchanged(file)
        if file.data is None:
            _link_new(temporary, file.real)
        else:
            temporary.replace(file.real)
        file_operations.sync_folder(file.real.parent)
    finally:
        file_operations.remove_if_present(temporary)


def _link_new(temporary: Path, target: Path) -> None:
    """Move a new file to its name; unlike a rename, this fails if the name is taken."""
    try:
        target.hardlink_to(temporary)
    except FileExistsError:
        raise ChangedError(f"{target} was created meanwhile: run the command again") from None
    except OSError:
        # A file system without hard links.
        temporary.replace(target)


def resolve_links(path: Path) -> Path:
    """Follow a path's links; raises NotSafeError for a loop of links."""
    try:
        return path.resolve()
    except RuntimeError as error:  # before Python 3.13
        raise NotSafeError(f"{path} is a circular link: remove it") from error


def _is_below_link(path: Path, roots: Sequence[Path]) -> bool:
    """Whether a folder between the file and the nearest root is a symlink."""
    for parent in path.parents:
        if parent in roots:
            return False
        if parent.is_symlink():
            return True
    return False


def _check_file(path: Path, status: os.stat_result) -> None:
    problem = ""
    if not stat.S_ISREG(status.st_mode):
        problem = "is not a regular file: remove it"
    elif status.st_uid != os.geteuid():
        problem = "belongs to another user: only they can change it"
    elif not status.st_mode & stat.S_IWUSR:
        problem = "is read-only: run chmod u+w on it first"
    elif status.st_nlink > 1:
        problem = "has a hard link: replace it with a separate file"
    if problem:
        raise NotSafeError(f"{path} {problem}")


def _check_unchanged(file: SettingsFile) -> None:
    try:
        with open_regular(file.real) as now:
            data: bytes | None = now.read(MAX_SETTINGS_BYTES + 1)
    except FileNotFoundError:
        data = None
    if data != file.data:
        raise ChangedError(f"{file.path} was changed meanwhile: run the command again")


class SettingsScope(StrEnum):
    USER = "user"
    PROJECT = "project"
    LOCAL = "local"


@dataclass(frozen=True, slots=True)
class SettingsLocation:
    """A settings file, and the folders that it may be a link into."""

    scope: SettingsScope
    settings: Path
    roots: tuple[Path, ...]


def settings_location(scope: SettingsScope, config_dir: Path, project: Path) -> SettingsLocation:
    """Return the settings file of a scope.

    The user's own may be a link to anywhere in the user's folders, a project's only within
    the project: the project's author could link it to any file.
    """
    if scope is SettingsScope.USER:
        return SettingsLocation(scope, config_dir / SETTINGS_FILE, (config_dir, Path.home()))
    name = SETTINGS_FILE if scope is SettingsScope.PROJECT else LOCAL_SETTINGS_FILE
    return SettingsLocation(scope, project / ".claude" / name, (project,))


def settings_locations(config_dir: Path, project: Path) -> list[SettingsLocation]:
    """Locate the settings of all scopes; in the home folder a project's are the user's own."""
    found: dict[str, SettingsLocation] = {}
    for scope in SettingsScope:
        location = settings_location(scope, config_dir, project.absolute())
        # Unlike Path.resolve it accepts a loop of links, which the plan reports.
        found.setdefault(os.path.realpath(location.settings), location)
    return list(found.values())


RECORDED_EVENTS: Final = (
    "SessionStart",
    "SessionEnd",
    "UserPromptSubmit",
    "Notification",
    "Stop",
    "StopFailure",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
    "PostCompact",
    "PostModelSwitch",
    "TaskCreated",
    "TaskCompleted",
    "TeammateIdle",
)
"""Events that change who runs, how full it is or what it waits for. Tools are not among them:
the transcript has each of their calls, and a hook would run before every one; nor is
WorktreeCreate, as its subscriber has to make the worktree (claude-code-formats 4.1)."""

HOOK_TIMEOUT_S: Final = 10  # the client's own default is ten minutes
EVENTS_WITHOUT_TIMEOUT: Final = frozenset({"SessionEnd"})
"""There the client would apply our timeout to everybody's hooks (claude-code-formats 4.1)."""

HookHandler = dict[str, Any]


@dataclass(frozen=True, slots=True)
class InstallOptions:
    store: Path
    features: tuple[str, ...] = ()  # in the order of FEATURES
    as_plugin: bool = False
    status_line: bool = False


def hook_handlers(options: InstallOptions) -> dict[str, HookHandler]:
    answered = {event for name in options.features for event in FEATURE_EVENTS[name]}
    handlers: dict[str, HookHandler] = {}
    for event in (*RECORDED_EVENTS, *sorted(answered.difference(RECORDED_EVENTS))):
        features = tuple(name for name in options.features if event in FEATURE_EVENTS[name])
        command = hook_command(options.store, event, features)
        handlers[event] = {"type": "command", "command": command}
        if event not in EVENTS_WITHOUT_TIMEOUT:
            handlers[event]["timeout"] = HOOK_TIMEOUT_S
    return handlers


HOOKS_KEY: Final = "hooks"
STATUS_LINE_KEY: Final = "statusLine"
_STATUS_COMMAND_PATH: Final = (STATUS_LINE_KEY, "command")


@dataclass(frozen=True, slots=True)
class HookEntry:
    path: json_edit.JsonPath
    event: str
    command: str
    own_command: InstalledCommand | None  # the command, if it is ours


@dataclass(frozen=True, slots=True)
class HookSettings:
    """The hooks and the status line in a settings file."""

    hooks: tuple[HookEntry, ...]
    status_command: str | None
    own_status_command: InstalledCommand | None  # the same, if it is ours
    is_strict: bool  # False for comments or trailing commas: the client ignores such a file
    value: dict[str, Any]


def parse_hook_settings(text: str) -> HookSettings:
    """Find hooks and status line; raises JsonTextError, or NotSafeError for another form."""
    if not text.removeprefix(json_edit.BOM).strip():
        # The client reads an empty file as one without settings.
        return HookSettings((), None, None, is_strict=True, value={})
    document = json_edit.parse_json_text(text)
    value = document.root.value
    if not isinstance(value, dict):
        raise NotSafeError("is not a JSON object: correct it")
    line = _text(as_object(value.get(STATUS_LINE_KEY)).get("command"))
    return HookSettings(
        hooks=tuple(_hooks(value)),
        status_command=line,
        own_status_command=parse_command(line) if line else None,
        is_strict=document.is_strict,
        value=value,
    )


def with_hooks(text: str, handlers: Mapping[str, HookHandler]) -> str:
    """Make `handlers` (by event) our only hooks; everything else is left unchanged.

    A hook of ours that the user moved or gave another timeout keeps both: only its command is
    updated. Raises NotSafeError if the settings have another form than the client's.
    """
    text = _editable_text(text)
    settings = parse_hook_settings(text)
    _check_form(settings.value, handlers)
    first = {hook.event: hook for hook in reversed(settings.hooks) if hook.own_command}
    kept = {event: hook for event, hook in first.items() if event in handlers}
    for event, hook in kept.items():
        if hook.command != handlers[event]["command"]:
            text = json_edit.replace_value(
                text, (*hook.path, "command"), handlers[event]["command"]
            )
    text = without_hooks(text, {}, kept={hook.path for hook in kept.values()})
    for event, handler in handlers.items():
        path, group = (HOOKS_KEY, event), {"hooks": [handler]}
        if event in kept:
            continue
        if json_edit.find_value(json_edit.parse_json_text(text).root, path) is None:
            text = json_edit.set_value(text, path, [group])
        else:
            text = json_edit.append_item(text, path, group)
    return text


def without_hooks(
    text: str, original: Mapping[str, Any], kept: Container[json_edit.JsonPath] = ()
) -> str:
    """Remove our hooks and the containers left empty, except those that `original` has."""
    # The last one first, so that the paths of the others stay valid.
    for hook in reversed(parse_hook_settings(text).hooks):
        if hook.own_command and hook.path not in kept:
            text = _without_hook(text, hook.path, original)
    return text


def with_status_line(text: str, make_command: Callable[[str | None], str]) -> str:
    """Make the status line ours; an existing one is wrapped and keeps its other fields.

    `make_command` builds our command from the one it wraps, None if there is none. Raises
    NotSafeError if the existing status line is not a command.
    """
    text = _editable_text(text)
    settings = parse_hook_settings(text)
    if STATUS_LINE_KEY not in settings.value:
        line = {"type": "command", "command": make_command(None)}
        return json_edit.set_value(text, (STATUS_LINE_KEY,), line)
    line = as_object(settings.value[STATUS_LINE_KEY])
    if settings.status_command is None or line.get("type", "command") != "command":
        raise NotSafeError(
            "has a status line that is not a command: use --no-statusline to keep it"
        )
    own = settings.own_status_command
    command = make_command(own.wrapped if own else settings.status_command)
    if command == settings.status_command:
        return text
    return json_edit.replace_value(text, _STATUS_COMMAND_PATH, command)


def without_status_line(text: str) -> str:
    """Restore the status line command that ours wraps, or remove ours if it wraps none."""
    line = parse_hook_settings(text).own_status_command
    if line is None:
        return text
    if line.wrapped is None:
        return json_edit.remove_value(text, (STATUS_LINE_KEY,))
    return json_edit.replace_value(text, _STATUS_COMMAND_PATH, line.wrapped)


def _hooks(value: dict[str, Any]) -> list[HookEntry]:
    found = []
    for event, groups in as_object(value.get(HOOKS_KEY)).items():
        for group_number, group in enumerate(_list(groups)):
            for number, handler in enumerate(_list(as_object(group).get(HOOKS_KEY))):
                command = _text(as_object(handler).get("command"))
                if command is not None:
                    path = (HOOKS_KEY, event, group_number, HOOKS_KEY, number)
                    found.append(HookEntry(path, event, command, parse_command(command)))
    return found


def _check_form(value: dict[str, Any], handlers: Mapping[str, HookHandler]) -> None:
    if not isinstance(value.get(HOOKS_KEY, {}), dict):
        raise NotSafeError(f"has {HOOKS_KEY} that are not a JSON object: correct them")
    for event in handlers:
        if not isinstance(as_object(value.get(HOOKS_KEY)).get(event, []), list):
            raise NotSafeError(f"has {HOOKS_KEY}.{event} that is not a list: correct it")


def _without_hook(text: str, path: json_edit.JsonPath, original: Mapping[str, Any]) -> str:
    """Remove a hook, and its group, event and `hooks` if that leaves them empty."""
    value = json_edit.parse_json_text(text).root.value
    event, group = value[HOOKS_KEY][path[1]], value[HOOKS_KEY][path[1]][path[2]]
    if len(group[HOOKS_KEY]) > 1 or set(group) - {"matcher", HOOKS_KEY}:
        return json_edit.remove_value(text, path)
    if len(event) > 1 or _has_path(original, path[:2]):
        return json_edit.remove_value(text, path[:3])
    if len(value[HOOKS_KEY]) > 1 or _has_path(original, path[:1]):
        return json_edit.remove_value(text, path[:2])
    return json_edit.remove_value(text, path[:1])


def _has_path(value: Any, path: json_edit.JsonPath) -> bool:  # noqa: ANN401 -- any JSON
    for step in path:
        if not isinstance(value, dict) or step not in value:
            return False
        value = value[step]
    return True


def _editable_text(text: str) -> str:
    """Return the text, or an empty JSON object if the text is blank; keeps a BOM."""
    if text.removeprefix(json_edit.BOM).strip():
        return text
    return (json_edit.BOM if text.startswith(json_edit.BOM) else "") + "{}\n"


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
