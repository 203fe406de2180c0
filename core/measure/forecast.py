"""Forecasts the turns and minutes until a context reaches its next threshold and its trigger.

A turn is one answer of the conversation, that is, one request to the API. The growth per turn is
heavy-tailed (in the recorded sessions half of all growth comes in a seventh of the turns) and
comes in runs, so neither a line nor a bell curve fits. Instead the forecast samples the past:
from each of many earlier turns, how many did it take until the context had grown by as much as
is left now? The session's own later turns weigh most; other sessions weigh more, the fewer turns
it has.

The result is corrected by the errors of earlier guesses of the same distance (conformal
prediction): the logarithm of turns taken over turns guessed, in units of the root of the guess's
own spread. Its quantiles around that distance are the interval to show, so that the interval
holds as often as it says on sessions that grow like the measured ones. Projects differ more than
the sessions of one do, so the interval is wider where few were measured. Sessions are asked about
sizes that they reached: none of the cases is cut off by a session's end.

Beyond FAR_TURNS nothing better than "at least" is known: the answer is a lower bound alone.
`tests/bench/bench_forecast.py` prints how often all that was right.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from ..model.outlook import ALREADY_REACHED, NO_OUTLOOK, Forecast, Interval, NextThreshold, Outlook
from ..model.stored_rows import FillRow

if TYPE_CHECKING:
    from ..model.context import Context

T = TypeVar("T")


MIN_GROWTHS: Final = 3  # turns that a session without a prior must have grown: two show no tail
MIN_HISTORY: Final = 5  # the same for another session's history: shorter ones are one task
OWN_TURNS: Final = 240  # turns of the own past that are used: four half-lives
OWN_STARTS: Final = 24  # moments of it to sample from; more change no quantile by a turn
PRIOR_SESSIONS: Final = 30  # sessions that are read: enough for PRIOR_TURNS
PRIOR_TURNS: Final = 1_000  # newest turns of other sessions: twice as many forecast no better
PRIOR_STARTS: Final = 64  # moments of them to sample from, spread evenly
PRIOR_WEIGHT: Final = 40  # own turns that count as much as all other sessions together
HALF_LIFE: Final = 60  # turns after which the own past counts half: work changes over time
SPREAD: Final = 2.5
"""Standard deviation of one turn's growth over its mean: the error of a session's own mean is
this over the root of its turns. Recorded sessions have 0.7 to 3; it is at the upper end, because
future turns are not drawn from the past ones."""

MAX_SPREAD: Final = 1.0  # more than a factor of e either way is no forecast of its own
PAUSE_MS: Final = 120_000  # a longer wait for an answer is a person away, and counts as this much
PACE_WEIGHT: Final = 20  # own waits that count as much as the other sessions' pace
PACE_SPREAD: Final = 0.4  # standard deviation of ln(future / past pace): 0.4 to 0.6
QUANTILES: Final = (0.5, 0.8, 0.1, 0.9, 0.2)
"""Shares below each bound, in the order of `Interval`, and below the lower bound far away."""

FAR_TURNS: Final = 40
"""A guess of more turns is told as a lower bound: the p80 of what came 80 turns later or more held
in 30 % of the cases of projects that were new to it, as work changes in that time."""

DISTANCES: Final = (2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)  # turns; interpolated between

KERNEL_WIDTH: Final = 0.35
"""Standard deviation of ln(turns) within which a case counts at a distance, half the way to the
next: with more, far forecasts of the recorded sessions, which err less, get near ones' errors."""

MIN_SPREAD: Final = 0.15  # of a guess, in ln(turns): sources that agree can still be wrong
PROJECT_SPREAD: Final = 0.15
"""Standard deviation of projects' median errors, in units of the guesses' own spread: those of the
two recorded projects lie 0.3 apart."""

SHIPPED_WEIGHT: Final = 2  # projects of this machine that count as much as the shipped errors

# Constants of a normal distribution: the middles of its fifths, the deviations above which a fifth
# and a tenth lie, and the deviations between its first and last tenth.
_FIFTH_MIDDLES: Final = (-1.2816, -0.5244, 0.0, 0.5244, 1.2816)
_FIFTH, _TENTH = 0.8416, 1.2816
_NORMAL_80: Final = 2.5631


class GrowthHistory(msgspec.Struct, frozen=True):
    """Growth of one session, repeated once, so that it can be sampled from any turn on."""

    turns: int
    sums: tuple[int, ...]  # tokens added before each turn, since the first; 2 * turns + 1 of them

    def turns_until(self, growth: int, start: int) -> int:
        """Count the turns from turn `start` on until `growth` tokens (> 0) were added."""
        laps, rest = divmod(growth, self.sums[self.turns])
        end = bisect_left(self.sums, self.sums[start] + rest, start)
        return max(1, laps * self.turns + end - start)


class TurnGuess(msgspec.Struct, frozen=True):
    """Turns until a size is reached, before calibration."""

    turns: float  # median of the samples, at least 1
    spread: float  # standard deviation of ln(turns) among the samples

    @property
    def error_unit(self) -> float:
        return math.sqrt(max(MIN_SPREAD, self.spread))


class PastGuess(msgspec.Struct, frozen=True):
    guess: TurnGuess
    took: int  # turns that it took
    weight: float = 1.0  # moments that this one represents


ErrorQuantiles = tuple[float, float, float, float, float]  # in the order of QUANTILES


class ForecastCalibration(msgspec.Struct, frozen=True):
    """Quantiles of the error at each of DISTANCES."""

    errors: tuple[ErrorQuantiles, ...]
    far_share: float = 1.0
    """How far the lower bound far away follows these errors, 0..1, and not the guess's own spread:
    1 - 1/n where n projects were measured. One project's far errors, of a few sessions, say nothing
    of the next one's."""

    def correct(self, guess: TurnGuess) -> Interval:
        *errors, least = self._errors_at(guess.turns)
        own = -_FIFTH * guess.spread / guess.error_unit
        errors.append(own + self.far_share * (least - own))
        return _make_interval([guess.turns * math.exp(each * guess.error_unit) for each in errors])

    def _errors_at(self, turns: float) -> Sequence[float]:
        after = bisect_right(DISTANCES, turns)
        if after == 0:
            return self.errors[0]
        if after == len(DISTANCES):
            return self.errors[-1]
        nearer, farther = DISTANCES[after - 1], DISTANCES[after]
        share = math.log(turns / nearer) / math.log(farther / nearer)
        return _interpolate(self.errors[after - 1], self.errors[after], share)


def _make_interval(quantiles: Sequence[float]) -> Interval:
    """Return whole turns, with low <= p50 <= p80 <= high."""
    p50, p80, low, high, least = quantiles
    middle = _whole_turns(p50)
    # A rounded bound includes its whole turn, so it is moved half a turn inwards.
    if middle > FAR_TURNS:
        return Interval(middle, math.inf, min(middle, _whole_turns(least + 0.5)), math.inf)
    upper = max(middle, _whole_turns(p80 - 0.5))
    return Interval(
        middle,
        upper,
        min(middle, _whole_turns(low + 0.5)),
        max(upper, _whole_turns(high - 0.5)),
    )


def _whole_turns(turns: float) -> int:
    return max(1, round(turns))


def _interpolate(start: ErrorQuantiles, end: ErrorQuantiles, share: float) -> ErrorQuantiles:
    p50, p80, low, high, least = (a + (b - a) * share for a, b in zip(start, end, strict=True))
    return p50, p80, low, high, least


SHIPPED_CALIBRATION: Final = ForecastCalibration(
    (
        (0.08, 0.70, -1.02, 1.07, -0.80),  # 2 turns
        (0.19, 0.63, -0.89, 0.88, -0.41),  # 4 turns
        (0.22, 0.68, -0.82, 0.88, -0.33),  # 8 turns
        (0.08, 0.56, -1.02, 0.76, -0.57),  # 16 turns
        (0.02, 0.40, -0.97, 0.57, -0.60),  # 32 turns
        (-0.04, 0.29, -0.89, 0.43, -0.54),  # 64 turns
        (-0.11, 0.17, -0.66, 0.32, -0.43),  # 128 turns
    ),
    far_share=0.5,
)
"""Measured on the recorded sessions by `python -m tests.bench.bench_forecast --measure`."""


def measure_errors(projects: Iterable[Sequence[PastGuess]]) -> ForecastCalibration | None:
    """Measure the errors of these projects' guesses; None if there are none.

    The next project has an error of its own, of which few projects show little: its variance is
    1 + 1/n of PROJECT_SPREAD's, and 1 - 1/n of it is among the errors of n projects, so 2/n is
    added.
    """
    some = [project for project in projects if project]
    if not some:
        return None
    spread = PROJECT_SPREAD * math.sqrt(2 / len(some))
    cases = sorted(
        (
            math.log(past.took / past.guess.turns) / past.guess.error_unit + spread * z,
            math.log(past.guess.turns),
            past.weight,
        )
        for project in some
        for past in project
        for z in _FIFTH_MIDDLES
    )
    errors = tuple(_quantiles_at(distance, cases) for distance in DISTANCES)
    return ForecastCalibration(errors, 1 - 1 / len(some))


def blend_calibration(
    projects: Sequence[Sequence[PastGuess]], shipped: ForecastCalibration
) -> ForecastCalibration:
    """Measure this machine's projects; the fewer they are, the more the shipped errors count."""
    own = measure_errors(projects)
    if own is None:
        return shipped
    count = sum(bool(project) for project in projects)
    share = count / (count + SHIPPED_WEIGHT)
    pairs = zip(shipped.errors, own.errors, strict=True)
    return ForecastCalibration(
        tuple(_interpolate(*pair, share) for pair in pairs),
        shipped.far_share + (own.far_share - shipped.far_share) * share,
    )


def _quantiles_at(distance: float, cases: Sequence[tuple[float, float, float]]) -> ErrorQuantiles:
    place = math.log(distance)
    sums = list(
        accumulate(
            weight * math.exp(-(((turns - place) / KERNEL_WIDTH) ** 2) / 2)
            for _, turns, weight in cases
        )
    )
    if sums[-1] <= 0:
        # So far from every case that no weight is left: use all of them.
        sums = list(accumulate(weight for _, _, weight in cases))
    p50, p80, low, high, least = (
        cases[min(bisect_right(sums, share * sums[-1]), len(cases) - 1)][0] for share in QUANTILES
    )
    return p50, p80, low, high, least


class GrowthPrior(msgspec.Struct, frozen=True):
    """The growth of other sessions: which to sample, and from which turn on."""

    starts: tuple[tuple[GrowthHistory, int], ...] = ()
    pace_ms: float | None = None  # mean wait from answer to answer
    calibration: ForecastCalibration | None = None  # None: guesses are not corrected


def make_prior(sessions: Iterable[Sequence[FillRow]]) -> GrowthPrior:
    """Collect the growth of all sessions; each is a fill history, newest session first.

    The session to forecast may be among them: its weight is one of many.
    """
    histories: list[GrowthHistory] = []
    waits: list[int] = []
    turns = 0
    for rows in sessions:
        history = _growth_history(_turn_growths(rows))
        if history and history.turns >= MIN_HISTORY:
            histories.append(history)
            waits += _waits(rows)
            turns += history.turns
        if turns >= PRIOR_TURNS:
            break
    every = [(history, start) for history in histories for start in range(history.turns)]
    starts = tuple(_spread_evenly(every, PRIOR_STARTS))
    return GrowthPrior(starts, sum(waits) / len(waits) if waits else None)


def make_forecast(
    rows: Sequence[FillRow], target_tokens: int, prior: GrowthPrior | None = None
) -> Forecast | None:
    """Forecast how long until a context with this `fill_history` reaches `target_tokens`.

    None right after a compaction, when the context's size is unknown, and if fewer than three
    turns have grown and there is no prior from other sessions.
    """
    left = _tokens_left(rows, target_tokens)
    if left is not None and left <= 0:
        return Forecast(ALREADY_REACHED, ALREADY_REACHED)
    samples = _sample_turns(rows, left, prior) if left else []
    if not samples:
        return None
    quantiles = _quantiles(samples)
    calibration = prior.calibration if prior else None
    if calibration is None:
        turns = _make_interval(quantiles)
    else:
        turns = calibration.correct(_make_guess(quantiles))
    pace = _pace(rows, prior.pace_ms if prior else None)
    return Forecast(turns, _to_minutes(turns, pace) if pace else None)


def guess_turns(
    rows: Sequence[FillRow], target_tokens: int, prior: GrowthPrior | None = None
) -> TurnGuess | None:
    """Guess as `make_forecast` does, uncorrected; None also if the size is reached."""
    left = _tokens_left(rows, target_tokens)
    samples = _sample_turns(rows, left, prior) if left and left > 0 else []
    return _make_guess(_quantiles(samples)) if samples else None


def _tokens_left(rows: Sequence[FillRow], target_tokens: int) -> int | None:
    last = rows[-1] if rows else None
    if last is None or last.is_compaction or last.tokens is None:
        return None
    return target_tokens - last.tokens


def _make_guess(quantiles: Sequence[float]) -> TurnGuess:
    p50, _, low, high, _ = quantiles
    return TurnGuess(max(1.0, p50), math.log(high / low) / _NORMAL_80)


def _sample_turns(
    rows: Sequence[FillRow], left: int, prior: GrowthPrior | None
) -> list[tuple[float, float]]:
    """Return turns and weights of samples from the session and the others; may be empty."""
    growths = _turn_growths(rows[-OWN_TURNS:])
    starts = prior.starts if prior else ()
    if not starts and len(growths) < MIN_GROWTHS:
        return []
    samples = _own_samples(growths, left)
    weight = PRIOR_WEIGHT if samples else 1
    samples += [
        (history.turns_until(left, start), weight / len(starts)) for history, start in starts
    ]
    return samples


def _own_samples(growths: list[int], left: int) -> list[tuple[float, float]]:
    """Return samples of the session itself; their weights add up to its turns."""
    history = _growth_history(growths)
    if history is None:
        return []
    turns = history.turns
    spread = min(MAX_SPREAD, SPREAD / math.sqrt(turns))
    factors = [math.exp(spread * z) for z in _FIFTH_MIDDLES]
    starts = range(turns - 1, -1, -math.ceil(turns / OWN_STARTS))
    weights = [0.5 ** ((turns - 1 - start) / HALF_LIFE) for start in starts]
    share = turns / (sum(weights) * len(factors))
    return [
        (took * factor, weight * share)
        for start, weight in zip(starts, weights, strict=True)
        for took in (history.turns_until(left, start),)
        for factor in factors
    ]


def _quantiles(samples: list[tuple[float, float]]) -> list[float]:
    samples.sort()
    total = sum(weight for _, weight in samples)
    sums = list(accumulate(weight for _, weight in samples))
    places = (bisect_left(sums, share * total) for share in QUANTILES)
    return [samples[min(place, len(samples) - 1)][0] for place in places]


def _turn_growths(rows: Sequence[FillRow]) -> list[int]:
    """Return the tokens that each turn added, at least 0; no turn spans a compaction."""
    growths: list[int] = []
    before: int | None = None
    for row in rows:
        if row.is_compaction:
            # A boundary's tokens are an estimate, without the system prompt.
            before = None
        elif row.tokens is not None:
            if before is not None:
                growths.append(max(0, row.tokens - before))
            before = row.tokens
    return growths


def _growth_history(growths: list[int]) -> GrowthHistory | None:
    if not any(growths):
        return None
    return GrowthHistory(len(growths), tuple(accumulate(growths * 2, initial=0)))


def _waits(rows: Sequence[FillRow]) -> list[int]:
    """Return milliseconds from answer to answer, at most PAUSE_MS; none if a clock was set back."""
    times = [row.at for row in rows if row.at is not None and not row.is_compaction]
    return [
        min(later - earlier, PAUSE_MS) for earlier, later in pairwise(times) if later >= earlier
    ]


def _pace(rows: Sequence[FillRow], others_ms: float | None) -> float | None:
    """Return milliseconds per turn, by the last ones and by other sessions."""
    waits = _waits(rows[-HALF_LIFE:])
    if others_ms is None:
        return sum(waits) / len(waits) if waits else None
    return (sum(waits) + PACE_WEIGHT * others_ms) / (len(waits) + PACE_WEIGHT)


def _to_minutes(turns: Interval, pace_ms: float) -> Interval:
    """Convert turns to minutes; the pace has its own error, independent of the turns' error."""
    middle = turns.p50 * pace_ms / 60_000

    def at(bound: float, deviations: float) -> float:
        # Both errors combined, as if they were normal on a logarithmic scale.
        off = math.hypot(math.log(bound / turns.p50), deviations * PACE_SPREAD)
        return middle * math.exp(math.copysign(off, deviations))

    below = -_FIFTH if turns.is_open else -_TENTH
    return Interval(middle, at(turns.p80, _FIFTH), at(turns.low, below), at(turns.high, _TENTH))


MAX_REPLAYED_MOMENTS: Final = 48  # of one session, spread evenly: 10 ms of work
MIN_RUN_ANSWERS: Final = 3  # between two compactions: a shorter run has nothing to replay


def split_runs(rows: Iterable[FillRow]) -> Iterator[list[FillRow]]:
    """Split a session at its compactions, and leave out short runs."""
    run: list[FillRow] = []
    for row in rows:
        if not row.is_compaction and row.tokens is not None:
            run.append(row)
        elif row.is_compaction:
            if len(run) >= MIN_RUN_ANSWERS:
                yield run
            run = []
    if len(run) >= MIN_RUN_ANSWERS:
        yield run


def replay_targets(run: Sequence[FillRow]) -> list[int]:
    """Return sizes that a run reached: its largest, and three quarters and half the way there."""
    start, most = run[0].tokens or 0, max(row.tokens or 0 for row in run)
    return [most, start + (most - start) * 3 // 4, start + (most - start) // 2]


def first_answer_of_size(run: Sequence[FillRow], tokens: int) -> int:
    """Return the place of the first answer that held as many tokens; one of the run must."""
    return next(place for place, row in enumerate(run) if (row.tokens or 0) >= tokens)


def replay_forecasts(
    rows: Iterable[FillRow], prior: GrowthPrior | None, most: int = MAX_REPLAYED_MOMENTS
) -> list[PastGuess]:
    """Guess at moments of a session's past, by what was known then and by other sessions.

    `prior` must not include the session, whose future it would know.
    """
    every = [
        (run, size, turn, end)
        for run in split_runs(rows)
        for size in replay_targets(run)
        for end in (first_answer_of_size(run, size),)
        for turn in range(end)
    ]
    guesses: list[PastGuess] = []
    for run, size, turn, end in _spread_evenly(every, most):
        guess = guess_turns(run[: turn + 1], size, prior)
        if guess is not None:
            weight = len(every) / min(most, len(every))
            guesses.append(PastGuess(guess, end - turn, weight))
    return guesses


def _spread_evenly(items: Sequence[T], most: int) -> list[T]:
    """Return at most `most` items at even distances."""
    count = min(most, len(items))
    return [items[(2 * place + 1) * len(items) // (2 * count)] for place in range(count)]


_TOLERANCE: Final = 1e-6  # 0.7 of 1,000,000 is 700,000.0000000001: products this close are the same


def make_outlook(context: Context, rows: Sequence[FillRow], prior: GrowthPrior | None) -> Outlook:
    """Forecast from a context's own growth (`fill_history`) and that of others.

    The client compares its counter with the trigger, while answers report the fill: the trigger
    is nearer by the difference.
    """
    fill, counts = context.tokens, context.token_counts
    if fill is None or counts.fill is None:
        return NO_OUTLOOK
    ahead_of_fill = (counts.counter or fill) - counts.fill
    armed = context.trigger_tokens
    end = context.window.tokens if armed is None else armed - ahead_of_fill
    return Outlook(make_forecast(rows, end, prior), _next_threshold(context, rows, prior))


def _next_threshold(
    context: Context, rows: Sequence[FillRow], prior: GrowthPrior | None
) -> NextThreshold | None:
    for placed in context.thresholds:
        if not placed.is_reached(context.ratio or 0.0):
            tokens = math.ceil(placed.at * context.window.tokens - _TOLERANCE)
            forecast = make_forecast(rows, tokens, prior)
            return NextThreshold(placed.level, placed.at, tokens, forecast)
    return None
