"""One line that says how things stand: live or paused, how many, who waits, how late."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

if TYPE_CHECKING:
    from textual.app import RenderResult


class State(Enum):
    """Whether the screen follows what is written; the words, never the colour alone, tell."""

    LIVE = "live"
    PAUSED = "paused"
    STOPPED = "stopped"


_STYLES: Final = {
    State.LIVE: "$level-calm",
    State.PAUSED: "bold $level-warning",
    State.STOPPED: "bold $level-emergency",
}


@dataclass(frozen=True, slots=True)
class Standing:
    """What the line says."""

    source: str = "ctxtop"
    state: State = State.LIVE
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

    status: reactive[Standing] = reactive(Standing())

    def render(self) -> RenderResult:
        """Write what matters most first; who waits and what is full go to the right."""
        width = self.size.width
        right = _right(self.status)
        left = left_words(self.status, width - right.cell_length - 2)
        room = width - left.cell_length - right.cell_length - 1
        if room < 1:
            return left.truncate(width)
        return left + Content(" " * room) + right + " "


def left_words(standing: Standing, room: int) -> Content:
    """Write how things stand in so many cells; what matters least is left out first."""
    parts: list[tuple[str, str]] = [
        (f" {standing.source} ", "bold $accent"),
        (standing.state.value, _STYLES[standing.state]),
    ]
    told = sum(len(words) for words, _ in parts)
    for words, style in _counts(standing):
        if words and told + len(words) + 3 <= room:
            parts.append((f" · {words}", style))
            told += len(words) + 3
    return Content.assemble(*parts)


def _counts(standing: Standing) -> list[tuple[str, str]]:
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


def _right(standing: Standing) -> Content:
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
