"""From the command to the first frame, beside an empty app of Textual's own, and on to the data.

The frames are measured in processor time, which other work on the machine stretches least: each
program ends by itself when its frame has been handed to the pseudo-terminal, and runs alternate.
What is written to the terminal is measured in the time that passes, beside the same time of the
empty app: the first cell, the first text, the progress of the scan and the first counts.
Usage: python -m tests.bench.bench_start [runs] [megabytes of the generated folder]
"""

from __future__ import annotations

import os
import pty
import re
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from . import heavy, recordings
from .terminal import Terminal

TARGET: Final = 1.2
TEXT_TARGET_MS: Final = 100
HEAVY_MEGABYTES: Final = 1_240  # of heavy.make at a scale of 1

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

FIRST_CELL: Final = re.compile(rb"\x1b\[[\d;]*m[^\x1b]")  # what comes before prepares the terminal
FIRST_TEXT: Final = re.compile(rb"reading transcripts|opening")
PROGRESS: Final = re.compile(rb"reading [\d,]+ of [\d,]+ files")
DATA: Final = re.compile(rb"No sessions yet|[1-9][\d,]* sessions?\b")


class Started(NamedTuple):
    """Seconds: of the processor, and that passed until the program ended."""

    processor: float
    passed: float


def run(program: str, environ: dict[str, str], python: str = sys.executable) -> Started:
    """Run a program in a pseudo-terminal to its end."""
    start = time.perf_counter()
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(python, [python, "-c", program], environ)
    while True:
        try:
            if not os.read(terminal, 65536):
                break
        except OSError:
            break
    _, _, used = os.wait4(pid, 0)
    os.close(terminal)
    return Started(used.ru_utime + used.ru_stime, time.perf_counter() - start)


def environment(top: str, folder: Path, store: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": top,
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
        "LANG": "C.UTF-8",
        "CTXTOP_CONFIG_DIR": str(folder),
        "CTXTOP_DB": str(Path(top) / store / "store.db"),
        "CTXTOP_POLICY_ui__welcome": "false",
    }


def print_frames(environ: dict[str, str], runs: int) -> float:
    """Print what the first frames take; return the seconds that pass before the empty app's."""
    programs = (EMPTY, OURS, PANES)
    for program in programs:
        run(program, environ)
    taken: dict[str, list[Started]] = {program: [] for program in programs}
    for _ in range(runs):
        for program in programs:
            taken[program].append(run(program, environ))
    empty, ours, panes = (
        statistics.median(each.processor for each in taken[program]) for program in programs
    )
    print(f"median of {runs} runs: Textual's empty app {empty:.3f} s of the processor")
    print(f"ctxtop's first frame {ours:.3f} s, ratio {ours / empty:.2f} (target {TARGET})")
    print(f"ctxtop's panes, still empty {panes:.3f} s, ratio {panes / empty:.2f}")
    return statistics.median(each.passed for each in taken[EMPTY])


def print_writing(name: str, top: str, folder: Path, runs: int, empty_s: float) -> None:
    """Print when the terminal is first written to, and what follows; each run reads everything."""
    rows: list[list[float]] = []
    marks = [FIRST_CELL, FIRST_TEXT, *([PROGRESS] if any(folder.rglob("*.jsonl")) else []), DATA]
    for number in range(runs):
        terminal = Terminal([], environment(top, folder, f"{name}-{number}"))
        try:
            rows.append(terminal.times_of(marks))
        finally:
            terminal.close()
    paint, text, *later = (statistics.median(column) for column in zip(*rows, strict=True))
    words = ("progress", "first counts")[-len(later) :]
    print(f"{name}: first paint {paint / empty_s:.2f} of the empty app's first frame")
    print(f"  text {1e3 * (text - paint):.0f} ms after that (target {TEXT_TARGET_MS})")
    for what, moment in zip(words, later, strict=True):
        print(f"  {what} {moment / empty_s:.2f} of the empty app's first frame")


def main() -> None:
    """Print the figures."""
    from ctxtop.collectors.demo import make_demo

    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    megabytes = int(sys.argv[2]) if len(sys.argv) > 2 else 350
    with tempfile.TemporaryDirectory() as top:
        demo = make_demo(Path(top) / "claude", datetime.now(UTC))
        empty_s = print_frames(environment(top, demo.root, "state"), runs)
        folders = {"empty folder": Path(top) / "nothing", f"{megabytes} MB": Path(top) / "heavy"}
        (folders["empty folder"] / "projects").mkdir(parents=True)
        heavy.make(folders[f"{megabytes} MB"], megabytes / HEAVY_MEGABYTES)
        if recordings.recordings(recordings.shared_folder()):
            folders["corpus"] = recordings.as_config(recordings.shared_folder(), Path(top))
        for name, folder in folders.items():
            print_writing(name, top, folder, max(1, runs // 3), empty_s)


if __name__ == "__main__":
    main()
