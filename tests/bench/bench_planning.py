"""How long a plan takes and how much memory, for transcripts of 10 MB and 200 MB.

Run it as a module: `python -m tests.bench.bench_planning [MB ...]`. Each size is planned in a
process of its own; memory is that process's growth from before the plan to its peak.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from ctxtop.collectors.transcripts.conversation import entries_from
from ctxtop.core.compaction.plan import Harm
from ctxtop.core.compaction.planning import plan_transcript
from ctxtop.core.compaction.select import Aim
from ctxtop.core.estimate import Estimator

from tests import transcripts as made
from tests.worked import Session, numbered

SIZES: Final = (10, 200)
CONTEXT_BYTES: Final = 500_000
"""Of what is sent, when the client compacts: 167,000 tokens of a window of 200,000."""

_KB: Final = 1024


def write(path: Path, size: int) -> None:
    """Write a transcript of `size` bytes: compacted whenever its context is full."""
    with path.open("wb") as file:
        parent: str | None = None
        while file.tell() < size:
            session = Session()
            if parent:
                session.add(made.boundary())
                session.add(made.summary())
            session.ask("mend the decoder")
            # Of a real transcript 30 % is sent (compaction.md 0).
            left = min(CONTEXT_BYTES, (size - file.tell()) * 3 // 10)
            number = 0
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


def measure(path: Path) -> None:
    """Plan once, and print seconds and bytes as JSON."""
    counter = Estimator({})
    counter.of(made.MODEL).text_tokens("the table is read once, and not for each plan")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _KB
    began = time.perf_counter()
    plan = plan_transcript("s", path, entries_from, counter.of, aim=Aim(Harm.INPUTS))
    seconds = time.perf_counter() - began
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _KB - before
    found = {
        "seconds": seconds,
        "bytes": grown,
        "operations": len(plan.operations),
        "before": plan.before_tokens,
        "after": plan.after_tokens,
        "refused": [each.check for each in plan.refused],
    }
    print(json.dumps(found))


def main(sizes: list[int]) -> None:
    """Print a line a size."""
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "session.jsonl"
            write(path, size * 1_000_000)
            words = [sys.executable, "-m", "tests.bench.bench_planning", "--one", str(path)]
            said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
            found = json.loads(said)
            lines = path.read_bytes().count(b"\n")
            print(
                f"{size:4} MB, {lines:,} lines: {found['seconds']:.2f} s,"
                f" {found['bytes'] / 1e6:.0f} MB of memory, {found['operations']} operations,"
                f" {found['before']:,} -> {found['after']:,} tokens {found['refused'] or ''}"
            )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        measure(Path(sys.argv[2]))
    else:
        main([int(each) for each in sys.argv[1:]] or list(SIZES))
