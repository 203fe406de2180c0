"""From the command to the first frame, beside an empty app of Textual's own.

Both run in a pseudo-terminal and end by themselves when the first frame has been
handed to it; runs alternate, so that both meet the same machine.
Usage: python -m tests.bench.bench_start [runs]
"""

from __future__ import annotations

import os
import pty
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

TARGET = 1.3

# The first frame of a screen with a size, and of a certain kind, ends the process.
HARNESS = """
import os, sys
import textual.app
display = textual.app.App._display
def first(self, screen, renderable):
    display(self, screen, renderable)
    if renderable is not None and screen is self.screen and screen.size.width:
        if type(screen).__name__ in KINDS:
            os._exit(0)
textual.app.App._display = first
"""
RUN = "sys.argv = ['ctxtop']\nfrom ctxtop.tui.cli import main\nmain()"
EMPTY = "KINDS = {'Screen'}" + HARNESS + "textual.app.App().run()"
OURS = "KINDS = {'OpeningScreen'}" + HARNESS + RUN
PANES = "KINDS = {'FleetScreen'}" + HARNESS + RUN


def run(program: str, environ: dict[str, str]) -> float:
    """Run a program in a pseudo-terminal; seconds to its end."""
    start = time.perf_counter()
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(sys.executable, [sys.executable, "-c", program], environ)
    while True:
        try:
            if not os.read(terminal, 65536):
                break
        except OSError:
            break
    os.waitpid(pid, 0)
    os.close(terminal)
    return time.perf_counter() - start


def main() -> None:
    """Print the figures."""
    from ctxtop.collectors.demo import make_demo

    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    with tempfile.TemporaryDirectory() as top:
        folder = make_demo(Path(top) / "claude", datetime.now(UTC))
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": top,
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            "LANG": "C.UTF-8",
            "CTXTOP_CONFIG_DIR": str(folder.root),
            "CTXTOP_DB": str(Path(top) / "state" / "store.db"),
        }
        programs = (EMPTY, OURS, PANES)
        for program in programs:
            run(program, environ)
        taken: dict[str, list[float]] = {program: [] for program in programs}
        for _ in range(runs):
            for program in programs:
                taken[program].append(run(program, environ))
    empty, ours, panes = (statistics.median(taken[program]) for program in programs)
    print(f"median of {runs} runs: Textual's empty app {empty:.3f} s to its first frame")
    print(f"ctxtop's first frame {ours:.3f} s, ratio {ours / empty:.2f} (target {TARGET})")
    print(f"ctxtop's panes, still empty {panes:.3f} s, ratio {panes / empty:.2f}")


if __name__ == "__main__":
    main()
