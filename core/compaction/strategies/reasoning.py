"""Level 5: drop thinking, always as whole blocks."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from ...model.conversation import PartKind, binds_thinking
from ...transcript.entry_decoder import THINKING_BLOCKS
from ...transcript.visible_messages import nearest_remaining, open_turn
from .. import edit_builder
from ..edit_builder import CONTENT_POINTER, Because, OperationReason
from ..plan import Edit, Operation, ReplaceValue, Severity
from ..transcript_view import TranscriptView, VisibleBlock


def list_thinking_after(view: TranscriptView, index: int) -> list[VisibleBlock]:
    """List the thinking blocks after a block's index."""
    return [each for each in view.blocks[index + 1 :] if each.part.kind is PartKind.THINKING]


def drop_thinking(
    view: TranscriptView, blocks: Sequence[VisibleBlock], reason: OperationReason
) -> Operation | None:
    """Drop thinking blocks in one operation; None if there are none.

    A line that holds nothing else is removed and its children are attached to its parent,
    because no client is sure to accept a message without content. The other blocks of a line
    keep their bytes.
    """
    numbers = sorted({line for each in blocks for line in (each.line, *view.copies_of(each.line))})
    if not numbers:
        return None
    only_thinking = {line for line in numbers if all(map(_is_thinking, _content(view, line)))}
    edits: list[Edit] = []
    for line in numbers:
        if line in only_thinking:
            edits.append(edit_builder.remove_line(view, line))
        else:
            edits += _without_thinking(view, line)
    edits += _reparent_children(view, only_thinking)
    return Operation(
        strategy=reason.strategy,
        level=reason.level,
        line=numbers[0],
        kind=PartKind.THINKING.value,
        what=f"{len(blocks)} thinking blocks from line {numbers[0]} on",
        why=reason.why,
        tokens_saved=sum(block.tokens for block in blocks),
        bytes_saved=edit_builder.count_saved_bytes(view, edits),
        edits=tuple(edits),
    )


def _content(view: TranscriptView, number: int) -> list[Any]:
    content = edit_builder.resolve_pointer(view.decoded_line(number), CONTENT_POINTER)
    return content if isinstance(content, list) else []


def _is_thinking(block: object) -> bool:
    return isinstance(block, dict) and block.get("type") in THINKING_BLOCKS


def _without_thinking(view: TranscriptView, number: int) -> Iterator[Edit]:
    blocks = _content(view, number)
    left = [index for index, block in enumerate(blocks) if not _is_thinking(block)]
    if len(left) == len(blocks):
        return
    data = view.line_bytes(number)
    spans = [view.value_span(number, f"{CONTENT_POINTER}/{index}") for index in left]
    value = b"[" + b",".join(data[span.start : span.end] for span in spans) + b"]"
    text = value.decode("utf-8", "replace")
    offset, sha256 = view.line(number).offset, view.line_sha256(number)
    yield ReplaceValue(number, offset, sha256, CONTENT_POINTER, text)


def _reparent_children(view: TranscriptView, removed: set[int]) -> Iterator[Edit]:
    """Attach the children of removed lines to the next parent that stays."""
    parents = {
        each.uuid: each.parent for each in view.entries if each.line in removed and each.uuid
    }
    for entry in view.entries:
        if entry.parent in parents and entry.line not in removed:
            parent = nearest_remaining(entry.parent, parents)
            yield from edit_builder.make_replacements(view, entry.line, {"/parentUuid": parent})


THINKING_AFTER: Final = "thinking-after"


def droppable_thinking(view: TranscriptView) -> list[VisibleBlock]:
    """List the thinking that may go if nothing else changes, whatever stays of the rest.

    That of an open turn stays (compaction.md 2.5, rule 2), and what stands in a line that stays.
    Where a model binds thinking, none may be missing between two that stay: what leads may go,
    and what follows the last of them.
    """
    turn = {entry.offset for entry in open_turn(block.entry for block in view.blocks)}
    thinking = [each for each in view.blocks if each.part.kind is PartKind.THINKING]
    staying = [
        each.index for each in thinking if each.entry.offset in turn or view.is_held(each.line)
    ]
    if not staying:
        return thinking
    if binds_thinking(view.model):
        return [each for each in thinking if not staying[0] <= each.index <= staying[-1]]
    return [each for each in thinking if each.index not in staying]


def find_thinking_after_change(
    view: TranscriptView, _because: Because
) -> Iterator[Operation | None]:
    """Find nothing by itself: what is dropped follows from other strategies' changes."""
    yield drop_thinking_after(view, len(view.blocks))


def drop_thinking_after(view: TranscriptView, index: int) -> Operation | None:
    """Drop all thinking after a block's index, the newest too: none of it would be accepted.

    The content before thinking that must stay is protected, and so never changed.
    """
    why = "depends on earlier content that changes"
    reason = OperationReason(THINKING_AFTER, Severity.REASONING, why)
    return drop_thinking(view, list_thinking_after(view, index), reason)


def find_all_thinking(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
    """Find the thinking of all turns that are over."""
    operation = drop_thinking(view, droppable_thinking(view), because("thinking of earlier turns"))
    # A model that does not see earlier turns' thinking gains nothing.
    if operation and operation.tokens_saved:
        yield operation
