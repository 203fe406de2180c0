"""One line that says how things stand: live or paused, how many, how late, how many are full."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from ..formats import fit_right

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
    lag_s: float | None = None
    scan: str = ""
    """How far a scan has come; empty when none runs."""
    notes: str = ""
    """Filter and sort."""
    warnings: int = 0


class StatusLine(Widget):
    """The line at the top."""

    standing: reactive[Standing] = reactive(Standing())

    def render(self) -> RenderResult:
        """Write what matters most first; the warnings go to the right."""
        standing = self.standing
        width = self.size.width
        left = self._left(standing)
        right, style = self._right(standing)
        room = width - left.cell_length - 1
        if room < 1:
            return left.truncate(width)
        return left + Content.styled(fit_right(right, room) + " ", style)

    def _left(self, standing: Standing) -> Content:
        parts: list[tuple[str, str]] = [
            (f" {standing.source} ", "bold $accent"),
            (standing.state.value, _STYLES[standing.state]),
        ]
        if standing.scan:
            parts.append((f" · {standing.scan}", "$level-notice"))
        if standing.sessions is not None:
            word = "session" if standing.sessions == 1 else "sessions"
            parts.append((f" · {standing.sessions} {word}", "$foreground"))
            if standing.live:
                parts.append((f" · {standing.live} live", "$foreground"))
        if standing.lag_s is not None and not standing.scan:
            parts.append((f" · lag {max(0.0, standing.lag_s):.1f} s", "$quiet"))
        if standing.notes:
            parts.append((f" · {standing.notes}", "$quiet"))
        return Content.assemble(*parts)

    def _right(self, standing: Standing) -> tuple[str, str]:
        if standing.warnings:
            word = "warning" if standing.warnings == 1 else "warnings"
            return f"▲ {standing.warnings} {word}", "bold $level-warning"
        return "", "$quiet"
