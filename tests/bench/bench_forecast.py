"""How often the forecast is right, on the recorded sessions and on made ones.

Each turn of a session before it reached a size is a case: at that turn, with what was known
then, how many turns until it was reached? The sizes are the largest that a run from one
compaction to the next came to, and three quarters and half of the way there.

Nothing is fitted on the session that is asked, nor on its project: what others tell, and how far
guesses were off, is gathered again for each project from the others alone (a project is a folder
of the corpus), where each session was guessed by the others but not by itself and its forks,
which share a turn with it. Beside it stands the guess before its calibration, and what people do
by eye: a straight line (least squares) through the last ten answers.

`interval` and `p80` are the shares of cases inside the 80 % interval and over by the p80: both
should be 77 to 83 %. Far away the answer is `40+`, a lower bound: `held` is the share of those
that took as long at least, and should be 77 % or more. `off` is the median error of the p50. A
forecast can only hold by the distance that it says; by the distance that came, the near cases are
those that were over sooner than anybody could know.
Usage: CTXTOP_SHARED=../shared python -m tests.bench.bench_forecast [--measure]
With --measure it prints what `core/measure/forecast.py` ships.
"""

from __future__ import annotations

import math
import random
import statistics
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from ctxtop.core.measure.forecast import (
    DISTANCES,
    FAR_TURNS,
    PAUSE_MS,
    SHIPPED_CALIBRATION,
    ForecastCalibration,
    GrowthPrior,
    first_answer_of_size,
    make_forecast,
    make_prior,
    measure_errors,
    replay_forecasts,
    replay_targets,
    split_runs,
)
from ctxtop.core.model.outlook import Forecast, Interval
from ctxtop.core.model.stored_rows import FillRow

from .recordings import as_config, recordings, shared_folder, too_few

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ctxtop.core.measure.forecast import PastGuess

SCRIPTED: Final = "lab-proj"
"""The lab's sessions: a script chose how much they grow, so they teach others nothing."""

LINE_TURNS: Final = 10
RUNS: Final = 200

MADE_TRIGGER: Final = 167_000
MADE_MOST: Final = 40_000
"""Tokens that one turn adds at most; the most in the recorded sessions is 38,223."""

BANDS: Final = (("near", 1, 10), ("middle", 11, FAR_TURNS), ("far", FAR_TURNS + 1, None))
"""Turns; each has about a third of the cases that are not far beyond the others'."""

CAME_BANDS: Final = (*BANDS, ("beyond 80", 81, None))

LEAST_SESSIONS: Final = 3
"""One to ask, and two others: what one session is off by says nothing of sessions."""

MADE_PROJECTS: Final = 6

Fills = dict[str, list[FillRow]]
Band = tuple[str, int, int | None]


@dataclass(frozen=True, slots=True)
class Case:
    """What was said at one turn, and how it came."""

    session: str
    said: Forecast
    plain: Forecast
    """Before the calibration."""
    line: float
    turns: int
    minutes: float


def read_fills(shared: Path, scratch: Path) -> Fills:
    """Read every recorded session into a throw-away store; its answers and boundaries by path."""
    from ctxtop.collectors.collector_thread import Collector
    from ctxtop.collectors.locations.discover import ClaudeFolder
    from ctxtop.collectors.store_update import ScanOutcome
    from ctxtop.core.store.queries import context_queries, session_queries
    from ctxtop.core.store.writer import Writer

    with closing(Writer(scratch / "store.db")) as writer:
        Collector(ClaudeFolder(as_config(shared, scratch)), writer, ScanOutcome()).scan()
        sessions = session_queries.sessions(writer.connection)
        return {
            row.path: context_queries.fill_history(writer.connection, row.session_id)
            for row in sessions
        }


def project_of(path: str) -> str:
    return path.partition("/")[0]


def by_project(fills: Fills) -> dict[str, Fills]:
    found: dict[str, Fills] = {}
    for path, rows in fills.items():
        found.setdefault(project_of(path), {})[path] = rows
    return found


def errors_of(fills: Fills) -> ForecastCalibration | None:
    """Measure how far these sessions' guesses are off, each guessed by the others."""
    misses: dict[str, list[PastGuess]] = {}
    for path, rows in fills.items():
        own = {row for row in rows if not row.is_compaction}
        prior = make_prior(each for each in fills.values() if own.isdisjoint(each))
        misses.setdefault(project_of(path), []).extend(replay_forecasts(rows, prior))
    return measure_errors(misses.values())


def prior_without(fills: Fills, project: str) -> GrowthPrior:
    """Gather what the sessions of all other projects tell, and how sure that is."""
    others = {path: rows for path, rows in fills.items() if project_of(path) != project}
    return msgspec.structs.replace(make_prior(others.values()), calibration=errors_of(others))


def straight_line(rows: Sequence[FillRow], left: int) -> float:
    """Turns by a least squares line through the last ten answers; infinite where it falls."""
    held = [row.tokens or 0 for row in rows[-LINE_TURNS:]]
    if len(held) < 2:
        return math.inf
    slope = statistics.linear_regression(range(len(held)), held).slope
    return left / slope if slope > 0 else math.inf


def cases(path: str, rows: Sequence[FillRow], prior: GrowthPrior) -> Iterator[Case]:
    """Ask at each turn before each size was reached."""
    plain = msgspec.structs.replace(prior, calibration=None)
    for run in split_runs(rows):
        for size in replay_targets(run):
            end = first_answer_of_size(run, size)
            for turn in range(end):
                known = run[: turn + 1]
                said, before = make_forecast(known, size, prior), make_forecast(known, size, plain)
                if said is None or before is None:
                    continue
                yield Case(
                    Path(path).stem,
                    said,
                    before,
                    straight_line(known, size - (known[-1].tokens or 0)),
                    end - turn,
                    _minutes(run[turn : end + 1]),
                )


def _minutes(rows: Sequence[FillRow]) -> float:
    waits = (
        min(max(0, (later.at or 0) - (earlier.at or 0)), PAUSE_MS)
        for earlier, later in pairwise(rows)
    )
    return sum(waits) / 60_000


def _share(found: Sequence[bool | float]) -> float:
    return sum(found) / len(found)


def _within(value: float, told: Interval) -> bool:
    return told.low <= value <= told.high


def show(name: str, found: Sequence[Case]) -> None:
    """Print the figures of all cases, then by distance."""
    print(f"\n{name}")
    if not found:
        print("no cases")
        return
    show_band("all", found)
    show_band("  before the calibration", found, lambda case: case.plain)
    by_what: tuple[tuple[str, tuple[Band, ...], Callable[[Case], float]], ...] = (
        ("said", BANDS, lambda case: case.said.turns.p50),
        ("came", CAME_BANDS, lambda case: case.turns),
    )
    for what, bands, distance in by_what:
        for word, low, high in bands:
            some = [case for case in found if low <= distance(case) <= (high or math.inf)]
            span = f"{low} to {high}" if high else f"{low} or more"
            if some:
                show_band(f"  {what}: {word}, {span}", some)
    line = statistics.median(abs(case.line - case.turns) / case.turns for case in found)
    print(f"  a straight line is off by {line:.1%} (median)")
    timed = [
        _within(case.minutes, case.said.minutes) for case in found if case.said.minutes is not None
    ]
    if timed:
        print(f"  minutes of work inside their interval: {_share(timed):.1%}")


def show_band(
    name: str, found: Sequence[Case], of: Callable[[Case], Forecast] = lambda case: case.said
) -> None:
    """Print one line: the numbers, and the lower bounds."""
    told = [(of(case).turns, case.turns) for case in found]
    numbers = [(turns, came) for turns, came in told if not turns.is_open]
    bounds = [(turns, came) for turns, came in told if turns.is_open]
    text = f"{name:28}{len(found):6} cases of {len({case.session for case in found}):2}"
    if numbers:
        interval = _share([_within(came, turns) for turns, came in numbers])
        over = _share([came <= turns.p80 for turns, came in numbers])
        text += f"  numbers {len(numbers):5}  interval {interval:6.1%}  p80 {over:6.1%}"
    else:
        text += " " * 45
    off = statistics.median(abs(turns.p50 - came) / came for turns, came in told)
    text += f"  off {off:6.1%}"
    if bounds:
        held = _share([came >= turns.low for turns, came in bounds])
        text += f"  lower bounds {len(bounds):5}  held {held:6.1%}"
    print(text)


def made_fills(seed: int, count: int) -> Fills:
    """Make sessions whose turns are log-normal, in runs, each session with a pace of its own."""
    source = random.Random(seed)
    found: Fills = {}
    for number in range(count):
        pace, tokens, at, heat = source.gauss(6.3, 0.4), 30_000, number * 10**8, 0.0
        rows = [FillRow(at, tokens, 0)]
        while tokens < MADE_TRIGGER:
            heat = 0.4 * heat + source.gauss(0, 1.2)
            tokens += min(MADE_MOST, int(math.exp(pace + heat)))
            at += int(source.expovariate(1 / 12_000))
            rows.append(FillRow(at, tokens, 0))
        found[f"made-{number % MADE_PROJECTS}/{number:03}"] = rows
    return found


def held_out(fills: Fills) -> dict[str, list[Case]]:
    """Ask the sessions of each project by the other projects alone."""
    return {
        project: [case for path, rows in own.items() for case in cases(path, rows, prior)]
        for project, own in by_project(fills).items()
        for prior in (prior_without(fills, project),)
    }


def show_folds(name: str, folds: dict[str, list[Case]]) -> None:
    for project, found in folds.items():
        show(f"{name}: {project}", found)
    show(f"{name}: all projects", [case for found in folds.values() for case in found])


def show_time(rows: list[FillRow], prior: GrowthPrior) -> None:
    """Print what one forecast costs."""
    start = time.perf_counter()
    for _ in range(RUNS):
        make_forecast(rows, 10_000_000, prior)
    took = (time.perf_counter() - start) / RUNS
    print(f"\none forecast of a session of {len(rows)} answers: {took * 1e6:,.0f} µs")


def show_made() -> None:
    """Print the figures of made sessions: learnt from others like them, and from none."""
    made = made_fills(1, 24)
    found = [case for cases_of in held_out(made).values() for case in cases_of]
    show("made sessions, heavy-tailed, to 167,000 tokens, by the other projects", found)
    shipped = [
        case
        for path, rows in made.items()
        for case in cases(path, rows, prior_of(made, path, SHIPPED_CALIBRATION))
    ]
    show("made sessions, by what is shipped alone: another machine's first day", shipped)
    show_time(
        [FillRow(at, 1_000 * at, 0) for at in range(300)], prior_of(made, "", SHIPPED_CALIBRATION)
    )


def prior_of(fills: Fills, asked: str, calibration: ForecastCalibration) -> GrowthPrior:
    """Gather how the other sessions grow, with a calibration from elsewhere."""
    prior = make_prior(rows for path, rows in fills.items() if path != asked)
    return msgspec.structs.replace(prior, calibration=calibration)


def print_measured(fills: Fills) -> None:
    """Print the errors of all recorded sessions, as the source has them."""
    found = errors_of(fills)
    for distance, row in zip(DISTANCES, found.errors if found else (), strict=False):
        print(f"({', '.join(f'{error:.2f}' for error in row)}),  # {distance:.0f} turns")


def main() -> None:
    """Print the figures."""
    shared = shared_folder()
    count = len(recordings(shared))
    if count:
        with tempfile.TemporaryDirectory() as scratch:
            every = read_fills(shared, Path(scratch))
    else:
        every = {}
    fills = {
        path: rows
        for path, rows in sorted(every.items())
        if SCRIPTED not in path and any(split_runs(rows))
    }
    if "--measure" in sys.argv:
        print_measured(fills)
        return
    show_made()
    if len(fills) < LEAST_SESSIONS:
        wanted = f"{LEAST_SESSIONS} recorded sessions of 3 answers or more are"
        print(too_few(shared, wanted, len(fills)))
        return
    show_folds("recorded sessions by the other projects alone", held_out(fills))


if __name__ == "__main__":
    main()
