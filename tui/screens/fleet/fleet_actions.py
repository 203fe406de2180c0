"""The fleet's keys and what they do to its list; and the zoom of every screen with panes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

from textual.css.types import Display
from textual.reactive import reactive
from textual.screen import Screen
from textual.widget import Widget

from ...keymap import bind, bind_hidden
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
    bind("c", "app.go('compact')", "Compact", "plan how to make this session smaller", "compact"),
    bind(
        "slash",
        "filter",
        "Filter",
        "filter sessions; in the summaries: search all",
        "filter",
        key_display="/",
    ),
    bind_hidden("p", "pause", "Pause", "stand still, or go on; nothing is missed", "pause"),
    bind_hidden("y", "copy", "Copy", "copy: ids of sessions, a result, a summary", "copy"),
    bind_hidden("z", "zoom", "Zoom", "this pane alone, or all", "zoom"),
    bind_hidden("1", "pane('sessions')", "Sessions", "sessions", "pane_1"),
    bind_hidden("2", "pane('agents')", "Agents", "agents", "pane_2"),
    bind_hidden("3", "pane('summaries')", "Summaries", "summaries", "pane_3"),
    bind_hidden("4", "pane('fills')", "Fills", "what fills it", "pane_4"),
    bind("u", "app.undo", "Undo", "take back what was done last", "undo"),
    bind_hidden(
        "escape",
        "back",
        "Back",
        "back: zoom, filter, marks, then to the sessions",
        "back",
        key_display="Esc",
    ),
)


ARRANGEMENT_KEYS: Final = (
    bind("s", "sort", "Sort", "sort in another way; or click on a head", "sort"),
    bind_hidden("o", "group", "Group", "organise: by project, or in one list", "group"),
    bind_hidden("space", "pick", "Mark", "mark with others: y copies all their ids", "pick"),
    bind_hidden("b", "pin", "Pin", "bookmark: stays on top", "pin"),
    bind_hidden("left", "fold(True)", "Fold", "fold a project", "fold"),
    bind_hidden("right", "fold(False)", "Unfold", "unfold it", "unfold"),
)


class ArrangementActions(Screen[None]):
    """Changes an arrangement; a subclass says what is marked, and draws."""

    app: Dashboard

    arrangement: reactive[SessionArrangement] = reactive(SessionArrangement())

    @property
    def marked(self) -> str | None:
        return None

    @property
    def marked_project(self) -> str | None:
        """The project of the marked row, where it can be folded."""
        return None

    def draw(self) -> None:
        pass

    def restore_arrangement(self) -> None:
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
        self.arrangement = replace(self.arrangement, order=self.arrangement.order.next)

    def action_group(self) -> None:
        self.arrangement = replace(self.arrangement, grouped=not self.arrangement.grouped)

    def action_fold(self, folded: bool) -> None:  # noqa: FBT001 -- an action's argument
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
