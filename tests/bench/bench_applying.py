"""What it costs to carry a plan out and to take it back, against copying the file.

Run it as a module: `python -m tests.bench.bench_applying [NAME ...]`, with the names of
bench_planning. Copying is to read the file, write it, let it reach the disk, and hash what was
written. Every step runs in a process of its own; memory is that process's growth to its peak,
with the plan that it reads.
"""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from ctxtop.core.compaction.apply import apply_plan
from ctxtop.core.compaction.compaction_target import CompactionTarget, WaitTimes
from ctxtop.core.compaction.plan import CompactionPlan
from ctxtop.core.compaction.receipts import ApplyMode, ReceiptStore
from ctxtop.core.compaction.rewritten_lines import NO_TRANSFORM, rewrite_lines
from ctxtop.core.compaction.undo import undo
from ctxtop.core.compaction.verify import verify_lines, verify_visible_messages
from ctxtop.core.files.file_operations import (
    hash_file,
    open_regular_file,
    read_blocks,
    remove_if_present,
    write_temporary,
)
from ctxtop.core.transcript.entry_decoder import read_entries

from tests.bench import bench_planning as planning

if TYPE_CHECKING:
    from collections.abc import Callable

STATE: Final = "state"
PLAN: Final = "plan.json"

_MB: Final = 1_000_000


def subject_of(path: Path) -> CompactionTarget:
    """A session at rest that nobody has open."""
    return CompactionTarget(
        session_id="s",
        transcript=path,
        cwd=None,
        state_folder=path.parent / STATE,
        read_entries=read_entries,
        find_holder=lambda _: None,
        wait_times=WaitTimes(idle_s=0.0, quiet_s=0.0),
    )


def plan_of(path: Path) -> CompactionPlan:
    """The plan that was made before."""
    return msgspec.json.decode((path.parent / PLAN).read_bytes(), type=CompactionPlan)


def copy(path: Path) -> None:
    """Copy the file beside itself, and hash it."""
    with open_regular_file(path) as file:
        copied = write_temporary(path, read_blocks(file))
    hash_file(copied)
    remove_if_present(copied)


def fork(path: Path) -> None:
    """Carry the plan out in a fork."""
    apply_plan(plan_of(path), ApplyMode.FORK, subject_of(path))


def in_place(path: Path) -> None:
    """Carry the plan out in place."""
    apply_plan(plan_of(path), ApplyMode.IN_PLACE, subject_of(path))


def verify(path: Path) -> None:
    """Check once more what the plan made; the copy stands for what was before."""
    plan, subject = plan_of(path), subject_of(path)
    before = path.with_name("before.jsonl")
    with open_regular_file(before) as file:
        wrong = [
            *verify_lines(
                path, rewrite_lines(file, plan.operations, NO_TRANSFORM), plan.operations
            ),
            *verify_visible_messages(
                subject.read_entries(before), subject.read_entries(path), plan.operations
            ),
        ]
    assert wrong == []


def take_back(path: Path) -> None:
    """Undo the newest receipt."""
    subject = subject_of(path)
    newest = max(ReceiptStore(subject.state_folder).all(), key=lambda each: each.at)
    undo(newest.receipt_id, None, subject)


STEPS: Final[dict[str, Callable[[Path], None]]] = {
    "copy": copy,
    "fork": fork,
    "in place": in_place,
    "verify": verify,
    "undo": take_back,
}


def measure(step: str, path: Path) -> dict[str, float]:
    """Do one step; gives seconds on the clock and of the processor, and bytes at the peak."""
    planning.counter_of()
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began, worked = time.perf_counter(), time.process_time()
    STEPS[step](path)
    return {
        "seconds": time.perf_counter() - began,
        "cpu": time.process_time() - worked,
        "peak": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base) * 1024,
    }


def measured(step: str, path: Path) -> dict[str, float]:
    """Do one step in a process of its own."""
    words = [sys.executable, "-m", "tests.bench.bench_applying", "--one", step, str(path)]
    said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    found: dict[str, float] = json.loads(said)
    return found


def main(names: list[str]) -> None:
    """Print a line a step, with its cost in copies of the file."""
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "s.jsonl"
            planning.write_named(path, name)
            shutil.copyfile(path, path.with_name("before.jsonl"))
            plan = planning.plan(path, planning.counter_of())
            if plan.refused:
                plan = planning.plan_file_only(path, planning.counter_of())
            (path.parent / PLAN).write_bytes(msgspec.json.encode(plan))
            size = path.stat().st_size
            print(f"{name} ({size / _MB:.1f} MB, {len(plan.operations)} operations)")
            print_steps(path)


def print_steps(path: Path) -> None:
    """Do each step, with the file as the one before left it."""
    copied = 0.0
    for step in STEPS:
        found = measured(step, path)
        copied = copied or found["cpu"]
        print(
            f"  {step:9} {found['seconds']:6.2f} s ({found['cpu']:.2f} s of work),"
            f" {found['cpu'] / copied:5.1f} copies; at most {found['peak'] / _MB:.1f} MB",
            flush=True,
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure(sys.argv[2], Path(sys.argv[3]))))
    else:
        main(sys.argv[1:] or [*planning.SHAPES, planning.MADE])
