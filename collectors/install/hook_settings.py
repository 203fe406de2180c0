"""Which hooks and status line ctxtop needs in which settings file, and editing them in and out."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from ...core.files.json_edit import (
    BOM,
    JsonPath,
    append_item,
    find_value,
    parse_json_text,
    remove_value,
    replace_value,
    set_value,
)
from ..claude_code.config.config_files import as_object
from ..claude_code.config.config_reader import LOCAL_SETTINGS_FILE, SETTINGS_FILE
from ..plugin.installed_commands import (
    FEATURE_EVENTS,
    InstalledCommand,
    hook_command,
    parse_command,
)
from .settings_file import NotSafeError


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
    """Return the handler of each event that is to have one."""
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
    """A command that the settings run at an event."""

    path: JsonPath
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
    if not text.removeprefix(BOM).strip():
        # The client reads an empty file as one without settings.
        return HookSettings((), None, None, is_strict=True, value={})
    document = parse_json_text(text)
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
            text = replace_value(text, (*hook.path, "command"), handlers[event]["command"])
    text = without_hooks(text, {}, kept={hook.path for hook in kept.values()})
    for event, handler in handlers.items():
        path, group = (HOOKS_KEY, event), {"hooks": [handler]}
        if event in kept:
            continue
        if find_value(parse_json_text(text).root, path) is None:
            text = set_value(text, path, [group])
        else:
            text = append_item(text, path, group)
    return text


def without_hooks(text: str, original: Mapping[str, Any], kept: Container[JsonPath] = ()) -> str:
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
        return set_value(text, (STATUS_LINE_KEY,), line)
    line = as_object(settings.value[STATUS_LINE_KEY])
    if settings.status_command is None or line.get("type", "command") != "command":
        raise NotSafeError("has a status line that is no command: leave it with --no-statusline")
    own = settings.own_status_command
    command = make_command(own.wrapped if own else settings.status_command)
    if command == settings.status_command:
        return text
    return replace_value(text, _STATUS_COMMAND_PATH, command)


def without_status_line(text: str) -> str:
    """Restore the status line command that ours wraps, or remove ours if it wraps none."""
    line = parse_hook_settings(text).own_status_command
    if line is None:
        return text
    if line.wrapped is None:
        return remove_value(text, (STATUS_LINE_KEY,))
    return replace_value(text, _STATUS_COMMAND_PATH, line.wrapped)


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
        raise NotSafeError(f"has {HOOKS_KEY} that are no JSON object: correct them")
    for event in handlers:
        if not isinstance(as_object(value.get(HOOKS_KEY)).get(event, []), list):
            raise NotSafeError(f"has {HOOKS_KEY}.{event} that is no list: correct it")


def _without_hook(text: str, path: JsonPath, original: Mapping[str, Any]) -> str:
    """Remove a hook, and its group, event and `hooks` if that leaves them empty."""
    value = parse_json_text(text).root.value
    event, group = value[HOOKS_KEY][path[1]], value[HOOKS_KEY][path[1]][path[2]]
    if len(group[HOOKS_KEY]) > 1 or set(group) - {"matcher", HOOKS_KEY}:
        return remove_value(text, path)
    if len(event) > 1 or _has_path(original, path[:2]):
        return remove_value(text, path[:3])
    if len(value[HOOKS_KEY]) > 1 or _has_path(original, path[:1]):
        return remove_value(text, path[:2])
    return remove_value(text, path[:1])


def _has_path(value: Any, path: JsonPath) -> bool:  # noqa: ANN401 -- any JSON
    for step in path:
        if not isinstance(value, dict) or step not in value:
            return False
        value = value[step]
    return True


def _editable_text(text: str) -> str:
    """Return the text, or an empty JSON object if the text is blank; keeps a BOM."""
    if text.removeprefix(BOM).strip():
        return text
    return (BOM if text.startswith(BOM) else "") + "{}\n"


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
