"""Builds an operation from a strategy's change: the edits of each line, and what they save."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from ..files.json_spans import JsonPointerError, JsonSpan, escape_token, replace_spans
from ..model.conversation import RESULT_KINDS, PartKind, decode_tool_input
from ..summaries.decision_patterns import quote_line
from ..transcript.entry_decoder import MEDIA_BLOCKS
from ..transcript.raw_lines import replace_lone_surrogates
from .plan import Edit, Operation, RemoveLine, ReplaceValue, Severity
from .transcript_view import TranscriptView, VisibleBlock, text_digest

CONTENT_POINTER: Final = "/message/content"
_WHAT_CHARS: Final = 100


class OperationReason(msgspec.Struct, frozen=True):
    strategy: str
    level: Severity
    why: str


Because = Callable[[str], OperationReason]
"""Makes the reason of a strategy's operation from why it is made."""

FindOperations = Callable[[TranscriptView, Because], Iterator[Operation | None]]
"""Finds a strategy's operations; None for a change that gains nothing."""


def replace_result(
    view: TranscriptView, block: VisibleBlock, reason: OperationReason, text: str
) -> Operation | None:
    """Replace the text of a tool's result; a string stays a string, a list a list.

    None if the line's format is unknown, or if nothing is gained.
    """
    place = _find_block(view, block)
    if place is None:
        return None
    pointer, content = place[0], place[1].get("content")
    if isinstance(content, str):
        value: Any = text
    elif isinstance(content, list) and all(
        isinstance(each, dict) and each.get("type") == "text" for each in content
    ):
        value = [{"type": "text", "text": text}]
    else:
        return None
    saved = block.tokens - view.count_tokens_with_text(block, text)
    before = _result_text(content) or ""
    return _build_operation(view, block, reason, {f"{pointer}/content": value}, saved, before, text)


def replace_images(
    view: TranscriptView,
    block: VisibleBlock,
    reason: OperationReason,
    stub_for: Callable[[str, str], str],
) -> Operation | None:
    """Replace each image or document of a result; `stub_for` gets its JSON and type."""
    place = _find_block(view, block)
    content = place[1].get("content") if place else None
    if place is None or not isinstance(content, list):
        return None
    changes: dict[str, Any] = {}
    after: list[Any] = []
    for number, item in enumerate(content):
        if isinstance(item, dict) and (type_ := str(item.get("type"))) in MEDIA_BLOCKS:
            text = {"type": "text", "text": stub_for(to_json(item), type_)}
            changes[f"{place[0]}/content/{number}"] = text
            after.append(text)
        else:
            after.append(item)
    saved = block.tokens - view.count_tokens_with_text(block, _result_text(after) or "")
    return _build_operation(view, block, reason, changes, saved, "", "")


def replace_inputs(
    view: TranscriptView, block: VisibleBlock, reason: OperationReason, values: Mapping[str, Any]
) -> Operation | None:
    """Replace values of a call's input by their pointers inside it; its keys stay."""
    place = _find_block(view, block)
    if place is None or not values:
        return None
    root = f"{place[0]}/input"
    changes = {f"{root}{name}": value for name, value in values.items()}
    try:
        new_input = _value_after(view, block.line, root, changes)
    except JsonPointerError:
        return None
    saved = block.tokens - view.count_tokens_with_text(block, replace_lone_surrogates(new_input))
    before, after = _join_strings(place[1]["input"]), _join_strings(json.loads(new_input))
    return _build_operation(view, block, reason, changes, saved, before, after)


def replace_text(
    view: TranscriptView, block: VisibleBlock, reason: OperationReason, text: str
) -> Operation | None:
    """Replace a text block's text; None if the line holds it in an unknown format."""
    place = _find_text(view, block)
    if place is None:
        return None
    pointer, before = place
    saved = block.tokens - view.count_tokens_with_text(block, text)
    return _build_operation(view, block, reason, {pointer: text}, saved, before, text)


def replace_unsent_values(
    view: TranscriptView,
    number: int,
    reason: OperationReason,
    kind: str,
    changes: Mapping[str, Any],
) -> Operation | None:
    """Change values of a line that the model never sees; None if no byte is saved."""
    edits = tuple(make_replacements(view, number, changes))
    saved = count_saved_bytes(view, edits)
    if not edits or saved <= 0:
        return None
    what = f"{kind} line"
    return Operation(reason.strategy, reason.level, number, kind, what, reason.why, 0, saved, edits)


def read_text(view: TranscriptView, block: VisibleBlock) -> str | None:
    """Read a block's whole text; None if the line holds it in an unknown format."""
    if block.part.kind in RESULT_KINDS and block.call_id:
        place = _find_block(view, block)
        return None if place is None else _result_text(place[1].get("content"))
    text_place = _find_text(view, block)
    return text_place[1] if text_place else None


def read_tool_input(view: TranscriptView, block: VisibleBlock) -> dict[str, Any]:
    """Read a call's complete input; empty if it is not an object."""
    place = _find_block(view, block)
    tool_input = place[1].get("input") if place else None
    return tool_input if isinstance(tool_input, dict) else {}


def _find_text(view: TranscriptView, block: VisibleBlock) -> tuple[str, str] | None:
    """Find a text that is no tool's, with its pointer, by length and hash; None if it is not sure.

    Of an attachment the text that was recorded as sent counts; older clients recorded only what
    they made it from.
    """
    line = view.decoded_line(block.line)
    is_attachment = block.entry.type == "attachment"
    made_from = "/attachment" if resolve_pointer(line, "/rendered") is None else "/rendered"
    roots = (made_from,) if is_attachment else (CONTENT_POINTER, "/content")
    places = [
        (pointer, text)
        for root in roots
        for pointer, text in iter_strings(resolve_pointer(line, root), root)
        if len(text) == block.chars and text_digest(text) == block.digest
    ]
    return places[0] if len(places) == 1 else None


def iter_strings(value: object, pointer: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield pointer, value
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from iter_strings(item, f"{pointer}/{number}")
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from iter_strings(item, f"{pointer}/{escape_token(name)}")


def resolve_pointer(value: Any, pointer: str) -> Any:  # noqa: ANN401 -- any JSON
    """Follow a JSON pointer; None if there is no such value."""
    for token in pointer.split("/")[1:]:
        if isinstance(value, dict):
            value = value.get(token.replace("~1", "/").replace("~0", "~"))
        elif isinstance(value, list) and token.isdecimal() and int(token) < len(value):
            value = value[int(token)]
        else:
            return None
    return value


_SHOWN_INPUTS: Final = ("command", "pattern", "query", "url", "description")


def describe_call(block: VisibleBlock, tool_input: Mapping[str, Any] | None = None) -> str:
    """Name a call by its tool and its file or command, in one line."""
    values = tool_input or {}
    strings = (values[name] for name in _SHOWN_INPUTS if isinstance(values.get(name), str))
    start, limit = values.get("offset"), values.get("limit")
    lines = ""
    if isinstance(start, int) or isinstance(limit, int):
        start = int(start or 1)
        end = start + limit - 1 if isinstance(limit, int) else None
        lines = f" from {start}" if end is None else f" lines {start}-{end}"
    named = " ".join(part for part in (block.part.path or "", next(strings, "")) if part)
    text = f"{block.part.name} {named}".strip()[: 4 * _WHAT_CHARS]
    # A terminal or a reader would obey other characters.
    printable = "".join(char if char.isprintable() else " " for char in text)
    return quote_line(printable, _WHAT_CHARS) + lines


def to_json(value: object) -> str:
    """Write a JSON value compactly; lone surrogates are written as escapes."""
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
    before: str,
    after: str,
) -> Operation | None:
    if saved_tokens <= 0 or view.is_changed(block):
        return None
    if not view.name_index.allows_loss(before, after, saved_tokens):
        return None
    edits = list(make_replacements(view, block.line, changes))
    original = view.decoded_line(block.line)
    for copy in view.copies_of(block.line):
        if copy not in view.protected_lines:
            edits += _replacements_in_copy(view, original, copy, changes)
    saved_bytes = count_saved_bytes(view, edits)
    if len(edits) < len(changes) or saved_bytes <= 0:
        return None
    view.record_change(block, before, after)
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
        bytes_saved=saved_bytes,
        edits=tuple(edits),
    )


def _find_block(view: TranscriptView, block: VisibleBlock) -> tuple[str, dict[str, Any]] | None:
    """Find the pointer and value of a call or a result in its line; None for any other shape."""
    content = resolve_pointer(view.decoded_line(block.line), CONTENT_POINTER)
    is_call = block.part.kind is PartKind.TOOL_INPUT
    type_, id_name = ("tool_use", "id") if is_call else ("tool_result", "tool_use_id")
    matches = [
        (f"{CONTENT_POINTER}/{number}", item)
        for number, item in enumerate(content if isinstance(content, list) else [])
        if isinstance(item, dict)
        and item.get("type") == type_
        and item.get(id_name) == block.call_id
    ]
    if len(matches) != 1 or (is_call and not isinstance(matches[0][1].get("input"), dict)):
        return None
    return matches[0]


def _result_text(content: object) -> str | None:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return None
    return "\n".join(str(each.get("text") or "") for each in content if isinstance(each, dict))


def _value_after(
    view: TranscriptView, number: int, pointer: str, changes: Mapping[str, Any]
) -> str:
    """Return a value of a line as JSON text after some changes; raises JsonPointerError."""
    whole = view.value_span(number, pointer)
    values = []
    for changed, value in changes.items():
        span = view.value_span(number, changed)
        inside = JsonSpan(span.start - whole.start, span.end - whole.start)
        values.append((inside, to_json(value).encode()))
    text = replace_spans(view.line_bytes(number)[whole.start : whole.end], values)
    return text.decode("utf-8", "replace")


def make_replacements(
    view: TranscriptView, number: int, changes: Mapping[str, Any]
) -> Iterator[Edit]:
    """Make the edits of one line; values that it does not have are left out."""
    offset, sha256 = view.line(number).offset, view.line_sha256(number)
    for pointer, value in changes.items():
        try:
            view.value_span(number, pointer)
        except JsonPointerError:
            continue
        yield ReplaceValue(number, offset, sha256, pointer, to_json(value))


def remove_line(view: TranscriptView, number: int) -> RemoveLine:
    """Make the edit that removes a line, or the incomplete one at the end of the file."""
    return RemoveLine(number, view.line(number).offset, view.line_sha256(number))


def _replacements_in_copy(
    view: TranscriptView, original: object, copy: int, changes: Mapping[str, Any]
) -> Iterator[Edit]:
    """Make the same changes in a copy of a line, where its values are the same."""
    line = view.decoded_line(copy)
    same = {
        pointer: value
        for pointer, value in changes.items()
        if resolve_pointer(line, pointer) == resolve_pointer(original, pointer)
    }
    return make_replacements(view, copy, same)


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
