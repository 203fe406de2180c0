"""What an open dashboard costs while nothing happens, and while people work.

ctxtop runs in a pseudo-terminal and watches 50 sessions that a process has open; first
nobody writes, then each of ten sessions gets a line every two seconds.
Usage: python -m tests.bench.bench_idle [sessions] [seconds]
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from tests.bench.live import line, session_id
from tests.bench.open_sessions import environ, make
from tests.bench.terminal import Terminal

TARGET = 0.01
"""Of a core, while nothing happens."""

SETTLE_S = 75.0
"""After the first scan: texts are counted then, and ages stand in seconds for a minute."""

WRITERS, PAUSE_S = 10, 2.0


def main() -> None:
    """Print the figures."""
    sessions = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 60.0
    with tempfile.TemporaryDirectory() as top:
        root = Path(top) / "claude"
        paths = make(root, sessions)
        it = Terminal([], environ(Path(top), root))
        try:
            it.wait_for(f"{sessions} sessions".encode())
            it.wait(SETTLE_S)
            before, frames = it.cpu_s, it.frames
            it.wait(seconds)
            idle = (it.cpu_s - before) / seconds
            drawn = it.frames - frames
            before, start, number = it.cpu_s, time.monotonic(), 1_000
            while time.monotonic() - start < seconds:
                for n, path in enumerate(paths[:WRITERS]):
                    number += 1
                    with path.open("ab") as file:
                        file.write(line(session_id(n), number, 120_000 + number % 9_000))
                it.wait(PAUSE_S)
            busy = (it.cpu_s - before) / (time.monotonic() - start)
            memory = it.memory_mb
        finally:
            it.close()
    print(
        f"{sessions} live sessions, nothing happens: {idle:.2%} of a core over {seconds:.0f} s"
        f" ({drawn} writes to the terminal), of the target {idle / TARGET:.2f}"
    )
    print(f"{WRITERS} of them get a line every {PAUSE_S:.0f} s: {busy:.1%} of a core")
    print(f"memory {memory:.0f} MB, all of its processes")


if __name__ == "__main__":
    main()
