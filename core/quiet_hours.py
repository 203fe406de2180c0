"""When a person is not to be disturbed: from one time of day to another, also over midnight."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from datetime import time

_FORM: Final = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)\s*-\s*([01]?\d|2[0-3]):([0-5]\d)")

_HOUR: Final = 60


class QuietHours(msgspec.Struct, frozen=True):
    """Minutes since midnight, local time; the end no longer belongs to it."""

    start: int
    end: int

    def __str__(self) -> str:
        return f"{_clock(self.start)}-{_clock(self.end)}"

    def contains(self, now: time) -> bool:
        """Say whether this moment of the day is one of them."""
        minute = now.hour * _HOUR + now.minute
        if self.start <= self.end:
            return self.start <= minute < self.end
        return minute >= self.start or minute < self.end


def read_hours(text: str) -> QuietHours | None:
    """Read `22:00-07:00`; None where it is something else."""
    found = _FORM.fullmatch(text.strip())
    if found is None:
        return None
    from_hour, from_minute, to_hour, to_minute = map(int, found.groups())
    return QuietHours(from_hour * _HOUR + from_minute, to_hour * _HOUR + to_minute)


def _clock(minute: int) -> str:
    return f"{minute // _HOUR:02}:{minute % _HOUR:02}"
