"""A receipt that an earlier build wrote is listed, tried out and undone, byte for byte."""

from __future__ import annotations

import hashlib
import json
import zlib
from typing import TYPE_CHECKING, Any, Final

import pytest
from ctxtop.core.compaction.receipts import CompactionReceipt, ReceiptState, ReceiptStore
from ctxtop.core.compaction.undo import find_undo_obstacle, undo

from ..sessions_on_disk import at_rest, encoded, place, rest, result_lines, turns
from ..transcripts import SESSION

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.core.compaction.compaction_target import CompactionTarget

LINES: Final = turns(3)
BEFORE: Final = encoded(LINES)
MASKED: Final = result_lines(LINES)[0]
POINTER: Final = "/message/content/0/content"


def masked_transcript() -> bytes:
    rows = BEFORE.split(b"\n")
    old = json.dumps(
        LINES[MASKED - 1]["message"]["content"][0]["content"], ensure_ascii=False
    ).encode()
    # The same text stands in the line's toolUseResult, which the plan left alone.
    rows[MASKED - 1] = rows[MASKED - 1].replace(old, b'"[masked]"', 1)
    return b"\n".join(rows)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def plan_record() -> dict[str, Any]:
    line, offset, line_sha256 = place(BEFORE, MASKED)
    edit = {
        "do": "replace",
        "line": line,
        "offset": offset,
        "sha256": line_sha256,
        "pointer": POINTER,
        "value": '"[masked]"',
    }
    operation = {
        "strategy": "mask-old-results",
        "level": 3,
        "line": line,
        "kind": "tool_result",
        "what": "Bash: ls",
        "why": "old",
        "tokens_saved": 200,
        "bytes_saved": len(BEFORE) - len(masked_transcript()),
        "edits": [edit],
    }
    return {
        "plan_id": "0123456789ab",
        "session_id": SESSION,
        "base_sha256": sha256(BEFORE),
        "base_bytes": len(BEFORE),
        "before_tokens": 1_000,
        "after_tokens": 800,
        "bytes_before": len(BEFORE),
        "bytes_after": len(masked_transcript()),
        "harm": 3,
        "break_even_requests": 4.5,
        "operations": [operation],
        "refused": [],
        "break_even_requests_1h": None,
        "protected": [{"why": "the newest turns", "tokens": 75}],
    }


def receipt_record(transcript: Path, plan: str) -> dict[str, Any]:
    after = masked_transcript()
    return {
        "receipt_id": "c0ffee42",
        "session_id": SESSION,
        "new_session_id": None,
        "mode": "in_place",
        "at": 1_700_000_000_000,
        "transcript": str(transcript),
        "target": str(transcript),
        "backup": sha256(BEFORE),
        "verified": ["V1", "V2", "V3", "V24"],
        "resume_command": f"claude --resume {SESSION}",
        "mtime": "kept",
        "now": {"sha256": sha256(after), "size": len(after), "undone": [], "mixed": False},
        "pending": None,
        "automatic": None,
        "title": None,
        "plan": plan,
    }


@pytest.fixture
def target(tmp_path: Path) -> CompactionTarget:
    """A session that was compacted in place, with the receipt, the plan and the copy of it."""
    found = at_rest(tmp_path, masked_transcript())
    for folder in ("receipts", "plans", "backups"):
        (found.state_folder / folder).mkdir(mode=0o700, parents=True)
    plan = json.dumps(plan_record(), separators=(",", ":")).encode()
    (found.state_folder / "plans" / f"{sha256(plan)}.z").write_bytes(zlib.compress(plan))
    (found.state_folder / "backups" / f"{sha256(BEFORE)}.z").write_bytes(zlib.compress(BEFORE))
    record = receipt_record(found.transcript, sha256(plan))
    (found.state_folder / "receipts" / "c0ffee42.json").write_text(json.dumps(record))
    rest(found.transcript)
    return found


def listed(target: CompactionTarget) -> CompactionReceipt:
    store = ReceiptStore(target.state_folder)
    assert store.unreadable() == []
    (receipt,) = store.all()
    return receipt


def test_it_is_listed_with_its_plan(target: CompactionTarget) -> None:
    receipt = listed(target)
    assert (receipt.receipt_id, receipt.state) == ("c0ffee42", ReceiptState.DONE)
    assert receipt.plan.operations[0].strategy == "mask-old-results"
    assert receipt.plan.before_tokens - receipt.plan.after_tokens == 200


def test_nothing_keeps_it_from_being_undone(target: CompactionTarget) -> None:
    assert find_undo_obstacle(listed(target), target.state_folder) is None


def test_it_is_undone_byte_for_byte(target: CompactionTarget) -> None:
    assert target.transcript.read_bytes() != BEFORE
    undo("c0ffee42", None, target)
    assert target.transcript.read_bytes() == BEFORE
    assert listed(target).state is ReceiptState.UNDONE
