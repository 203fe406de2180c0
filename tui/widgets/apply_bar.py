"""What can be done with a plan, and how far it has come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Button, Static

from ..formats import middle, one_line
from ..plan_words import what_to_do

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from ...core.compaction.plan import Refusal

ASK: Final = "Ask Claude Code to /compact"
ASK_SHORT: Final = "Ask to /compact"

WIDE: Final = 84
"""Cells from which on there is room for all of it."""

FOUR: Final = 72
"""Cells from which on there is room for four buttons; Esc leaves it alone everywhere."""

_DOING: Final = {
    "copy": ("keeping a copy", "copied"),
    "write": ("writing", "written"),
    "verify": ("verifying", "verified"),
    "put": ("putting it in its place", "in its place"),
}
"""By the stage: while it goes on, and when it is over."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What may be done now."""

    can_apply: bool
    in_place: Refusal | None
    """Why not in the session itself; None where that may be."""
    running: str | None
    """What is being done already."""
    stages: tuple[str, ...]
    problem: str


class ApplyBar(Vertical):
    """Four buttons, and a line that says why one is grey or how far it has come."""

    def compose(self) -> ComposeResult:
        """Lay out the buttons above the line."""
        with Horizontal(id="do"):
            yield Button("Write a fork", id="fork", variant="primary", compact=True)
            yield Button("Write in place", id="in_place", compact=True)
            yield Button(ASK, id="ask", compact=True)
            yield Button("Leave it alone", id="leave", compact=True)
        yield Static(id="why")

    def on_resize(self) -> None:
        """Say less where there is no room for all."""
        width = self.size.width
        self.query_one("#ask", Button).label = ASK if width >= WIDE else ASK_SHORT
        self.query_one("#leave", Button).display = width >= FOUR

    def show(self, state: Standing) -> None:
        """Show what may be done now."""
        can = state.can_apply and state.running is None
        self.query_one("#fork", Button).disabled = not can
        self.query_one("#in_place", Button).disabled = not can or state.in_place is not None
        self.query_one("#ask", Button).disabled = state.running is not None
        self.query_one("#why", Static).update(standing_line(state, self.size.width - 2))


def standing_line(state: Standing, width: int) -> Content:
    """Say how far it has come, what went wrong, or why it is not to be done in place."""
    if state.running is not None:
        return _progress(state)
    if state.problem:
        return Content.styled(f"✗ {one_line(state.problem)}", "bold $level-warning")
    if state.in_place is not None:
        why = f"not in place: {state.in_place.why}; {what_to_do(state.in_place)}"
        return Content.styled(middle(one_line(why), max(0, width)), "$quiet")
    return Content("")


def _progress(standing: Standing) -> Content:
    if not standing.stages:
        return Content.styled(f"{standing.running} …", "$accent")
    *over, now = standing.stages
    done = "".join(f"✓ {_DOING[each][1]}  " for each in over)
    return Content.styled(done, "$level-calm") + Content.styled(f"… {_DOING[now][0]}", "$accent")
