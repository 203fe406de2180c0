"""How long the client waits for the answers of our hooks: the whole process, as it runs them.

A session of some MB and 48 agents in 16 sessions, without a store and with one. The target is
the client's patience with a hook that runs at every agent's start.
Usage: python -m tests.bench.bench_answers [megabytes] [runs]
"""

from __future__ import annotations

import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ..agents_at_work import called, write_agent
from ..transcripts import append, assistant, boundary, summary, text, user, write
from .heavy import WORDS

if TYPE_CHECKING:
    from ..transcripts import JsonLine

TARGET_MS = 300
RESULT = "[COMPRESSED] agent_type: worker\nChanged files: src/a.py\nResult: Run {} is done."


def main() -> None:
    """Print the figures."""
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 15
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        transcript = make(root, megabytes * 1_000_000)
        size = transcript.stat().st_size / 1e6
        print(f"a transcript of {size:.1f} MB, 48 agents; {runs} runs each, target {TARGET_MS} ms")
        show("empty python -I", [[sys.executable, "-I", "-c", ""]] * runs, b"")
        at_start = {"agent_type": "worker", "agent_id": "new"}
        hook(root, transcript, "SubagentStart inject", at_start, runs)
        scan(root)
        hook(root, transcript, "SubagentStart inject", at_start, runs)
        hook(root, transcript, "PreCompact steer", {"trigger": "auto"}, runs)
        hook(root, transcript, "UserPromptSubmit remember", {"prompt": "Go on."}, runs)
        after = {"compact_summary": "<summary>We did it.</summary>"}
        hook(root, transcript, "PostCompact remember", after, runs)
        append(transcript, [boundary(), summary("We did it.")])
        hook(root, transcript, "UserPromptSubmit remember", {"prompt": "Go on."}, 1)


def make(root: Path, size: int) -> Path:
    """Write the sessions; the first one is the large one."""
    folder = root / "config" / "projects" / "-shop"
    sessions = [folder / f"{number:08}-0000-4000-8000-000000000000.jsonl" for number in range(16)]
    for number, session in enumerate(sessions):
        write(session, [user("Work.")])
        for agent in range(3):
            write_agent(session, f"a{number}x{agent}", RESULT.format(f"{number}.{agent}"))
    chance, number = random.Random(5), 0
    while sessions[0].stat().st_size < size:
        append(sessions[0], [line for _ in range(50) for line in turn(chance, number)])
        number += 1
    return sessions[0]


def turn(chance: random.Random, number: int) -> list[JsonLine]:
    """A prompt, a file that is read and edited, and what the model says of it."""
    file, call = f"/shop/src/part_{chance.randrange(400)}.py", f"t{number}-{chance.random()}"
    said = " ".join(chance.choices(WORDS, k=120))
    lines = [user(f"You must keep {file} as it is. {' '.join(chance.choices(WORDS, k=30))}")]
    lines += called("Read", f"{call}r", " ".join(chance.choices(WORDS, k=600)), file_path=file)
    lines += called("Edit", f"{call}e", file_path=file, old_string="a", new_string=said)
    return [*lines, assistant(f"m{call}", content=[text(f"We decided to go on. {said}")])]


def hook(root: Path, transcript: Path, what: str, fields: dict[str, str], runs: int) -> None:
    """Time one event with one feature."""
    event, feature = what.split()
    store = root / "state" / "ctxtop.db"
    words = [sys.executable, "-I", "-m", "ctxtop.collectors.plugin.hook", str(store)]
    told = {"transcript_path": str(transcript), "cwd": str(root), "hook_event_name": event}
    kind = "with a store" if store.exists() else "without a store"
    show(f"{what}, {kind}", [[*words, event, feature]] * runs, json.dumps(told | fields).encode())


def show(what: str, commands: list[list[str]], given: bytes) -> None:
    """Run commands one after another and print how long they take, and what they say."""
    took, worked, said = [], [], b""
    for command in commands:
        began, before = time.perf_counter(), worked_s()
        ended = subprocess.run(command, input=given, capture_output=True, check=True)
        took.append((time.perf_counter() - began) * 1000)
        worked.append((worked_s() - before) * 1000)
        said = ended.stdout
    median, work = statistics.median(took), statistics.median(worked)
    print(
        f"{what:<42} median {median:4.0f} ms (processor {work:4.0f}),"
        f" best {min(took):4.0f} ms, says {len(said):,} bytes"
    )


def worked_s() -> float:
    """Return the CPU time of all ended child processes, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def scan(root: Path) -> None:
    """Bring a store up to date."""
    command = [sys.executable, "-I", "-m", "ctxtop", "scan", "--config-dir", str(root / "config")]
    store = root / "state" / "ctxtop.db"
    subprocess.run(
        [*command, "--db", str(store)], check=True, capture_output=True, env=dict(os.environ)
    )


if __name__ == "__main__":
    main()
