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
    read_range: ReadRange

    @property
    def tool(self) -> str:
        """The tool's name."""
        return self.result.part.name

    def covers_read(self, other: Touch) -> bool:
        """Say whether it is a Read of all lines that another Read gave, where that is sure."""
        if self.tool != "Read" or not self.read_range.covers(other.read_range):
            return False
        if self.read_range == other.read_range or self.read_range.limit is not None:
            return True
        last = (other.read_range.offset or 1) + (other.read_range.limit or READ_LINES)
        return last <= (self.read_range.offset or 1) + READ_LINES


def results(view: View, tools: frozenset[str] | None = None) -> Iterator[Slot]:
    """Give the results that may be changed and are long enough, of some tools or of any."""
    for slot in view.changeable_blocks():
        if slot.part.kind is not PieceKind.TOOL_RESULT or slot.chars < SHORTEST_CHARS:
            continue
        if not slot.part.media and (tools is None or slot.part.name in tools):
            yield slot


def inputs(view: View, tools: frozenset[str] | None = None) -> Iterator[Slot]:
    """Give the calls that may be changed and are long enough, of some tools or of any."""
    for slot in view.changeable_blocks():
        if slot.part.kind is not PieceKind.TOOL_INPUT or slot.chars < SHORTEST_CHARS:
            continue
        if tools is None or slot.part.name in tools:
            yield slot


def touches(view: View) -> dict[str, list[Touch]]:
    """List who touched each file, oldest first; protected ones too, for they overtake others."""
    found: dict[str, list[Touch]] = {}
    for slot in view.blocks:
        call = view.call_of(slot)
        if call is None or call is slot or slot.part.path is None or slot.part.failed:
            continue
        if slot.part.kind is PieceKind.TOOL_RESULT and not slot.is_replaced and says(slot):
            touch = Touch(slot, call, range_of(call.part.text))
            found.setdefault(slot.part.path, []).append(touch)
    return found


def says(block: Slot) -> bool:
    """Say whether a result holds what was asked for, and does not name an earlier one instead."""
    return block.part.name != "Read" or not block.part.text.startswith(_SEEN_BEFORE)


def may_change(view: View, block: Slot) -> bool:
    """Say whether a slot may be changed, and is long enough for it."""
    return view.is_changeable(block) and block.chars >= SHORTEST_CHARS
