"""Back to before a prompt: which lines go, and what is refused."""

from __future__ import annotations

import hashlib
import json

import pytest
from ctxtop.core.compaction.plan import Operation, Refusal, RemoveLine, Severity
from ctxtop.core.compaction.strategies.summary_and_cut import plan_revert
from ctxtop.core.compaction.transcript_view import FileLine, TranscriptView, VisibleBlock
from ctxtop.core.model.conversation import Entry, MessagePart, PartKind, Role

TYPES = ["user", "assistant", "custom-title", "user", "api-request", "assistant", "last-prompt"]
RAW = [json.dumps({"type": kind, "n": number}).encode() for number, kind in enumerate(TYPES, 1)]


def view() -> TranscriptView:
    offsets = [sum(len(each) + 1 for each in RAW[:place]) for place in range(len(RAW))]
    lines = [
        FileLine(number, offset, len(raw), kind)
        for number, (offset, raw, kind) in enumerate(zip(offsets, RAW, TYPES, strict=True), 1)
    ]
    kinds = {1: PartKind.PROMPT, 2: PartKind.TEXT, 4: PartKind.PROMPT, 6: PartKind.TEXT}
    slots = [
        VisibleBlock(
            place,
            Entry(offsets[line - 1], 1, line, TYPES[line - 1], role=Role.USER),
            MessagePart(kind, "words"),
            0,
            100,
            5,
            "",
        )
        for place, (line, kind) in enumerate(kinds.items())
    ]
    return TranscriptView(
        slots, lines, lambda line: RAW[line.number - 1], lambda part: len(part.text)
    )


def test_a_prompt_and_all_after_it_go_and_titles_stay() -> None:
    found = plan_revert(view(), 4)
    assert isinstance(found, Operation)
    assert all(isinstance(edit, RemoveLine) for edit in found.edits)
    assert [(edit.line, edit.sha256) for edit in found.edits if isinstance(edit, RemoveLine)] == [
        (number, hashlib.sha256(RAW[number - 1]).hexdigest()) for number in (4, 6, 7)
    ]
    assert (found.level, found.tokens_saved) == (Severity.CUT, 200)
    assert found.bytes_saved == sum(len(RAW[number - 1]) + 1 for number in (4, 6, 7))


@pytest.mark.parametrize(
    ("line", "check"), [(6, "no_prompt"), (99, "no_prompt"), (1, "first_prompt")]
)
def test_what_is_no_place_to_go_back_to(line: int, check: str) -> None:
    found = plan_revert(view(), line)
    assert isinstance(found, Refusal)
    assert found.check == check
    assert found.what_to_do
