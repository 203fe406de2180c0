"""A process appends every 5 ms while plans are applied and undone: nothing of it is lost."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from ctxtop.core.compaction import compaction_target
from ctxtop.core.compaction.apply import apply_plan
from ctxtop.core.compaction.compaction_target import WaitTimes
from ctxtop.core.compaction.plan import CompactionRefusedError, RefusalKind
from ctxtop.core.compaction.receipts import ApplyMode, ReceiptStore
from ctxtop.core.compaction.rewritten_lines import lines_after, rewrite_lines
from ctxtop.core.compaction.undo import undo

from ..sessions_on_disk import at_rest, encoded, masks, plan_of, result_lines, turns
from ..transcripts import SESSION

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.core.compaction.compaction_target import CompactionTarget
    from ctxtop.core.compaction.plan import CompactionPlan
    from ctxtop.core.compaction.receipts import CompactionReceipt

SECONDS = 2.0
ENOUGH = 50  # lines, which a machine that is busy writes later
QUIET = {"lease": 0.05, "watch": 2.0}
"""Seconds. Of a lease's file we are told; where we watch, a busy machine must not fool us: what a
writer adds is seen at once, so that only a change that is carried out takes so long."""

BY_NAME = """
import sys, time
for number in range(100_000):
    with open(sys.argv[1], "ab", buffering=0) as file:
        file.write(b'{"type":"note","n":%d}\\n' % number)
    print(number, flush=True)
    time.sleep(0.005)
"""
HELD = """
import sys, time
with open(sys.argv[1], "ab", buffering=0) as file:
    for number in range(100_000):
        file.write(b'{"type":"note","n":%d}\\n' % number)
        print(number, flush=True)
        time.sleep(0.005)
"""


@pytest.fixture(params=[BY_NAME, HELD], ids=["by-name", "held"])
def writer(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["lease", "watch"])
def knowing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How a writer is seen: by the system, or where that cannot tell, by what it writes."""
    if request.param == "watch":
        monkeypatch.setattr(compaction_target, "_take_lease", lambda *_: False)
    return str(request.param)


@pytest.mark.slow
def test_a_writer_every_five_milliseconds(tmp_path: Path, writer: str, knowing: str) -> None:
    lines = turns(4)
    data = encoded(lines)
    # As if it were at rest: the checks before the change see nothing wrong.
    patience = WaitTimes(idle_s=-1e9, quiet_s=QUIET[knowing], max_wait_s=1)
    subject = replace(at_rest(tmp_path, data), wait_times=patience)
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", writer, str(subject.transcript)],
        stdout=subprocess.PIPE,
    )
    ends = Counter[str]()
    try:
        assert process.stdout
        first = process.stdout.readline()
        until = time.monotonic() + SECONDS
        while time.monotonic() < until or written(subject.transcript) <= ENOUGH:
            done = ReceiptStore(subject.state_folder).all()
            ends[_undo(subject, done[0]) if done else _apply(subject, lines)] += 1
    finally:
        process.terminate()
        said, _ = process.communicate(timeout=10)
    found = subject.transcript.read_bytes()
    numbers = (first + said).split()
    missing = [n for n in numbers if b'{"type":"note","n":%s}\n' % n not in found]
    assert missing == [], ends
    assert len(numbers) > ENOUGH
    if writer == HELD:
        assert set(ends) == {"refused"}
    assert any(map(found.startswith, (data, _masked(data, lines)))), "neither before nor after"
    assert [path.name for path in subject.transcript.parent.iterdir()] == [f"{SESSION}.jsonl"]


def written(transcript: Path) -> int:
    """How many lines the writer has added that are there."""
    return transcript.read_bytes().count(b'{"type":"note"')


def _masked(data: bytes, lines: list[dict[str, object]]) -> bytes:
    return b"".join(
        lines_after(rewrite_lines(data.splitlines(keepends=True), _plan(data, lines).operations))
    )


def _plan(data: bytes, lines: list[dict[str, object]]) -> CompactionPlan:
    return plan_of(data, masks(data, result_lines(lines)[:2]))


def _apply(subject: CompactionTarget, lines: list[dict[str, object]]) -> str:
    now = subject.transcript.read_bytes()
    now = now[: now.rfind(b"\n") + 1]
    try:
        apply_plan(_plan(now, lines), ApplyMode.IN_PLACE, subject)
    except CompactionRefusedError as error:
        if error.kind not in {RefusalKind.LIVE, RefusalKind.UNSAFE}:
            raise
        return "refused"
    return "done"


def _undo(subject: CompactionTarget, receipt: CompactionReceipt) -> str:
    try:
        undo(receipt.receipt_id, None, subject)
    except CompactionRefusedError as error:
        if error.kind is not RefusalKind.LIVE:
            raise
        return "refused"
    ReceiptStore(subject.state_folder).remove(receipt)
    return "undone"
