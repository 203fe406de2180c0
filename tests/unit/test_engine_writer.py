"""A process appends every 5 ms while plans are applied and undone: nothing of it is lost."""

from __future__ import annotations

import subprocess  # noqa: S404
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from ctxtop.core.compaction.apply import apply_plan
from ctxtop.core.compaction.receipts import Mode, Receipts
from ctxtop.core.compaction.refused import NotAppliedError, Stop
from ctxtop.core.compaction.subject import Patience
from ctxtop.core.compaction.undo import undo

from ..sessions_on_disk import at_rest, encoded, masks, plan_of, result_lines, turns

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.core.compaction.subject import Subject

SECONDS = 4.0

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


@pytest.mark.slow
@pytest.mark.parametrize("writer", [BY_NAME, HELD], ids=["by-name", "held"])
def test_a_writer_every_five_milliseconds(tmp_path: Path, writer: str) -> None:
    lines = turns(4)
    data = encoded(lines)
    # As if it were at rest: the checks before the change see nothing wrong.
    subject = replace(at_rest(tmp_path, data), patience=Patience(idle=-1e9, quiet=0.05, at_most=1))
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", writer, str(subject.transcript)], stdout=subprocess.PIPE
    )
    ends = {"done": 0, "refused": 0}
    try:
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            ends["done" if _apply_and_undo(subject, lines) else "refused"] += 1
    finally:
        process.terminate()
        said, _ = process.communicate(timeout=10)
    found = subject.transcript.read_bytes()
    missing = [n for n in said.split() if b'{"type":"note","n":%s}\n' % n not in found]
    assert missing == []
    assert len(said.split()) > 50
    assert ends["refused"], ends
    assert found.startswith(data)


def _apply_and_undo(subject: Subject, lines: list[dict[str, object]]) -> bool:
    now = subject.transcript.read_bytes()
    now = now[: now.rfind(b"\n") + 1]
    plan = plan_of(now, masks(now, result_lines(lines)[:2]))
    try:
        receipt = apply_plan(plan, Mode.IN_PLACE, subject)
    except NotAppliedError as error:
        if error.stop not in {Stop.LIVE, Stop.UNSAFE}:
            raise
        return False
    for _ in range(1000):
        try:
            undo(receipt.receipt_id, None, subject)
        except NotAppliedError as error:
            if error.stop is not Stop.LIVE:
                raise
            continue
        break
    Receipts(subject.state).remove(receipt)
    return True
