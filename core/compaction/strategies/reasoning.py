"""Level 5: drop thinking, always as whole blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from ...transcript.conversation import PartKind
from ...transcript.entry_decoder import THINKING_BLOCKS
from ...transcript.parent_chain import nearest_remaining
from ...transcript.visible_messages import waits_for_model
from ..edit_builder import (
    CONTENT_POINTER,
    Because,
    OperationReason,
    count_saved_bytes,
    make_replacements,
    remove_line,
    resolve_pointer,
)
from ..plan import Edit, Operation, ReplaceValue, Severity
from ..transcript_view import TranscriptView, VisibleBlock


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
        edits += [remove_line(view, line)] if line in alone else _without_thinking(view, line)
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
    return isinstance(block, dict) and block.get("type") in THINKING_BLOCKS


def _is_only_thinking(view: TranscriptView, number: int) -> bool:
    return all(map(_is_thinking, _content_blocks(view, number)))


def _without_thinking(view: TranscriptView, number: int) -> Iterator[Edit]:
    blocks = _content_blocks(view, number)
    left = [place for place, block in enumerate(blocks) if not _is_thinking(block)]
    if len(left) == len(blocks):
        return
    data = view.line_bytes(number)
    spans = [view.value_span(number, f"{CONTENT_POINTER}/{place}") for place in left]
    value = b"[" + b",".join(data[span.start : span.end] for span in spans) + b"]"
    text = value.decode("utf-8", "replace")
    offset, sha256 = view.line(number).offset, view.line_sha256(number)
    yield ReplaceValue(number, offset, sha256, CONTENT_POINTER, text)


def _reparent_children(view: TranscriptView, removed: set[int]) -> Iterator[Edit]:
    """Hang the children of lines that go behind the next parent that stays."""
    gone = {each.uuid: each.parent for each in view.entries if each.line in removed and each.uuid}
    for entry in view.entries:
        if entry.parent not in gone or entry.line in removed:
            continue
        parent = nearest_remaining(entry.parent, gone)
        yield from make_replacements(view, entry.line, {"/parentUuid": parent})


THINKING_AFTER: Final = "thinking-after"

_UNBOUND_MODELS: Final = re.compile(r"claude-(?:3-|(?:opus|sonnet|haiku)-4(?:\D|$))")
"""Models known to take thoughts behind a changed text: all before the fifth generation. What
is not known binds them (compaction.md 2.5: the preserved-thinking pages name Fable 5.1 and
later, Opus, Sonnet and Haiku 5.5)."""


def binds_thinking(model: str | None) -> bool:
    """Whether a model accepts its thinking only after an unchanged conversation; yes if unknown."""
    return model is None or _UNBOUND_MODELS.match(model) is None


def find_thinking_after_change(
    view: TranscriptView, _because: Because
) -> Iterator[Operation | None]:
    """Find nothing of its own: it follows from what others change."""
    yield drop_thinking_after(view, len(view.blocks))


def drop_thinking_after(view: TranscriptView, index: int) -> Operation | None:
    """Drop every thought behind a place, whole: also the newest ones, or none would hold."""
    why = "bound to what stands before it, which is changed"
    reason = OperationReason(THINKING_AFTER, Severity.REASONING, why)
    return drop_thinking(view, list_thinking_after(view, index), reason)


def find_all_thinking(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
    """Find all thoughts; none while calls wait for the model (compaction.md 2.5, rule 2)."""
    if has_open_call(view):
        return
    made = drop_thinking(view, list_thinking_after(view, -1), because("thoughts of earlier turns"))
    # A model that sees no earlier turn's thoughts gains nothing.
    if made and made.tokens_saved:
        yield made
