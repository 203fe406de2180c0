"""Builds an operation from a strategy's change: the edits of each line, and what they save."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from ..files.json_spans import JsonPointerError, JsonSpan, escape_token, replace_spans
from ..summaries.decision_patterns import quote_line
from ..transcript.conversation import RESULT_KINDS, PartKind, decode_tool_input
from ..transcript.entry_decoder import MEDIA_BLOCKS
from ..transcript.raw_lines import replace_lone_surrogates
from .plan import Edit, Operation, RemoveLine, ReplaceValue, Severity
from .transcript_view import TranscriptView, VisibleBlock, text_digest

CONTENT_POINTER: Final = "/message/content"

_WHAT_CHARS: Final = 100
_CALL_TYPE: Final = "tool_use"
_RESULT_TYPE: Final = "tool_result"


class OperationReason(msgspec.Struct, frozen=True):
    """What a strategy is called, how much it takes, and why it takes this."""

    strategy: str
    level: Severity
    why: str


Because = Callable[[str], OperationReason]
"""Makes the reason of a strategy's operation from why it is made."""

FindOperations = Callable[[TranscriptView, Because], Iterator[Operation | None]]
"""Finds a strategy's operations; None for a change from which nothing is gained."""


class ReplacedText(msgspec.Struct, frozen=True):
    """What a piece says before a change, and after it."""

    before: str
    after: str


def replace_result(
    view: TranscriptView, slot: VisibleBlock, reason: OperationReason, text: str
) -> Operation | None:
    """Replace the text of a tool's result; a string stays a string, a list a list.

    None if the line's format is unknown, or if nothing is gained.
    """
    place = _find_block(view, slot)
    if place is None:
        return None
    pointer, block = place
    content = block.get("content")
    if isinstance(content, str):
        value: Any = text
    elif isinstance(content, list) and all(_is_text_block(each) for each in content):
        value = [{"type": "text", "text": text}]
    else:
        return None
    saved = slot.tokens - view.count_tokens_with_text(slot, text)
    said = ReplacedText(_result_text(content) or "", text)
    return _build_operation(view, slot, reason, {f"{pointer}/content": value}, saved, said)


def replace_inputs(
    view: TranscriptView, slot: VisibleBlock, reason: OperationReason, texts: Mapping[str, Any]
) -> Operation | None:
    """Replace values of a call's input by their pointers inside it; its keys stay."""
    place = _find_block(view, slot)
    if place is None or not texts:
        return None
    pointer, block = place
    asked = f"{pointer}/input"
    changes = {f"{asked}{name}": value for name, value in texts.items()}
    try:
        after = _value_after(view, slot.line, asked, changes)
    except JsonPointerError:
        return None
    said = ReplacedText(_join_strings(block["input"]), _join_strings(json.loads(after)))
    saved = slot.tokens - view.count_tokens_with_text(slot, replace_lone_surrogates(after))
    return _build_operation(view, slot, reason, changes, saved, said)


def replace_text(
    view: TranscriptView, block: VisibleBlock, reason: OperationReason, text: str
) -> Operation | None:
    """Replace a text block's text; None if the line holds it in an unknown format."""
    pointer = find_text_pointer(view, block)
    if pointer is None:
        return None
    saved = block.tokens - view.count_tokens_with_text(block, text)
    said = ReplacedText(str(resolve_pointer(view.decoded_line(block.line), pointer)), text)
    return _build_operation(view, block, reason, {pointer: text}, saved, said)


def replace_unsent_values(
    view: TranscriptView,
    number: int,
    reason: OperationReason,
    kind: str,
    changes: Mapping[str, Any],
) -> Operation | None:
    """Change values of a line that the model never sees; None where no byte is gained."""
    edits = tuple(make_replacements(view, number, changes))
    saved = count_saved_bytes(view, edits)
    if not edits or saved <= 0:
        return None
    what = f"{kind} line"
    return Operation(reason.strategy, reason.level, number, kind, what, reason.why, 0, saved, edits)


def read_text(view: TranscriptView, block: VisibleBlock) -> str | None:
    """Read all of a block's text; None where the line holds it in an unknown format."""
    if block.part.kind in RESULT_KINDS and block.call_id:
        place = _find_block(view, block)
        return None if place is None else _result_text(place[1].get("content"))
    pointer = find_text_pointer(view, block)
    return None if pointer is None else str(resolve_pointer(view.decoded_line(block.line), pointer))


def read_tool_input(view: TranscriptView, block: VisibleBlock) -> dict[str, Any]:
    """Read a call's complete input; empty if it is not an object."""
    place = _find_block(view, block)
    asked = place[1].get("input") if place else None
    return asked if isinstance(asked, dict) else {}


def find_text_pointer(view: TranscriptView, block: VisibleBlock) -> str | None:
    """Find where a line holds a text that is no tool's: by what it says."""
    value = view.decoded_line(block.line)
    roots = (
        ("/attachment", "/rendered")
        if block.entry.type == "attachment"
        else (CONTENT_POINTER, "/content")
    )
    found = [
        pointer
        for root in roots
        for pointer, text in iter_strings(resolve_pointer(value, root), root)
        if len(text) == block.chars and text_digest(text) == block.digest
    ]
    # Of an attachment what was written down as sent counts; without that nothing is proved.
    if block.entry.type == "attachment":
        found = [each for each in found if each.startswith("/rendered")]
    return found[0] if len(found) == 1 else None


def iter_strings(value: object, pointer: str) -> Iterator[tuple[str, str]]:
    """Yield every string inside a JSON value with its pointer."""
    if isinstance(value, str):
        yield pointer, value
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from iter_strings(each, f"{pointer}/{number}")
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from iter_strings(each, f"{pointer}/{escape_token(name)}")


def resolve_pointer(value: Any, pointer: str) -> Any:  # noqa: ANN401 -- any JSON
    """Follow a JSON pointer; None where it leads nowhere."""
    for token in pointer.split("/")[1:]:
        if isinstance(value, dict):
            value = value.get(token.replace("~1", "/").replace("~0", "~"))
        elif isinstance(value, list) and token.isdecimal() and int(token) < len(value):
            value = value[int(token)]
        else:
            return None
    return value


def describe_call(block: VisibleBlock, tool_input: Mapping[str, Any] | None = None) -> str:
    """Name a call by its tool and its file or command, in one line."""
    given = tool_input or {}
    shown = next(
        (
            str(given[name])
            for name in ("command", "pattern", "query", "url", "description")
            if isinstance(given.get(name), str)
        ),
        "",
    )
    lines = ""
    if isinstance(given.get("offset"), int) or isinstance(given.get("limit"), int):
        start = int(given.get("offset") or 1)
        limit = given.get("limit")
        lines = (
            f" lines {start}-{start + limit - 1}" if isinstance(limit, int) else f" from {start}"
        )
    named = " ".join(part for part in (block.part.path or "", shown) if part)
    return quote_line(_printable(f"{block.part.name} {named}".strip()), _WHAT_CHARS) + lines


def _printable(text: str) -> str:
    """Leave out the signs that a terminal or a reader would obey."""
    return "".join(each if each.isprintable() else " " for each in text[: 4 * _WHAT_CHARS])


def to_json(value: object) -> str:
    """Write a JSON value without needless bytes; half a sign is written as an escape."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"))
    return text


def _join_strings(value: object) -> str:
    return "\n".join(text for _, text in iter_strings(value, ""))


def _build_operation(
    view: TranscriptView,
    block: VisibleBlock,
    reason: OperationReason,
    changes: Mapping[str, Any],
    saved_tokens: int,
    text_change: ReplacedText,
) -> Operation | None:
    if saved_tokens <= 0 or view.is_changed(block):
        return None
    if not view.name_index.allows_loss(text_change.before, text_change.after, saved_tokens):
        return None
    edits = tuple(make_replacements(view, block.line, changes))
    for copy in view.copies_of(block.line):
        if copy not in view.protected_lines:
            edits += tuple(_replacements_in_copy(view, block.line, copy, changes))
    gained = count_saved_bytes(view, edits)
    if len(edits) < len(changes) or gained <= 0:
        return None
    view.record_change(block, text_change.before, text_change.after)
    call = view.call_of(block) or block
    return Operation(
        strategy=reason.strategy,
        level=reason.level,
        line=block.line,
        kind=block.part.kind.value,
        what=describe_call(block, decode_tool_input(call.part.text))
        if block.part.name
        else f"{block.part.kind.value} text",
        why=reason.why,
        tokens_saved=saved_tokens,
        bytes_saved=gained,
        edits=edits,
    )


def _find_block(view: TranscriptView, slot: VisibleBlock) -> tuple[str, dict[str, Any]] | None:
    """Find the block of a call or a result in its line; None for any other shape."""
    content = resolve_pointer(view.decoded_line(slot.line), CONTENT_POINTER)
    is_call = slot.part.kind is PartKind.TOOL_INPUT
    type_, name = (_CALL_TYPE, "id") if is_call else (_RESULT_TYPE, "tool_use_id")
    found = [
        (f"{CONTENT_POINTER}/{number}", block)
        for number, block in enumerate(content if isinstance(content, list) else [])
        if isinstance(block, dict)
        and block.get("type") == type_
        and block.get(name) == slot.call_id
    ]
    if len(found) != 1 or (is_call and not isinstance(found[0][1].get("input"), dict)):
        return None
    return found[0]


def _result_text(content: object) -> str | None:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return None
    return "\n".join(str(each.get("text") or "") for each in content if isinstance(each, dict))


def _is_text_block(block: object) -> bool:
    return isinstance(block, dict) and block.get("type") == "text"


def _value_after(
    view: TranscriptView, number: int, pointer: str, changes: Mapping[str, Any]
) -> str:
    """Write a value of a line as it will stand there; raises JsonPointerError."""
    whole = view.value_span(number, pointer)
    values = []
    for each, value in changes.items():
        span = view.value_span(number, each)
        inside = JsonSpan(span.start - whole.start, span.end - whole.start)
        values.append((inside, to_json(value).encode()))
    text = replace_spans(view.line_bytes(number)[whole.start : whole.end], values)
    return text.decode("utf-8", "replace")


def make_replacements(
    view: TranscriptView, number: int, changes: Mapping[str, Any]
) -> Iterator[Edit]:
    """Make the edits of one line; a value that is not there is left out."""
    offset, sha256 = view.line(number).offset, view.line_sha256(number)
    for pointer, value in changes.items():
        try:
            view.value_span(number, pointer)
        except JsonPointerError:
            continue
        yield ReplaceValue(number, offset, sha256, pointer, to_json(value))


def remove_line(view: TranscriptView, number: int) -> RemoveLine:
    """Make the edit that leaves out a line, or the half one at the end of the file."""
    return RemoveLine(number, view.line(number).offset, view.line_sha256(number))


def _replacements_in_copy(
    view: TranscriptView, number: int, copy: int, changes: Mapping[str, Any]
) -> Iterator[Edit]:
    """Change a copy of a line in the same way, where it says the same."""
    original = view.decoded_line(number)
    before = {pointer: resolve_pointer(original, pointer) for pointer in changes}
    other = view.decoded_line(copy)
    same = {each: changes[each] for each in changes if resolve_pointer(other, each) == before[each]}
    yield from make_replacements(view, copy, same)


def count_saved_bytes(view: TranscriptView, edits: Sequence[Edit]) -> int:
    """Return the bytes by which a file shrinks; a removed line counts with its line end."""
    saved = 0
    for edit in edits:
        if isinstance(edit, RemoveLine):
            saved += view.line(edit.line).total_bytes
        elif isinstance(edit, ReplaceValue):
            span = view.value_span(edit.line, edit.pointer)
            saved += span.end - span.start - len(edit.value.encode())
    return saved


def replace_images(
    view: TranscriptView,
    slot: VisibleBlock,
    reason: OperationReason,
    stub_for: Callable[[str, str], str],
) -> Operation | None:
    """Put a text in the place of each picture or document of a result; its texts stay."""
    place = _find_block(view, slot)
    content = place[1].get("content") if place else None
    if place is None or not isinstance(content, list):
        return None
    changes = {
        f"{place[0]}/content/{number}": {"type": "text", "text": stub_for(to_json(block), type_)}
        for number, block in enumerate(content)
        if isinstance(block, dict) and (type_ := str(block.get("type"))) in MEDIA_BLOCKS
    }
    after = [
        changes.get(f"{place[0]}/content/{number}", block) for number, block in enumerate(content)
    ]
    saved = slot.tokens - view.count_tokens_with_text(slot, _result_text(after) or "")
    return _build_operation(view, slot, reason, changes, saved, ReplacedText("", ""))
