"""The lines at the top: the state of the feed and its counts, and problems while they last."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Static

from ...core.transcript.sanitize import one_line

if TYPE_CHECKING:
    from textual.app import RenderResult

    from ...core.model.problem import Problem


class FeedState(Enum):
    """Whether the screen follows what is written; the words, never the colour alone, tell."""

    LIVE = "live"
    PAUSED = "paused"
    STOPPED = "stopped"


_FEED_STATE_STYLES: Final = {
    FeedState.LIVE: "$level-calm",
    FeedState.PAUSED: "bold $level-warning",
    FeedState.STOPPED: "bold $level-emergency",
}


@dataclass(frozen=True, slots=True)
class FleetStatus:
    """What the line says."""

    source: str = "ctxtop"
    state: FeedState = FeedState.LIVE
    sessions: int | None = None
    live: int = 0
    working: int = 0
    waiting: int = 0
    lag_s: float | None = None
    scan: str = ""
    """How far a scan has come; empty when none runs."""
    notes: str = ""
    """Filter, marks."""
    warnings: int = 0


class StatusLine(Widget):
    """The line at the top."""

    status: reactive[FleetStatus] = reactive(FleetStatus())

    def render(self) -> RenderResult:
        """Write what matters most first; who waits and what is full go to the right."""
        width = self.size.width
        right = _right_text(self.status)
        left = left_text(self.status, width - right.cell_length - 2)
        room = width - left.cell_length - right.cell_length - 1
        if room < 1:
            return left.truncate(width)
        return left + Content(" " * room) + right + " "


def left_text(standing: FleetStatus, room: int) -> Content:
    """Write how things stand in so many cells; what matters least is left out first."""
    parts: list[tuple[str, str]] = [
        (f" {standing.source} ", "bold $accent"),
        (standing.state.value, _FEED_STATE_STYLES[standing.state]),
    ]
    told = sum(len(words) for words, _ in parts)
    for words, style in _status_counts(standing):
        if words and told + len(words) + 3 <= room:
            parts.append((f" · {words}", style))
            told += len(words) + 3
    return Content.assemble(*parts)


def _status_counts(standing: FleetStatus) -> list[tuple[str, str]]:
    sessions = standing.sessions
    lag = standing.lag_s
    return [
        (standing.scan, "$level-notice"),
        ("" if sessions is None else _count(sessions, "session"), "$foreground"),
        (standing.notes, "$level-notice"),
        (f"{standing.live} live" if standing.live else "", "$foreground"),
        (f"{standing.working} working" if standing.working else "", "$foreground"),
        ("" if lag is None or standing.scan else f"lag {max(0.0, lag):.1f} s", "$quiet"),
    ]


def _right_text(standing: FleetStatus) -> Content:
    waiting, warnings = standing.waiting, standing.warnings
    parts: list[tuple[str, str]] = []
    if waiting:
        verb = "waits" if waiting == 1 else "wait"
        parts.append((f"▲ {waiting} {verb} for you", "bold $level-warning"))
    if warnings:
        gap = "   " if parts else ""
        parts.append((f"{gap}{_count(warnings, 'warning')}", "bold $level-high"))
    return Content.assemble(*parts)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


class ProblemLine(Static):
    """Shows the newest trouble in lines of its own: a path alone can be longer than one."""

    def __init__(self) -> None:
        super().__init__(id="trouble", markup=False)
        self._troubles: dict[str, Problem] = {}
        self.display = False

    def show_problem(self, trouble: Problem) -> None:
        """Show a trouble."""
        self._troubles.pop(trouble.where, None)
        self._troubles[trouble.where] = trouble
        self._draw()

    def resolve(self, place: str) -> None:
        """Forget a trouble."""
        if self._troubles.pop(place, None):
            self._draw()

    def _draw(self) -> None:
        newest = next(reversed(self._troubles.values()), None)
        self.display = newest is not None
        others = len(self._troubles) - 1
        more = f" (and {others} more)" if others > 0 else ""
        self.update(Content(one_line(f"✗ {newest}{more}")))
