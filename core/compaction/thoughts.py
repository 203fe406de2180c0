"""The thoughts of the model in what is sent, and how they go: always as whole blocks."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

from ..conversation import PieceKind
from .changes import CONTENT, at, bytes_saved, replacing
from .plan import Operation, Remove, Replace
from .project import waits_for_model

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .changes import Intent
    from .plan import Edit
    from .view import Slot, View

THOUGHTS: Final = frozenset({"thinking", "redacted_thinking"})
"""Types of the blocks that hold them; neither is ever cut, only dropped whole."""


def thoughts_after(view: View, index: int) -> list[Slot]:
    """List the thoughts that stand behind a place."""
    return [
        each for each in view.blocks if each.index > index and each.part.kind is PieceKind.THINKING
    ]


def is_open(view: View) -> bool:
    """Say whether the newest call's results wait for the model: its thoughts must stand."""
    return waits_for_model(each.entry for each in view.blocks)


def drop_thoughts(view: View, blocks: Sequence[Slot], reason: Intent) -> Operation | None:
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
    alone = {line for line in numbers if _is_alone(view, line)}
    edits: list[Edit] = []
    for line in numbers:
        edits += [_removal(view, line)] if line in alone else _without(view, line)
    edits += _rehung(view, alone)
    return Operation(
        strategy=reason.strategy,
        level=reason.level,
        line=numbers[0],
        kind=PieceKind.THINKING.value,
        what=f"{len(blocks)} thoughts from line {numbers[0]} on",
        why=reason.why,
        tokens_saved=sum(each.tokens for each in blocks),
        bytes_saved=bytes_saved(view, edits),
        edits=tuple(edits),
    )


def _blocks(view: View, number: int) -> list[Any]:
    content = at(view.decoded_line(number), CONTENT)
    return content if isinstance(content, list) else []


def _is_thought(block: object) -> bool:
    return isinstance(block, dict) and block.get("type") in THOUGHTS


def _is_alone(view: View, number: int) -> bool:
    return all(map(_is_thought, _blocks(view, number)))


def _removal(view: View, number: int) -> Remove:
    data = view.line_bytes(number)
    return Remove(number, view.lines[number - 1].offset, hashlib.sha256(data).hexdigest())


def _without(view: View, number: int) -> Iterator[Edit]:
    blocks = _blocks(view, number)
    left = [place for place, block in enumerate(blocks) if not _is_thought(block)]
    if len(left) == len(blocks):
        return
    data = view.line_bytes(number)
    spans = [view.value_span(number, f"{CONTENT}/{place}") for place in left]
    value = b"[" + b",".join(data[span.start : span.end] for span in spans) + b"]"
    yield Replace(
        number,
        view.lines[number - 1].offset,
        hashlib.sha256(data).hexdigest(),
        CONTENT,
        value.decode("utf-8", "replace"),
    )


def _rehung(view: View, removed: set[int]) -> Iterator[Edit]:
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
        yield from replacing(view, entry.line, {"/parentUuid": parent})
