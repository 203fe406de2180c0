"""Forecasts of the past: what would have been guessed at earlier moments, and what came."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from .forecast import guess_turns
from .forecast_calibration import Miss

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from .forecast import Prior
    from .store.rows import FillRow

MOMENTS: Final = 48
"""Of one session that are replayed, spread evenly: 10 ms of work. Neighbours differ little."""

LEAST_ANSWERS: Final = 3
"""Of a run between two compactions: a shorter one has nothing to replay."""


class Moment(msgspec.Struct, frozen=True):
    """A turn of the past, and a size that the context reached later."""

    run: Sequence[FillRow]
    """Answers from one compaction to the next."""
    turn: int
    """Place of the last answer that is known."""
    target: int
    """Tokens."""
    end: int
    """Place of the first answer that held as many."""


def runs(rows: Iterable[FillRow]) -> Iterator[list[FillRow]]:
    """Split a session at its compactions, and leave out what is too short."""
    open_run: list[FillRow] = []
    for row in rows:
        if not row.is_compaction and row.tokens is not None:
            open_run.append(row)
        elif row.is_compaction:
            if len(open_run) >= LEAST_ANSWERS:
                yield open_run
            open_run = []
    if len(open_run) >= LEAST_ANSWERS:
        yield open_run


def sizes_of(run: Sequence[FillRow]) -> list[int]:
    """Sizes that a run came to: its largest, and three quarters and half of the way there."""
    start, most = run[0].tokens or 0, max(row.tokens or 0 for row in run)
    return [most, start + (most - start) * 3 // 4, start + (most - start) // 2]


def moments(run: Sequence[FillRow], target: int) -> Iterator[Moment]:
    """List the turns of a run before it first held `target` tokens, which it did."""
    end = next(place for place, row in enumerate(run) if (row.tokens or 0) >= target)
    return (Moment(run, turn, target, end) for turn in range(end))


def replay(rows: Iterable[FillRow], prior: Prior | None, most: int = MOMENTS) -> list[Miss]:
    """Guess at moments of a session's past by what was known then and by other sessions.

    `prior` must be made without the session: it would know what came.
    """
    every = [each for run in runs(rows) for size in sizes_of(run) for each in moments(run, size)]
    count = min(most, len(every))
    chosen = (every[(2 * place + 1) * len(every) // (2 * count)] for place in range(count))
    found: list[Miss] = []
    for moment in chosen:
        guess = guess_turns(moment.run[: moment.turn + 1], moment.target, prior)
        if guess is not None:
            found.append(Miss(guess, moment.end - moment.turn, len(every) / count))
    return found
