"""What is told of a compaction, in a cell and in the lines below its row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...core import thrash
from ..formats import NOTHING, middle, plural
from ..told_lines import UNKNOWN, told_lines
from .columns import Cell, one_line, paint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...core.summaries.forgotten import Counts
    from ...core.told import Told

_INDENT: Final = "  "
_LABEL: Final = 13


def forgot(told: Told | None) -> Cell | str:
    """Say how much was forgotten."""
    if told is None:
        return NOTHING
    if not told.is_known:
        return Cell("unknown", "quiet")
    counts = ", ".join(_counted(told.forgotten.counts))
    return counts or Cell("nothing", "quiet")


def too_soon(told: Told | None) -> Cell | str:
    """Mark a compaction that came soon after another."""
    found = thrash.thrash(told.refill) if told else None
    return Cell(f"after {plural(found.turns_since_last, 'turn')}", "warning") if found else ""


def details(told: Told | None, width: int) -> list[str]:
    """Lay out all that is told of a compaction, in lines of at most `width` cells."""
    if told is None:
        return [paint(f"{_INDENT}nothing is told of it yet: its file was not read", "quiet")]
    if not told.is_known:
        return [paint(f"{_INDENT}{UNKNOWN}", "quiet")]
    room = max(1, width - len(_INDENT) - _LABEL)
    return [
        paint(_INDENT + f"{label:<{_LABEL}}", "quiet") + middle(one_line(text), room)
        for label, text in told_lines(told, room)
    ]


def _counted(counts: Counts) -> Iterator[str]:
    for count, what in (
        (counts.files, "file"),
        (counts.identifiers, "name"),
        (counts.decisions, "decision"),
        (counts.todos, "todo"),
        (counts.constraints, "rule"),
    ):
        if count:
            yield plural(count, what)
