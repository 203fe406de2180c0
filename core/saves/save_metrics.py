"""What saves cost, compared with what is expected, how long they took and how often they failed."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from ..measure.token_estimate import nearest_rank
from ..model.context import Context
from .save_noise import SaveNoise, Saver, TriageDataForm, expand_categories


class BandPosition(StrEnum):
    """Where a number is relative to a band; both ends belong to the band."""

    BELOW = "below"
    WITHIN = "within"
    ABOVE = "above"


class IntRange(msgspec.Struct, frozen=True):
    low: int
    high: int | None = None  # included; None for no limit

    def excess_of(self, number: int) -> int:
        """Return by how much a number is above the range; 0 if it is not."""
        return 0 if self.high is None else max(0, number - self.high)

    def position_of(self, number: int) -> BandPosition:
        if number < self.low:
            return BandPosition.BELOW
        is_above = self.high is not None and number > self.high
        return BandPosition.ABOVE if is_above else BandPosition.WITHIN


class CostBand(msgspec.Struct, frozen=True):
    name: str  # the requirement that states it
    label: str
    lines: IntRange
    tokens: IntRange
    reduction: tuple[float, float] | None = None  # of the lines of a save before, 0..1


BEFORE_BAND: Final = CostBand("004-15", "before", IntRange(50), IntRange(7_000, 20_000))
ONE_CATEGORY_BAND: Final = CostBand(
    "004-16", "1 category", IntRange(8, 12), IntRange(1_000, 1_500), (0.85, 0.85)
)
THREE_CATEGORIES_BAND: Final = CostBand(
    "004-17", "3 categories", IntRange(13, 24), IntRange(1_500, 3_000), (0.50, 0.75)
)
SIX_CATEGORIES_BAND: Final = CostBand(
    "004-18", "6 categories", IntRange(21, 38), IntRange(2_500, 5_000), (0.40, 0.60)
)
COST_BANDS: Final = (BEFORE_BAND, ONE_CATEGORY_BAND, THREE_CATEGORIES_BAND, SIX_CATEGORIES_BAND)

# What a leaking agent adds; the most is added to the upper end of each band (004-19).
LEAK_LINES: Final = IntRange(10, 15)
LEAK_TOKENS: Final = IntRange(1_000, 2_000)
LEAK_REDUCTION: Final = 0.60  # the most that is to be expected then (004-38)


class BandVerdict(msgspec.Struct, frozen=True):
    band: CostBand
    lines: BandPosition
    tokens: BandPosition
    is_expected: bool  # the band of this save's number of categories
    lines_over: int = 0  # above the band, widened for a leak
    tokens_over: int = 0
    reduction: tuple[float, float] | None = None  # the band's, less where a leak takes from it

    @property
    def is_met(self) -> bool:
        """The save cost no more than the band allows."""
        return BandPosition.ABOVE not in {self.lines, self.tokens}


def expected_band(categories: int) -> CostBand | None:
    """Choose the band of a number of categories, the next larger one between two; None for 0."""
    if categories <= 0:
        return None
    if categories == 1:
        return ONE_CATEGORY_BAND
    return THREE_CATEGORIES_BAND if categories <= 3 else SIX_CATEGORIES_BAND


def compare_with_bands(noise: SaveNoise) -> tuple[BandVerdict, ...]:
    """Compare a save with every band; a leak widens each but the one before (004-19)."""
    expected = expected_band(len(noise.categories))
    verdicts = []
    for band in COST_BANDS:
        lines, tokens, reduction = band.lines, band.tokens, band.reduction
        if noise.leaked_calls and band is not BEFORE_BAND:
            lines, tokens = _widened(lines, LEAK_LINES), _widened(tokens, LEAK_TOKENS)
        if noise.leaked_calls and reduction:
            reduction = min(reduction[0], LEAK_REDUCTION), min(reduction[1], LEAK_REDUCTION)
        verdicts.append(
            BandVerdict(
                band,
                lines.position_of(noise.lines),
                tokens.position_of(noise.tokens),
                is_expected=band == expected,
                lines_over=lines.excess_of(noise.lines),
                tokens_over=tokens.excess_of(noise.tokens),
                reduction=reduction,
            )
        )
    return tuple(verdicts)


def _widened(span: IntRange, leak: IntRange) -> IntRange:
    return IntRange(span.low, None if span.high is None else span.high + (leak.high or 0))


DEFAULT_SAVE_TOKENS: Final = (7_000 + 20_000) // 2  # the middle of what a save costs (004-07)


class ExpectedSaveCost(msgspec.Struct, frozen=True):
    """How many tokens the next save is expected to add."""

    tokens: int
    sample_count: int  # measured saves; 0 for DEFAULT_SAVE_TOKENS


class TriggerCrossing(msgspec.Struct, frozen=True):
    session_id: str
    tokens_to_trigger: int
    cost: ExpectedSaveCost
    window_share: float  # of the window that the save takes, 0..1 and above

    @property
    def would_cross(self) -> bool:
        """The next save would make the client compact."""
        return self.tokens_to_trigger < self.cost.tokens


def expected_cost(saves: Sequence[SaveNoise]) -> ExpectedSaveCost:
    """Return the mean tokens of the measured saves, rounded; the reference of 004-07 for none."""
    if not saves:
        return ExpectedSaveCost(DEFAULT_SAVE_TOKENS, 0)
    return ExpectedSaveCost(round(sum(save.tokens for save in saves) / len(saves)), len(saves))


def check_crossing(
    session_id: str, context: Context, cost: ExpectedSaveCost
) -> TriggerCrossing | None:
    """Compare; None if the client's counter or its trigger is not known."""
    left = context.trigger_left
    if left is None or not context.trigger_tokens:
        return None
    return TriggerCrossing(session_id, left, cost, cost.tokens / context.window.tokens)


MIN_SAMPLES: Final = 10  # one false alarm in the plugin's own analysis had N=1 (R004-13)
BUCKETS_MS: Final = (1_000, 5_000, 30_000, 60_000)  # upper ends, exclusive (R004-11)
MAX_FIRES: Final = 3  # so many and more are one group of the distribution (R004-11)


class Rate(msgspec.Struct, frozen=True):
    hits: int
    total: int

    @property
    def share(self) -> float | None:
        """0..1; None below MIN_SAMPLES (R004-13)."""
        return self.hits / self.total if self.total >= MIN_SAMPLES else None


class Durations(msgspec.Struct, frozen=True):
    """How long saves took; milliseconds."""

    count: int
    mean_ms: float
    p50_ms: float
    p95_ms: float
    max_ms: float
    buckets: tuple[int, ...]  # saves below 1 s, to 5, to 30, to 60, and above


class AverageSave(msgspec.Struct, frozen=True):
    saves: int
    lines: float
    items: float
    tokens: float


class BeforeAfter(msgspec.Struct, frozen=True):
    """Saves as they were, and since the triage uses a file and an agent saves."""

    before: AverageSave | None
    after: AverageSave | None

    @property
    def reduction(self) -> float | None:
        """The share of lines that a save has lost, 0..1; negative if it has gained some."""
        if self.before is None or self.after is None or not self.before.lines:
            return None
        return 1 - self.after.lines / self.before.lines

    @property
    def token_reduction(self) -> float | None:
        """The share of tokens, likewise."""
        if self.before is None or self.after is None or not self.before.tokens:
            return None
        return 1 - self.after.tokens / self.before.tokens


def summarize_durations(durations_ms: Iterable[float]) -> Durations | None:
    """Summarize how long saves took; None for no saves. Percentiles by nearest rank (R004-11)."""
    taken = sorted(taken for taken in durations_ms if math.isfinite(taken) and taken >= 0)
    if not taken:
        return None
    buckets = Counter(sum(duration >= end for end in BUCKETS_MS) for duration in taken)
    return Durations(
        count=len(taken),
        mean_ms=sum(taken) / len(taken),
        p50_ms=nearest_rank(taken, 0.50),
        p95_ms=nearest_rank(taken, 0.95),
        max_ms=taken[-1],
        buckets=tuple(buckets[number] for number in range(len(BUCKETS_MS) + 1)),
    )


def trigger_rates(triggered: Sequence[Iterable[str]]) -> dict[str, Rate]:
    """Count in how many triages each category was to be saved, most often first (R004-11)."""
    counted = Counter(name for names in triggered for name in set(expand_categories(names)))
    return {name: Rate(hits, len(triggered)) for name, hits in counted.most_common()}


def phase_means(phases: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of each phase of some saves, in milliseconds (R004-11)."""
    taken: dict[str, list[float]] = {}
    for phase in phases:
        for name, value in phase.items():
            if math.isfinite(value):
                taken.setdefault(name, []).append(value)
    return {name: sum(values) / len(values) for name, values in taken.items()}


def count_refires(blocked_at: Iterable[int | None], within_s: int) -> int:
    """Count how often the hook fired again for the same save, by the times of one session.

    A block within `within_s` of the one before it is of the same save: the sentinel that is to
    prevent it is valid that long (R004-03, R004-04). Times are milliseconds; a block without a
    time counts as fired again.
    """
    count, before = 0, None
    for at in blocked_at:
        if before is not None and (at is None or at - before <= within_s * 1000):
            count += 1
        before = at if at is not None else before
    return count


def fire_distribution(fires: Iterable[int]) -> dict[str, int]:
    """Count sessions by how often the hook fired in them: once, twice, three times and more."""
    counted = Counter(min(count, MAX_FIRES) for count in fires)
    return {"1": counted[1], "2": counted[2], f"{MAX_FIRES}+": counted[MAX_FIRES]}


def compare_before_after(saves: Iterable[SaveNoise]) -> BeforeAfter:
    """Compare the saves that had both fixes with those before (004-26, 004-40)."""
    quiet: list[SaveNoise] = []
    loud: list[SaveNoise] = []
    for save in saves:
        is_quiet = save.form is not TriageDataForm.INLINE and save.saver is not Saver.MAIN
        (quiet if is_quiet else loud).append(save)
    return BeforeAfter(_average_save(loud), _average_save(quiet))


def _average_save(saves: Sequence[SaveNoise]) -> AverageSave | None:
    count = len(saves)
    if not count:
        return None
    sums = (sum(getattr(save, name) for save in saves) for name in ("lines", "items", "tokens"))
    return AverageSave(count, *(total / count for total in sums))
