"""One pane that has all the room for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.screen import Screen

if TYPE_CHECKING:
    from textual.css.types import Display
    from textual.widget import Widget


class Zooming(Screen[None]):
    """A screen of panes; Textual's own maximizing would style all of it anew, twice."""

    ZOOMED_PANES: ClassVar[str] = ""
    """Selects the panes, and what holds some of them."""

    zoomed: Widget | None = None
    """The pane that has all the room."""

    def zoom(self, pane: Widget | None) -> None:
        """Give a pane the room of all; with None each is shown again as the stylesheet says."""
        self.zoomed = pane
        for each in self.query(self.ZOOMED_PANES):
            each.styles.inline.display = _display_of(each, pane) if pane else None


def _display_of(each: Widget, pane: Widget) -> Display:
    return "block" if each in pane.ancestors_with_self else "none"
