"""The tabs of a page in one line; a click opens one. Their keys are the page's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from textual import events
from textual.content import Content
from textual.message import Message
from textual.style import Style
from textual.widget import Widget

TAB_GAP: Final = "  "

_TAB_META: Final = "tab"


class TabBar(Widget):
    """Names the tabs; the one that is shown stands out, not by colour alone."""

    DEFAULT_CSS = """
    TabBar { height: 1; padding: 0 1; text-wrap: nowrap; }
    """

    @dataclass
    class Chosen(Message):
        """A person wants to see a tab."""

        place: int

    def __init__(self, keys: Sequence[str] = (), *, id: str) -> None:  # noqa: A002 -- Textual's
        """`keys` are written before the names, where these do not name them."""
        super().__init__(id=id)
        self._keys: Final = tuple(f"{key} " for key in keys)
        self._shown: tuple[int, tuple[tuple[str, ...], ...], str] = (0, (), "")

    def show(self, active: int, *names: Sequence[str], note: str = "") -> None:
        """Show the first of these names for which there is room, and a note at the right."""
        shown = (active, tuple(map(tuple, names)), note)
        if shown != self._shown:
            self._shown = shown
            self.refresh()

    def render(self) -> Content:
        """Draw the line."""
        _, names, note = self._shown
        tabs, width = Content(""), self.size.width
        for each in names:
            tabs = self._draw_tabs(each)
            if tabs.cell_length <= width:
                break
        room = max(0, width - tabs.cell_length - len(TAB_GAP))
        said = Content.styled(note, "$quiet").truncate(room)
        return tabs + " " * (width - tabs.cell_length - said.cell_length) + said

    def _draw_tabs(self, names: Sequence[str]) -> Content:
        active = self._shown[0]
        keys = self._keys or ("",) * len(names)
        return Content(TAB_GAP).join(
            Content.assemble(
                (key, "$accent" if place == active else "$quiet"),
                (name, "bold underline $foreground" if place == active else "$quiet"),
            ).stylize(Style.from_meta({_TAB_META: place}))
            for place, (key, name) in enumerate(zip(keys, names, strict=True))
        )

    def on_click(self, event: events.Click) -> None:
        """Open the tab under the mouse."""
        place = event.style.meta.get(_TAB_META)
        if isinstance(place, int):
            self.post_message(self.Chosen(place))
