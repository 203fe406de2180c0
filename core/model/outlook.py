"""The turns and minutes until a context reaches its next threshold and its trigger."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from .levels import Level


class Interval(msgspec.Struct, frozen=True):
    """Bounds that hold four of five times; far away there is only a lower one."""

    p50: float
    p80: float  # infinite far away
    low: float  # p10, the lower bound of the 80 % interval; p20 far away
    high: float  # p90; infinite far away

    @property
    def is_open(self) -> bool:
        return math.isinf(self.high)


ALREADY_REACHED: Final = Interval(0, 0, 0, 0)


class Forecast(msgspec.Struct, frozen=True):
    turns: Interval  # whole answers; all 0 if the size is reached
    minutes: Interval | None  # of work: longer waits count as two; None without times


class NextThreshold(msgspec.Struct, frozen=True):
    level: Level
    threshold: float  # share of the window
    tokens: int
    forecast: Forecast | None


class Outlook(msgspec.Struct, frozen=True):
    end: Forecast | None  # to the trigger, or to the window's end if the trigger is not armed
    next_threshold: NextThreshold | None  # None above the last one, and if nothing is known


NO_OUTLOOK = Outlook(None, None)
