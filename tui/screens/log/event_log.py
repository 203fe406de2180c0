"""The events since ctxtop was started, and an event as a line of the log."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ....core.model.filter_language import fields_filter
from ....core.transcript.sanitize import one_line
from ...notifications import EventSeverity
from ...ui_state import CycleEnum

if TYPE_CHECKING:
    from ....collectors.claude_code.scan_progress import ScanProgress
    from ....core.model.problem import Problem


MAX_EVENTS: Final = 1000
"""Of what happened while this ctxtop ran: a line each, some hundred kilobytes in all."""


@dataclass(frozen=True, slots=True)
class LogEvent:
    """One entry of the log; its words hold nothing that a terminal could obey."""

    key: str
    at: int | None
    """In ms since 1970; None where nothing says when."""
    weight: EventSeverity
    source: str
    """Who tells it, in a word."""
    where: str
    text: str
    detail: str = ""
    """What else is known, line by line."""
    session_id: str | None = None


class EventLog:
    """What happened while this ctxtop ran: the newest, as many as are kept."""

    def __init__(self) -> None:
        self._events: Final[deque[LogEvent]] = deque(maxlen=MAX_EVENTS)
        self._count = 0

    @property
    def all(self) -> tuple[LogEvent, ...]:
        """Oldest first."""
        return tuple(self._events)

    @property
    def count(self) -> int:
        """How many there ever were."""
        return self._count

    def add(
        self,
        at: int,
        weight: EventSeverity,
        source: str,
        where: str,
        text: str,
        detail: str = "",
    ) -> None:
        """Keep another one; the oldest goes."""
        self._count += 1
        key = f"now {self._count}"
        self._events.append(
            LogEvent(key, at, weight, source, one_line(where), one_line(text), detail)
        )

    def add_problem(self, at: int, trouble: Problem) -> None:
        """Note that something is in the way."""
        self.add(at, EventSeverity.TROUBLE, "trouble", trouble.where, trouble.what, trouble.fix)

    def resolve_problem(self, at: int, place: str) -> None:
        """Note that a trouble is over."""
        self.add(at, EventSeverity.NOTE, "trouble", place, "is over")

    def add_notice(self, at: int, notice: Problem) -> None:
        """Note what the collector tells."""
        self.add(at, EventSeverity.NOTE, "noted", notice.where, notice.what, notice.fix)

    def add_scan(self, at: int, progress: ScanProgress, seconds: float) -> None:
        """Note that a scan has come to its end."""
        read = f"{progress.bytes_read / 1e6:,.1f} MB in {seconds:.1f} s"
        files = f"{progress.files_total:,} files"
        self.add(at, EventSeverity.NOTE, "scan", files, f"read, {read}")


def newest_events(happenings: Iterable[LogEvent], limit: int) -> list[LogEvent]:
    """Put the newest last, at most so many; what has no time comes first."""
    listed = sorted(happenings, key=lambda each: each.at or 0)
    return listed[-limit:]


WEIGHT_SIGNS: Final = {
    EventSeverity.NOTE: ("·", "$quiet"),
    EventSeverity.WARNING: ("▲", "$level-warning"),
    EventSeverity.TROUBLE: ("✗", "bold $level-emergency"),
}
"""How bad an entry is: never told by colour alone."""


class LogLevel(CycleEnum):
    """Which entries are shown."""

    ALL = EventSeverity.NOTE
    WARNINGS = EventSeverity.WARNING
    TROUBLES = EventSeverity.TROUBLE

    @property
    def label(self) -> str:
        """Name it for a person; empty for all."""
        return "" if self is LogLevel.ALL else f"{self.name.lower()} only"


def filter_events(entries: Iterable[LogEvent], filter_text: str, level: LogLevel) -> list[LogEvent]:
    """Choose the entries that are bad enough and meet the filter."""
    is_wanted = fields_filter(filter_text)
    return [
        each
        for each in entries
        if each.weight >= level.value
        and is_wanted({"": f"{each.source} {each.where} {each.text} {each.detail}".casefold()})
    ]
