"""Transcripts that grow while we look: for the benchmarks of latency."""

from __future__ import annotations

import json
import os
import random
import sys
import time
from pathlib import Path


def line(session: str, number: int, tokens: int) -> bytes:
    """Make an assistant's line whose context is `tokens`."""
    record = {
        "parentUuid": None,
        "isSidechain": False,
        "message": {
            "id": f"msg_{session}_{number}",
            "type": "message",
            "role": "assistant",
            "model": "claude-opus-5-5",
            "content": [{"type": "text", "text": "working on it " * 20}],
            "usage": {
                "input_tokens": 10,
                "cache_creation_input_tokens": 990,
                "cache_read_input_tokens": tokens - 1000,
                "output_tokens": 50,
            },
        },
        "type": "assistant",
        "uuid": f"{session}-{number}",
        "timestamp": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime()),
        "cwd": "/home/dev/bench",
        "sessionId": session,
        "version": "2.1.329",
    }
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def session_id(number: int) -> str:
    """Name the session of a file."""
    return f"00000000-0000-4000-8000-{number:012d}"


def write(root: Path, files: int, per_second: float, seconds: float, log: Path) -> None:
    """Append to each file `per_second` times a second; log session, tokens and time of each."""
    project = root / "projects" / "-home-dev-bench"
    chance = random.Random(7)
    handles = [
        os.open(project / f"{session_id(n)}.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        for n in range(files)
    ]
    due = [(chance.random() / per_second, n) for n in range(files)]
    start, number = time.monotonic(), 0
    with log.open("w") as journal:
        while (now := time.monotonic() - start) < seconds:
            due.sort()
            moment, n = due[0]
            if moment > now:
                time.sleep(min(moment - now, 0.05))
                continue
            number += 1
            tokens = 100_000 + 100 * (number % 8_000)
            os.write(handles[n], line(session_id(n), number, tokens))
            journal.write(f"{session_id(n)} {tokens} {time.time_ns()}\n")
            due[0] = (moment + (0.5 + chance.random()) / per_second, n)


if __name__ == "__main__":
    write(
        Path(sys.argv[1]),
        int(sys.argv[2]),
        float(sys.argv[3]),
        float(sys.argv[4]),
        Path(sys.argv[5]),
    )
