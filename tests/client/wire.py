"""Messages as the API received them beside ours: who spoke, which calls and results, what."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from ctxtop.core.model.conversation import PartKind, group_messages

from .validator import blocks_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ctxtop.core.model.conversation import Entry

Json = dict[str, Any]

_BLANK: Final = re.compile(r"\s+")


_TAGS: Final = re.compile(r"</?system-reminder>")

_WARNED: Final = re.compile(
    r"(?:<system-reminder>\s*)?\[SYSTEM NOTIFICATION - NOT USER INPUT\].*?"
    r"(<task-notification>.*?</task-notification>)(?:\s*</system-reminder>)?",
    re.DOTALL,
)
"""What the client says before a notification, each time it sends it.

A notification that came while the model worked is written down with it, any other without.
"""


class Said:
    """What one role said until the other spoke; the API joins such messages itself."""

    def __init__(self, role: str) -> None:
        self.role = role
        self.calls: list[tuple[str, str, str]] = []
        self.results: list[str] = []
        self.text = ""

    def __repr__(self) -> str:
        # Where two texts are joined the client adds or takes away a line's end.
        return f"{self.role} {self.calls} {self.results} {_BLANK.sub('', self.unwarned())}"

    def unwarned(self) -> str:
        """Leave out the client's warnings, and the tags that it writes around them."""
        return _WARNED.sub(r"\1", self.text)


def received(messages: Iterable[Json]) -> list[str]:
    """Return a request's messages in a form that compares with `told`."""
    return [repr(said) for said in _each_received(messages)]


def _each_received(messages: Iterable[Json]) -> list[Said]:
    found: list[Said] = []
    for message in messages:
        said = _said(found, message["role"])
        content = message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            _take(said, block)
    return found


def blocks_sent(body: Json) -> list[str]:
    """List a request's blocks one by one, as they are: what an edit changed shows line by line."""
    found: list[str] = []
    for message in body["messages"]:
        for block in blocks_of(message["content"]):
            plain = {name: value for name, value in block.items() if name != "cache_control"}
            found.append(f"{message['role']} {json.dumps(plain, sort_keys=True)}")
    return found


def told(entries: Sequence[Entry]) -> list[str]:
    """Return the messages that we expect to be sent, in the form of `received`."""
    return [repr(said) for said in _each_told(entries)]


def _each_told(entries: Sequence[Entry]) -> list[Said]:
    found: list[Said] = []
    for message in group_messages(tuple(entries)):
        said = _said(found, message.role.value)
        for piece in message.parts:
            if piece.kind is PartKind.TOOL_INPUT:
                given = json.dumps(json.loads(piece.text), sort_keys=True)
                said.calls.append((piece.tool_use_id or "", piece.name, given))
                continue
            if piece.tool_use_id:
                said.results.append(piece.tool_use_id)
            said.text += f"{piece.text}\n"
    return found


def lines_received(messages: Iterable[Json]) -> list[str]:
    """Return a request's messages if some of them have the system role.

    For models that accept such messages, the client puts the context that it adds itself after the
    prompt and omits the tags around it. The lines are otherwise the same, so they are compared in
    any order.
    """
    users = ({**one, "role": "user"} if one["role"] == "system" else one for one in messages)
    return [_in_any_order(each) for each in _each_received(users)]


def lines_told(entries: Sequence[Entry]) -> list[str]:
    """Return the messages that we expect to be sent, in the form of `lines_received`."""
    return [_in_any_order(each) for each in _each_told(entries)]


def _in_any_order(said: Said) -> str:
    untagged = _TAGS.sub("\n", said.unwarned())
    lines = (_BLANK.sub("", line) for line in untagged.split("\n"))
    return f"{said.role} {said.calls} {sorted(said.results)} {sorted(filter(None, lines))}"


def _said(found: list[Said], role: str) -> Said:
    if not found or found[-1].role != role:
        found.append(Said(role))
    return found[-1]


def _take(said: Said, block: Json) -> None:
    if block["type"] == "tool_use":
        given = json.dumps(block["input"], sort_keys=True)
        said.calls.append((block["id"], block["name"], given))
    elif block["type"] == "tool_result":
        said.results.append(block["tool_use_id"])
        content = block["content"]
        parts = [content] if isinstance(content, str) else [one.get("text", "") for one in content]
        said.text += "\n".join([*parts, ""])
    else:
        text = block.get("thinking") or block.get("text") or ""
        said.text += f"{text}\n"
