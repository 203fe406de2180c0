"""Levels 3 and 6: replace old results and old prose with a stub that names what only they held."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Final

from ...summaries.decision_patterns import DECISION_PATTERN, REASON_PATTERN, RULE_PATTERN
from ...transcript.conversation import PartKind
from ...transcript.line_types import EDIT_TOOLS
from ..edit_builder import (
    Because,
    FindOperations,
    OperationReason,
    describe_call,
    read_text,
    read_tool_input,
    replace_images,
    replace_result,
    replace_text,
)
from ..plan import Operation
from ..transcript_view import TranscriptView, VisibleBlock
from .stubs import (
    LISTING_TOOLS,
    READ_TOOLS,
    SHELL_TOOLS,
    WEB_TOOLS,
    changeable_file_calls,
    changeable_results,
    is_worth_stubbing,
    long_blocks,
    stub_result,
    stub_with_unique_names,
)


def mask_result(
    view: TranscriptView, block: VisibleBlock, reason: OperationReason, restore_hint: str
) -> Operation | None:
    """Put a stub with a digest in a result's place; None where it is not worth it."""
    text = read_text(view, block)
    if text is None:
        return None
    said = f"{_describe_result(view, block)}, ok"
    short = stub_with_unique_names(view, text, said, restore_hint)
    return stub_result(view, block, reason, text, short)


def _describe_result(view: TranscriptView, block: VisibleBlock) -> str:
    call = view.call_of(block)
    return describe_call(block, read_tool_input(view, call) if call else {})


def find_edited_reads(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
    """Find Reads whose text is not the file's any more, though nothing read it again."""
    for old, later in changeable_file_calls(view, READ_TOOLS):
        edit = next((each for each in later if each.tool in EDIT_TOOLS), None)
        if edit:
            reason = because(f"edited at line {edit.result.line}")
            hint = "The file was edited since: read it again."
            yield mask_result(view, old.result, reason, hint)


def result_masker(tools: frozenset[str], why: str, restore_hint: str) -> FindOperations:
    """Return what finds old results of some tools; a digest of their names stays."""

    def find(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
        for block in changeable_results(view, tools):
            yield mask_result(view, block, because(why), restore_hint)

    return find


find_old_listings: Final = result_masker(
    LISTING_TOOLS, "a listing that is old", "Search again for more."
)
find_old_web_pages: Final = result_masker(
    WEB_TOOLS, "a page that is old", "Fetch it again for more."
)


HEAD_LINES: Final = 20
TAIL_LINES: Final = 30
ERROR_LINES: Final = 20  # all three: compaction.md 7.5 (gemini-cli, codeArbiter)
SHORT_TAIL_LINES: Final = 5
"""Of a shorter output: there a test says how it went, and a command what it made."""

MAX_TEXT_LINE_CHARS: Final = 400  # a longer line is data, and makes the whole be masked
_ERROR_WORD: Final = re.compile(
    r"\b(?:error|errors|failed|failure|fatal|panic|exception|traceback|denied|exit code)\b",
    re.IGNORECASE,
)


def find_old_shell_output(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
    """Find output of shells that is old; of lines that are data, only names stay."""
    reason = because("output that is old: its end and errors stay")
    for block in changeable_results(view, SHELL_TOOLS):
        text = read_text(view, block) or ""
        shorter = _shorter_outputs(view, text, _describe_result(view, block))
        short = next((each for each in shorter if is_worth_stubbing(text, each)), None)
        made = None if short is None else replace_result(view, block, reason, short)
        yield made or mask_result(view, block, reason, "Run it again for more.")


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


def find_old_images(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
    """Find results with pictures or documents; a line of text stands in each one's place."""
    reason = because("a picture that is old")
    for block in view.changeable_blocks():
        if block.part.kind is PartKind.TOOL_RESULT and block.part.media:
            yield replace_images(view, block, reason, _image_stub)


def _image_stub(data: str, kind: str) -> str:
    mark = hashlib.sha256(data.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"[ctxtop {mark}: {kind} left out. Read it again to see it.]"


_TOOLS_HANDLED_ELSEWHERE: Final = LISTING_TOOLS | SHELL_TOOLS | WEB_TOOLS
"""Of these other strategies know more."""


def find_old_results(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
    """Find results that no other strategy knows better; a digest of their names stays."""
    reason = because("a result that is old")
    for block in changeable_results(view):
        if block.part.name not in _TOOLS_HANDLED_ELSEWHERE:
            verb = "Read" if block.part.name == "Read" else "Call"
            yield mask_result(view, block, reason, f"{verb} it again for more.")


_SENTENCE: Final = re.compile(r"[^\n]+?(?:[.!?](?=\s)|$)", re.MULTILINE)
_KEY_PATTERNS: Final = (DECISION_PATTERN, RULE_PATTERN, REASON_PATTERN)


def find_old_prose(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
    """Find long answers; sentences that decide, forbid or give a reason stay as they are."""
    reason = because("words that are old: decisions and names stay")
    for block in long_blocks(view, PartKind.TEXT):
        text = read_text(view, block) or ""
        kept = extract_key_sentences(text)
        short = f"{kept}\n{stub_with_unique_names(view, text, 'the rest of this answer', '', kept)}"
        if is_worth_stubbing(text, short):
            yield replace_text(view, block, reason, short)


def extract_key_sentences(text: str) -> str:
    """Keep the first sentence and those with a cue."""
    sentences = [found[0].strip() for found in _SENTENCE.finditer(text) if found[0].strip()]
    return "\n".join(
        each
        for number, each in enumerate(sentences)
        if number == 0 or any(cue.search(each) for cue in _KEY_PATTERNS)
    )


KEPT_PASTE_CHARS: Final = 200  # of its beginning, which says what it is
_CLOSING_TAG: Final = re.compile(r"\s*</[\w-]+>\s*\Z")
"""The tag around an output; what follows it is the person's again."""


def find_long_pastes(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
    """Find what commands of the client and of its shell printed into the conversation."""
    reason = because("output that is old")
    for block in long_blocks(view, PartKind.META):
        text = read_text(view, block) or ""
        closing = _CLOSING_TAG.search(text)
        end = closing.start() if closing else len(text)
        kept, rest = text[:KEPT_PASTE_CHARS], text[KEPT_PASTE_CHARS:end]
        said = stub_with_unique_names(view, rest, "the rest of this output", "Ask for it.", kept)
        short = f"{kept}\n{said}{text[end:]}"
        if is_worth_stubbing(text, short):
            yield replace_text(view, block, reason, short)
