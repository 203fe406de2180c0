"""The parts of a page in a line: the keys that open them, and which one is open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from textual.content import Content
from textual.message import Message
from textual.widget import Widget

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events

NUMBER: Final = 2
"""Cells of a part's key, and the space after it."""

GAP: Final = 2


class SectionBar(Widget):
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
                " " * GAP,
            )
            for place, text in enumerate(self._texts())
        )

    def on_click(self, event: events.Click) -> None:
        """Open the part under the mouse."""
        end = 0
        for place, text in enumerate(self._texts()):
            end += len(text) + NUMBER + GAP
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
            if sum(len(text) + NUMBER + GAP for text in texts) - GAP <= self.size.width:
                return texts
        return [*self._short]
