"""Level 2: remove what something newer in the context has superseded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ...transcript.conversation import PartKind
from ...transcript.line_types import EDIT_TOOLS
from ..edit_builder import (
    Because,
    iter_strings,
    read_tool_input,
    replace_inputs,
    to_json,
)
from ..plan import Operation
from ..transcript_view import TranscriptView, VisibleBlock
from .stubs import (
    READ_TOOLS,
    FileCall,
    changeable_calls,
    changeable_file_calls,
    changeable_results,
    edit_texts,
    has_own_content,
    has_stub,
    is_worth_stubbing,
    stub_superseded_result,
    superseded_stub,
)


def find_covered_reads(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
    """Find Reads of lines that a later Read gives as they were then."""
    for old, later in changeable_file_calls(view, READ_TOOLS):
        newer = next((each for each in later if each.covers_read(old)), None)
        if newer:
            reason = because(f"read again at line {newer.result.line}")
            said = "old: these lines were read again later"
            yield stub_superseded_result(view, old.result, reason, said)


def find_overwritten_reads(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
    """Find Reads of files that a later Write replaced as a whole."""
    for old, later in changeable_file_calls(view, READ_TOOLS):
        newer = next((each for each in later if each.tool == "Write"), None)
        if newer:
            reason = because(f"written anew at line {newer.result.line}")
            said = "old: this file was written anew later"
            yield stub_superseded_result(view, old.result, reason, said)


def find_reread_edits(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
    """Find Edits whose outcome a later Read of the whole file shows, or a Write replaced."""
    said = "old: this file was read again later"
    for old, later in changeable_file_calls(view, EDIT_TOOLS):
        newer = next((each for each in later if _shows_whole_file(each)), None)
        if newer is None:
            continue
        shorter = {
            name: short
            for name, text in edit_texts(read_tool_input(view, old.call))
            if is_worth_stubbing(text, short := superseded_stub(view, text, said))
        }
        reason = because(f"its outcome stands at line {newer.result.line}")
        yield replace_inputs(view, old.call, reason, shorter)


def _shows_whole_file(touch: FileCall) -> bool:
    asked = touch.read_range
    whole = touch.tool == "Read" and asked.offset in {None, 0, 1} and asked.limit is None
    return whole or touch.tool == "Write"


def find_old_todos(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
    """Find every TodoWrite but the last, which protection keeps."""
    for block in changeable_calls(view, frozenset({"TodoWrite"})):
        todos = read_tool_input(view, block).get("todos")
        if not isinstance(todos, list):
            continue
        text = to_json(todos)
        short = superseded_stub(view, text, "old: a newer list of todos follows")
        item = {"content": short, "status": "completed", "activeForm": "old"}
        if is_worth_stubbing(text, to_json([item])) and not has_stub(text):
            yield replace_inputs(view, block, because("a newer list follows"), {"/todos": [item]})


MIN_TURNS_SINCE_FAILURE: Final = 4
"""A call that failed so many answers ago was tried in another way since (DCP purgeErrors)."""

_KEPT_FIELD_SUFFIXES: Final = ("path", "url")
"""Ends of the names of fields that stay: the client reads files' paths when it loads."""


def find_failed_inputs(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
    """Find the long texts in the inputs of calls that failed; the error itself stays."""
    turns = _answer_numbers(view)
    newest = max(turns.values(), default=0)
    for block in changeable_calls(view):
        result = view.result_of(block)
        if (
            result is None
            or not result.part.failed
            or newest - turns[block.index] < MIN_TURNS_SINCE_FAILURE
        ):
            continue
        shorter = {
            name: short
            for name, text in iter_strings(read_tool_input(view, block), "")
            if not name.endswith(_KEPT_FIELD_SUFFIXES)
            and is_worth_stubbing(
                text, short := superseded_stub(view, text, "this call failed, see its result")
            )
        }
        reason = because(f"the call failed at line {result.line}")
        yield replace_inputs(view, block, reason, shorter)


def _answer_numbers(view: TranscriptView) -> dict[int, int]:
    """Number the answers, by the place of each of their pieces."""
    numbers: dict[str | None, int] = {}
    found = {}
    for block in view.blocks:
        answer = block.entry.message_id
        if answer is not None:
            found[block.index] = numbers.setdefault(answer, len(numbers))
    return found


_WRITE_TOOLS: Final = EDIT_TOOLS | {"Write"}


def find_repeated_calls(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
    """Find results of calls that were made again later with the same input, and succeeded."""
    last: dict[tuple[str, str], VisibleBlock] = {}
    for block in view.blocks:
        call = view.call_of(block)
        answers = block.part.kind is PartKind.TOOL_RESULT and not block.part.failed
        if call and answers and has_own_content(block):
            last[block.part.name, call.digest] = block
    for block in changeable_results(view):
        call = view.call_of(block)
        later = last.get((block.part.name, call.digest)) if call else None
        if later and later.index > block.index and block.part.name not in _WRITE_TOOLS:
            reason = because(f"same call again at line {later.line}")
            said = "old: the same call was made again later"
            yield stub_superseded_result(view, block, reason, said)
