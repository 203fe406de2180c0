"""Level 2: remove what something newer in the context has superseded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...transcript.conversation import PartKind
from ..edit_builder import (
    OperationReason,
    iter_strings,
    read_text,
    read_tool_input,
    replace_inputs,
    replace_result,
    to_json,
)
from ..plan import Severity
from ..stubs import has_stub, is_worth_stubbing, superseded_stub
from .block_search import (
    EDIT_TOOLS,
    calls_by_file,
    changeable_calls,
    changeable_results,
    edit_texts,
    has_own_content,
    is_changeable,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..plan import Operation
    from ..transcript_view import TranscriptView, VisibleBlock
    from .block_search import FileCall


COVERED_READS: Final = "covered-reads"
LEVEL: Final = Severity.SUPERSEDED


def find_covered_reads(view: TranscriptView) -> Iterator[Operation]:
    """Find Reads of lines that a later Read gives as they were then."""
    for touched in calls_by_file(view).values():
        for number, touch in enumerate(touched):
            if touch.tool != "Read" or not is_changeable(view, touch.result):
                continue
            later = next((each for each in touched[number + 1 :] if each.covers_read(touch)), None)
            if later is None:
                continue
            text = read_text(view, touch.result) or ""
            short = superseded_stub(view, text, "old: these lines were read again later")
            why = f"read again at line {later.result.line}"
            intent = OperationReason(COVERED_READS, LEVEL, why)
            made = is_worth_stubbing(text, short) and replace_result(
                view, touch.result, intent, short
            )
            if made:
                yield made


OVERWRITTEN_READS: Final = "overwritten-reads"


def find_overwritten_reads(view: TranscriptView) -> Iterator[Operation]:
    """Find Reads of files that a later Write replaced as a whole."""
    for touched in calls_by_file(view).values():
        for number, touch in enumerate(touched):
            if touch.tool != "Read" or not is_changeable(view, touch.result):
                continue
            later = next((each for each in touched[number + 1 :] if each.tool == "Write"), None)
            if later is None:
                continue
            text = read_text(view, touch.result) or ""
            short = superseded_stub(view, text, "old: this file was written anew later")
            intent = OperationReason(
                OVERWRITTEN_READS, LEVEL, f"written anew at line {later.result.line}"
            )
            made = is_worth_stubbing(text, short) and replace_result(
                view, touch.result, intent, short
            )
            if made:
                yield made


REREAD_EDITS: Final = "reread-edits"


def find_reread_edits(view: TranscriptView) -> Iterator[Operation]:
    """Find Edits whose outcome a later Read of the whole file shows, or a Write replaced."""
    for touched in calls_by_file(view).values():
        for number, touch in enumerate(touched):
            if touch.tool not in EDIT_TOOLS or not is_changeable(view, touch.call):
                continue
            later = next((each for each in touched[number + 1 :] if _shows_whole_file(each)), None)
            if later is None:
                continue
            shorter = {
                name: short
                for name, text in edit_texts(read_tool_input(view, touch.call))
                if is_worth_stubbing(
                    text,
                    short := superseded_stub(view, text, "old: this file was read again later"),
                )
            }
            intent = OperationReason(
                REREAD_EDITS, LEVEL, f"its outcome stands at line {later.result.line}"
            )
            made = replace_inputs(view, touch.call, intent, shorter)
            if made:
                yield made


def _shows_whole_file(touch: FileCall) -> bool:
    asked = touch.read_range
    whole = touch.tool == "Read" and asked.offset in {None, 0, 1} and asked.limit is None
    return whole or touch.tool == "Write"


OLD_TODOS: Final = "old-todos"


def find_old_todos(view: TranscriptView) -> Iterator[Operation]:
    """Find every TodoWrite but the last, which protection keeps."""
    for slot in changeable_calls(view, frozenset({"TodoWrite"})):
        todos = read_tool_input(view, slot).get("todos")
        if not isinstance(todos, list):
            continue
        text = to_json(todos)
        short = superseded_stub(view, text, "old: a newer list of todos follows")
        item = {"content": short, "status": "completed", "activeForm": "old"}
        if not is_worth_stubbing(text, to_json([item])) or has_stub(text):
            continue
        intent = OperationReason(OLD_TODOS, LEVEL, "a newer list follows")
        made = replace_inputs(view, slot, intent, {"/todos": [item]})
        if made:
            yield made


FAILED_INPUTS: Final = "failed-inputs"

MIN_TURNS_SINCE_FAILURE: Final = 4
"""A call that failed so many answers ago was tried in another way since (DCP purgeErrors)."""

_KEPT_FIELD_SUFFIXES: Final = ("path", "url")
"""Ends of the names of fields that stay: the client reads files' paths when it loads."""


def find_failed_inputs(view: TranscriptView) -> Iterator[Operation]:
    """Find the long texts in the inputs of calls that failed; the error itself stays."""
    turns = _answer_numbers(view)
    newest = max(turns.values(), default=0)
    for slot in changeable_calls(view):
        result = view.result_of(slot)
        if (
            result is None
            or not result.part.failed
            or newest - turns[slot.index] < MIN_TURNS_SINCE_FAILURE
        ):
            continue
        shorter = {
            name: short
            for name, text in iter_strings(read_tool_input(view, slot), "")
            if not name.endswith(_KEPT_FIELD_SUFFIXES)
            and is_worth_stubbing(
                text, short := superseded_stub(view, text, "this call failed, see its result")
            )
        }
        intent = OperationReason(FAILED_INPUTS, LEVEL, f"the call failed at line {result.line}")
        made = replace_inputs(view, slot, intent, shorter)
        if made:
            yield made


def _answer_numbers(view: TranscriptView) -> dict[int, int]:
    """Number the answers, by the place of each of their pieces."""
    numbers: dict[str | None, int] = {}
    found = {}
    for slot in view.blocks:
        answer = slot.entry.message_id
        if answer is not None:
            found[slot.index] = numbers.setdefault(answer, len(numbers))
    return found


REPEATED_CALLS: Final = "repeated-calls"

_WRITE_TOOLS: Final = EDIT_TOOLS | {"Write"}


def find_repeated_calls(view: TranscriptView) -> Iterator[Operation]:
    """Find results of calls that were made again later with the same input, and succeeded."""
    last: dict[tuple[str, str], VisibleBlock] = {}
    for slot in view.blocks:
        call = view.call_of(slot)
        answers = slot.part.kind is PartKind.TOOL_RESULT and not slot.part.failed
        if call and answers and has_own_content(slot):
            last[slot.part.name, call.digest] = slot
    for slot in changeable_results(view):
        call = view.call_of(slot)
        later = last.get((slot.part.name, call.digest)) if call else None
        if later is None or later.index <= slot.index or slot.part.name in _WRITE_TOOLS:
            continue
        text = read_text(view, slot) or ""
        short = superseded_stub(view, text, "old: the same call was made again later")
        intent = OperationReason(REPEATED_CALLS, LEVEL, f"same call again at line {later.line}")
        made = is_worth_stubbing(text, short) and replace_result(view, slot, intent, short)
        if made:
            yield made
