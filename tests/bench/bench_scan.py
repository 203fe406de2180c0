"""A heavy user's folder read cold and warm, beside ccusage and beside a plain json.loads.

The folder is made by heavy.py and removed at the end; ccusage 20.0.24 is installed with npm
into the environment's own folder, once, and runs offline. Runs alternate, so that all meet
the same machine and the same page cache; the figures are medians. Memory is the sum of all
processes of a run of its own. Totals are compared to the token, also on the recorded
transcripts where CTXTOP_SHARED names the folder that holds them.
Usage: python -m tests.bench.bench_scan [scale] [runs]
"""

from __future__ import annotations

import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil

from . import explain, heavy

if TYPE_CHECKING:
    from collections.abc import Mapping

CCUSAGE: Final = ("ccusage@20.0.24", "@ccusage/ccusage-linux-x64@20.0.24")
PLACE: Final = Path(sys.prefix) / "ccusage"
MEGABYTE: Final = 1_000_000
SAMPLE_S: Final = 0.01

PLAIN: Final = """
import json, sys
from pathlib import Path
for path in Path(sys.argv[1]).rglob("*.jsonl"):
    with path.open("rb") as file:
        for line in file:
            json.loads(line)
"""

APPEND: Final = """
import sys
from pathlib import Path
from ctxtop.collectors.collector_thread import Collector
from ctxtop.collectors.locations.discover import ClaudeFolder
from ctxtop.core.store.writer import Writer
from ctxtop.collectors.store_update import ScanOutcome

def read_so_far():
    with open("/proc/self/io") as file:
        return int(file.readline().split()[1])

root, store, name, line = sys.argv[1:]
path = Path(root, "projects", name)
collector = Collector(ClaudeFolder(Path(root)), Writer(Path(store)), ScanOutcome())
collector.scan()
for _ in range(2):
    with path.open("a") as file:
        file.write(line + chr(10))
    before = read_so_far()
    collector.index_paths([path])
    after = read_so_far()
print(after - before - (read_so_far() - after))
"""


@dataclass(frozen=True, slots=True)
class Run:
    """What one run of a program took, and what it printed."""

    seconds: float
    output: str
    processor: float = 0.0  # seconds, with its children's


def run(command: list[str], environ: Mapping[str, str], *, cwd: Path | None = None) -> Run:
    """Run a program to its end."""
    start, used = time.perf_counter(), _children_processor_s()
    done = subprocess.run(
        command, env=dict(environ), cwd=cwd, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{command[0]} ended with {done.returncode}: {done.stderr}")
    return Run(time.perf_counter() - start, done.stdout, _children_processor_s() - used)


def _children_processor_s() -> float:
    """Return the processor time of all programs that this one started and that ended."""
    times = os.times()
    return times.children_user + times.children_system


def peak(command: list[str], environ: Mapping[str, str], *, cwd: Path | None = None) -> int:
    """Run a program once more, for the most that it and its children held; looking takes time."""
    most = 0
    with subprocess.Popen(
        command, env=dict(environ), cwd=cwd, stdout=subprocess.DEVNULL
    ) as process:
        watched = psutil.Process(process.pid)
        while process.poll() is None:
            most = max(most, memory_of(watched))
            time.sleep(SAMPLE_S)
    return most


def memory_of(process: psutil.Process) -> int:
    """Add up what a process and its children hold."""
    most = 0
    try:
        for each in (process, *process.children(recursive=True)):
            most += each.memory_info().rss
    except psutil.Error:
        return most
    return most


def ccusage() -> list[str] | None:
    """Find the command of ccusage, and install it where it is not there yet."""
    command = PLACE / "node_modules" / ".bin" / "ccusage"
    if not command.exists():
        npm = shutil.which("npm")
        if npm is None:
            return None
        PLACE.mkdir(exist_ok=True)
        done = subprocess.run(
            [npm, "install", "--silent", "--no-save", "--prefix", str(PLACE), *CCUSAGE],
            capture_output=True,
            check=False,
        )
        if done.returncode or not command.exists():
            return None
    return [str(command), "claude", "session", "--json", "--offline"]


def ours(config: Path, store: Path, *words: str) -> list[str]:
    """Make the command line of ctxtop."""
    program = str(Path(sys.executable).with_name("ctxtop"))
    return [program, "--config-dir", str(config), "--db", str(store), *words]


def totals_of_ccusage(text: str) -> list[int]:
    """Read the totals that ccusage prints."""
    said = json.loads(text)["totals"]
    names = ("inputTokens", "cacheCreationTokens", "cacheReadTokens", "outputTokens")
    return [said[name] for name in names]


def totals_of_ctxtop(text: str) -> list[int]:
    """Read the totals that ctxtop prints."""
    said = json.loads(text)
    names = ("input_tokens", "cache_creation_tokens", "cache_read_tokens", "output_tokens")
    return [said[name] for name in names]


def compare_totals(name: str, config: Path, scratch: Path, environ: Mapping[str, str]) -> None:
    """Print whether both count the same."""
    store = scratch / f"{name}.db"
    counted = totals_of_ctxtop(run(ours(config, store, "totals", "--json"), environ).output)
    other = ccusage()
    if other is None:
        print(f"totals, {name}: {sum(counted):,} tokens; ccusage not measured")
        return
    theirs = totals_of_ccusage(
        run(other, {**environ, "CLAUDE_CONFIG_DIR": str(config)}, cwd=scratch).output
    )
    if counted == theirs:
        print(f"totals, {name}: {counted}: equal to the token")
        return
    print(f"totals, {name}: ctxtop {counted}, ccusage {theirs}")
    again, left_out = explain.differences(config)
    print(f"  copies of a fork that ccusage counts again: {again}")
    print(f"  cache writes without a lifetime that ccusage leaves out: {left_out}")
    rest = [b - a - c - d for a, b, c, d in zip(counted, theirs, again, left_out, strict=True)]
    print(f"  unexplained: {rest}")


def recorded(shared: Path, scratch: Path) -> Path:
    """Put the recorded transcripts into one folder as the client would have them."""
    config = scratch / "recorded"
    shutil.copytree(shared / "corpus" / "current" / "config", config)
    for era in ("older", "newer"):
        shutil.copytree(shared / "corpus" / era, config / "projects" / f"-home-dev-{era}")
    return config


def bytes_of_an_append(scratch: Path, size: int, environ: Mapping[str, str]) -> int:
    """Append a line to a file of this size; bytes that ctxtop then reads."""
    root = scratch / f"append-{size}"
    project = root / "projects" / "-home-dev-shop"
    project.mkdir(parents=True)
    session = "00000000-0000-4000-8000-000000000001"
    made = heavy.Transcript(random.Random(1), heavy.ERAS[-1], session, "").lines(size)
    with (project / f"{session}.jsonl").open("wb") as file:
        file.writelines(made)
    line = next(heavy.Transcript(random.Random(2), heavy.ERAS[0], session, "").lines(1))
    name = f"-home-dev-shop/{session}.jsonl"
    words = [str(root), str(scratch / f"append-{size}.db"), name, line.decode().strip()]
    return int(run([sys.executable, "-c", APPEND, *words], environ).output)


def show(name: str, runs: list[Run], most: int, beside: float | None = None) -> float:
    """Print a program's median, its most memory, and the ratio to another's time."""
    seconds = statistics.median(each.seconds for each in runs)
    ratio = "" if beside is None else f"   {seconds / beside:5.2f} of ccusage"
    print(f"{name:28} {seconds:7.2f} s   {most / MEGABYTE:5.0f} MB at most{ratio}")
    return seconds


def main() -> None:
    """Print the figures."""
    scale = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        config = scratch / "claude"
        files, size = heavy.make(config, scale)
        print(f"{files:,} files, {size / MEGABYTE:,.0f} MB, {os.cpu_count()} cores")
        environ = {**os.environ, "HOME": str(scratch), "CLAUDE_CONFIG_DIR": str(config)}
        plain, cold, warm, other = [], [], [], []
        command = ccusage()
        run([sys.executable, "-c", PLAIN, str(config)], environ)
        store = scratch / "ctxtop.db"
        for number in range(rounds):
            store = scratch / f"store-{number}" / "ctxtop.db"
            plain.append(run([sys.executable, "-c", PLAIN, str(config)], environ))
            cold.append(run(ours(config, store, "scan"), environ))
            warm.append(run(ours(config, store, "totals"), environ))
            if command:
                other.append(run(command, environ, cwd=scratch))
        beside = None
        if command:
            beside = show("ccusage 20.0.24", other, peak(command, environ, cwd=scratch))
        else:
            print("ccusage: not measured, npm cannot install it here")
        plainly = [sys.executable, "-c", PLAIN, str(config)]
        loads = show("json.loads of every line", plain, peak(plainly, environ), beside)
        first = ours(config, scratch / "peak" / "ctxtop.db", "scan")
        took = show("ctxtop scan, cold", cold, peak(first, environ), beside)
        again = ours(config, store, "totals")
        show("ctxtop totals, warm", warm, peak(again, environ), beside)
        print(f"cold scan to json.loads: {took / loads:.2f} (target below 1.00)")
        kept = store.stat().st_size
        print(f"store: {kept / MEGABYTE:,.1f} MB, {kept / size:.1%} of what it read (target 8 %)")
        compare_totals("generated", config, scratch, environ)
        shared = os.environ.get("CTXTOP_SHARED")
        if shared:
            compare_totals("recorded", recorded(Path(shared), scratch), scratch, environ)
        else:
            print("totals, recorded: not compared, CTXTOP_SHARED names no folder")
        for bytes_there in (10_000, 100_000_000):
            read = bytes_of_an_append(scratch, bytes_there, environ)
            print(f"one line appended to a file of {bytes_there:,} bytes: {read:,} bytes read")


if __name__ == "__main__":
    main()
