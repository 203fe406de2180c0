"""What happened, as a log tells it: when, how bad, where, and all that is known of it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .formats import one_line
from .notices import Weight

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..collectors.folder import Trouble
    from ..collectors.listener import Progress

KEPT: Final = 1000
"""Of what happened while this ctxtop ran: a line each, some hundred kilobytes in all."""


@dataclass(frozen=True, slots=True)
class Happening:
    """One entry of the log; its words hold nothing that a terminal could obey."""

    key: str
    at: int | None
    """In ms since 1970; None where nothing says when."""
    weight: Weight
    source: str
    """Who tells it, in a word."""
    where: str
    text: str
    detail: str = ""
    """What else is known, line by line."""
    session_id: str | None = None


class Happenings:
    """What happened while this ctxtop ran: the newest, as many as are kept."""

    def __init__(self) -> None:
        self._events: Final[deque[Happening]] = deque(maxlen=KEPT)
        self._count = 0

    @property
    def all(self) -> tuple[Happening, ...]:
        """Oldest first."""
        return tuple(self._events)

    @property
    def count(self) -> int:
        """How many there ever were."""
        return self._count

    def add(
        self,
        at: int,
        weight: Weight,
        source: str,
        where: str,
        text: str,
        detail: str = "",
    ) -> None:
        """Keep another one; the oldest goes."""
        self._count += 1
        key = f"now {self._count}"
        self._events.append(
            Happening(key, at, weight, source, one_line(where), one_line(text), detail)
        )

    def add_problem(self, at: int, trouble: Trouble) -> None:
        """Note that something is in the way."""
        self.add(at, Weight.TROUBLE, "trouble", trouble.where, trouble.what, trouble.fix)

    def resolve_problem(self, at: int, place: str) -> None:
        """Note that a trouble is over."""
        self.add(at, Weight.NOTE, "trouble", place, "is over")

    def add_notice(self, at: int, notice: Trouble) -> None:
        """Note what the collector tells."""
        self.add(at, Weight.NOTE, "noted", notice.where, notice.what, notice.fix)

    def add_scan(self, at: int, progress: Progress, seconds: float) -> None:
        """Note that a scan has come to its end."""
        read = f"{progress.bytes_read / 1e6:,.1f} MB in {seconds:.1f} s"
        files = f"{progress.files_total:,} files"
        self.add(at, Weight.NOTE, "scan", files, f"read, {read}")


def in_order(happenings: Iterable[Happening], limit: int) -> list[Happening]:
    """Put the newest last, at most so many; what has no time comes first."""
    listed = sorted(happenings, key=lambda each: each.at or 0)
    return listed[-limit:]
