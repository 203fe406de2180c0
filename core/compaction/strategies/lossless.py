"""Level 1: remove what the model can read elsewhere in the same context."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final

from ...transcript.conversation import PartKind
from ..edit_builder import Because, read_text, replace_result, replace_text
from ..plan import Operation
from ..transcript_view import TranscriptView, VisibleBlock
from .stubs import (
    READ_TOOLS,
    SHELL_TOOLS,
    WEB_TOOLS,
    changeable_file_calls,
    changeable_results,
    has_stub,
    is_worth_stubbing,
    long_blocks,
    make_short_stub,
    stub_result,
)


def find_duplicate_results(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
    """Find results whose whole text stands in another result that stays."""
    stays = _retained_results(view)
    for block in changeable_results(view):
        other = stays[block.digest]
        if other is block:
            continue
        text = read_text(view, block) or ""
        where = "later" if other.index > block.index else "earlier"
        short = make_short_stub(text, f"same text as the {where} {other.part.name} result")
        reason = because(f"the same text stands at line {other.line}")
        yield stub_result(view, block, reason, text, short)


def _retained_results(view: TranscriptView) -> dict[str, VisibleBlock]:
    """Choose of equal results the one that stays: a protected one, or else the newest."""
    found: dict[str, VisibleBlock] = {}
    for block in view.blocks:
        if block.is_replaced or not block.call_id or block.part.kind is PartKind.TOOL_INPUT:
            continue
        known = found.get(block.digest)
        if known is None or known.protected_reason is None or block.protected_reason is not None:
            found[block.digest] = block
    return found


COMPARED_READS: Final = 2
"""Newest Reads whose text is compared: a file may be read hundreds of times."""


def find_unchanged_reads(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
    """Find Reads that a later Read of the same lines repeats, with nothing changed."""
    for old, later in changeable_file_calls(view, READ_TOOLS):
        text = read_text(view, old.result) or ""
        short = make_short_stub(text, "unchanged in a later Read of this file")
        if not is_worth_stubbing(text, short):
            continue
        # The newest one is the one that stays.
        shown = [each for each in later if each.covers_read(old)][: -COMPARED_READS - 1 : -1]
        ending = text.rstrip()
        same = next(
            (each for each in shown if ending in (read_text(view, each.result) or "")), None
        )
        if same:
            reason = because(f"read again unchanged at line {same.result.line}")
            yield replace_result(view, old.result, reason, short)


_REMINDER_OPEN: Final = "<system-reminder>"
_REMINDER_CLOSE: Final = "</system-reminder>"


def find_repeated_attachments(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
    """Find attachments that stand there again; of those that may change the newest stays."""
    stays: dict[str, VisibleBlock] = {}
    for block in view.blocks:
        if block.part.kind is PartKind.ATTACHMENT and not block.is_replaced:
            known = stays.get(block.digest)
            if known is None or known.protected_reason is None:
                stays[block.digest] = block
    for block in long_blocks(view, PartKind.ATTACHMENT):
        other = stays[block.digest]
        text = read_text(view, block) if other is not block else None
        if text is None:
            continue
        short = _keep_reminder_tags(
            text, make_short_stub(text, "the same text is attached elsewhere here")
        )
        if is_worth_stubbing(text, short):
            reason = because(f"the same text stands at line {other.line}")
            yield replace_text(view, block, reason, short)


def _keep_reminder_tags(text: str, short: str) -> str:
    """Keep the tags around a reminder: without them it reads as what a tool or a person said."""
    held = text.strip().startswith(_REMINDER_OPEN) and text.strip().endswith(_REMINDER_CLOSE)
    return f"{_REMINDER_OPEN}\n{short}\n{_REMINDER_CLOSE}" if held else short


MIN_CHARS_REMOVED: Final = 200
"""A text that loses less is left alone: an edit of its own costs more than it frees."""

_ANSI_SEQUENCE: Final = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])"
)
_OVERWRITTEN: Final = re.compile(r"^[^\n]*\r(?=[^\r\n])", re.MULTILINE)
_TRAILING: Final = re.compile(r"[ \t\r]+$", re.MULTILINE)
_BLANK_LINES: Final = re.compile(r"\n{3,}")
_JSON_SPACE: Final = re.compile(r'("(?:[^"\\]|\\.)*")|\s+', re.DOTALL)


def find_plain_output(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
    """Find output of shells and the web that says the same in fewer signs."""
    reason = because("colours, overwritten lines and blanks say nothing")
    for block in changeable_results(view, SHELL_TOOLS | WEB_TOOLS):
        text = read_text(view, block) or ""
        short = simplify_output(text)
        if len(text) - len(short) >= MIN_CHARS_REMOVED and not has_stub(text):
            yield replace_result(view, block, reason, short)


def simplify_output(text: str) -> str:
    """Write a text as a terminal would leave it, and JSON without its indents."""
    if text.lstrip()[:1] in {"{", "["}:
        try:
            json.loads(text)
        except (ValueError, RecursionError):
            pass
        else:
            return _JSON_SPACE.sub(lambda found: found[1] or "", text)
    text = _OVERWRITTEN.sub("", _ANSI_SEQUENCE.sub("", text))
    return _BLANK_LINES.sub("\n\n", _TRAILING.sub("", text)).strip("\n") or text
