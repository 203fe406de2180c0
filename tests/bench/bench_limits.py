"""How often the projected end of a plan's window was right, on made histories.

Each history is made minute by minute and goes on after the moment at which it is cut, so the true
time is known also where a reset would come before. The interval is meant to hold in 80 of 100.

    python -m tests.bench.bench_limits
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from statistics import median
from typing import Final

from ctxtop.core.measure.plan_limits import (
    DAY_MS,
    HOUR_MS,
    LimitReading,
    WindowUse,
)

MINUTE_MS: Final = 60_000
START_MS: Final = 1_800_000_000_000 // DAY_MS * DAY_MS
HISTORIES: Final = 40  # of each kind
MOMENTS: Final = 6  # at which each is cut
DAYS: Final = 30  # made of each, so that what is left is used up

Use = Callable[[random.Random], Iterator[float]]
"""Yields the share of the window that each minute uses."""


def steady(rng: random.Random) -> Iterator[float]:
    rate = math.exp(rng.gauss(math.log(0.12), 0.4)) / 60
    while True:
        yield rate * rng.gammavariate(4, 0.25)


def bursty(rng: random.Random) -> Iterator[float]:
    rate = math.exp(rng.gauss(math.log(0.5), 0.5)) / 60
    while True:
        for _ in range(1 + int(rng.expovariate(1 / 12))):
            yield rate * rng.gammavariate(0.7, 1.4)
        for _ in range(int(rng.expovariate(1 / 45))):
            yield 0.0


def working_hours(rng: random.Random) -> Iterator[float]:
    begins, ends = rng.gauss(9, 0.7), rng.gauss(18, 1.0)
    source, minute = bursty(rng), 0
    while True:
        hour = minute / 60 % 24
        yield next(source) if begins <= hour < ends else 0.0
        minute += 1


def many_sessions(rng: random.Random) -> Iterator[float]:
    sources = [bursty(rng) for _ in range(rng.randint(3, 8))]
    while True:
        yield sum(next(each) for each in sources) / len(sources)


def quickening(rng: random.Random) -> Iterator[float]:
    """Work that changes its rate from day to day."""
    source, minute, factor = bursty(rng), 0, 1.0
    while True:
        if minute % 480 == 0:
            factor *= math.exp(rng.gauss(0, 0.25))
        yield next(source) * factor
        minute += 1


class Kind:
    def __init__(
        self,
        use: Use,
        *,
        window_h: float = 5,
        days: float = 6,
        integers: bool = False,
        reporters: int = 1,
    ) -> None:
        self.use = use
        self.window_ms = int(window_h * HOUR_MS)
        self.days = days
        self.integers = integers
        self.reporters = reporters


KINDS: Final = {
    "steady": Kind(steady),
    "bursty": Kind(bursty),
    "working hours, nights": Kind(working_hours),
    "many sessions": Kind(many_sessions, reporters=4),
    "integers only": Kind(bursty, integers=True),
    "with resets": Kind(many_sessions, days=2),
    "changing pace": Kind(quickening),
    "first two hours": Kind(bursty, days=2 / 24),
    "a week, working hours": Kind(working_hours, window_h=168, days=9),
    "a week, integers": Kind(working_hours, window_h=168, days=9, integers=True),
}


def minutes_of(kind: Kind, rng: random.Random) -> list[float]:
    source = kind.use(rng)
    scale = 5 * HOUR_MS / kind.window_ms * (4 if kind.window_ms > DAY_MS else 1)
    return [next(source) * scale for _ in range(DAYS * 24 * 60)]


def readings_of(kind: Kind, minutes: list[float], rng: random.Random) -> list[LimitReading]:
    """The readings as clients report them: rounded, and an idle client repeats an old one."""
    found: list[LimitReading] = []
    used, resets_at = 0.0, START_MS + kind.window_ms
    last: dict[str, tuple[float, int]] = {}
    for minute, share in enumerate(minutes):
        at = START_MS + minute * MINUTE_MS
        if at >= resets_at:
            used, resets_at = 0.0, resets_at + kind.window_ms
        used += share
        speaks = f"session-{rng.randrange(kind.reporters)}"
        shown = round(used * 100) / 100 if kind.integers else round(used * 1000) / 1000
        if share > 0:
            said = (shown, resets_at)
        elif kind.reporters > 1 and speaks in last:
            said = last[speaks]  # an idle client repeats what its last answer said
        else:
            continue
        if last.get(speaks) != said:
            found.append(LimitReading("w", speaks, at, at, said[0], said[1]))
        last[speaks] = said
    return found


def true_wait(minutes: list[float], begin: int, needed: float) -> int | None:
    total = 0.0
    for minute in range(begin, len(minutes)):
        total += minutes[minute]
        if total >= needed:
            return (minute - begin + 1) * MINUTE_MS
    return None


def score(kind: Kind, seed: str) -> tuple[int, int, list[float], int]:
    """Return how many intervals held, of how many, their widths, and how many were not given."""
    rng = random.Random(seed)
    held = count = missing = 0
    widths: list[float] = []
    for _ in range(HISTORIES):
        minutes = minutes_of(kind, rng)
        readings = readings_of(kind, minutes, rng)
        for _ in range(MOMENTS):
            begin = int(kind.days * 24 * 60 * rng.uniform(0.5, 1.0))
            # People look at it while they work: shortly after something was used.
            while begin < len(minutes) and not any(minutes[max(0, begin - 20) : begin]):
                begin += 1
            now = START_MS + begin * MINUTE_MS
            needed = rng.uniform(0.1, 0.9)
            true = true_wait(minutes, begin, needed)
            known = [each for each in readings if each.at <= now]
            if true is None or not known:
                continue
            found = WindowUse.of_readings(known).time_until(needed, now)
            if found is None:
                missing += 1
                continue
            count += 1
            held += found.low <= true <= found.high
            widths.append(found.high / found.low)
    return held, count, widths, missing


def main() -> None:
    print(f"{'history':26}{'intervals':>10}{'held':>8}{'median width':>14}{'none given':>12}")
    for name, kind in KINDS.items():
        held, count, widths, missing = score(kind, name)
        share = held / count if count else math.nan
        width = f"x{median(widths):.2f}" if widths else "-"
        print(f"{name:26}{count:>10}{share:>8.0%}{width:>14}{missing:>12}")


if __name__ == "__main__":
    main()
