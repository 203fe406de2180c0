"""This tree beside another commit: times, processor, memory, as ratios of medians of runs in turn.

On a busy machine a command's processor time says more than how long it took.

The commit is built by its own Makefile in build/compare, once. Everything is measured from outside,
as a person or Claude Code starts it: commands, hooks that each build installs, and dashboards in
pseudo-terminals. Usage: python -m tests.bench.compare [commit] [pairs] [MB of the generated folder]
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from . import bench_start, heavy
from .bench_idle import SETTLE_S
from .bench_planning import SHAPES, write
from .bench_scan import MEGABYTE, peak
from .bench_scan import run as run_command
from .hook_cases import ask, hook_environment, install, make_cases, scan_store
from .live import session_id
from .open_sessions import environ as dashboard_environment
from .open_sessions import make as make_open_sessions
from .terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .bench_scan import Run
    from .hook_cases import Commands, HookCase

ROOT: Final = Path(__file__).parents[2]
BASELINE: Final = "588b15f"
"""The commit that every note compares with, so that no slow growth hides between two of them."""

PAIRS: Final = 3
SHORT_RUNS: Final = 3  # of a command that takes a moment, for each pair
DASHBOARD_SESSIONS: Final = 50
IDLE_S: Final = 12.0  # of each pair
KEYS: Final = "jjjkjjkkjkjjkkjk"
KEY_PAUSE_S: Final = 0.15
PLANNED: Final = "10 MB, 200k tokens"


class Build(NamedTuple):
    """A ctxtop that is ready to run."""

    name: str
    program: Path

    @property
    def python(self) -> str:
        return str(self.program.with_name("python"))


class Row(NamedTuple):
    """What both builds took, in turn."""

    name: str
    unit: str
    ours: list[float]
    theirs: list[float]

    def __str__(self) -> str:
        ours, theirs = statistics.median(self.ours), statistics.median(self.theirs)
        ratio = f"{ours / theirs:6.2f}" if theirs else "     –"
        return f"{self.name:<44} {theirs:9.2f} {ours:9.2f} {self.unit:<3} {ratio}"


def build(commit: str) -> Build:
    """Unpack and build a commit, unless that was done before."""
    named = ["git", "rev-parse", "--verify", "--short=12", f"{commit}^{{commit}}"]
    name = subprocess.run(
        named, cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()
    folder = ROOT / "build" / "compare" / name
    stamp = folder / ".venv" / ".run"
    if not stamp.exists():
        shutil.rmtree(folder, ignore_errors=True)
        archive = subprocess.run(
            ["git", "archive", name], cwd=ROOT, check=True, capture_output=True
        ).stdout
        with tarfile.open(fileobj=BytesIO(archive)) as files:
            files.extractall(folder, filter="data")
        environ = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
        subprocess.run(
            ["make", "--no-print-directory", ".venv/.run"], cwd=folder, check=True, env=environ
        )
    return Build(name, folder / ".venv" / "bin" / "ctxtop")


def in_turn(
    name: str, unit: str, builds: tuple[Build, Build], runs: int, measure: Callable[[Build], float]
) -> Row:
    """Measure both builds, one after the other, after a first run of each that is not counted."""
    taken: dict[str, list[float]] = {each.name: [] for each in builds}
    for number in range(runs + 1):
        # Which one goes first alternates as well.
        for each in builds if number % 2 else builds[::-1]:
            taken[each.name].append(measure(each))
    ours, theirs = (taken[each.name][1:] for each in builds)
    return Row(name, unit, ours, theirs)


def run_in_turn(
    name: str, builds: tuple[Build, Build], runs: int, start: Callable[[Build], Run]
) -> Iterator[Row]:
    """Measure how long a command of both builds takes, and its processor time in the same runs."""
    used: dict[str, list[float]] = {each.name: [] for each in builds}

    def measure(build: Build) -> float:
        ended = start(build)
        used[build.name].append(ended.processor)
        return ended.seconds

    yield in_turn(name, "s", builds, runs, measure)
    ours, theirs = (used[each.name][1:] for each in builds)
    yield Row(f"{name}, processor", "s", ours, theirs)


class Comparison:
    """All measures, each a row."""

    def __init__(self, top: Path, builds: tuple[Build, Build], pairs: int) -> None:
        self._top = top
        self._builds = builds
        self._pairs = pairs
        self._heavy = top / "heavy"

    def rows(self, megabytes: int) -> Iterator[Row]:
        heavy.make(self._heavy, megabytes / bench_start.HEAVY_MEGABYTES)
        yield from self._scans(megabytes)
        yield from self._starts()
        yield from self._plans()
        yield from self._hooks()
        yield from self._dashboards()

    def _environ(self, build: Build) -> dict[str, str]:
        home = self._top / build.name
        home.mkdir(exist_ok=True)
        return {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8"}

    def _command(
        self, build: Build, store: str, *words: str, config: Path | None = None
    ) -> list[str]:
        places = ["--config-dir", str(config or self._heavy)]
        places += ["--db", str(self._top / build.name / store / "store.db")]
        return [str(build.program), *places, *words]

    def _started(self, *words: str, config: Path | None = None) -> Callable[[Build], Run]:
        def start(build: Build) -> Run:
            command = self._command(build, (config or self._heavy).name, *words, config=config)
            return run_command(command, self._environ(build))

        return start

    def _cold(self, build: Build) -> list[str]:
        shutil.rmtree(self._top / build.name / "cold", ignore_errors=True)
        return self._command(build, "cold", "scan")

    def _scans(self, megabytes: int) -> Iterator[Row]:
        def cold(build: Build) -> Run:
            return run_command(self._cold(build), self._environ(build))

        def memory(build: Build) -> float:
            return peak(self._cold(build), self._environ(build)) / MEGABYTE

        size, runs = f"of {megabytes} MB", self._pairs * SHORT_RUNS
        yield from run_in_turn(f"cold scan {size}", self._builds, self._pairs, cold)
        yield in_turn(f"cold scan {size}, most memory", "MB", self._builds, self._pairs, memory)
        for words in (["totals"], ["sessions"], ["search", "orders"]):
            name = f"{' '.join(words)}, warm {size}"
            try:
                yield from run_in_turn(name, self._builds, runs, self._started(*words))
            except SystemExit:
                print(f"{name:<44} not in both builds")

    def _starts(self) -> Iterator[Row]:
        runs = self._pairs * SHORT_RUNS
        for option in ("--version", "--help"):
            yield from run_in_turn(option, self._builds, runs, self._started(option))

        def frame(build: Build) -> float:
            folder = self._top / "empty"
            folder.mkdir(exist_ok=True)
            environ = bench_start.environment(str(self._top / build.name), folder, "start")
            return bench_start.run(bench_start.OURS, environ, build.python).processor

        yield in_turn("first frame, processor", "s", self._builds, runs, frame)

    def _plans(self) -> Iterator[Row]:
        config, session = self._top / "planned", session_id(1)
        path = config / "projects" / "-home-dev-bench" / f"{session}.jsonl"
        path.parent.mkdir(parents=True)
        write(path, SHAPES[PLANNED])
        words = ("compact", session, "--level", "4", "--json", "--force")
        yield from run_in_turn(
            f"plan of {PLANNED}", self._builds, self._pairs, self._started(*words, config=config)
        )

        def memory(build: Build) -> float:
            command = self._command(build, "warm-plan", *words, config=config)
            return peak(command, self._environ(build)) / MEGABYTE

        yield in_turn("plan, most memory", "MB", self._builds, self._pairs, memory)

    def _hooks(self) -> Iterator[Row]:
        tops = {each.name: self._top / f"hooks-{each.name}" for each in self._builds}
        cases = {each.name: make_cases(tops[each.name]) for each in self._builds}
        commands: dict[tuple[str, tuple[str, ...]], Commands] = {}
        for each in self._builds:
            environ = hook_environment(tops[each.name])
            scan_store(each.program, tops[each.name], environ)
            for features in {case.features for case in cases[each.name]}:
                installed = install(each.program, tops[each.name], features, environ)
                commands[each.name, features] = installed

        def asked(case: HookCase, place: int) -> Callable[[Build], float]:
            def measure(build: Build) -> float:
                own, top = cases[build.name][place], tops[build.name]
                installed = commands[build.name, case.features]
                own.prepare(top / "state" / "ctxtop.db", installed)
                return ask(installed[case.event], own.given, hook_environment(top))[0] * 1000

            return measure

        for place, case in enumerate(cases[self._builds[0].name]):
            name = f"hook {case.event}: {case.name}"
            yield in_turn(name, "ms", self._builds, self._pairs, asked(case, place))

    def _dashboards(self) -> Iterator[Row]:
        """Open both at once: each second of one is measured beside the same second of the other."""
        open_ones: dict[str, Terminal] = {}
        try:
            for each in self._builds:
                top = self._top / f"dashboard-{each.name}"
                make_open_sessions(top / "claude", DASHBOARD_SESSIONS)
                environ = dashboard_environment(top, top / "claude")
                open_ones[each.name] = Terminal([], environ, each.python)
            for terminal in open_ones.values():
                terminal.wait_for(f"{DASHBOARD_SESSIONS} sessions".encode())
            self._wait(open_ones, SETTLE_S)
            yield self._idle(open_ones)
            yield in_turn(
                "key to the first byte of its frame, p95",
                "ms",
                self._builds,
                self._pairs,
                lambda build: self._key_p95(open_ones[build.name]),
            )
            ours, theirs = ([open_ones[each.name].memory_mb] for each in self._builds)
            yield Row("dashboard, memory of its own", "MB", ours, theirs)
        finally:
            for terminal in open_ones.values():
                terminal.close()

    def _wait(self, terminals: dict[str, Terminal], seconds: float) -> None:
        for _ in range(round(seconds / len(terminals))):
            for terminal in terminals.values():
                terminal.wait(1.0)

    def _idle(self, terminals: dict[str, Terminal]) -> Row:
        used: dict[str, list[float]] = {name: [] for name in terminals}
        for _ in range(self._pairs):
            before = {name: terminal.cpu_s for name, terminal in terminals.items()}
            self._wait(terminals, IDLE_S)
            for name, terminal in terminals.items():
                used[name].append(100 * (terminal.cpu_s - before[name]) / IDLE_S)
        ours, theirs = (used[each.name] for each in self._builds)
        return Row(f"idle, {DASHBOARD_SESSIONS} open sessions, of a core", "%", ours, theirs)

    def _key_p95(self, terminal: Terminal) -> float:
        times = []
        for key in KEYS:
            terminal.wait(KEY_PAUSE_S)
            times.append(terminal.answer_ms(key))
        return statistics.quantiles(times, n=20)[-1]


def main() -> None:
    """Print a row for each measure as soon as it is there."""
    commit = sys.argv[1] if len(sys.argv) > 1 else BASELINE
    pairs = int(sys.argv[2]) if len(sys.argv) > 2 else PAIRS
    megabytes = int(sys.argv[3]) if len(sys.argv) > 3 else 350
    # Without bytecode files both would compile all their modules at each start.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    other = build(commit)
    here = Build("here", Path(sys.executable).with_name("ctxtop"))
    print(f"medians of at least {pairs} pairs in turn; the ratio is of this tree to {other.name}")
    print(f"{'':<44} {other.name[:9]:>9} {here.name:>9}      ratio")
    with tempfile.TemporaryDirectory() as name:
        for row in Comparison(Path(name), (here, other), pairs).rows(megabytes):
            print(row, flush=True)


if __name__ == "__main__":
    main()
