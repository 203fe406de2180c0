"""The parts of a page in a line: the keys that open them, and which one is open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.content import Content
from textual.message import Message
from textual.widget import Widget

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events


class SectionBar(Widget):
    """Shows the parts' names; a click opens one. The keys are the page's."""

    @dataclass
    class Chosen(Message):
        """A person wants to see a part."""

        place: int

    def __init__(self, names: Sequence[str], *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._names = tuple(names)
        self._counts: tuple[str, ...] = ("",) * len(self._names)
        self._open = 0

    def show(self, place: int, counts: Sequence[str]) -> None:
        """Show which one is open, and what each holds."""
        if (place, tuple(counts)) != (self._open, self._counts):
            self._open, self._counts = place, tuple(counts)
            self.refresh()

    def render(self) -> Content:
        """Draw the line."""
        return Content("").join(
            Content.assemble(
                (f" {place + 1} ", "$accent" if place == self._open else "$quiet"),
                (text, "bold underline $foreground" if place == self._open else "$quiet"),
                " ",
            )
            for place, text in enumerate(self._texts())
        )

    def on_click(self, event: events.Click) -> None:
        """Open the part under the mouse."""
        end = 0
        for place, text in enumerate(self._texts()):
            end += len(text) + 4
            if event.x < end:
                self.post_message(self.Chosen(place))
                return

    def _texts(self) -> list[str]:
        """Name the parts, with what they hold where there is room."""
        named = [
            f"{name} {count}" if count else name
            for name, count in zip(self._names, self._counts, strict=True)
        ]
        room = self.size.width
        return named if sum(len(text) + 4 for text in named) <= room else list(self._names)
