"""A fork of a session whose last line has no line end, whole or torn, goes on in the client.

The client reads such a line where it is whole, and ignores half of one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ctxtop.core.compaction.apply import apply_plan
from ctxtop.core.compaction.plan import Severity
from ctxtop.core.compaction.receipts import ApplyMode
from ctxtop.core.compaction.transcript_reading import PlanSource
from ctxtop.core.compaction.undo import undo
from msgspec.structs import replace

from ..planned import plan_transcript
from ..sessions_on_disk import rest, subject_of
from .compacting import ApiCounter, resume
from .edits import TORN
from .test_appended_summary import bare, sent_on_resume, texts, worked
from .ways import NEWEST, worth_it
from .wire import received

if TYPE_CHECKING:
    from .lab import Lab

PROMPTS = (
    "Begin. [[bash:seq 1 900]] [[bash:seq 2 900]] [[say:The first part is done.]]",
    "Go on. [[bash:seq 3 900]] [[say:The second part is done, says the last line.]]",
)
LAST = b"says the last line"


@pytest.mark.parametrize("end", [b"", b"\n" + TORN], ids=["whole", "torn"])
def test_the_client_goes_on_in_the_fork(lab: Lab, tmp_path: Path, end: bytes) -> None:
    path = worked(lab, PROMPTS)
    lines = path.read_bytes().splitlines()
    newest = max(n for n, line in enumerate(lines) if LAST in line and b'"assistant"' in line)
    path.write_bytes(b"\n".join(lines[: newest + 1]) + end)
    rest(path)
    original = path.read_bytes()
    plain = sent_on_resume(lab, path.stem)
    assert bare(LAST.decode()) in texts(plain)

    plan = worth_it(
        plan_transcript(
            PlanSource(path.stem, path, lambda _: ApiCounter()),
            replace(NEWEST, level=Severity.MASKED.value),
        )
    )
    assert plan.refused == ()
    receipt = apply_plan(plan, ApplyMode.FORK, subject_of(path, tmp_path))
    fork = Path(receipt.target)
    forked = fork.read_bytes()
    resume(lab, fork.stem, "the fork")
    gained = fork.read_bytes()
    assert gained.startswith(forked)
    added = [json.loads(line) for line in gained[len(forked) :].splitlines()]
    uuids = {line.get("uuid") for line in map(json.loads, whole_lines(gained))}
    assert {line["parentUuid"] for line in added if line.get("parentUuid")} <= uuids

    fork.write_bytes(forked)
    sent = sent_on_resume(lab, fork.stem)
    assert bare(LAST.decode()) in texts(sent)
    assert received(sent) != received(plain)
    rest(fork)
    undo(receipt.receipt_id, None, subject_of(fork, tmp_path))
    assert received(sent_on_resume(lab, fork.stem)) == received(plain)
    assert path.read_bytes() == original


def whole_lines(data: bytes) -> list[bytes]:
    return [line for line in data.splitlines() if line != TORN]
