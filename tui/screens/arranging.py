"""How the list of sessions is arranged: the keys for it, and what is kept of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from textual.binding import Binding
from textual.reactive import reactive
from textual.screen import Screen

from ..selection import Arrangement, Order

if TYPE_CHECKING:
    from ..app import CtxtopApp


ARRANGING_KEYS: Final = (
    Binding("s", "sort", "Sort", tooltip="sort in another way; or click on a head", id="sort"),
    Binding(
        "o",
        "group",
        "Group",
        show=False,
        tooltip="organise: by project, or in one list",
        id="group",
    ),
    Binding(
        "space",
        "pick",
        "Mark",
        show=False,
        tooltip="mark with others: y copies all their ids",
        id="pick",
    ),
    Binding("b", "pin", "Pin", show=False, tooltip="bookmark: stays on top", id="pin"),
    Binding("left", "fold(True)", "Fold", show=False, tooltip="fold a project", id="fold"),
    Binding("right", "fold(False)", "Unfold", show=False, tooltip="unfold it", id="unfold"),
)


class Arranging(Screen[None]):
    """Changes an arrangement; a subclass says what is marked, and draws."""

    app: CtxtopApp

    arrangement: reactive[Arrangement] = reactive(Arrangement())

    @property
    def marked(self) -> str | None:
        """The id of the session that is marked."""
        return None

    @property
    def marked_project(self) -> str | None:
        """The project of the marked row, where it can be folded."""
        return None

    def draw(self) -> None:
        """Draw what has changed."""

    def restore_arrangement(self) -> None:
        """Arrange as at the last time."""
        kept = self.app.ui_state
        how = Arrangement(order=Order.from_word(kept.order), grouped=kept.grouped, pins=kept.pins)
        self.set_reactive(Arranging.arrangement, how)

    def watch_arrangement(self, before: Arrangement, now: Arrangement) -> None:
        """Draw in the new arrangement, and keep of it what is found again at the next start."""
        self.draw()
        if (before.order, before.grouped, before.pins) != (now.order, now.grouped, now.pins):
            self.app.update_ui_state(order=now.order.value, grouped=now.grouped, pins=now.pins)

    def sort_by(self, order: Order) -> None:
        """Sort by this; a second time gives the first order back."""
        self.arrangement = replace(
            self.arrangement, order=Order.ATTENTION if order is self.arrangement.order else order
        )

    def action_sort(self) -> None:
        """Sort the sessions in another way."""
        self.arrangement = replace(self.arrangement, order=self.arrangement.order.next)

    def action_group(self) -> None:
        """Put the sessions under their projects, or into one list."""
        self.arrangement = replace(self.arrangement, grouped=not self.arrangement.grouped)

    def action_fold(self, folded: bool) -> None:  # noqa: FBT001 -- an action's argument
        """Fold the project of the marked row, or unfold it."""
        if self.arrangement.grouped and self.marked_project is not None:
            self.arrangement = self.arrangement.with_folded(self.marked_project, folded=folded)

    def action_pick(self) -> None:
        """Mark a session together with others, or no longer."""
        if self.marked:
            self.arrangement = self.arrangement.toggle_selected(self.marked)

    def action_pin(self) -> None:
        """Keep a session on top, or let it go."""
        if self.marked:
            self.arrangement = self.arrangement.toggle_pinned(self.marked)
