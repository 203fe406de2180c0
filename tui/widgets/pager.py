"""The keys that move through rows and lines, and a pager that scrolls by them."""

from __future__ import annotations

from typing import ClassVar, Final

from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll


def movement_bindings(page_down: str = "ctrl+d,pagedown") -> tuple[Binding, ...]:
    """Bind the actions move(rows), page(pages) and edge(0 or -1); a pager's space may be added."""
    return (
        Binding("j,down", "move(1)", "Down", show=False, tooltip="down", id="down"),
        Binding("k,up", "move(-1)", "Up", show=False, tooltip="up", id="up"),
        Binding("g,home", "edge(0)", "First", show=False, tooltip="first", id="first"),
        Binding("G,end", "edge(-1)", "Last", show=False, tooltip="last", id="last"),
        Binding(
            page_down, "page(1)", "Page down", show=False, tooltip="a page down", id="page_down"
        ),
        Binding(
            "ctrl+u,pageup", "page(-1)", "Page up", show=False, tooltip="a page up", id="page_up"
        ),
    )


PAGER_PAGE_DOWN_KEYS: Final = "ctrl+d,pagedown,space"
"""The keys for a page down where the space marks nothing."""


class Pager(VerticalScroll, inherit_bindings=False):
    """Scrolls by a line, by a page, or to an end."""

    BINDINGS: ClassVar[list[BindingType]] = [*movement_bindings()]

    def action_move(self, by: int) -> None:
        """Scroll by a line."""
        self.scroll_relative(y=by, animate=False)

    def action_page(self, by: int) -> None:
        """Scroll by a page."""
        self.scroll_relative(y=by * self.scrollable_content_region.height, animate=False)

    def action_edge(self, place: int) -> None:
        """Scroll to an end."""
        if place:
            self.scroll_end(animate=False)
        else:
            self.scroll_home(animate=False)


class Reader(Pager, inherit_bindings=False):
    """A pager where the space marks nothing, and so goes on as in less."""

    BINDINGS: ClassVar[list[BindingType]] = [*movement_bindings(PAGER_PAGE_DOWN_KEYS)]
