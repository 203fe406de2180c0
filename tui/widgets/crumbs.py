"""Where a page stands: the way to it, each step of which leads back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.style import Style
from textual.widget import Widget

from ..formats import middle, one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events
    from textual.app import RenderResult

BETWEEN: Final = " › "

SHORTEST: Final = 6
"""Cells of a crumb: less names nothing."""

_META: Final = "crumb"


class Crumbs(Widget):
    """One line; a click at a crumb asks for its page."""

    path: reactive[tuple[str, ...]] = reactive(())

    @dataclass
    class Chosen(Message):
        """A person wants to go back to a crumb's page."""

        place: int
        """Of the crumb, from 0."""

    def __init__(self, path: tuple[str, ...]) -> None:
        super().__init__(classes="crumbs")
        self.set_reactive(Crumbs.path, path)

    def render(self) -> RenderResult:
        """Write them in the room that there is; the last one, where one is, stands out."""
        crumbs = shorten(self.path, self.size.width - 2)
        last = len(crumbs) - 1
        parts = [
            Content.styled(
                crumb,
                Style.parse("bold $foreground" if place == last else "$quiet")
                + Style.from_meta({_META: place}),
            )
            for place, crumb in enumerate(crumbs)
        ]
        return Content(" ") + Content.styled(BETWEEN, "$quiet").join(parts)

    def on_click(self, event: events.Click) -> None:
        """Ask for the crumb's page, but for the one that one is on."""
        place = event.style.meta.get(_META)
        if isinstance(place, int) and place < len(self.path) - 1:
            self.post_message(self.Chosen(place))


def shorten(path: Sequence[str], cells: int) -> list[str]:
    """Cut the longest crumbs until all fit; what none can spare is cut at the end."""
    crumbs = [one_line(crumb) for crumb in path]
    room = cells - cell_len(BETWEEN) * (len(crumbs) - 1)
    widths = [cell_len(crumb) for crumb in crumbs]
    while sum(widths) > room and max(widths) > SHORTEST:
        widest = max(widths)
        rest = max([width for width in widths if width < widest], default=SHORTEST)
        count = widths.count(widest)
        # All of the widest at once, down to the next: a title may have a million characters.
        least = max(rest, SHORTEST, widest - -(-(sum(widths) - room) // count))
        widths = [least if width == widest else width for width in widths]
    return [middle(crumb, width) for crumb, width in zip(crumbs, widths, strict=True)]
