"""How far the carrying out of a plan has come."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum


class Stage(StrEnum):
    """A step of it; each is told when it begins."""

    COPY = "copy"
    """What the transcript is, is kept."""
    WRITE = "write"
    """The new file is written beside it."""
    VERIFY = "verify"
    """The new file is read again and compared with the plan."""
    REPLACE = "put"
    """It takes its place, as soon as nobody writes."""


Tell = Callable[[Stage], object]


def untold(stage: Stage) -> None:
    """Tell nobody."""
