"""Sessions that a process has open, with a registry entry each: for the benchmarks of cost."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

from ctxtop.collectors.claude_code.registry import linux_stat_field

from tests.bench.live import line, session_id

if TYPE_CHECKING:
    from pathlib import Path

ANSWERS = 40
"""Lines of each transcript: enough for a forecast and a trail."""


def make(root: Path, count: int) -> list[Path]:
    """Make so many open sessions below a folder of the client's; their transcripts."""
    project = root / "projects" / "-home-dev-bench"
    project.mkdir(parents=True)
    (root / "sessions").mkdir()
    paths = []
    for number in range(count):
        session = session_id(number)
        path = project / f"{session}.jsonl"
        tokens = range(20_000, 20_000 + 2_500 * ANSWERS, 2_500)
        path.write_bytes(b"".join(line(session, n, each) for n, each in enumerate(tokens)))
        entry = {
            "pid": os.getpid(),
            "sessionId": session,
            "cwd": "/home/dev/bench",
            "startedAt": int(time.time() * 1000),
            "procStart": linux_stat_field(os.getpid(), 22),
            "version": "2.1.329",
            "kind": "interactive",
            "entrypoint": "cli",
            "name": f"bench-{number:02d}",
            "status": "idle" if number % 3 else "busy",
            "updatedAt": int(time.time() * 1000),
            "statusUpdatedAt": int(time.time() * 1000),
        }
        (root / "sessions" / f"{os.getpid()}-{number}.json").write_text(json.dumps(entry))
        paths.append(path)
    return paths


def environ(top: Path, root: Path) -> dict[str, str]:
    """Return environment variables that refer to none of this machine's own folders."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(top),
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
        "LANG": "C.UTF-8",
        "CTXTOP_CONFIG_DIR": str(root),
        "CTXTOP_POLICY_UI__WELCOME": "false",
        "CTXTOP_DB": str(top / "state" / "store.db"),
    }
