"""The usage that the newest answer recorded: the overhead it reveals, and lowering it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from ..transcript.conversation import (
    Entry,
    find_cleared_content,
    last_boundary,
    measured_answers,
    without_sidechains,
)
from ..transcript.parent_chain import follow_chain
from .edit_builder import count_saved_bytes, make_replacements
from .plan import AppendLine, Edit, Operation, ReplaceValue, Severity, edits_of
from .transcript_view import TranscriptView, VisibleBlock


def estimate_overhead(
    blocks: Sequence[VisibleBlock], entries: Sequence[Entry], count_tokens: Callable[[Entry], int]
) -> int:
    """Estimate it in tokens from the newest answer behind the last boundary.

    Where none follows the boundary, or where it had no more than the messages before it are
    estimated at, it is taken from the session's first answer, before which stands so little
    that its estimate is hardly off; `tokens` counts those lines. 0 where no answer says what
    it used.
    """
    newest = _overhead_by_newest(blocks, entries)
    if newest > 0:
        return newest
    begun = _until_first_answer(entries)
    if not begun:
        return 0
    return max(0, (begun[-1].context_tokens or 0) - sum(map(count_tokens, begun[:-1])))


def lines_for_overhead(entries: Sequence[Entry], sent: Sequence[Entry]) -> list[Entry]:
    """List the lines that `estimate_overhead` has to count beside those that are sent."""
    newest = next(measured_answers(entries, sent), None)
    return [] if newest else _until_first_answer(entries)


def count_cleared_tokens(
    blocks: Sequence[VisibleBlock], entries: Sequence[Entry], answer: Entry
) -> int:
    """Estimate how many tokens of some slots an answer's request did not hold any more."""
    cleared = find_cleared_content(answer, entries)
    return sum(each.tokens for each in blocks if cleared.includes(each.entry, each.part))


def _overhead_by_newest(blocks: Sequence[VisibleBlock], entries: Sequence[Entry]) -> int:
    answer = next(measured_answers(entries, [each.entry for each in blocks]), None)
    if answer is None:
        return 0
    first = next(each for each in blocks if each.entry.message_id == answer.message_id)
    held = first.tokens_before - count_cleared_tokens(blocks[: first.index], entries, answer)
    return (answer.context_tokens or 0) - held


def _until_first_answer(entries: Sequence[Entry]) -> list[Entry]:
    spoken = [each for each in without_sidechains(entries) if each.parts]
    first = next((n for n, each in enumerate(spoken) if each.context_tokens), None)
    return [] if first is None else spoken[: first + 1]


USAGE_STRATEGY: Final = "usage"

_USAGE: Final = "/message/usage"
_ITERATIONS: Final = "iterations"


def add_lowered_usage(
    view: TranscriptView, operations: tuple[Operation, ...]
) -> tuple[Operation, ...]:
    """Add the lowered usage to a plan's operations, where they make it untrue."""
    lowered = lower_usage(view, operations)
    return operations if lowered is None else (*operations, lowered)


def lower_usage(view: TranscriptView, operations: Sequence[Operation]) -> Operation | None:
    """Plan that the newest answer says what `operations` leave of the context it saw.

    None where nothing of it goes, and where no answer stands behind the last boundary: the
    client goes by the boundary then.
    """
    answer = _newest_answer_lines(view, _rewritten_line_numbers(operations))
    saved = sum(each.tokens_saved for each in operations if _is_seen_by(each, answer))
    recorded = max((each.context_tokens or 0 for each in answer), default=0)
    # What was cleared in memory comes back on a resume: what it saves, the answer never saw.
    saved -= sum(count_cleared_tokens(view.blocks, view.entries, each) for each in answer[:1])
    if not 0 < saved < recorded:
        # Nothing that it saw goes, or it says less than that: then it is low already.
        return None
    left = recorded - saved
    edits = [edit for entry in answer for edit in _usage_edits(view, entry.line, left)]
    return Operation(
        strategy=USAGE_STRATEGY,
        level=Severity.FILE_ONLY,
        line=answer[-1].line,
        kind=USAGE_STRATEGY,
        what=f"the newest answer's usage: {recorded:,} → {left:,} tokens",
        why="the client goes by it when it resumes: too high, and it compacts at once",
        tokens_saved=0,
        bytes_saved=count_saved_bytes(view, edits),
        edits=tuple(edits),
    )


def _newest_answer_lines(view: TranscriptView, taken: set[int]) -> list[Entry]:
    """List the lines of the newest answer behind the last boundary that says what it used."""
    last = last_boundary(view.entries)
    start = -1 if last is None else last.offset
    answers = [
        each
        for each in follow_chain(view.entries)
        if each.context_tokens and each.offset > start and each.line not in taken
    ]
    return [each for each in answers if each.message_id == answers[-1].message_id]


def _is_seen_by(operation: Operation, answer: Sequence[Entry]) -> bool:
    """Whether the line that an operation changes comes before the answer."""
    return operation.line is not None and any(operation.line < each.line for each in answer)


def _rewritten_line_numbers(operations: Sequence[Operation]) -> set[int]:
    """Return the lines that go, or that another operation rewrites as a whole."""
    return {
        edit.line
        for edit in edits_of(operations)
        if not isinstance(edit, AppendLine) and not _keeps_usage(edit)
    }


def _keeps_usage(edit: Edit) -> bool:
    return isinstance(edit, ReplaceValue) and not f"{_USAGE}/".startswith(f"{edit.pointer}/")


def _usage_edits(view: TranscriptView, number: int, left: int) -> Iterator[Edit]:
    usage: dict[str, Any] = view.decoded_line(number)["message"]["usage"]
    last = {
        "type": "message",
        "input_tokens": left,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": _last_output_tokens(usage),
    }
    if _ITERATIONS in usage:
        return make_replacements(view, number, {f"{_USAGE}/{_ITERATIONS}": [last]})
    return make_replacements(view, number, {_USAGE: usage | {_ITERATIONS: [last]}})


def _last_output_tokens(usage: dict[str, Any]) -> int:
    """Return the output tokens of the last step, if there are several, as the client does."""
    steps = usage.get(_ITERATIONS) or [usage]
    return int(steps[-1].get("output_tokens") or 0)
