"""Level 3: replace old results with a stub that names what only they held."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final

from ...transcript.conversation import PartKind
from ..edit_builder import (
    OperationReason,
    describe_call,
    read_text,
    read_tool_input,
    replace_images,
    replace_result,
)
from ..plan import Severity
from ..stubs import is_worth_stubbing, stub_with_unique_names
from .block_search import (
    EDIT_TOOLS,
    LISTING_TOOLS,
    SHELL_TOOLS,
    WEB_TOOLS,
    calls_by_file,
    changeable_results,
    is_changeable,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..plan import Operation
    from ..transcript_view import TranscriptView, VisibleBlock


def mask_result(
    view: TranscriptView, block: VisibleBlock, reason: OperationReason, restore_hint: str
) -> Operation | None:
    """Put a stub with a digest in a result's place; None where it is not worth it."""
    text = read_text(view, block)
    if text is None:
        return None
    call = view.call_of(block)
    asked = read_tool_input(view, call) if call else {}
    short = stub_with_unique_names(view, text, f"{describe_call(block, asked)}, ok", restore_hint)
    return replace_result(view, block, reason, short) if is_worth_stubbing(text, short) else None


EDITED_READS: Final = "edited-reads"
LEVEL: Final = Severity.MASKED


def find_edited_reads(view: TranscriptView) -> Iterator[Operation]:
    """Find Reads whose text is not the file's any more, though nothing read it again."""
    for touched in calls_by_file(view).values():
        for number, touch in enumerate(touched):
            if touch.tool != "Read" or not is_changeable(view, touch.result):
                continue
            later = next((each for each in touched[number + 1 :] if each.tool in EDIT_TOOLS), None)
            if later is None:
                continue
            intent = OperationReason(EDITED_READS, LEVEL, f"edited at line {later.result.line}")
            made = mask_result(
                view, touch.result, intent, "The file was edited since: read it again."
            )
            if made:
                yield made


OLD_LISTINGS: Final = "old-listings"


def find_old_listings(view: TranscriptView) -> Iterator[Operation]:
    """Find old results of these tools; a digest of their names stays."""
    for slot in changeable_results(view, LISTING_TOOLS):
        made = mask_result(
            view,
            slot,
            OperationReason(OLD_LISTINGS, LEVEL, "a listing that is old"),
            "Search again for more.",
        )
        if made:
            yield made


OLD_SHELL_OUTPUT: Final = "old-shell-output"

HEAD_LINES: Final = 20
TAIL_LINES: Final = 30
ERROR_LINES: Final = 20
"""All three: compaction.md 7.5 (gemini-cli, codeArbiter)."""

SHORT_TAIL_LINES: Final = 5
"""Of a shorter output: there a test says how it went, and a command what it made."""

MAX_TEXT_LINE_CHARS: Final = 400
"""A longer line is data, and makes the whole be masked."""

_ERROR_WORD: Final = re.compile(
    r"\b(?:error|errors|failed|failure|fatal|panic|exception|traceback|denied|exit code)\b",
    re.IGNORECASE,
)


def find_old_shell_output(view: TranscriptView) -> Iterator[Operation]:
    """Find output of shells that is old; of lines that are data, only names stay."""
    intent = OperationReason(OLD_SHELL_OUTPUT, LEVEL, "output that is old: its end and errors stay")
    for slot in changeable_results(view, SHELL_TOOLS):
        text = read_text(view, slot) or ""
        call = view.call_of(slot)
        what = describe_call(slot, read_tool_input(view, call) if call else {})
        short = next(
            (each for each in _shorter_outputs(view, text, what) if is_worth_stubbing(text, each)),
            None,
        )
        made = None if short is None else replace_result(view, slot, intent, short)
        made = made or mask_result(view, slot, intent, "Run it again for more.")
        if made:
            yield made


def _shorter_outputs(view: TranscriptView, text: str, what: str) -> Iterator[str]:
    """Yield shorter versions of an output, the longest first; none for data."""
    if max(map(len, text.split("\n"))) <= MAX_TEXT_LINE_CHARS:
        yield shorten_output(view, text, what, HEAD_LINES, TAIL_LINES)
        yield shorten_output(view, text, what, 0, SHORT_TAIL_LINES)


def shorten_output(view: TranscriptView, text: str, what: str, first: int, last: int) -> str:
    """Keep the first and last lines of an output, and the lines between that tell of errors."""
    lines = text.split("\n")
    head, between, tail = lines[:first], lines[first:-last], lines[max(first, len(lines) - last) :]
    errors = [line for line in between if _ERROR_WORD.search(line)][:ERROR_LINES]
    left_out = "\n".join(line for line in between if line not in errors)
    kept = "\n".join([*head, *errors, *tail])
    told = stub_with_unique_names(
        view, left_out, f"{what}, the rest", "Run it again for more.", kept
    )
    return "\n".join([*head, told, *errors, *tail])


OLD_WEB_PAGES: Final = "old-web-pages"


def find_old_web_pages(view: TranscriptView) -> Iterator[Operation]:
    """Find old results of these tools; a digest of their names stays."""
    for slot in changeable_results(view, WEB_TOOLS):
        made = mask_result(
            view,
            slot,
            OperationReason(OLD_WEB_PAGES, LEVEL, "a page that is old"),
            "Fetch it again for more.",
        )
        if made:
            yield made


OLD_IMAGES: Final = "old-images"


def find_old_images(view: TranscriptView) -> Iterator[Operation]:
    """Find results with pictures or documents; a line of text stands in each one's place."""
    intent = OperationReason(OLD_IMAGES, LEVEL, "a picture that is old")
    for slot in view.changeable_blocks():
        if slot.part.kind is PartKind.TOOL_RESULT and slot.part.media:
            made = replace_images(view, slot, intent, _image_stub)
            if made:
                yield made


def _image_stub(data: str, kind: str) -> str:
    mark = hashlib.sha256(data.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"[ctxtop {mark}: {kind} left out. Read it again to see it.]"


OLD_RESULTS: Final = "old-results"

_TOOLS_HANDLED_ELSEWHERE: Final = LISTING_TOOLS | SHELL_TOOLS | WEB_TOOLS
"""Of these other strategies know more."""


def find_old_results(view: TranscriptView) -> Iterator[Operation]:
    """Find results that no other strategy knows better; a digest of their names stays."""
    for slot in changeable_results(view):
        if slot.part.name in _TOOLS_HANDLED_ELSEWHERE:
            continue
        back = "Read it again for more." if slot.part.name == "Read" else "Call it again for more."
        made = mask_result(
            view, slot, OperationReason(OLD_RESULTS, LEVEL, "a result that is old"), back
        )
        if made:
            yield made
