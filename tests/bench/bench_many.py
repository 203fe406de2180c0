"""A hundred thousand sessions, and one transcript of two gigabytes: time and memory of each.

Each command is a process of its own; its memory is the most that the kernel saw (ru_maxrss).
Beside the time that passed stands the processor's, which other work on the machine stretches less.
The ratios are to the limits below: 1.0 is just within. The first scan takes minutes and is not
judged. Usage: python -m tests.bench.bench_many [sessions] [megabytes of the large transcript]
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

from ctxtop.tui.base.command_errors import UNSAFE

from .live import line, session_id
from .many_screen import look

PROJECTS: Final = 400
ANSWERS: Final = 6

LIST_S: Final = 10.0
LIST_MB: Final = 300.0
CONTEXT_S: Final = 5.0
PAGE_S: Final = 1.0
STILL_S: Final = 0.3
"""What a person does not yet take for a screen that hangs."""

MEASURED: Final = """
import os, sys
pid = os.fork()
if not pid:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.execvp(sys.argv[1], sys.argv[1:])
_, status, used = os.wait4(pid, 0)
cpu = used.ru_utime + used.ru_stime
print(os.waitstatus_to_exitcode(status), used.ru_maxrss, cpu)
"""


def make_folder(root: Path, sessions: int) -> None:
    """Write so many small transcripts, spread over the projects."""
    for n in range(PROJECTS):
        (root / "projects" / f"-home-dev-project-{n:03d}").mkdir(parents=True, exist_ok=True)
    for n in range(sessions):
        session = session_id(n)
        folder = root / "projects" / f"-home-dev-project-{n % PROJECTS:03d}"
        tokens = 20_000 + 1_003 * (n % 900)
        lines = (line(session, number, tokens + 900 * number) for number in range(ANSWERS))
        (folder / f"{session}.jsonl").write_bytes(b"".join(lines))


def make_large(root: Path, megabytes: int) -> str:
    """Write one transcript of this size; its context is as large as any other's."""
    session = session_id(10**9)
    folder = root / "projects" / "-home-dev-large"
    folder.mkdir(parents=True)
    block = b"".join(line(session, number, 90_000) for number in range(1_000))
    with (folder / f"{session}.jsonl").open("wb") as file:
        for _ in range(megabytes * 1_000_000 // len(block)):
            file.write(block)
    return session


class Found(NamedTuple):
    """What a command took."""

    seconds: float
    cpu_s: float
    megabytes: float


def measure(top: Path, *words: str, code: int = 0) -> Found:
    """Run `ctxtop` in a process of its own, which must end with this code."""
    argv = [sys.executable, "-m", "ctxtop", *words]
    argv += ["--config-dir", str(top / "claude"), "--db", str(top / "store.db")]
    began = time.monotonic()
    ended = subprocess.run(
        [sys.executable, "-c", MEASURED, *argv],
        env={**os.environ, "HOME": str(top)},
        capture_output=True,
        text=True,
        check=True,
    )
    took = time.monotonic() - began
    ended_with, kilobytes, cpu_s = ended.stdout.split()
    if int(ended_with) != code:
        raise SystemExit(f"{' '.join(words)} ended with {ended_with}: {ended.stderr}")
    megabytes = int(kilobytes) / (1 if sys.platform == "linux" else 1024) / 1024
    return Found(took, float(cpu_s), megabytes)


def report(what: str, found: Found, seconds: float) -> None:
    """Print one command's figures, and their ratios to the limits."""
    took, cpu_s, megabytes = found
    ratios = f"{took / seconds:.2f} of {seconds:g} s (processor {cpu_s / seconds:.2f})"
    ratios += f", {megabytes / LIST_MB:.2f} of {LIST_MB:g} MB"
    print(f"{what:28} {took:7.1f} s {cpu_s:7.1f} s {megabytes:7.0f} MB   {ratios}")


def report_screen(top: Path, sessions: int) -> None:
    """Print the dashboard's figures, and their ratios to the limits."""
    os.environ["HOME"] = str(top)
    state = top / "state"
    state.mkdir()
    (top / "store.db").rename(state / "store.db")
    seen = asyncio.run(look(top / "claude", sessions))
    for what, took, limit in (
        ("first page", seen.first_page, PAGE_S),
        ("longest stillness, reading", seen.still_reading, STILL_S),
        ("slowest sort, to its frame", max(seen.sorts), PAGE_S),
        ("longest stillness, sorting", seen.still_sorting, STILL_S),
    ):
        print(f"{what:28} {took:7.2f} s   {took / limit:.2f} of {limit:g} s")
    print(f"{'all read':28} {seen.all_read:7.1f} s")


def main() -> None:
    """Print the figures."""
    sessions = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    megabytes = int(sys.argv[2]) if len(sys.argv) > 2 else 2_000
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        make_folder(top / "claude", sessions)
        print(f"the first scan: {measure(top, 'scan').seconds:.0f} s")
        report("sessions --json", measure(top, "sessions", "--json"), LIST_S)
        report("without a look", measure(top, "sessions", "--json", "--no-scan"), LIST_S)
        report_screen(top, sessions)
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        large = make_large(top / "claude", megabytes)
        print(f"the first scan of {megabytes:,} MB: {measure(top, 'scan').seconds:.0f} s")
        report("context", measure(top, "context", large, "--json"), CONTEXT_S)
        report("compact", measure(top, "compact", large, code=UNSAFE), CONTEXT_S)


if __name__ == "__main__":
    main()
