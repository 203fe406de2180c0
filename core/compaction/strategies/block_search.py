"""What several strategies search for: long results and calls, and the calls that touched a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from ...measure.context_parts import ReadRange, parse_read_range
from ...transcript.conversation import PartKind
from ..stubs import MIN_STUBBED_CHARS
from ..transcript_view import VisibleBlock  # noqa: TC001 -- msgspec reads it

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..transcript_view import TranscriptView


EDIT_TOOLS: Final = frozenset({"Edit", "MultiEdit", "NotebookEdit"})
SHELL_TOOLS: Final = frozenset({"Bash", "BashOutput", "TaskOutput", "PowerShell"})
LISTING_TOOLS: Final = frozenset({"Glob", "Grep", "LS"})
WEB_TOOLS: Final = frozenset({"WebFetch", "WebSearch"})

DEFAULT_READ_LINES: Final = 2_000
"""Of a Read that names no limit: the client gives no more (its own description of the tool)."""

_ALREADY_READ_PREFIXES: Final = (
    "File unchanged since last read.",
    "Wasted call",
    "<system-reminder>This file is already in your context",
)
"""How a Read's result begins that shows nothing and names an earlier one: what the client itself
compares with (2.1.329)."""


class FileCall(msgspec.Struct, frozen=True):
    """A call that touched a file, and succeeded."""

    result: VisibleBlock
    call: VisibleBlock
    read_range: ReadRange

    @property
    def tool(self) -> str:
        """The tool's name."""
        return self.result.part.name

    def covers_read(self, other: FileCall) -> bool:
        """Whether it is a Read that is certain to hold all lines of the other Read."""
        if self.tool != "Read" or not self.read_range.covers(other.read_range):
            return False
        if self.read_range == other.read_range or self.read_range.limit is not None:
            return True
        last = (other.read_range.offset or 1) + (other.read_range.limit or DEFAULT_READ_LINES)
        return last <= (self.read_range.offset or 1) + DEFAULT_READ_LINES


def changeable_results(
    view: TranscriptView, tools: frozenset[str] | None = None
) -> Iterator[VisibleBlock]:
    """Yield the changeable results of MIN_STUBBED_CHARS or more; of all tools for None."""
    for slot in view.changeable_blocks():
        if slot.part.kind is not PartKind.TOOL_RESULT or slot.chars < MIN_STUBBED_CHARS:
            continue
        if not slot.part.media and (tools is None or slot.part.name in tools):
            yield slot


def changeable_calls(
    view: TranscriptView, tools: frozenset[str] | None = None
) -> Iterator[VisibleBlock]:
    """Yield the changeable calls of MIN_STUBBED_CHARS or more; of all tools for None."""
    for slot in view.changeable_blocks():
        if slot.part.kind is not PartKind.TOOL_INPUT or slot.chars < MIN_STUBBED_CHARS:
            continue
        if tools is None or slot.part.name in tools:
            yield slot


def calls_by_file(view: TranscriptView) -> dict[str, list[FileCall]]:
    """List who touched each file, oldest first; protected ones too, for they overtake others."""
    found: dict[str, list[FileCall]] = {}
    for slot in view.blocks:
        call = view.call_of(slot)
        if call is None or call is slot or slot.part.path is None or slot.part.failed:
            continue
        if (
            slot.part.kind is PartKind.TOOL_RESULT
            and not slot.is_replaced
            and has_own_content(slot)
        ):
            touch = FileCall(slot, call, parse_read_range(call.part.text))
            found.setdefault(slot.part.path, []).append(touch)
    return found


def has_own_content(block: VisibleBlock) -> bool:
    """Whether a result holds content; a repeated Read only refers to an earlier result."""
    return block.part.name != "Read" or not block.part.text.startswith(_ALREADY_READ_PREFIXES)


def is_changeable(view: TranscriptView, block: VisibleBlock) -> bool:
    """Whether a block may be changed and has MIN_STUBBED_CHARS or more."""
    return view.is_changeable(block) and block.chars >= MIN_STUBBED_CHARS


_EDIT_FIELDS: Final = ("old_string", "new_string", "new_source")


def edit_texts(tool_input: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the old and new texts of an Edit, MultiEdit or NotebookEdit by their pointers."""
    for name in _EDIT_FIELDS:
        if isinstance(tool_input.get(name), str):
            yield f"/{name}", tool_input[name]
    edits = tool_input.get("edits")
    for number, edit in enumerate(edits if isinstance(edits, list) else []):
        if isinstance(edit, dict):
            for name in _EDIT_FIELDS:
                if isinstance(edit.get(name), str):
                    yield f"/edits/{number}/{name}", edit[name]
