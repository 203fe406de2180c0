"""How long a plan takes and how much memory, for transcripts of any size and shape.

Run it as a module: `python -m tests.bench.bench_planning [NAME ...]`. Each transcript is planned in
a process of its own, once for the time and once for the memory, which Python's own count of its
allocations gives: the index is what a view holds, the rest is to be three of the longest lines and
FIXED_BYTES, at most.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ctxtop.core.actions.conversation_planning import plan_conversation
from ctxtop.core.compaction.plan import PlanOptions, Severity
from ctxtop.core.compaction.strategies.summary_and_cut import summarize_by_rules
from ctxtop.core.compaction.transcript_reading import PlanSource, read_transcript_view
from ctxtop.core.compaction.transcript_view import open_transcript
from ctxtop.core.measure.token_estimate import Estimator
from ctxtop.core.summaries.summary_building import SummarySettings
from ctxtop.core.summaries.summary_facts import ELEVEN_SECTIONS

from tests import transcripts as made
from tests.bench.evaluation.sessions import WORKS, make_session
from tests.worked import Session, numbered

from ..planned import plan_transcript

if TYPE_CHECKING:
    from ctxtop.core.compaction.plan import CompactionPlan, Operation, Refusal
    from ctxtop.core.compaction.strategies.summary_and_cut import Conversation
    from ctxtop.core.compaction.transcript_view import TranscriptView

FIXED_BYTES: Final = 8_000_000
"""Whatever the transcript: buffers of 1 MB, the lines that a view holds, names, imports."""

KEPT_MESSAGES: Final = 20

_MB: Final = 1_000_000


class Shape(NamedTuple):
    """A transcript to be made."""

    size: int
    context: int
    """Bytes that are sent, at most 30 % of the rest of the file (compaction.md 0)."""
    long_line: int = 0
    """Bytes of one result more."""


SHAPES: Final = {
    "10 MB, 200k tokens": Shape(10 * _MB, 500_000),
    "10 MB, all of it in the context": Shape(10 * _MB, 4 * _MB),
    "200 MB, 200k tokens": Shape(200 * _MB, 500_000),
    "a line of 20 MB": Shape(10 * _MB, 500_000, 20 * _MB),
}
MADE: Final = "8 MB, 1M tokens of work"
"""The largest session of the evaluation, in which every strategy finds something."""


def write(path: Path, shape: Shape) -> None:
    """Write a transcript: compacted whenever its context is full."""
    with path.open("wb") as file:
        parent: str | None = None
        while file.tell() < shape.size:
            session = Session()
            if parent:
                session.add(made.boundary())
                session.add(made.summary())
            session.ask("mend the decoder")
            left = min(shape.context, (shape.size - file.tell()) * 3 // 10)
            number = 0
            if parent is None and shape.long_line:
                session.use("Read", numbered(shape.long_line // 120), file_path="/src/long.py")
            while left > 0:
                words = f"value_{number} = decode_{number % 97}(packet, table[{number}])"
                text = numbered(80, words=words)
                details = {"type": "text", "file": {"content": text, "filePath": f"/{number}.py"}}
                details["original"] = text
                session.use("Read", text, details=details, file_path=f"/src/{number % 40}.py")
                left -= len(text)
                number += 1
            session.say()
            file.write(made.encode(session.lines))
            parent = session.lines[-1]["uuid"]


def write_named(path: Path, name: str) -> None:
    """Write the transcript of a name."""
    if name == MADE:
        work = next(each for each in WORKS if each.name == "very long")
        make_session(work, path.parent).path.rename(path)
    else:
        write(path, SHAPES[name])


def plan(path: Path, counter: Estimator) -> CompactionPlan:
    """Plan as a person does who allows stubs."""
    return _plan(path, counter, Severity.INPUTS)


def plan_file_only(path: Path, counter: Estimator) -> CompactionPlan:
    """Plan as a person does who makes the file smaller alone."""
    return _plan(path, counter, Severity.FILE_ONLY)


def _plan(path: Path, counter: Estimator, level: Severity) -> CompactionPlan:
    options = PlanOptions(level=level.value, force=True)
    return plan_transcript(PlanSource("s", path, counter.for_model), options)


def plan_summary(path: Path, counter: Estimator) -> CompactionPlan:
    """Plan a summary by rules."""

    def make(whole: Conversation, _view: TranscriptView) -> Operation | Refusal:
        return summarize_by_rules(
            whole, SummarySettings(ELEVEN_SECTIONS, keep_messages=KEPT_MESSAGES)
        )

    source = PlanSource("s", path, counter.for_model)
    return plan_conversation(source, make, PlanOptions(force=True))


PLANS: Final = {"plan": plan, "summary": plan_summary}


def counter_of() -> Estimator:
    """Make who counts; its table is loaded, which every command does once."""
    counter = Estimator({})
    counter.for_model(made.MODEL).text_tokens("the table is read once, and not for each plan")
    return counter


def measure_time(path: Path, what: str) -> dict[str, float]:
    """Plan once: seconds on the clock and of the processor."""
    counter = counter_of()
    began, worked = time.perf_counter(), time.process_time()
    found = PLANS[what](path, counter)
    seconds, cpu = time.perf_counter() - began, time.process_time() - worked
    return {
        "seconds": seconds,
        "cpu": cpu,
        "operations": len(found.operations),
        "before": found.before_tokens,
        "after": found.after_tokens,
    }


def measure_memory(path: Path, what: str) -> dict[str, float]:
    """Plan once: bytes of the index, and bytes at the peak."""
    counter = counter_of()
    tracemalloc.start()
    with open_transcript(path) as file:
        scan = file.scan()
        view = read_transcript_view(PlanSource("s", path, counter.for_model), file, scan)
        index = tracemalloc.get_traced_memory()[0]
        longest = max(line.content_bytes for line in view.lines)
    del view, scan
    begin, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    PLANS[what](path, counter)
    peak = tracemalloc.get_traced_memory()[1] - begin
    return {"index": index, "peak": peak, "longest": longest}


MEASURES: Final = {"time": measure_time, "memory": measure_memory}


def measured(kind: str, what: str, path: Path) -> dict[str, float]:
    """Measure in a process of its own."""
    words = [sys.executable, "-m", "tests.bench.bench_planning", f"--{kind}", what, str(path)]
    said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    found: dict[str, float] = json.loads(said)
    return found


def main(names: list[str]) -> None:
    """Print two lines a transcript: of a plan with stubs, and of a summary."""
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "session.jsonl"
            write_named(path, name)
            print(f"{name} ({path.stat().st_size / _MB:.1f} MB)")
            for what in PLANS:
                took = measured("time", what, path)
                held = measured("memory", what, path)
                most = held["index"] + 3 * held["longest"] + FIXED_BYTES
                print(
                    f"  {what:8} {took['seconds']:5.2f} s ({took['cpu']:.2f} s of work);"
                    f" at most {held['peak'] / _MB:.1f} MB of {most / _MB:.1f} MB:"
                    f" index {held['index'] / _MB:.1f}, longest line {held['longest'] / _MB:.2f};"
                    f" {took['operations']} operations,"
                    f" {took['before']:,} -> {took['after']:,} tokens",
                    flush=True,
                )


if __name__ == "__main__":
    if sys.argv[1:2] in (["--time"], ["--memory"]):
        measure = MEASURES[sys.argv[1].removeprefix("--")]
        print(json.dumps(measure(Path(sys.argv[3]), sys.argv[2])))
    else:
        main(sys.argv[1:] or [*SHAPES, MADE])
