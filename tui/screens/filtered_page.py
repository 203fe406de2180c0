"""A page with one list that `/` filters."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.reactive import reactive

from ...core.transcript.sanitize import one_line
from ..widgets.filter_bar import FilterBar
from ..widgets.row_list import Rows
from .page import Page


class FilteredPage(Page):
    """`/` filters, Esc shows all again and then goes back; a subclass draws what matches."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "slash",
            "filter",
            "Filter",
            key_display="/",
            tooltip="show what has these words",
            id="filter",
        ),
    ]

    words: reactive[str] = reactive("")

    def draw(self) -> None:
        """Draw what matches, where the page is there already."""

    @property
    def is_filtered(self) -> bool:
        """Something keeps a part of the list from being shown."""
        return bool(self.words)

    def clear_filters(self) -> None:
        """Show all."""
        self.words = ""

    def action_filter(self) -> None:
        """Type what is looked for."""
        self.query_one(FilterBar).open(self.words)

    def action_leave(self) -> None:
        """Show all again, then go back."""
        if self.is_filtered:
            self.clear_filters()
            self._leave_bar()
        else:
            super().action_leave()

    @on(FilterBar.Typed)
    def _type(self, event: FilterBar.Typed) -> None:
        self.words = one_line(event.words)

    @on(FilterBar.Done)
    def _leave_bar(self) -> None:
        self.query_one(Rows).focus()
        self.query_one(FilterBar).display = bool(self.words)

    @on(FilterBar.Cleared)
    def _clear_bar(self) -> None:
        self.words = ""
        self._leave_bar()

    @on(Rows.RoomChanged)
    def _draw_for_room(self) -> None:
        self.draw()

    def watch_words(self) -> None:
        """Draw what matches."""
        self.draw()
