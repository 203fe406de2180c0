"""Level 5: drop thinking, always as whole blocks."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any, Final

from ...transcript.conversation import PartKind
from ...transcript.visible_messages import waits_for_model
from ..edit_builder import (
    CONTENT_POINTER,
    OperationReason,
    count_saved_bytes,
    make_replacements,
    resolve_pointer,
)
from ..plan import Operation, RemoveLine, ReplaceValue, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..plan import Edit
    from ..transcript_view import TranscriptView, VisibleBlock


THINKING_BLOCK_TYPES: Final = frozenset({"thinking", "redacted_thinking"})
"""Types of the blocks that hold them; neither is ever cut, only dropped whole."""


def list_thinking_after(view: TranscriptView, index: int) -> list[VisibleBlock]:
    """List the thoughts that stand behind a place."""
    return [
        each for each in view.blocks if each.index > index and each.part.kind is PartKind.THINKING
    ]


def has_open_call(view: TranscriptView) -> bool:
    """Whether the newest call's results wait for the model, so that its thinking must stay."""
    return waits_for_model(each.entry for each in view.blocks)


def drop_thinking(
    view: TranscriptView, blocks: Sequence[VisibleBlock], reason: OperationReason
) -> Operation | None:
    """Drop the thoughts of some lines, all of them in one operation: they go together or not.

    A line of nothing else goes, and its children are hung behind its parent: no client takes
    a message without content for sure. The other blocks of a line keep their bytes. None where
    a line must stay for another reason.
    """
    numbers = sorted({line for each in blocks for line in (each.line, *view.copies_of(each.line))})
    if not numbers or any(
        line in view.protected_lines or line in view.leaf_lines for line in numbers
    ):
        return None
    alone = {line for line in numbers if _is_only_thinking(view, line)}
    edits: list[Edit] = []
    for line in numbers:
        edits += [_remove_line(view, line)] if line in alone else _without_thinking(view, line)
    edits += _reparent_children(view, alone)
    return Operation(
        strategy=reason.strategy,
        level=reason.level,
        line=numbers[0],
        kind=PartKind.THINKING.value,
        what=f"{len(blocks)} thoughts from line {numbers[0]} on",
        why=reason.why,
        tokens_saved=sum(each.tokens for each in blocks),
        bytes_saved=count_saved_bytes(view, edits),
        edits=tuple(edits),
    )


def _content_blocks(view: TranscriptView, number: int) -> list[Any]:
    content = resolve_pointer(view.decoded_line(number), CONTENT_POINTER)
    return content if isinstance(content, list) else []


def _is_thinking(block: object) -> bool:
    return isinstance(block, dict) and block.get("type") in THINKING_BLOCK_TYPES


def _is_only_thinking(view: TranscriptView, number: int) -> bool:
    return all(map(_is_thinking, _content_blocks(view, number)))


def _remove_line(view: TranscriptView, number: int) -> RemoveLine:
    data = view.line_bytes(number)
    return RemoveLine(number, view.lines[number - 1].offset, hashlib.sha256(data).hexdigest())


def _without_thinking(view: TranscriptView, number: int) -> Iterator[Edit]:
    blocks = _content_blocks(view, number)
    left = [place for place, block in enumerate(blocks) if not _is_thinking(block)]
    if len(left) == len(blocks):
        return
    data = view.line_bytes(number)
    spans = [view.value_span(number, f"{CONTENT_POINTER}/{place}") for place in left]
    value = b"[" + b",".join(data[span.start : span.end] for span in spans) + b"]"
    yield ReplaceValue(
        number,
        view.lines[number - 1].offset,
        hashlib.sha256(data).hexdigest(),
        CONTENT_POINTER,
        value.decode("utf-8", "replace"),
    )


def _reparent_children(view: TranscriptView, removed: set[int]) -> Iterator[Edit]:
    """Hang the children of lines that go behind the next parent that stays."""
    gone = {each.uuid: each.parent for each in view.entries if each.line in removed and each.uuid}
    for entry in view.entries:
        if entry.parent not in gone or entry.line in removed:
            continue
        parent: str | None = entry.parent
        seen: set[str | None] = set()
        while parent in gone and parent not in seen:
            seen.add(parent)
            parent = gone[parent]
        yield from make_replacements(view, entry.line, {"/parentUuid": parent})


THINKING_AFTER: Final = "thinking-after"
LEVEL: Final = Severity.REASONING

_UNBOUND_MODELS: Final = re.compile(r"claude-(?:3-|(?:opus|sonnet|haiku)-4(?:\D|$))")
"""Models known to take thoughts behind a changed text: all before the fifth generation. What
is not known binds them (compaction.md 2.5: the preserved-thinking pages name Fable 5.1 and
later, Opus, Sonnet and Haiku 5.5)."""


def binds_thinking(model: str | None) -> bool:
    """Whether a model accepts its thinking only after an unchanged conversation; yes if unknown."""
    return model is None or _UNBOUND_MODELS.match(model) is None


def find_thinking_after_change(view: TranscriptView) -> Iterator[Operation]:
    """Find nothing of its own: it follows from what others change."""
    yield from drop_thinking_after(view, len(view.blocks))


def drop_thinking_after(view: TranscriptView, index: int) -> Iterator[Operation]:
    """Drop every thought behind a place, whole: also the newest ones, or none would hold."""
    intent = OperationReason(
        THINKING_AFTER, LEVEL, "bound to what stands before it, which is changed"
    )
    made = drop_thinking(view, list_thinking_after(view, index), intent)
    if made:
        yield made


ALL_THINKING: Final = "all-thinking"


def find_all_thinking(view: TranscriptView) -> Iterator[Operation]:
    """Find all thoughts; none while calls wait for the model (compaction.md 2.5, rule 2)."""
    if has_open_call(view):
        return
    intent = OperationReason(ALL_THINKING, LEVEL, "thoughts of earlier turns")
    made = drop_thinking(view, list_thinking_after(view, -1), intent)
    # A model that sees no earlier turn's thoughts gains nothing.
    if made and made.tokens_saved:
        yield made
