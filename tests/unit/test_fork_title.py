"""A fork is called after the session that it comes from, and has the history of its files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ctxtop.core.compaction.apply import apply_plan
from ctxtop.core.compaction.receipts import ApplyMode
from ctxtop.core.compaction.rewritten_lines import MAX_TITLE_CHARS, fork_title
from ctxtop.core.compaction.undo import undo
from ctxtop.core.transcript.entry_decoder import read_entries

from ..sessions_on_disk import (
    at_rest,
    encoded,
    masks,
    plan_of,
    rest,
    result_lines,
    said,
    subject_of,
    turns,
)
from ..transcripts import SESSION, user

LINES = turns(4)


def title_of(path: Path) -> str | None:
    return fork_title(path, read_entries(path))


@pytest.mark.parametrize(
    ("lines", "title"),
    [
        ([user("Mend\n the  decoder")], "Mend the decoder (compacted)"),
        ([user("x" * 300)], f"{'x' * MAX_TITLE_CHARS} (compacted)"),
        (
            [
                {"type": "custom-title", "customTitle": "By hand", "sessionId": SESSION},
                {"type": "ai-title", "aiTitle": "Made", "sessionId": SESSION},
            ],
            "By hand (compacted)",
        ),
        (
            [{"type": "ai-title", "aiTitle": each, "sessionId": SESSION} for each in "ab"],
            "b (compacted)",
        ),
        (
            [{"type": "custom-title", "customTitle": "A (compacted)", "sessionId": SESSION}],
            "A (compacted 2)",
        ),
        (
            [{"type": "custom-title", "customTitle": "A (compacted 9)", "sessionId": SESSION}],
            "A (compacted 10)",
        ),
        ([{"type": "mode", "mode": "normal", "sessionId": SESSION}], None),
    ],
)
def test_titles(tmp_path: Path, lines: list[dict[str, object]], title: str | None) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(encoded(lines))
    assert title_of(path) == title


def test_a_fork_has_its_title_and_its_files_and_keeps_both_when_it_is_taken_back(
    tmp_path: Path,
) -> None:
    data = encoded(LINES)
    subject = at_rest(tmp_path, data)
    history = tmp_path / "file-history" / SESSION
    history.mkdir(parents=True)
    (history / "0123@v1").write_bytes(b"as it was")
    receipt = apply_plan(
        plan_of(data, masks(data, result_lines(LINES)[:1])), ApplyMode.FORK, subject
    )
    fork = Path(receipt.target)
    linked = history.with_name(fork.stem) / "0123@v1"
    assert linked.read_bytes() == b"as it was"
    *_, titled, named = [json.loads(line) for line in fork.read_bytes().splitlines()]
    assert titled == {"type": "custom-title", "customTitle": receipt.title, "sessionId": fork.stem}
    assert named == {"type": "agent-name", "agentName": receipt.title, "sessionId": fork.stem}
    rest(fork)
    undo(receipt.receipt_id, None, subject_of(fork, tmp_path))
    assert said(fork) == said(subject.transcript)
    assert (
        fork.read_bytes().splitlines()[-1]
        == json.dumps(named, ensure_ascii=False, separators=(",", ":")).encode()
    )
    assert linked.exists()
