"""The tabs of a page in one line: with number keys on a session's page, as names on the agents'."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Static

NUMBER_CELLS: Final = 2
"""Cells of a part's key, and the space after it."""

TAB_GAP: Final = 2


class NumberedTabBar(Widget):
    """Shows the parts' names; a click opens one. The keys are the page's."""

    @dataclass
    class Chosen(Message):
        """A person wants to see a part."""

        place: int

    def __init__(
        self,
        names: Sequence[str],
        short: Sequence[str],
        *,
        id: str | None = None,  # noqa: A002 -- Textual's
    ) -> None:
        super().__init__(id=id)
        self._names = tuple(names)
        self._short = tuple(short)
        self._counts: tuple[str, ...] = ("",) * len(self._names)
        self._active = 0

    def show(self, place: int, counts: Sequence[str]) -> None:
        """Show which one is open, and what each holds."""
        if (place, tuple(counts)) != (self._active, self._counts):
            self._active, self._counts = place, tuple(counts)
            self.refresh()

    def render(self) -> Content:
        """Draw the line."""
        return Content("").join(
            Content.assemble(
                (f"{place + 1} ", "$accent" if place == self._active else "$quiet"),
                (text, "bold underline $foreground" if place == self._active else "$quiet"),
                " " * TAB_GAP,
            )
            for place, text in enumerate(self._texts())
        )

    def on_click(self, event: events.Click) -> None:
        """Open the part under the mouse."""
        end = 0
        for place, text in enumerate(self._texts()):
            end += len(text) + NUMBER_CELLS + TAB_GAP
            if event.x < end:
                self.post_message(self.Chosen(place))
                return

    def _texts(self) -> list[str]:
        """Name the parts, with what they hold where there is room."""
        named = [
            f"{name} {count}" if count else name
            for name, count in zip(self._names, self._counts, strict=True)
        ]
        for texts in (named, list(self._names)):
            if (
                sum(len(text) + NUMBER_CELLS + TAB_GAP for text in texts) - TAB_GAP
                <= self.size.width
            ):
                return texts
        return [*self._short]


class TabName(Static):
    """One of them."""

    @dataclass
    class Clicked(Message):
        """A person wants to see this tab."""

        name: str

    def on_click(self) -> None:
        self.post_message(self.Clicked(self.name or ""))


class NamedTabBar(Horizontal):
    """Names with their numbers; the one that is shown stands out, not by colour alone."""

    DEFAULT_CSS = """
    NamedTabBar {
        height: 1;
        TabName { width: auto; padding: 0 1; color: $quiet; }
        TabName.-shown { color: $foreground; text-style: bold underline; }
        #note { width: 1fr; text-align: right; color: $quiet; padding: 0 1; text-wrap: nowrap; }
    }
    """

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(id="tabs")
        self._names = tuple(names)
        self._shown: tuple[object, ...] = ()

    def compose(self) -> ComposeResult:
        """Lay out the names and the note."""
        for name in self._names:
            yield TabName(name=name, markup=False)
        yield Static(id="note", markup=False)

    def show(self, shown: str, labels: Sequence[str], note: str) -> None:
        """Write each name's words; `shown` is the one to stand out."""
        if (said_now := (shown, *labels, note)) == self._shown:
            return
        self._shown = said_now
        for tab, said in zip(self.query(TabName), labels, strict=True):
            tab.update(Content(said))
            tab.set_class(tab.name == shown, "-shown")
        self.query_one("#note", Static).update(Content(note))
