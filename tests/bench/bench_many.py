"""A hundred thousand sessions, and one transcript of two gigabytes: time and memory of each.

Each command is a process of its own; its memory is the most that the kernel saw (ru_maxrss).
The ratios are to the limits below: 1.0 is just within. The first scan takes minutes and is not
judged. Usage: python -m tests.bench.bench_many [sessions] [megabytes of the large transcript]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from .live import line, session_id

PROJECTS: Final = 400
ANSWERS: Final = 6

LIST_S: Final = 10.0
LIST_MB: Final = 300.0
CONTEXT_S: Final = 5.0

MEASURED: Final = """
import os, sys
pid = os.fork()
if not pid:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.execvp(sys.argv[1], sys.argv[1:])
_, status, used = os.wait4(pid, 0)
print(os.waitstatus_to_exitcode(status), used.ru_maxrss)
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


def measure(top: Path, *words: str) -> tuple[float, float]:
    """Run `ctxtop` in a process of its own; seconds, and megabytes at the most."""
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
    code, kilobytes = map(int, ended.stdout.split())
    if code:
        raise SystemExit(f"{' '.join(words)} ended with {code}: {ended.stderr}")
    return took, kilobytes / (1 if sys.platform == "linux" else 1024) / 1024


def report(what: str, found: tuple[float, float], seconds: float) -> None:
    """Print one figure, and its ratios to the limits."""
    took, megabytes = found
    ratios = f"{took / seconds:.2f} of {seconds:g} s, {megabytes / LIST_MB:.2f} of {LIST_MB:g} MB"
    print(f"{what:28} {took:7.1f} s {megabytes:7.0f} MB   {ratios}")


def main() -> None:
    """Print the figures."""
    sessions = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    megabytes = int(sys.argv[2]) if len(sys.argv) > 2 else 2_000
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        make_folder(top / "claude", sessions)
        print(f"the first scan: {measure(top, 'scan')[0]:.0f} s")
        report("sessions --json", measure(top, "sessions", "--json"), LIST_S)
        report("without a look", measure(top, "sessions", "--json", "--no-scan"), LIST_S)
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        large = make_large(top / "claude", megabytes)
        print(f"the first scan of {megabytes:,} MB: {measure(top, 'scan')[0]:.0f} s")
        report("context", measure(top, "context", large, "--json"), CONTEXT_S)


if __name__ == "__main__":
    main()
