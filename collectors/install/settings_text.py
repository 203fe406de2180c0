"""Putting our hooks and status line into the text of a settings file, and taking them out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ..plugin.command_line import read_command
from .json_edit import append, find, put, remove, replace
from .json_text import BOM, read_text
from .refused import NotSafeError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..plugin.command_line import Own
    from .json_edit import Path
    from .wanted import Handler

HOOKS: Final = "hooks"
STATUS_LINE: Final = "statusLine"
_LINE_COMMAND: Final = (STATUS_LINE, "command")


@dataclass(frozen=True, slots=True)
class Hook:
    """A command that the settings run at an event."""

    path: Path
    event: str
    command: str
    own_command: Own | None


@dataclass(frozen=True, slots=True)
class Settings:
    """What a settings file says of hooks and of the status line."""

    hooks: tuple[Hook, ...]
    status_command: str | None
    """The status line's command."""
    own_status_command: Own | None
    is_strict: bool
    """False where the client ignores the file, as it has comments or trailing commas."""
    value: dict[str, Any]


def read_settings(text: str) -> Settings:
    """Find hooks and status line; raises JsonTextError, or NotSafeError for another form."""
    if not text.removeprefix(BOM).strip():
        # The client takes an empty file for one without settings.
        return Settings((), None, None, is_strict=True, value={})
    document = read_text(text)
    value = document.root.value
    if not isinstance(value, dict):
        raise NotSafeError("is not a JSON object: correct it")
    line = _text(_dict(value.get(STATUS_LINE)).get("command"))
    return Settings(
        hooks=tuple(_hooks(value)),
        status_command=line,
        own_status_command=read_command(line) if line else None,
        is_strict=document.is_strict,
        value=value,
    )


def with_hooks(text: str, handlers: Mapping[str, Handler]) -> str:
    """Let our hooks be those that are wanted; whatever else is there stays as it is.

    A hook of ours that a person moved or gave another timeout stays where and as it is,
    only its command is brought up to date. Raises NotSafeError where the settings have
    another form than the client's.
    """
    text = _written(text)
    settings = read_settings(text)
    _check_form(settings.value, handlers)
    first = {hook.event: hook for hook in reversed(settings.hooks) if hook.own_command}
    for event, hook in first.items():
        if event in handlers and hook.command != handlers[event]["command"]:
            text = replace(text, (*hook.path, "command"), handlers[event]["command"])
    kept = {hook.path for event, hook in first.items() if event in handlers}
    text = _without(text, lambda hook: hook.path not in kept, {})
    for event, handler in handlers.items():
        if event not in first:
            text = _with_group(text, event, {"hooks": [handler]})
    return text


def without_hooks(text: str, original: Mapping[str, Any]) -> str:
    """Take our hooks out, and what is empty then; what `original` had as empty stays."""
    return _without(text, lambda _: True, original)


def with_line(text: str, make_command: Callable[[str | None], str]) -> str:
    """Let the status line be ours; one that is there is wrapped, with all that it has besides.

    `wanted` writes our command from the one that it is to run. Raises NotSafeError where
    the status line is something else than a command.
    """
    text = _written(text)
    settings = read_settings(text)
    if STATUS_LINE not in settings.value:
        return put(text, (STATUS_LINE,), {"type": "command", "command": make_command(None)})
    line = _dict(settings.value[STATUS_LINE])
    if settings.status_command is None or line.get("type", "command") != "command":
        raise NotSafeError("has a status line that is no command: leave it with --no-statusline")
    wrapped = (
        settings.own_status_command.wrapped
        if settings.own_status_command
        else settings.status_command
    )
    command = make_command(wrapped)
    return text if command == settings.status_command else replace(text, _LINE_COMMAND, command)


def without_line(text: str) -> str:
    """Give the status line back to the command that ours runs, or take it out."""
    line = read_settings(text).own_status_command
    if line is None:
        return text
    if line.wrapped is None:
        return remove(text, (STATUS_LINE,))
    return replace(text, _LINE_COMMAND, line.wrapped)


def _hooks(value: dict[str, Any]) -> list[Hook]:
    found = []
    for event, groups in _dict(value.get(HOOKS)).items():
        for group_number, group in enumerate(_list(groups)):
            for number, handler in enumerate(_list(_dict(group).get(HOOKS))):
                command = _text(_dict(handler).get("command"))
                if command is not None:
                    path = (HOOKS, event, group_number, HOOKS, number)
                    found.append(Hook(path, event, command, read_command(command)))
    return found


def _check_form(value: dict[str, Any], handlers: Mapping[str, Handler]) -> None:
    if not isinstance(value.get(HOOKS, {}), dict):
        raise NotSafeError(f"has {HOOKS} that are no JSON object: correct them")
    for event in handlers:
        if not isinstance(_dict(value.get(HOOKS)).get(event, []), list):
            raise NotSafeError(f"has {HOOKS}.{event} that is no list: correct it")


def _with_group(text: str, event: str, group: dict[str, Any]) -> str:
    if find(read_text(text).root, (HOOKS, event)) is None:
        return put(text, (HOOKS, event), [group])
    return append(text, (HOOKS, event), group)


def _without(text: str, is_unwanted: Callable[[Hook], bool], original: Mapping[str, Any]) -> str:
    """Take hooks of ours out, the last one first: the paths of the others stay right."""
    for hook in reversed(read_settings(text).hooks):
        if hook.own_command and is_unwanted(hook):
            text = _without_one(text, hook.path, original)
    return text


def _without_one(text: str, path: Path, original: Mapping[str, Any]) -> str:
    """Take out a hook, and with it the group, the event and all hooks if nothing else is there."""
    value = read_text(text).root.value
    event, group = value[HOOKS][path[1]], value[HOOKS][path[1]][path[2]]
    if len(group[HOOKS]) > 1 or set(group) - {"matcher", HOOKS}:
        return remove(text, path)
    if len(event) > 1 or _has(original, path[:2]):
        return remove(text, path[:3])
    if len(value[HOOKS]) > 1 or _has(original, path[:1]):
        return remove(text, path[:2])
    return remove(text, path[:1])


def _has(value: Any, path: Path) -> bool:  # noqa: ANN401 -- any JSON
    for step in path:
        if not isinstance(value, dict) or step not in value:
            return False
        value = value[step]
    return True


def _written(text: str) -> str:
    """Give a text that can be edited: an empty file has no object yet."""
    if text.removeprefix(BOM).strip():
        return text
    return (BOM if text.startswith(BOM) else "") + "{}\n"


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
