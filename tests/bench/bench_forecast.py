"""How often the forecast is right, on the recorded sessions and on made ones.

Each turn of a session before it reached a size is a case: at that turn, with what was known
then, how many turns until it was reached? For sessions that compacted the size is what they
held just before; those that did not are asked for their own largest context, and for half and
three quarters of the way there. What other sessions tell is gathered without the session and
without those that share a turn with it (forks). Beside it stands what people do by eye: a
straight line (least squares) through the last ten answers.
Usage: CTXTOP_SHARED=../shared python -m tests.bench.bench_forecast
"""

from __future__ import annotations

import math
import os
import random
import statistics
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ctxtop.core.forecast import PAUSE_MS, Forecast, Interval, Prior, forecast, make_prior
from ctxtop.core.store.rows import FillRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

SHARED: Final = Path(__file__).parents[3] / "shared"
SCRIPTED: Final = "lab-proj"
"""The lab's sessions: a script chose how much they grow, so they teach others nothing."""

LINE_TURNS: Final = 10
RUNS: Final = 200

MADE_TRIGGER: Final = 167_000
MADE_MOST: Final = 40_000
"""Tokens that one turn adds at most; the most in the recorded sessions is 38,223."""


@dataclass(frozen=True, slots=True)
class Track:
    """A context's answers from one boundary to the next."""

    session: str
    rows: list[FillRow]
    compacted: bool
    trigger: int | None = None
    """Where it would have compacted, where that is known."""

    @property
    def name(self) -> str:
        """Enough to find it by."""
        return f"{self.session[:8]} {len(self.rows):4} answers"


@dataclass(frozen=True, slots=True)
class Case:
    """What was said at one turn, and how it came."""

    said: Forecast | None
    line: float
    turns: int
    minutes: float

    @property
    def covered(self) -> bool:
        """Whether the 80 % interval held."""
        return self.said is not None and _within(self.turns, self.said.turns)

    @property
    def over(self) -> bool:
        """Whether it was over by the p80."""
        return self.said is not None and self.turns <= self.said.turns.p80


def _within(value: float, told: Interval) -> bool:
    return told.low <= value <= told.high


def read_fills(shared: Path, scratch: Path) -> dict[str, list[FillRow]]:
    """Read every recorded session into a throw-away store; its answers and boundaries by path."""
    from ctxtop.collectors.collect import Collector
    from ctxtop.collectors.folder import ClaudeFolder
    from ctxtop.core.store import queries
    from ctxtop.core.store.writer import Writer
    from ctxtop.tui.update import Outcome

    from .bench_scan import recorded

    with closing(Writer(scratch / "store.db")) as writer:
        Collector(ClaudeFolder(recorded(shared, scratch)), writer, Outcome()).scan()
        sessions = queries.sessions(writer.connection)
        return {row.path: queries.fill(writer.connection, row.session_id) for row in sessions}


def tracks(path: str, rows: list[FillRow]) -> Iterator[Track]:
    """Split a session at its boundaries."""
    session = Path(path).stem
    open_rows: list[FillRow] = []
    for row in rows:
        if row.compacted:
            yield Track(session, open_rows, compacted=True)
            open_rows = []
        elif row.tokens is not None:
            open_rows.append(row)
    yield Track(session, open_rows, compacted=False)


def prior_without(fills: dict[str, list[FillRow]], track: Track) -> Prior:
    """Gather what the sessions tell that have no turn in common with this one."""
    own = {row for row in track.rows if not row.compacted}
    others = (rows for path, rows in fills.items() if SCRIPTED not in path)
    return make_prior(rows for rows in others if own.isdisjoint(rows))


def straight_line(rows: Sequence[FillRow], left: int) -> float:
    """Turns by a least squares line through the last ten answers; infinite where it falls."""
    held = [row.tokens or 0 for row in rows[-LINE_TURNS:]]
    if len(held) < 2:
        return math.inf
    slope = statistics.linear_regression(range(len(held)), held).slope
    return left / slope if slope > 0 else math.inf


def cases(track: Track, target: int, prior: Prior) -> Iterator[Case]:
    """Ask at each turn before the target was reached."""
    rows = track.rows
    end = next(i for i, row in enumerate(rows) if (row.tokens or 0) >= target)
    for turn in range(end):
        known = rows[: turn + 1]
        left = target - (rows[turn].tokens or 0)
        waits = (
            min(max(0, (later.at or 0) - (earlier.at or 0)), PAUSE_MS)
            for earlier, later in zip(rows[turn:end], rows[turn + 1 :], strict=False)
        )
        yield Case(
            forecast(known, target, prior),
            straight_line(known, left),
            end - turn,
            sum(waits) / 60_000,
        )


def targets(track: Track) -> list[int]:
    """Choose the sizes that a session is asked for."""
    if track.trigger:
        return [track.trigger]
    start = track.rows[0].tokens or 0
    if track.compacted:
        return [track.rows[-1].tokens or 0]
    most = max(row.tokens or 0 for row in track.rows)
    return [most, start + (most - start) * 3 // 4, start + (most - start) // 2]


def show(name: str, asked: Iterable[tuple[str, list[Case]]]) -> None:
    """Print a table: each session, then all cases, then the mean of the sessions."""
    print(
        f"\n{name}\n{'':24}{'cases':>6}{'covered':>9}{'error, turns':>14}{'relative':>10}", end=""
    )
    print(f"{'line: turns':>14}{'relative':>10}")
    every: list[Case] = []
    covers: list[float] = []
    for session, found in asked:
        told = [case for case in found if case.said]
        if not told:
            continue
        covers.append(show_row(session, told))
        every += told
    if not every:
        print("no cases")
        return
    show_row("all cases", every)
    print(f"coverage, mean of {len(covers)} sessions: {statistics.mean(covers):.1%}")
    over = sum(case.over for case in every) / len(every)
    print(f"over by the p80: {over:.1%}")
    timed = [case.said.minutes for case in every if case.said and case.said.minutes]
    held = sum(
        1
        for case in every
        if case.said and case.said.minutes and _within(case.minutes, case.said.minutes)
    )
    if timed:
        print(f"minutes of work inside their interval: {held / len(timed):.1%}")


def show_row(name: str, found: list[Case]) -> float:
    """Print one line; the share of cases that the interval covered."""
    covered = sum(case.covered for case in found) / len(found)
    off = [abs(case.said.turns.p50 - case.turns) for case in found if case.said]
    by_line = [abs(case.line - case.turns) for case in found]
    relative = statistics.median(error / case.turns for error, case in zip(off, found, strict=True))
    line = statistics.median(error / case.turns for error, case in zip(by_line, found, strict=True))
    print(
        f"{name:24}{len(found):6}{covered:9.1%}{statistics.median(off):14.1f}{relative:10.1%}"
        f"{statistics.median(by_line):14.1f}{line:10.1%}"
    )
    return covered


def made_tracks(seed: int, count: int) -> list[Track]:
    """Make sessions whose turns are log-normal, in runs, each session with a pace of its own."""
    source = random.Random(seed)
    found: list[Track] = []
    for number in range(count):
        pace, tokens, at, heat = source.gauss(6.3, 0.4), 30_000, 0, 0.0
        rows = [FillRow(at, tokens, 0)]
        while tokens < MADE_TRIGGER:
            heat = 0.4 * heat + source.gauss(0, 1.2)
            tokens += min(MADE_MOST, int(math.exp(pace + heat)))
            at += int(source.expovariate(1 / 12_000))
            rows.append(FillRow(at, tokens, 0))
        found.append(Track(f"made-{number:03}", rows, compacted=True, trigger=MADE_TRIGGER))
    return found


def show_time(rows: list[FillRow], prior: Prior) -> None:
    """Print what one forecast costs."""
    start = time.perf_counter()
    for _ in range(RUNS):
        forecast(rows, 10_000_000, prior)
    took = (time.perf_counter() - start) / RUNS
    print(f"\none forecast of a session of {len(rows)} answers: {took * 1e6:,.0f} µs")


def main() -> None:
    """Print the figures."""
    made = made_tracks(1, 40)
    others = make_prior(track.rows for track in made[20:])
    asked = [
        (track.name, [case for target in targets(track) for case in cases(track, target, others)])
        for track in made[:20]
    ]
    show("made sessions, heavy-tailed, to 167,000 tokens", asked)
    show_time([FillRow(at, 1_000 * at, 0) for at in range(300)], others)
    shared = Path(os.environ.get("CTXTOP_SHARED", SHARED))
    if not (shared / "corpus").is_dir():
        print(f"recorded sessions: not measured, {shared} holds no corpus (CTXTOP_SHARED names it)")
        return
    with tempfile.TemporaryDirectory() as scratch:
        fills = read_fills(shared, Path(scratch))
    every = [
        track
        for path, rows in sorted(fills.items())
        for track in tracks(path, rows)
        if len(track.rows) > 2
    ]
    for compacted, name in (
        (True, "recorded sessions that compacted: turns to the boundary"),
        (False, "held out: sessions that did not, turns to sizes that they reached"),
    ):
        chosen = [track for track in every if track.compacted is compacted]
        with_prior = [(track, prior_without(fills, track)) for track in chosen]
        for words, said in ((name, with_prior), (name + ", alone", [(t, Prior()) for t in chosen])):
            show(
                words,
                [
                    (t.name, [case for size in targets(t) for case in cases(t, size, prior)])
                    for t, prior in said
                ],
            )


if __name__ == "__main__":
    main()
