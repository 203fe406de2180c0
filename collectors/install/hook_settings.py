"""Which hooks and status line ctxtop needs in which settings file, and editing them in and out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
    """A settings file, and the folders in which it may stand when it is a link."""

    scope: SettingsScope
    settings: Path
    roots: tuple[Path, ...]


def settings_location(scope: SettingsScope, config_dir: Path, project: Path) -> SettingsLocation:
    """Name the settings file of a scope.

    The user's own may be a link to anywhere in the user's folders, a project's only within
    the project: whoever wrote the project could let it lead to any file.
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
WorktreeCreate, as who subscribes to it has to make the worktree (claude-code-formats 4.1)."""

HOOK_TIMEOUT_S: Final = 10
"""How long the client waits for a hook of ours; its own default is ten minutes."""

EVENTS_WITHOUT_TIMEOUT: Final = frozenset({"SessionEnd"})
"""The client would wait as long for everybody's hooks there (claude-code-formats 4.1)."""

HookHandler = dict[str, Any]


@dataclass(frozen=True, slots=True)
class InstallOptions:
    store: Path
    features: tuple[str, ...] = ()  # in the order of FEATURES
    as_plugin: bool = False
    status_line: bool = False


def hook_handlers(options: InstallOptions) -> dict[str, HookHandler]:
    """Write the handler of each event that is to have one."""
    answered = {event for name in options.features for event in FEATURE_EVENTS[name]}
    events = [*RECORDED_EVENTS, *sorted(answered.difference(RECORDED_EVENTS))]
    return {event: _hook_handler(options, event) for event in events}


def _hook_handler(options: InstallOptions, event: str) -> HookHandler:
    features = tuple(name for name in options.features if event in FEATURE_EVENTS[name])
    command = hook_command(options.store, event, features)
    handler: HookHandler = {"type": "command", "command": command}
    return handler if event in EVENTS_WITHOUT_TIMEOUT else handler | {"timeout": HOOK_TIMEOUT_S}


HOOKS_KEY: Final = "hooks"
STATUS_LINE_KEY: Final = "statusLine"
_STATUS_COMMAND_PATH: Final = (STATUS_LINE_KEY, "command")


@dataclass(frozen=True, slots=True)
class HookEntry:
    """A command that the settings run at an event."""

    path: JsonPath
    event: str
    command: str
    own_command: InstalledCommand | None


@dataclass(frozen=True, slots=True)
class HookSettings:
    """What a settings file says of hooks and of the status line."""

    hooks: tuple[HookEntry, ...]
    status_command: str | None  # the status line's command
    own_status_command: InstalledCommand | None
    is_strict: bool
    """False where the client ignores the file, as it has comments or trailing commas."""
    value: dict[str, Any]


def parse_hook_settings(text: str) -> HookSettings:
    """Find hooks and status line; raises JsonTextError, or NotSafeError for another form."""
    if not text.removeprefix(BOM).strip():
        # The client takes an empty file for one without settings.
        return HookSettings((), None, None, is_strict=True, value={})
    document = parse_json_text(text)
    value = document.root.value
    if not isinstance(value, dict):
        raise NotSafeError("is not a JSON object: correct it")
    line = _text(_dict(value.get(STATUS_LINE_KEY)).get("command"))
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
    for event, hook in first.items():
        if event in handlers and hook.command != handlers[event]["command"]:
            text = replace_value(text, (*hook.path, "command"), handlers[event]["command"])
    kept = {hook.path for event, hook in first.items() if event in handlers}
    text = _without_own_hooks(text, lambda hook: hook.path not in kept, {})
    for event, handler in handlers.items():
        if event not in first:
            text = _with_group(text, event, {"hooks": [handler]})
    return text


def without_hooks(text: str, original: Mapping[str, Any]) -> str:
    """Remove our hooks and the containers left empty, except those that `original` has."""
    return _without_own_hooks(text, lambda _: True, original)


def with_status_line(text: str, make_command: Callable[[str | None], str]) -> str:
    """Make the status line ours; an existing one is wrapped and keeps its other fields.

    `make_command` builds our command from the one it wraps, None if there is none. Raises
    NotSafeError if the existing status line is not a command.
    """
    text = _editable_text(text)
    settings = parse_hook_settings(text)
    if STATUS_LINE_KEY not in settings.value:
        return set_value(
            text, (STATUS_LINE_KEY,), {"type": "command", "command": make_command(None)}
        )
    line = _dict(settings.value[STATUS_LINE_KEY])
    if settings.status_command is None or line.get("type", "command") != "command":
        raise NotSafeError("has a status line that is no command: leave it with --no-statusline")
    wrapped = (
        settings.own_status_command.wrapped
        if settings.own_status_command
        else settings.status_command
    )
    command = make_command(wrapped)
    return (
        text
        if command == settings.status_command
        else replace_value(text, _STATUS_COMMAND_PATH, command)
    )


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
    for event, groups in _dict(value.get(HOOKS_KEY)).items():
        for group_number, group in enumerate(_list(groups)):
            for number, handler in enumerate(_list(_dict(group).get(HOOKS_KEY))):
                command = _text(_dict(handler).get("command"))
                if command is not None:
                    path = (HOOKS_KEY, event, group_number, HOOKS_KEY, number)
                    found.append(HookEntry(path, event, command, parse_command(command)))
    return found


def _check_form(value: dict[str, Any], handlers: Mapping[str, HookHandler]) -> None:
    if not isinstance(value.get(HOOKS_KEY, {}), dict):
        raise NotSafeError(f"has {HOOKS_KEY} that are no JSON object: correct them")
    for event in handlers:
        if not isinstance(_dict(value.get(HOOKS_KEY)).get(event, []), list):
            raise NotSafeError(f"has {HOOKS_KEY}.{event} that is no list: correct it")


def _with_group(text: str, event: str, group: dict[str, Any]) -> str:
    if find_value(parse_json_text(text).root, (HOOKS_KEY, event)) is None:
        return set_value(text, (HOOKS_KEY, event), [group])
    return append_item(text, (HOOKS_KEY, event), group)


def _without_own_hooks(
    text: str, is_unwanted: Callable[[HookEntry], bool], original: Mapping[str, Any]
) -> str:
    """Remove unwanted hooks of ours, last first, so that the paths of the others stay valid."""
    for hook in reversed(parse_hook_settings(text).hooks):
        if hook.own_command and is_unwanted(hook):
            text = _without_hook(text, hook.path, original)
    return text


def _without_hook(text: str, path: JsonPath, original: Mapping[str, Any]) -> str:
    """Remove a hook, and its group, event and `hooks` as far as that leaves them empty."""
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


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
