"""Durations, re-fires, success and noise before and after, over many saves (R004-04, R004-11)."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec

from ..nearest_rank import nearest_rank
from .blocks import Form
from .categories import expand
from .noise import Saver

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .noise import Noise

LEAST_SAMPLES: Final = 10
"""Below that no rate is told: one false alarm in the plugin's own analysis had N=1 (R004-13)."""

BUCKETS_MS: Final = (1_000, 5_000, 30_000, 60_000)
"""Where a bucket of durations ends, which belongs to the next one (R004-11)."""

MOST_FIRES: Final = 3
"""That many and more are one group of the distribution (R004-11)."""


class Rate(msgspec.Struct, frozen=True):
    """How often something was so."""

    hits: int
    total: int

    @property
    def share(self) -> float | None:
        """0..1; None below the least number of samples (R004-13)."""
        return self.hits / self.total if self.total >= LEAST_SAMPLES else None


class Durations(msgspec.Struct, frozen=True):
    """How long saves took; milliseconds."""

    count: int
    mean_ms: float
    p50_ms: float
    p95_ms: float
    max_ms: float
    buckets: tuple[int, ...]
    """Saves below 1 s, to 5, to 30, to 60, and above."""


class Amount(msgspec.Struct, frozen=True):
    """What a save put in, in the mean of some."""

    saves: int
    lines: float
    items: float
    tokens: float


class BeforeAfter(msgspec.Struct, frozen=True):
    """Saves as they were, and since the triage went to a file and the save to an agent."""

    before: Amount | None
    after: Amount | None

    @property
    def reduction(self) -> float | None:
        """By how much the lines of a save are fewer, 0..1 (negative where they are more)."""
        if self.before is None or self.after is None or not self.before.lines:
            return None
        return 1 - self.after.lines / self.before.lines


def durations(taken_ms: Iterable[float]) -> Durations | None:
    """Sum up how long saves took; None of none. Percentiles by nearest rank (R004-11)."""
    taken = sorted(each for each in taken_ms if math.isfinite(each) and each >= 0)
    if not taken:
        return None
    buckets = [0] * (len(BUCKETS_MS) + 1)
    for each in taken:
        buckets[sum(each >= end for end in BUCKETS_MS)] += 1
    return Durations(
        count=len(taken),
        mean_ms=sum(taken) / len(taken),
        p50_ms=nearest_rank(taken, 0.50),
        p95_ms=nearest_rank(taken, 0.95),
        max_ms=taken[-1],
        buckets=tuple(buckets),
    )


def trigger_rates(triggered: Sequence[Iterable[str]]) -> dict[str, Rate]:
    """Count in how many triages each category was to be saved, most often first (R004-11)."""
    counted = Counter(name for names in triggered for name in set(expand(names)))
    return {name: Rate(hits, len(triggered)) for name, hits in counted.most_common()}


def phase_means(phases: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Take the mean of each phase of some saves, in milliseconds (R004-11)."""
    taken: dict[str, list[float]] = {}
    for each in phases:
        for name, value in each.items():
            if math.isfinite(value):
                taken.setdefault(name, []).append(value)
    return {name: sum(values) / len(values) for name, values in taken.items()}


def refires(blocked_at: Iterable[int | None], within_s: int) -> int:
    """Count how often the hook fired again for the same save, by the times of one session.

    A block within `within_s` of the one before it is not of a new save: the sentinel that is
    to prevent it holds so long (R004-03, R004-04). Times are milliseconds; one without a time
    counts as fired again.
    """
    found, before = 0, None
    for at in blocked_at:
        if before is not None and (at is None or at - before <= within_s * 1000):
            found += 1
        before = at if at is not None else before
    return found


def fire_distribution(fires: Iterable[int]) -> dict[str, int]:
    """Count sessions by how often the hook fired in them: once, twice, three times and more."""
    counted = Counter(min(each, MOST_FIRES) for each in fires if each > 0)
    names = {1: "1", 2: "2", MOST_FIRES: "3+"}
    return {name: counted[number] for number, name in names.items()}


def before_after(saves: Iterable[Noise]) -> BeforeAfter:
    """Part the saves that both fixes were in from those before (004-26, 004-40)."""
    quiet: list[Noise] = []
    loud: list[Noise] = []
    for each in saves:
        is_quiet = each.form is not Form.INLINE and each.saver is not Saver.MAIN
        (quiet if is_quiet else loud).append(each)
    return BeforeAfter(amount(loud), amount(quiet))


def amount(saves: Sequence[Noise]) -> Amount | None:
    """Take the mean of some saves; None of none."""
    if not saves:
        return None
    count = len(saves)
    return Amount(
        count,
        sum(each.lines for each in saves) / count,
        sum(each.items for each in saves) / count,
        sum(each.tokens for each in saves) / count,
    )
