"""How often the forecast is right, on the recorded sessions and on made ones.

Each turn of a session before it reached a size is a case: at that turn, with what was known
then, how many turns until it was reached? The sizes are the largest that a run from one
compaction to the next came to, and three quarters and half of the way there.

Nothing is fitted on the session that is asked: what other sessions tell, and how far guesses
were off, is gathered anew for each one without it and without those that share a turn with it
(forks). Beside it stands the guess before its calibration, and what people do by eye: a
straight line (least squares) through the last ten answers.

`interval` and `p80` are the shares of cases inside the 80 % interval and over by the p80: both
should be 75 to 85 %. `under` is the share that was over before the p50, `bias` the median of
p50 over what came, less one. A forecast can only hold by the distance that it says; by the
distance that came, the near cases are those that were over sooner than anybody could know.
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
    PAUSE_MS,
    SHIPPED_CALIBRATION,
    Forecast,
    ForecastCalibration,
    GrowthPrior,
    Interval,
    first_answer_of_size,
    make_forecast,
    make_prior,
    measure_errors,
    replay_forecasts,
    replay_targets,
    split_runs,
)
from ctxtop.core.store.queries.query_rows import FillRow

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

BANDS: Final = ((1, 5), (6, 20), (21, 40), (41, 80), (81, None))
"""Turns."""

LEAST_SESSIONS: Final = 3
"""One to ask, and two others: what one session is off by says nothing of sessions."""

Fills = dict[str, list[FillRow]]


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
    from ctxtop.collectors.claude_code.collector_thread import Collector
    from ctxtop.collectors.claude_code.discover import ClaudeFolder
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


def strangers(fills: Fills, *asked: str) -> list[str]:
    """List the sessions that have no turn in common with any of these."""
    own = {row for path in asked for row in fills[path] if not row.is_compaction}
    return [path for path, rows in fills.items() if own.isdisjoint(rows)]


def misses_without(fills: Fills, asked: str) -> list[list[PastGuess]]:
    """Replay the other sessions, each without itself and without the one that is asked."""
    return [
        replay_forecasts(
            fills[path], make_prior(fills[each] for each in strangers(fills, asked, path))
        )
        for path in strangers(fills, asked)
    ]


def prior_without(fills: Fills, asked: str) -> GrowthPrior:
    """Gather what the sessions tell that have no turn in common with this one."""
    prior = make_prior(fills[path] for path in strangers(fills, asked))
    return msgspec.structs.replace(prior, calibration=measure_errors(misses_without(fills, asked)))


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
    """Print the figures of all cases, then by distance, then of each session."""
    print(f"\n{name}")
    if not found:
        print("no cases")
        return
    show_band("all", found)
    show_band("  before the calibration", found, lambda case: case.plain)
    by_what: tuple[tuple[str, Callable[[Case], float]], ...] = (
        ("said", lambda case: case.said.turns.p50),
        ("came", lambda case: case.turns),
    )
    for what, distance in by_what:
        for low, high in BANDS:
            some = [case for case in found if low <= distance(case) <= (high or math.inf)]
            words = f"{low} to {high}" if high else f"beyond {low - 1}"
            if some:
                show_band(f"  {what}: {words} turns", some)
    sessions = sorted({case.session for case in found})
    by_session = [[case for case in found if case.session == each] for each in sessions]
    held = [_share([_within(case.turns, case.said.turns) for case in each]) for each in by_session]
    over = [_share([case.turns <= case.said.turns.p80 for case in each]) for each in by_session]
    print(
        f"  mean of the sessions: interval {statistics.mean(held):.1%},"
        f" p80 {statistics.mean(over):.1%}"
    )
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
    """Print one line."""
    told = [(of(case).turns, case.turns) for case in found]
    interval = _share([_within(came, turns) for turns, came in told])
    over = _share([came <= turns.p80 for turns, came in told])
    # Half of those that came just then were sooner, had a turn no width.
    under = _share([(came < turns.p50) + (came == turns.p50) / 2 for turns, came in told])
    bias = statistics.median(turns.p50 / came for turns, came in told) - 1
    off = statistics.median(abs(turns.p50 - came) / came for turns, came in told)
    print(
        f"{name:28}{len(found):6} cases of {len({case.session for case in found}):2}"
        f"  interval {interval:6.1%}  p80 {over:6.1%}  under {under:6.1%}"
        f"  bias {bias:+6.1%}  off {off:6.1%}"
    )


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
        found[f"made-{number:03}"] = rows
    return found


def held_out(fills: Fills) -> list[Case]:
    """Ask each session by the others alone."""
    return [
        case
        for path, rows in fills.items()
        for case in cases(path, rows, prior_without(fills, path))
    ]


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
    show("made sessions, heavy-tailed, to 167,000 tokens, by the others", held_out(made))
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
    found = measure_errors(
        [
            replay_forecasts(rows, make_prior(fills[each] for each in strangers(fills, path)))
            for path, rows in fills.items()
        ]
    )
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
    show("recorded sessions, each by the others alone", held_out(fills))


if __name__ == "__main__":
    main()
