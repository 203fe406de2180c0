"""Checks of an edited line against the line that it was (compaction 7.6).

Each says what is wrong, or None. They compare: damage that was there before is not ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from .plan import Harm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Json = dict[str, Any]

_IDENTITY: Final = (
    "type", "subtype", "uuid", "sessionId", "timestamp", "requestId", "isSidechain",
    "logicalParentUuid", "sourceToolAssistantUUID", "isCompactSummary", "compactMetadata",
)  # fmt: skip
_MESSAGE_IDENTITY: Final = ("id", "role", "type", "model")
_BLOCK_IDENTITY: Final = ("id", "tool_use_id", "name", "is_error")
_THINKING: Final = frozenset({"thinking", "redacted_thinking"})
_MEDIA: Final = frozenset({"image", "document"})
_PLACEHOLDER: Final = frozenset({"text", *_MEDIA})
"""Types of blocks that may stand in each other's place: an image goes, a word about it comes."""


def same_identity(before: Json, after: Json, _level: Harm) -> str | None:
    """V4: who a line is, and which calls and results it holds, stays."""
    for name in _IDENTITY:
        if before.get(name) != after.get(name):
            return f"{name} changed"
    old, new = _message(before), _message(after)
    for name in _MESSAGE_IDENTITY:
        if old.get(name) != new.get(name):
            return f"message.{name} changed"
    if [*_named(before)] != [*_named(after)]:
        return "a call or a result is another one"
    return None


def same_types(before: Json, after: Json, _level: Harm) -> str | None:
    """V9: content keeps its JSON type, in results too, and a call's input stays an object."""
    if type(_content(before)) is not type(_content(after)):
        return "message.content has another JSON type"
    old, new = _results(before), _results(after)
    for name, content in old.items():
        if name in new and type(content) is not type(new[name]):
            return f"the content of result {name} has another JSON type"
    if type(before.get("toolUseResult")) is not type(after.get("toolUseResult")):
        return "toolUseResult has another JSON type"
    for block in _blocks(after):
        if block.get("type") == "tool_use" and not isinstance(block.get("input"), dict):
            return "a call's input is no object"
    return _same_keys(before, after)


def not_empty(before: Json, after: Json, _level: Harm) -> str | None:
    """V9: nothing is left empty that the API wants filled."""
    if _is_empty(after) and not _is_empty(before):
        return "a message or a text is left empty"
    return None


def same_thinking(before: Json, after: Json, _level: Harm) -> str | None:
    """V10: thinking goes as a whole or stays as it is."""
    known = [block for block in _blocks(before) if block.get("type") in _THINKING]
    for block in _blocks(after):
        if block.get("type") in _THINKING and block not in known:
            return "a thinking block was altered"
    return None


def same_prompt(before: Json, after: Json, level: Harm) -> str | None:
    """V14: a person's words stay, unless prose was asked to go."""
    if level >= Harm.PROSE or before.get("type") != "user":
        return None
    old, new = [*_words(before)], [*_words(after)]
    if not any(map(_is_said, old)):
        # Nothing was said: recovery puts a placeholder there.
        return None
    same = len(old) == len(new) and not any(
        was != now and _is_said(was) for was, now in zip(old, new, strict=True)
    )
    return None if same else "a person's words changed"


def _is_said(words: object) -> bool:
    return bool(str(words or "").strip())


def valid_text(before: Json, after: Json, _level: Harm) -> str | None:
    """V18: no half of a character is left."""
    if _has_surrogate(after) and not _has_surrogate(before):
        return "a text was cut inside of a character"
    return None


def same_blocks(before: Json, after: Json, _level: Harm) -> str | None:
    """V19: blocks that stay keep their type; an image may become a text."""
    old = [block.get("type") for block in _blocks(before)]
    new = [block.get("type") for block in _blocks(after)]
    if len(old) != len(new):
        return None
    for was, now in zip(old, new, strict=True):
        if was != now and not (was in _MEDIA and now in _PLACEHOLDER) and was not in _THINKING:
            return f"a block of {was} became one of {now}"
    return None


LINE_CHECKS: Final[tuple[tuple[str, Callable[[Json, Json, Harm], str | None]], ...]] = (
    ("V4", same_identity),
    ("V9", same_types),
    ("V9", not_empty),
    ("V10", same_thinking),
    ("V14", same_prompt),
    ("V18", valid_text),
    ("V19", same_blocks),
)


def _message(line: Json) -> Json:
    message = line.get("message")
    return message if isinstance(message, dict) else {}


def _content(line: Json) -> object:
    return _message(line).get("content")


def _blocks(line: Json) -> list[Json]:
    content = _content(line)
    return [each for each in content if isinstance(each, dict)] if isinstance(content, list) else []


def _named(line: Json) -> Iterator[tuple[object, ...]]:
    for block in _blocks(line):
        if "tool_use_id" in block or "input" in block:
            yield (block.get("type"), *(block.get(name) for name in _BLOCK_IDENTITY))


def _results(line: Json) -> dict[str, object]:
    return {
        str(block["tool_use_id"]): block.get("content")
        for block in _blocks(line)
        if "tool_use_id" in block
    }


def _same_keys(before: Json, after: Json) -> str | None:
    inputs = {block.get("id"): block.get("input") for block in _blocks(before)}
    for block in _blocks(after):
        old, new = inputs.get(block.get("id")), block.get("input")
        if isinstance(old, dict) and isinstance(new, dict) and old.keys() - new.keys():
            return f"call {block.get('id')} lost {', '.join(sorted(old.keys() - new.keys()))}"
    return None


def _is_empty(line: Json) -> bool:
    content = _content(line)
    if content in ("", []):
        return True
    return any(
        block.get("type") == "text" and not str(block.get("text") or "").strip()
        for block in _blocks(line)
    )


def _words(line: Json) -> Iterator[object]:
    content = _content(line)
    if isinstance(content, str):
        yield content
    yield from (block.get("text") for block in _blocks(line) if block.get("type") == "text")


def _has_surrogate(value: object) -> bool:
    if isinstance(value, str):
        return any("\ud800" <= each <= "\udfff" for each in value) if not value.isascii() else False
    if isinstance(value, dict):
        return any(map(_has_surrogate, value.values()))
    return isinstance(value, list) and any(map(_has_surrogate, value))
