"""Where the model's thoughts stand in what is sent."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

from ..conversation import PieceKind
from .project import is_result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .view import Slot, View

THOUGHTS: Final = frozenset({"thinking", "redacted_thinking"})
"""Types of the blocks that hold them; neither is ever cut, only dropped whole."""


def thoughts_by_line(view: View, place: int) -> Iterator[list[Slot]]:
    """Give the thoughts that stand behind a place, those of one line together."""
    found = (
        each
        for each in view.slots
        if each.place > place
        and each.piece.kind is PieceKind.THINKING
        and each.line not in view.kept
    )
    for _, slots in groupby(found, key=lambda each: each.line):
        yield list(slots)


def is_open(view: View) -> bool:
    """Say whether the newest call's results wait for the model: its thoughts must stand."""
    return bool(view.slots) and is_result(view.slots[-1].piece)
