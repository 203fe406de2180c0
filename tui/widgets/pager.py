"""What is longer than its place, moved through with the keys of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.containers import VerticalScroll

from ..moving_keys import PAGER, moving_keys

if TYPE_CHECKING:
    from textual.binding import BindingType


class Pager(VerticalScroll, inherit_bindings=False):
    """Scrolls by a line, by a page, or to an end."""

    BINDINGS: ClassVar[list[BindingType]] = [*moving_keys()]

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

    BINDINGS: ClassVar[list[BindingType]] = [*moving_keys(PAGER)]
