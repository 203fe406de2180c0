"""Level 1: remove what the model can read elsewhere in the same context."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from ...transcript.conversation import PartKind
from ..edit_builder import OperationReason, read_text, replace_result, replace_text
from ..plan import Severity
from ..stubs import MIN_STUBBED_CHARS, has_stub, is_worth_stubbing, make_short_stub
from .block_search import SHELL_TOOLS, WEB_TOOLS, calls_by_file, changeable_results, is_changeable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..plan import Operation
    from ..transcript_view import TranscriptView, VisibleBlock
    from .block_search import FileCall


DUPLICATE_RESULTS: Final = "duplicate-results"
LEVEL: Final = Severity.LOSSLESS


def find_duplicate_results(view: TranscriptView) -> Iterator[Operation]:
    """Find results whose whole text stands in another result that stays."""
    stays = _retained_results(view)
    for slot in changeable_results(view):
        other = stays[slot.digest]
        if other is slot:
            continue
        text = read_text(view, slot) or ""
        where = "later" if other.index > slot.index else "earlier"
        short = make_short_stub(text, f"same text as the {where} {other.part.name} result")
        if not is_worth_stubbing(text, short):
            continue
        intent = OperationReason(
            DUPLICATE_RESULTS, LEVEL, f"the same text stands at line {other.line}"
        )
        made = replace_result(view, slot, intent, short)
        if made:
            yield made


def _retained_results(view: TranscriptView) -> dict[str, VisibleBlock]:
    """Choose of equal results the one that stays: a protected one, or else the newest."""
    found: dict[str, VisibleBlock] = {}
    for slot in view.blocks:
        if slot.is_replaced or not slot.call_id or slot.part.kind is PartKind.TOOL_INPUT:
            continue
        known = found.get(slot.digest)
        if known is None or known.protected_reason is None or slot.protected_reason is not None:
            found[slot.digest] = slot
    return found


UNCHANGED_READS: Final = "unchanged-reads"

COMPARED_READS: Final = 2
"""Newest Reads whose text is compared: a file may be read hundreds of times."""


def find_unchanged_reads(view: TranscriptView) -> Iterator[Operation]:
    """Find Reads that a later Read of the same lines repeats, with nothing changed."""
    for touched in calls_by_file(view).values():
        for number, touch in enumerate(touched):
            if touch.tool != "Read" or not is_changeable(view, touch.result):
                continue
            text = read_text(view, touch.result) or ""
            short = make_short_stub(text, "unchanged in a later Read of this file")
            shown = [each for each in touched[number + 1 :] if each.covers_read(touch)]
            if not shown or not is_worth_stubbing(text, short):
                continue
            # The newest one is the one that stays.
            later = next(
                (
                    each
                    for each in shown[: -COMPARED_READS - 1 : -1]
                    if _contains_text(view, each, text)
                ),
                None,
            )
            if later is None:
                continue
            why = f"read again unchanged at line {later.result.line}"
            made = replace_result(
                view, touch.result, OperationReason(UNCHANGED_READS, LEVEL, why), short
            )
            if made:
                yield made


def _contains_text(view: TranscriptView, later: FileCall, text: str) -> bool:
    return text.rstrip() in (read_text(view, later.result) or "")


REPEATED_ATTACHMENTS: Final = "repeated-attachments"

_REMINDER_OPEN: Final = "<system-reminder>"
_REMINDER_CLOSE: Final = "</system-reminder>"


def find_repeated_attachments(view: TranscriptView) -> Iterator[Operation]:
    """Find attachments that stand there again; of those that may change the newest stays."""
    stays: dict[str, VisibleBlock] = {}
    for slot in view.blocks:
        if slot.part.kind is PartKind.ATTACHMENT and not slot.is_replaced:
            known = stays.get(slot.digest)
            if known is None or known.protected_reason is None:
                stays[slot.digest] = slot
    for slot in view.changeable_blocks():
        if slot.part.kind is not PartKind.ATTACHMENT or slot.chars < MIN_STUBBED_CHARS:
            continue
        other = stays[slot.digest]
        text = read_text(view, slot) if other is not slot else None
        if text is None:
            continue
        short = _keep_reminder_tags(
            text, make_short_stub(text, "the same text is attached elsewhere here")
        )
        if not is_worth_stubbing(text, short):
            continue
        intent = OperationReason(
            REPEATED_ATTACHMENTS, LEVEL, f"the same text stands at line {other.line}"
        )
        made = replace_text(view, slot, intent, short)
        if made:
            yield made


def _keep_reminder_tags(text: str, short: str) -> str:
    """Keep the tags around a reminder: without them it reads as what a tool or a person said."""
    held = text.strip().startswith(_REMINDER_OPEN) and text.strip().endswith(_REMINDER_CLOSE)
    return f"{_REMINDER_OPEN}\n{short}\n{_REMINDER_CLOSE}" if held else short


PLAIN_OUTPUT: Final = "plain-output"

MIN_CHARS_REMOVED: Final = 200
"""A text that loses less is left alone: an edit of its own costs more than it frees."""

_ANSI_SEQUENCE: Final = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])"
)
_OVERWRITTEN: Final = re.compile(r"^[^\n]*\r(?=[^\r\n])", re.MULTILINE)
_TRAILING: Final = re.compile(r"[ \t\r]+$", re.MULTILINE)
_BLANK_LINES: Final = re.compile(r"\n{3,}")
_JSON_SPACE: Final = re.compile(r'("(?:[^"\\]|\\.)*")|\s+', re.DOTALL)


def find_plain_output(view: TranscriptView) -> Iterator[Operation]:
    """Find output of shells and the web that says the same in fewer signs."""
    for slot in changeable_results(view, SHELL_TOOLS | WEB_TOOLS):
        text = read_text(view, slot) or ""
        short = simplify_output(text)
        if len(text) - len(short) < MIN_CHARS_REMOVED or has_stub(text):
            continue
        intent = OperationReason(
            PLAIN_OUTPUT, LEVEL, "colours, overwritten lines and blanks say nothing"
        )
        made = replace_result(view, slot, intent, short)
        if made:
            yield made


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
