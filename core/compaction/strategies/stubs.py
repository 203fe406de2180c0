"""What strategies share: the blocks that are worth a stub, and the stub that replaces a text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from ...measure.composition import ReadRange, parse_read_range
from ...model.conversation import PartKind
from ...summaries.decision_patterns import quote_line
from ...summaries.mentions import fitting_names
from ...summaries.tool_outcomes import READ_AGAIN
from ...transcript.line_types import EDIT_TOOLS
from ..edit_builder import OperationReason, read_text, replace_result
from ..plan import Operation
from ..protection import ERROR
from ..transcript_view import TranscriptView, VisibleBlock, hash_text

MIN_STUBBED_CHARS: Final = 200  # of a text: about two stubs without names
MAX_NAMES_CHARS: Final = 700  # of the names in a stub (compaction.md 1.4b)
SHORT_STUB_BYTES: Final = 80  # for what the same context repeats elsewhere (compaction.md 7.5)
MIN_STUB_RATIO: Final = 2  # a text no longer than this many stubs stays (compaction.md 7.2)
MARK_HEX_CHARS: Final = 8
_WHAT_CHARS: Final = 160
CAPPED: Final = "capped "  # how the description in a capped result's stub begins
_STUB_START: Final = re.compile(rf"\[ctxtop ([0-9a-f]{{{MARK_HEX_CHARS}}}): ({CAPPED})?")


def has_stub(text: str) -> bool:
    """Whether a text contains a stub already; such a text is left as it is.

    A capped result can still be large: once it is old, it is masked like any other.
    """
    stubs = _STUB_START.findall(text)
    capped = {mark for mark, is_capped in stubs if is_capped}
    return any(mark not in capped for mark, _ in stubs)


def text_mark(text: str) -> str:
    """Return the hash by which a stub identifies the text it replaces; equal in every plan."""
    return hash_text(text, MARK_HEX_CHARS)


def is_worth_stubbing(text: str, replacement: str) -> bool:
    """Whether a text is long enough to be replaced and contains no stub yet."""
    is_long = len(text) >= MIN_STUBBED_CHARS and len(text) > MIN_STUB_RATIO * len(replacement)
    return is_long and not has_stub(text)


def make_stub(text: str, description: str, restore_hint: str, names: Iterable[str] = ()) -> str:
    """Write a stub: what a text was, how to restore it, and which names it held.

    `description` is the tool with its path or command, range and status; `names` are those found
    nowhere else, up to MAX_NAMES_CHARS.
    """
    return f"{_stub_head(text, description, restore_hint)}{_names_suffix(names)}]"


def make_stubs(text: str, description: str, restore_hint: str, names: Iterable[str]) -> str:
    """Write a stub for each part of a long text, so that all names are in one of the stubs.

    A part begins at the line of its first name; MAX_NAMES_CHARS hold for each.
    """
    heads = [_stub_head(text, description, restore_hint)]
    parts: list[list[str]] = [[]]
    left = MAX_NAMES_CHARS
    for place, name in sorted((text.find(name), name) for name in names):
        if parts[-1] and len(name) + 2 > left:
            line = text.count("\n", 0, place) + 1
            heads.append(f"[ctxtop {text_mark(text)}: from line {line}.")
            parts.append([])
            left = MAX_NAMES_CHARS
        parts[-1].append(name)
        left -= len(name) + 2
    return "\n".join(
        f"{head}{_names_suffix(held)}]" for head, held in zip(heads, parts, strict=True)
    )


def _stub_head(text: str, description: str, restore_hint: str) -> str:
    what = f"{quote_line(description, _WHAT_CHARS)}; " if description else ""
    return f"[ctxtop {text_mark(text)}: {what}{len(text):,} chars left out. {restore_hint}".rstrip()


def make_short_stub(text: str, reason: str, names: Iterable[str] = ()) -> str:
    """Write a stub of SHORT_STUB_BYTES, and behind it `names` that are found nowhere else."""
    start = f"[ctxtop {text_mark(text)}: "
    room = SHORT_STUB_BYTES - len(start) - 1
    return f"{start}{reason.encode()[:room].decode('utf-8', 'ignore')}{_names_suffix(names)}]"


def _names_suffix(names: Iterable[str]) -> str:
    """List the names that fit into MAX_NAMES_CHARS."""
    fitting = fitting_names(names, MAX_NAMES_CHARS)
    return f" It names: {', '.join(fitting)}" if fitting else ""


def stub_with_unique_names(
    view: TranscriptView,
    removed_text: str,
    description: str,
    restore_hint: str,
    kept_text: str = "",
) -> str:
    """Write a stub for a part of a block, with the names that neither others nor the rest hold.

    Names that do not fit into one stub get several, if the text is long enough for that.
    """
    names = view.name_index.unique_names(removed_text, kept_text)
    if sum(len(name) + 2 for name in names) > MAX_NAMES_CHARS:
        several = make_stubs(removed_text, description, restore_hint, names)
        if is_worth_stubbing(removed_text, several):
            return several
    return make_stub(removed_text, description, restore_hint, names)


def superseded_stub(view: TranscriptView, removed_text: str, reason: str) -> str:
    """Write a short stub for a part of a block, with the names that no other block holds."""
    return make_short_stub(removed_text, reason, view.name_index.unique_names(removed_text))


def stub_result(
    view: TranscriptView, block: VisibleBlock, reason: OperationReason, text: str, stub: str
) -> Operation | None:
    """Replace a result's text by a stub, if the text is long enough for that."""
    return replace_result(view, block, reason, stub) if is_worth_stubbing(text, stub) else None


def stub_superseded_result(
    view: TranscriptView, block: VisibleBlock, reason: OperationReason, note: str
) -> Operation | None:
    """Replace a result by a short stub, if it is long enough for that."""
    text = read_text(view, block) or ""
    return stub_result(view, block, reason, text, superseded_stub(view, text, note))


READ_TOOLS: Final = frozenset({"Read"})
SHELL_TOOLS: Final = frozenset({"Bash", "BashOutput", "TaskOutput", "PowerShell"})
LISTING_TOOLS: Final = frozenset({"Glob", "Grep", "LS"})
WEB_TOOLS: Final = frozenset({"WebFetch", "WebSearch"})

_RESTORE_HINTS: Final = {
    **dict.fromkeys(READ_TOOLS, READ_AGAIN),
    **dict.fromkeys(SHELL_TOOLS, "Run it again for more."),
    **dict.fromkeys(LISTING_TOOLS, "Search again for more."),
    **dict.fromkeys(WEB_TOOLS, "Fetch it again for more."),
}


def restore_hint(tool: str) -> str:
    """Return how the model gets a tool's result back."""
    return _RESTORE_HINTS.get(tool, "Call it again for more.")


DEFAULT_READ_LINES: Final = 2_000  # of a Read without a limit (the tool's own description)
_ALREADY_READ_PREFIXES: Final = (
    "File unchanged since last read.",
    "Wasted call",
    "<system-reminder>This file is already in your context",
)
"""Beginnings of a Read's result that only refers to an earlier one: what the client itself
compares with (2.1.329)."""


class FileCall(msgspec.Struct, frozen=True):
    """A call that touched a file and succeeded."""

    result: VisibleBlock
    call: VisibleBlock
    read_range: ReadRange

    @property
    def tool(self) -> str:
        return self.result.part.name

    @property
    def text_block(self) -> VisibleBlock:
        """The block with the file's text: the result of a Read, the call of an Edit."""
        return self.result if self.tool in READ_TOOLS else self.call

    def covers_read(self, other: FileCall) -> bool:
        """Whether it is a Read that is certain to hold all lines of the other Read."""
        own, old = self.read_range, other.read_range
        if self.tool != "Read" or not own.covers(old):
            return False
        if own == old or own.limit is not None:
            return True
        last = (old.offset or 1) + (old.limit or DEFAULT_READ_LINES)
        return last <= (own.offset or 1) + DEFAULT_READ_LINES


def long_blocks(
    view: TranscriptView, kind: PartKind, tools: frozenset[str] | None = None
) -> Iterator[VisibleBlock]:
    """Yield the changeable blocks of one kind and some tools, of MIN_STUBBED_CHARS or more."""
    for block in view.changeable_blocks():
        is_wanted = block.part.kind is kind and (tools is None or block.part.name in tools)
        if is_wanted and block.chars >= MIN_STUBBED_CHARS:
            yield block


def changeable_results(
    view: TranscriptView, tools: frozenset[str] | None = None
) -> Iterator[VisibleBlock]:
    """Yield the long changeable results without images; of all tools for None."""
    return (each for each in long_blocks(view, PartKind.TOOL_RESULT, tools) if not each.part.media)


def is_failed_command(view: TranscriptView, block: VisibleBlock) -> bool:
    """Whether a block is the old result of a command that failed: it may be shortened."""
    is_old = block.protected_reason == ERROR and view.is_untouched(block)
    return is_old and block.part.name in SHELL_TOOLS and not block.part.media


def changeable_calls(
    view: TranscriptView, tools: frozenset[str] | None = None
) -> Iterator[VisibleBlock]:
    """Yield the long changeable calls; of all tools for None."""
    return long_blocks(view, PartKind.TOOL_INPUT, tools)


def changeable_file_calls(
    view: TranscriptView, tools: frozenset[str]
) -> Iterator[tuple[FileCall, list[FileCall]]]:
    """Yield the calls of some tools whose text may be changed, each with the file's later calls."""
    for calls in _calls_by_file(view).values():
        for number, call in enumerate(calls, 1):
            is_long = call.text_block.chars >= MIN_STUBBED_CHARS
            if call.tool in tools and is_long and view.is_changeable(call.text_block):
                yield call, calls[number:]


def _calls_by_file(view: TranscriptView) -> dict[str, list[FileCall]]:
    """Group the calls by file, oldest first; protected ones too, because they supersede others."""
    calls: dict[str, list[FileCall]] = {}
    for block in view.blocks:
        call, path = view.call_of(block), block.part.path
        if call is None or call is block or path is None or block.part.failed:
            continue
        is_result = block.part.kind is PartKind.TOOL_RESULT and not block.is_replaced
        if is_result and has_own_content(block):
            calls.setdefault(path, []).append(
                FileCall(block, call, parse_read_range(call.part.text))
            )
    return calls


OFTEN_EDITED: Final = 3  # times: the model works on the file, and is likely to edit it again


def reads_of_edited_files(view: TranscriptView, recent_line: int) -> frozenset[int]:
    """Return the lines of the newest Read of each file that was edited often, or recently.

    The next Edit of such a file needs its text word for word.
    """
    lines: set[int] = set()
    for calls in _calls_by_file(view).values():
        edits = [call.result.line for call in calls if call.tool in EDIT_TOOLS]
        reads = [call.result.line for call in calls if call.tool in READ_TOOLS]
        if reads and edits and (len(edits) >= OFTEN_EDITED or edits[-1] >= recent_line):
            lines.add(reads[-1])
    return frozenset(lines)


def has_own_content(block: VisibleBlock) -> bool:
    """Whether a result holds content; a repeated Read only refers to an earlier result."""
    return block.part.name != "Read" or not block.part.text.startswith(_ALREADY_READ_PREFIXES)


_EDIT_FIELDS: Final = ("old_string", "new_string", "new_source")


def edit_texts(tool_input: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the old and new texts of an Edit, MultiEdit or NotebookEdit by their pointers."""
    edits = tool_input.get("edits")
    numbered = enumerate(edits if isinstance(edits, list) else [])
    for parent, edit in (("", tool_input), *((f"/edits/{n}", edit) for n, edit in numbered)):
        for name in _EDIT_FIELDS:
            if isinstance(edit, dict) and isinstance(edit.get(name), str):
                yield f"{parent}/{name}", edit[name]
