"""What strategies share: the blocks that are worth a stub, and the stub that replaces a text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from ...measure.context_parts import ReadRange, parse_read_range
from ...summaries.decision_patterns import quote_line
from ...transcript.conversation import PartKind
from ..edit_builder import OperationReason, read_text, replace_result
from ..plan import Operation
from ..transcript_view import TranscriptView, VisibleBlock, hash_text

MIN_STUBBED_CHARS: Final = 500
"""A shorter text stays (compaction.md 7.5; claude-code-tools has the same)."""

MAX_NAMES_CHARS: Final = 700  # of the identifiers in a stub, at most (compaction.md 1.4b)
SHORT_STUB_BYTES: Final = 80
"""Of a stub for what stands elsewhere in the same context (compaction.md 7.5)."""

MIN_STUB_RATIO: Final = 2
"""A text that is not longer than so many of its stubs stays (compaction.md 7.2)."""

MARK_HEX_CHARS: Final = 8

_WHAT_CHARS: Final = 160
_LINE_END: Final = "\n"
_STUB_START: Final = re.compile(rf"\[ctxtop [0-9a-f]{{{MARK_HEX_CHARS}}}: ")


def has_stub(text: str) -> bool:
    """Whether a text contains a stub already; such a text is left as it is."""
    return _STUB_START.search(text) is not None


def text_mark(text: str) -> str:
    """Return the hash by which a stub identifies the text it replaces; equal in every plan."""
    return hash_text(text, MARK_HEX_CHARS)


def make_stub(text: str, description: str, restore_hint: str, names: Iterable[str] = ()) -> str:
    """Write a stub: what a text was, how to restore it, and which names it held.

    `description` is the tool with its path or command, range and status; `names` are those found
    nowhere else, up to MAX_NAMES_CHARS.
    """
    return f"{_stub_head(text, description, restore_hint)}{_names_suffix(names)}]"


def make_stubs(text: str, description: str, restore_hint: str, names: Iterable[str]) -> str:
    """Write a stub for each part of a long text, so that all names are in one of the digests.

    A part begins at the line of its first name; MAX_NAMES_CHARS hold for each.
    """
    at = sorted((text.find(name), name) for name in names)
    parts = [f"{_stub_head(text, description, restore_hint)}"]
    left = MAX_NAMES_CHARS
    held: list[str] = []
    for place, name in at:
        if held and len(name) + 2 > left:
            parts[-1] += f"{_names_suffix(held)}]"
            parts.append(
                f"[ctxtop {text_mark(text)}: from line {text.count(_LINE_END, 0, place) + 1}."
            )
            held, left = [], MAX_NAMES_CHARS
        held.append(name)
        left -= len(name) + 2
    return "\n".join([*parts[:-1], f"{parts[-1]}{_names_suffix(held)}]"])


def _stub_head(text: str, description: str, restore_hint: str) -> str:
    said = (
        f"[ctxtop {text_mark(text)}: {quote_line(description, _WHAT_CHARS)}; {len(text):,}"
        f" chars left out. {restore_hint}"
    )
    return said.rstrip()


def make_short_stub(text: str, reason: str, names: Iterable[str] = ()) -> str:
    """Write a stub of SHORT_STUB_BYTES for a text that is repeated elsewhere or superseded.

    `names` that are found nowhere else are added after it, as in a stub.
    """
    start = f"[ctxtop {text_mark(text)}: "
    room = SHORT_STUB_BYTES - len(start) - 1
    return f"{start}{reason.encode()[:room].decode('utf-8', 'ignore')}{_names_suffix(names)}]"


def _names_suffix(names: Iterable[str]) -> str:
    found = ", ".join(_names_that_fit(names, MAX_NAMES_CHARS))
    return f" It names: {found}" if found else ""


def is_worth_stubbing(text: str, replacement: str) -> bool:
    """Whether a text is long enough to be replaced and contains no stub yet."""
    return (
        len(text) >= MIN_STUBBED_CHARS
        and len(text) > MIN_STUB_RATIO * len(replacement)
        and not has_stub(text)
    )


def _names_that_fit(names: Iterable[str], chars: int) -> list[str]:
    found: list[str] = []
    left = chars
    for name in names:
        if len(name) + 2 <= left:
            found.append(name)
            left -= len(name) + 2
    return found


def stub_with_unique_names(
    view: TranscriptView,
    removed_text: str,
    description: str,
    restore_hint: str,
    kept_text: str = "",
) -> str:
    """Write a stub for a part of a piece; it names what no other piece does, nor `kept`.

    What one digest does not hold gets several, if the text is long enough for that.
    """
    names = view.name_index.unique_names(removed_text, kept_text)
    if sum(len(name) + 2 for name in names) > MAX_NAMES_CHARS:
        several = make_stubs(removed_text, description, restore_hint, names)
        if is_worth_stubbing(removed_text, several):
            return several
    return make_stub(removed_text, description, restore_hint, names)


def superseded_stub(view: TranscriptView, removed_text: str, reason: str) -> str:
    """Write a pointer for a part of a piece, with what no other piece names."""
    return make_short_stub(removed_text, reason, view.name_index.unique_names(removed_text))


def stub_result(
    view: TranscriptView, block: VisibleBlock, reason: OperationReason, text: str, stub: str
) -> Operation | None:
    """Replace a result's text by a stub, if the text is long enough for that."""
    return replace_result(view, block, reason, stub) if is_worth_stubbing(text, stub) else None


def stub_superseded_result(
    view: TranscriptView, block: VisibleBlock, reason: OperationReason, said: str
) -> Operation | None:
    """Replace a result by a pointer to what supersedes it, if it is long enough for that."""
    text = read_text(view, block) or ""
    return stub_result(view, block, reason, text, superseded_stub(view, text, said))


READ_TOOLS: Final = frozenset({"Read"})
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
        return self.result.part.name

    @property
    def text_block(self) -> VisibleBlock:
        """What holds the file's text: the result of a Read, the call of an Edit."""
        return self.result if self.tool in READ_TOOLS else self.call

    def covers_read(self, other: FileCall) -> bool:
        """Whether it is a Read that is certain to hold all lines of the other Read."""
        if self.tool != "Read" or not self.read_range.covers(other.read_range):
            return False
        if self.read_range == other.read_range or self.read_range.limit is not None:
            return True
        last = (other.read_range.offset or 1) + (other.read_range.limit or DEFAULT_READ_LINES)
        return last <= (self.read_range.offset or 1) + DEFAULT_READ_LINES


def long_blocks(view: TranscriptView, kind: PartKind) -> Iterator[VisibleBlock]:
    """Yield the changeable blocks of one kind that have MIN_STUBBED_CHARS or more."""
    return (
        block
        for block in view.changeable_blocks()
        if block.part.kind is kind and block.chars >= MIN_STUBBED_CHARS
    )


def changeable_results(
    view: TranscriptView, tools: frozenset[str] | None = None
) -> Iterator[VisibleBlock]:
    """Yield the changeable results of MIN_STUBBED_CHARS or more; of all tools for None."""
    for block in long_blocks(view, PartKind.TOOL_RESULT):
        if not block.part.media and (tools is None or block.part.name in tools):
            yield block


def changeable_calls(
    view: TranscriptView, tools: frozenset[str] | None = None
) -> Iterator[VisibleBlock]:
    """Yield the changeable calls of MIN_STUBBED_CHARS or more; of all tools for None."""
    for block in long_blocks(view, PartKind.TOOL_INPUT):
        if tools is None or block.part.name in tools:
            yield block


def changeable_file_calls(
    view: TranscriptView, tools: frozenset[str]
) -> Iterator[tuple[FileCall, list[FileCall]]]:
    """Yield the calls of some tools whose text may be changed, and what touched the file later."""
    for calls in _calls_by_file(view).values():
        for number, call in enumerate(calls):
            if call.tool in tools and _is_changeable(view, call.text_block):
                yield call, calls[number + 1 :]


def _calls_by_file(view: TranscriptView) -> dict[str, list[FileCall]]:
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


def _is_changeable(view: TranscriptView, block: VisibleBlock) -> bool:
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
