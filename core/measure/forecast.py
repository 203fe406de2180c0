"""Forecasts the turns and minutes until a context reaches its next threshold and its trigger.

A turn is one answer of the conversation, that is, one request to the API. How much a turn adds
is heavy-tailed (in the recorded sessions half of all growth comes in a seventh of the turns) and
comes in runs, so neither a line nor a bell curve fits. Instead the forecast samples the past:
from each of many earlier turns, how many did it take until the context had grown by as much as
is left now? The session's own later turns weigh most; other sessions weigh more, the fewer turns
it has. The result is corrected by how far such guesses were off before
(`forecast_calibration`). `tests/bench/bench_forecast.py` prints how often that was right.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final

import msgspec

from ..store.queries.query_rows import FillRow
from .forecast_calibration import (
    QUANTILES,
    ForecastCalibration,
    PastGuess,
    TurnGuess,
    log_spread,
)

if TYPE_CHECKING:
    from ..model.context import Context
    from .levels import Level


MIN_GROWTHS: Final = 3
"""Turns that a session without a prior must have grown by; two say nothing of a tail."""

MIN_HISTORY: Final = 5
"""Turns that another session must have grown by to be asked: shorter ones are one task."""

OWN_TURNS: Final = 240
"""Turns of the session's own past that are asked: four half-lives, the rest weighs nothing."""

OWN_STARTS: Final = 24
"""Moments of its own past that a session is asked from; more change no quantile by a turn."""

PRIOR_TURNS: Final = 1_000
"""Turns of other sessions that are kept, the newest: twice as many forecast no better."""

PRIOR_STARTS: Final = 64
"""Moments of the other sessions that are asked from, spread evenly over their turns."""

HALF_LIFE: Final = 60
"""Turns after which a session's own past counts half: work changes, but within one task."""

PRIOR_WEIGHT: Final = 40  # turns of the session's own that count as much as all others together
SPREAD: Final = 2.5
"""Standard deviation of one turn's growth over its mean: what a session's own mean may be
wrong by is this over the root of its turns. Recorded sessions have 0.7 to 3; it is at the upper
end, because the turns to come are not drawn from those that were."""

MAX_SPREAD: Final = 1.0  # more than a factor of e either way is no forecast of its own
PAUSE_MS: Final = 120_000
"""A longer wait between two answers is a person away, and counts as this much work."""

PACE_WEIGHT: Final = 20  # waits of the session's own that count as much as the others' pace
PACE_SPREAD: Final = 0.4
"""Standard deviation of the logarithm of the pace to come over the pace so far (recorded
sessions: 0.4 where many turns are left, 0.6 where few are)."""

_FIFTH_MIDDLES: Final = (-1.2816, -0.5244, 0.0, 0.5244, 1.2816)
"""The middles of the five fifths of a normal distribution."""

_FIFTH, _TENTH = 0.8416, 1.2816
"""Deviations above which a fifth and a tenth of a normal distribution lie."""


class Interval(msgspec.Struct, frozen=True):
    """A quantity that is left."""

    p50: float  # as likely less as more
    p80: float  # with four chances in five it is over by then
    low: float
    high: float
    """The 80 % interval: less than `low` with one chance in ten, more than `high` likewise."""


ALREADY_REACHED: Final = Interval(0, 0, 0, 0)


class Forecast(msgspec.Struct, frozen=True):
    """How long until a context reaches a size."""

    turns: Interval  # whole answers; all 0 where it has reached it
    minutes: Interval | None
    """Of work: waits longer than two minutes count as two. None where times are missing."""


class GrowthHistory(msgspec.Struct, frozen=True):
    """Growth of one session, run through twice, so that it can be asked from any turn on."""

    turns: int
    sums: tuple[int, ...]  # tokens added before each turn, since the first; 2 * turns + 1 of them

    def turns_until(self, growth: int, start: int) -> int:
        """Count the turns from turn `start` on until `growth` tokens (> 0) were added."""
        laps, rest = divmod(growth, self.sums[self.turns])
        found = bisect_left(self.sums, self.sums[start] + rest, start)
        return max(1, laps * self.turns + found - start)


class GrowthPrior(msgspec.Struct, frozen=True):
    """What other sessions tell of growth: whom to ask, and from which turn on."""

    starts: tuple[tuple[GrowthHistory, int], ...] = ()
    pace_ms: float | None = None  # mean wait from answer to answer
    calibration: ForecastCalibration | None = None
    """How far guesses were off; without it they are shown as they are."""


def make_prior(sessions: Iterable[Sequence[FillRow]]) -> GrowthPrior:
    """Gather what all sessions show of growth; each is a fill history, newest first.

    The session that is then asked for may be among them: its weight is one of many.
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
    count = min(PRIOR_STARTS, len(every))
    starts = tuple(every[(2 * i + 1) * len(every) // (2 * count)] for i in range(count))
    return GrowthPrior(starts, sum(waits) / len(waits) if waits else None)


def make_forecast(
    rows: Sequence[FillRow], target_tokens: int, prior: GrowthPrior | None = None
) -> Forecast | None:
    """Forecast how long until a context with this `fill_history` reaches `target_tokens`.

    None right after a compaction, when the context's size is unknown, and if fewer than three
    turns have grown and there is no prior from other sessions.
    """
    last = rows[-1] if rows else None
    if last is not None and not last.is_compaction and last.tokens is not None:
        if target_tokens <= last.tokens:
            return Forecast(ALREADY_REACHED, ALREADY_REACHED)
        guesses = _all_guesses(rows, target_tokens - last.tokens, prior)
        if guesses:
            turns = _turn_interval(guesses, prior.calibration if prior else None)
            pace = _pace(rows, prior.pace_ms if prior else None)
            return Forecast(turns, _minute_interval(turns, pace) if pace else None)
    return None


def guess_turns(
    rows: Sequence[FillRow], target_tokens: int, prior: GrowthPrior | None = None
) -> TurnGuess | None:
    """Guess as `forecast` does, without correction; None also where the size is reached."""
    last = rows[-1] if rows else None
    if last is None or last.is_compaction or last.tokens is None or target_tokens <= last.tokens:
        return None
    guesses = _all_guesses(rows, target_tokens - last.tokens, prior)
    return _turn_guess(_quantiles(guesses)) if guesses else None


def _all_guesses(
    rows: Sequence[FillRow], left: int, prior: GrowthPrior | None
) -> list[tuple[float, float]]:
    """Ask the session and the others: turns and weights; nothing where nobody knows."""
    growths = _turn_growths(rows[-OWN_TURNS:])
    starts = prior.starts if prior else ()
    if not starts and len(growths) < MIN_GROWTHS:
        return []
    guesses = _own_guesses(growths, left)
    shares = PRIOR_WEIGHT if guesses else 1
    guesses += [
        (history.turns_until(left, start), shares / len(starts)) for history, start in starts
    ]
    return guesses


def _turn_interval(
    guesses: list[tuple[float, float]], calibration: ForecastCalibration | None
) -> Interval:
    quantiles = _quantiles(guesses)
    if calibration is None:
        return Interval(*(max(1, round(turns)) for turns in quantiles))
    return Interval(*calibration.bounds(_turn_guess(quantiles)))


def _turn_guess(quantiles: Sequence[float]) -> TurnGuess:
    middle, _, low, high = quantiles
    return TurnGuess(max(1.0, middle), log_spread(low, high))


def _turn_growths(rows: Sequence[FillRow]) -> list[int]:
    """Tokens that each turn added; nothing where it shrank, or where a boundary stands between."""
    found: list[int] = []
    before: int | None = None
    for row in rows:
        if row.is_compaction:
            # What stands in a boundary is an estimate, without the system prompt.
            before = None
        elif row.tokens is not None:
            if before is not None:
                found.append(max(0, row.tokens - before))
            before = row.tokens
    return found


def _growth_history(growths: list[int]) -> GrowthHistory | None:
    """Make growth ready to be asked; None where there was none."""
    if not any(growths):
        return None
    return GrowthHistory(len(growths), tuple(accumulate(growths * 2, initial=0)))


def _own_guesses(growths: list[int], left: int) -> list[tuple[float, float]]:
    """Ask the session itself: turns and their weights, which add up to its turns."""
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


def _quantiles(guesses: list[tuple[float, float]]) -> list[float]:
    guesses.sort()
    whole = sum(weight for _, weight in guesses)
    sums = list(accumulate(weight for _, weight in guesses))
    found = (bisect_left(sums, share * whole) for share in QUANTILES)
    return [guesses[min(place, len(guesses) - 1)][0] for place in found]


def _waits(rows: Sequence[FillRow]) -> list[int]:
    """Milliseconds from answer to answer, no longer than a pause; a clock set back tells none."""
    times = [row.at for row in rows if row.at is not None and not row.is_compaction]
    return [
        min(later - earlier, PAUSE_MS) for earlier, later in pairwise(times) if later >= earlier
    ]


def _pace(rows: Sequence[FillRow], others_ms: float | None) -> float | None:
    """Milliseconds that a turn takes, by the last ones and by what others take."""
    waits = _waits(rows[-HALF_LIFE:])
    if others_ms is None:
        return sum(waits) / len(waits) if waits else None
    return (sum(waits) + PACE_WEIGHT * others_ms) / (len(waits) + PACE_WEIGHT)


def _minute_interval(turns: Interval, pace_ms: float) -> Interval:
    """Convert turns to minutes; the pace has its own error, independent of the turns' error."""
    middle = turns.p50 * pace_ms / 60_000

    def at(bound: float, deviations: float) -> float:
        # The turns' own error and the pace's, as if both were normal on a logarithmic scale.
        off = math.hypot(math.log(bound / turns.p50), deviations * PACE_SPREAD)
        return middle * math.exp(math.copysign(off, deviations))

    return Interval(middle, at(turns.p80, _FIFTH), at(turns.low, -_TENTH), at(turns.high, _TENTH))


MAX_REPLAYED_MOMENTS: Final = 48
"""Of one session that are replayed, spread evenly: 10 ms of work. Neighbours differ little."""

MIN_RUN_ANSWERS: Final = 3  # of a run between two compactions: a shorter one has nothing to replay


class PastMoment(msgspec.Struct, frozen=True):
    """A turn of the past, and a size that the context reached later."""

    run: Sequence[FillRow]  # answers from one compaction to the next
    turn: int  # place of the last answer that is known
    target: int  # tokens
    end: int  # place of the first answer that held as many


def split_runs(rows: Iterable[FillRow]) -> Iterator[list[FillRow]]:
    """Split a session at its compactions, and leave out what is too short."""
    open_run: list[FillRow] = []
    for row in rows:
        if not row.is_compaction and row.tokens is not None:
            open_run.append(row)
        elif row.is_compaction:
            if len(open_run) >= MIN_RUN_ANSWERS:
                yield open_run
            open_run = []
    if len(open_run) >= MIN_RUN_ANSWERS:
        yield open_run


def replay_targets(run: Sequence[FillRow]) -> list[int]:
    """Sizes that a run came to: its largest, and three quarters and half of the way there."""
    start, most = run[0].tokens or 0, max(row.tokens or 0 for row in run)
    return [most, start + (most - start) * 3 // 4, start + (most - start) // 2]


def list_moments(run: Sequence[FillRow], target: int) -> Iterator[PastMoment]:
    """List the turns of a run before it first held `target` tokens, which it did."""
    end = next(place for place, row in enumerate(run) if (row.tokens or 0) >= target)
    return (PastMoment(run, turn, target, end) for turn in range(end))


def replay_forecasts(
    rows: Iterable[FillRow], prior: GrowthPrior | None, most: int = MAX_REPLAYED_MOMENTS
) -> list[PastGuess]:
    """Guess at moments of a session's past by what was known then and by other sessions.

    `prior` must be made without the session: it would know what came.
    """
    every = [
        each
        for run in split_runs(rows)
        for size in replay_targets(run)
        for each in list_moments(run, size)
    ]
    count = min(most, len(every))
    chosen = (every[(2 * place + 1) * len(every) // (2 * count)] for place in range(count))
    found: list[PastGuess] = []
    for moment in chosen:
        guess = guess_turns(moment.run[: moment.turn + 1], moment.target, prior)
        if guess is not None:
            found.append(PastGuess(guess, moment.end - moment.turn, len(every) / count))
    return found


PRIOR_SESSIONS: Final = 30
"""Sessions that are asked how contexts grow: enough for `PRIOR_TURNS` turns."""


_TOLERANCE: Final = 1e-6  # 0.7 of 1,000,000 is 700,000.0000000001: products this close are the same


class NextThreshold(msgspec.Struct, frozen=True):
    """The next threshold that a context has not reached."""

    level: Level
    threshold: float  # share of the window
    tokens: int
    forecast: Forecast | None


class Outlook(msgspec.Struct, frozen=True):
    """What lies ahead of a context."""

    end: Forecast | None  # to the trigger, or to the window's end where the trigger is not armed
    next_threshold: NextThreshold | None
    """None above the last threshold, and where nothing is known."""


NO_OUTLOOK = Outlook(None, None)


def make_outlook(context: Context, rows: Sequence[FillRow], prior: GrowthPrior | None) -> Outlook:
    """Forecast from a context's own growth (`fill_history`) and that of others.

    The client compares its counter with the trigger, and answers tell the fill: the trigger
    is nearer by what the counter is ahead of it.
    """
    fill, numbers = context.tokens, context.token_counts
    if fill is None or numbers.fill is None:
        return NO_OUTLOOK
    ahead_of_fill = (numbers.counter or fill) - numbers.fill
    armed = context.trigger.tokens if context.trigger else None
    end = context.window.tokens if armed is None else armed - ahead_of_fill
    return Outlook(make_forecast(rows, end, prior), _next_threshold(context, rows, prior))


def _next_threshold(
    context: Context, rows: Sequence[FillRow], prior: GrowthPrior | None
) -> NextThreshold | None:
    for line in context.thresholds:
        if not line.is_reached(context.ratio or 0.0):
            tokens = math.ceil(line.at * context.window.tokens - _TOLERANCE)
            return NextThreshold(line.level, line.at, tokens, make_forecast(rows, tokens, prior))
    return None
