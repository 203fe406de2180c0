"""The fleet's keys and what they do to its list; and the zoom of every screen with panes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

from textual.binding import Binding
from textual.css.types import Display
from textual.reactive import reactive
from textual.screen import Screen
from textual.widget import Widget

from .session_arrangement import SessionArrangement, SessionOrder

if TYPE_CHECKING:
    from ...dashboard import Dashboard


class ZoomableScreen(Screen[None]):
    """A screen of panes; Textual's own maximizing would style all of it anew, twice."""

    ZOOMED_PANES: ClassVar[str] = ""  # selects the panes, and what holds some of them

    zoomed: Widget | None = None  # the pane that has all the room

    def zoom(self, pane: Widget | None) -> None:
        """Zoom in on `pane`; None restores the stylesheet's layout."""
        self.zoomed = pane
        for each in self.query(self.ZOOMED_PANES):
            each.styles.inline.display = _display_of(each, pane) if pane else None


def _display_of(each: Widget, pane: Widget) -> Display:
    return "block" if each in pane.ancestors_with_self else "none"


FLEET_KEYS: Final = (
    Binding(
        "c",
        "app.go('compact')",
        "Compact",
        tooltip="plan how to make this session smaller",
        id="compact",
    ),
    Binding(
        "slash",
        "filter",
        "Filter",
        key_display="/",
        tooltip="filter sessions; in the summaries: search all",
        id="filter",
    ),
    Binding(
        "p",
        "pause",
        "Pause",
        show=False,
        tooltip="stand still, or go on; nothing is missed",
        id="pause",
    ),
    Binding(
        "y",
        "copy",
        "Copy",
        show=False,
        tooltip="copy: ids of sessions, a result, a summary",
        id="copy",
    ),
    Binding("z", "zoom", "Zoom", show=False, tooltip="this pane alone, or all", id="zoom"),
    Binding("1", "pane('sessions')", "Sessions", show=False, tooltip="sessions", id="pane_1"),
    Binding("2", "pane('agents')", "Agents", show=False, tooltip="agents", id="pane_2"),
    Binding("3", "pane('summaries')", "Summaries", show=False, tooltip="summaries", id="pane_3"),
    Binding("4", "pane('fills')", "Fills", show=False, tooltip="what fills it", id="pane_4"),
    Binding("u", "app.undo", "Undo", tooltip="take back what was done last", id="undo"),
    Binding(
        "escape",
        "back",
        "Back",
        show=False,
        key_display="Esc",
        tooltip="back: zoom, filter, marks, then to the sessions",
        id="back",
    ),
)


ARRANGEMENT_KEYS: Final = (
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


class ArrangementActions(Screen[None]):
    """Changes an arrangement; a subclass says what is marked, and draws."""

    app: Dashboard

    arrangement: reactive[SessionArrangement] = reactive(SessionArrangement())

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
        how = SessionArrangement(
            order=SessionOrder.from_word(kept.order), grouped=kept.grouped, pins=kept.pins
        )
        self.set_reactive(ArrangementActions.arrangement, how)

    def watch_arrangement(self, before: SessionArrangement, now: SessionArrangement) -> None:
        """Draw in the new arrangement, and keep of it what is found again at the next start."""
        self.draw()
        if (before.order, before.grouped, before.pins) != (now.order, now.grouped, now.pins):
            self.app.update_ui_state(order=now.order.value, grouped=now.grouped, pins=now.pins)

    def sort_by(self, order: SessionOrder) -> None:
        """Sort by this; a second time gives the first order back."""
        self.arrangement = replace(
            self.arrangement,
            order=SessionOrder.ATTENTION if order is self.arrangement.order else order,
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
