"""What several strategies look for: results of tools, and who touched a file when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from ...conversation import PieceKind
from ...superseded import ReadRange, range_of
from ..stubs import SHORTEST_CHARS
from ..view import Slot  # noqa: TC001 -- msgspec reads it

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..view import View

EDITS: Final = frozenset({"Edit", "MultiEdit", "NotebookEdit"})
SHELLS: Final = frozenset({"Bash", "BashOutput", "TaskOutput", "PowerShell"})
LISTINGS: Final = frozenset({"Glob", "Grep", "LS"})
WEB: Final = frozenset({"WebFetch", "WebSearch"})

READ_LINES: Final = 2_000
"""Of a Read that names no limit: the client gives no more (its own description of the tool)."""

_SEEN_BEFORE: Final = (
    "File unchanged since last read.",
    "Wasted call",
    "<system-reminder>This file is already in your context",
)
"""How a Read's result begins that shows nothing and names an earlier one: what the client itself
compares with (2.1.329)."""


class Touch(msgspec.Struct, frozen=True):
    """A call that touched a file, and succeeded."""

    result: Slot
    call: Slot
    range: ReadRange

    @property
    def tool(self) -> str:
        """The tool's name."""
        return self.result.piece.name

    def shows(self, other: Touch) -> bool:
        """Say whether it is a Read of all lines that another Read gave, where that is sure."""
        if self.tool != "Read" or not self.range.covers(other.range):
            return False
        if self.range == other.range or self.range.limit is not None:
            return True
        last = (other.range.offset or 1) + (other.range.limit or READ_LINES)
        return last <= (self.range.offset or 1) + READ_LINES


def results(view: View, tools: frozenset[str] | None = None) -> Iterator[Slot]:
    """Give the results that may be changed and are long enough, of some tools or of any."""
    for slot in view.open():
        if slot.piece.kind is not PieceKind.TOOL_RESULT or slot.chars < SHORTEST_CHARS:
            continue
        if not slot.piece.media and (tools is None or slot.piece.name in tools):
            yield slot


def inputs(view: View, tools: frozenset[str] | None = None) -> Iterator[Slot]:
    """Give the calls that may be changed and are long enough, of some tools or of any."""
    for slot in view.open():
        if slot.piece.kind is not PieceKind.TOOL_INPUT or slot.chars < SHORTEST_CHARS:
            continue
        if tools is None or slot.piece.name in tools:
            yield slot


def touches(view: View) -> dict[str, list[Touch]]:
    """List who touched each file, oldest first; protected ones too, for they overtake others."""
    found: dict[str, list[Touch]] = {}
    for slot in view.slots:
        call = view.call_of(slot)
        if call is None or call is slot or slot.piece.path is None or slot.piece.failed:
            continue
        if slot.piece.kind is PieceKind.TOOL_RESULT and not slot.replaced and says(slot):
            touch = Touch(slot, call, range_of(call.piece.text))
            found.setdefault(slot.piece.path, []).append(touch)
    return found


def says(slot: Slot) -> bool:
    """Say whether a result holds what was asked for, and does not name an earlier one instead."""
    return slot.piece.name != "Read" or not slot.piece.text.startswith(_SEEN_BEFORE)


def may_change(view: View, slot: Slot) -> bool:
    """Say whether a slot may be changed, and is long enough for it."""
    return view.is_open(slot) and slot.chars >= SHORTEST_CHARS
