"""A page's breadcrumbs at its head, and the line of keys at its foot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from rich.cells import cell_len
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.style import Style
from textual.widget import Widget

from ...core.transcript.sanitize import one_line
from ..text.formats import shorten_middle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events
    from textual.app import RenderResult
    from textual.screen import Screen


SEPARATOR: Final = " › "

MIN_CRUMB_CELLS: Final = 6
"""Cells of a crumb: less names nothing."""

_CRUMB_META: Final = "crumb"


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
        crumbs = shorten_crumbs(self.path, self.size.width - 2)
        last = len(crumbs) - 1
        parts = [
            Content.styled(
                crumb,
                Style.parse("bold $foreground" if place == last else "$quiet")
                + Style.from_meta({_CRUMB_META: place}),
            )
            for place, crumb in enumerate(crumbs)
        ]
        return Content(" ") + Content.styled(SEPARATOR, "$quiet").join(parts)

    def on_click(self, event: events.Click) -> None:
        """Ask for the crumb's page, but for the one that one is on."""
        place = event.style.meta.get(_CRUMB_META)
        if isinstance(place, int) and place < len(self.path) - 1:
            self.post_message(self.Chosen(place))


def shorten_crumbs(path: Sequence[str], cells: int) -> list[str]:
    """Cut the longest crumbs until all fit; what none can spare is cut at the end."""
    crumbs = [one_line(crumb) for crumb in path]
    room = cells - cell_len(SEPARATOR) * (len(crumbs) - 1)
    widths = [cell_len(crumb) for crumb in crumbs]
    while sum(widths) > room and max(widths) > MIN_CRUMB_CELLS:
        widest = max(widths)
        rest = max([width for width in widths if width < widest], default=MIN_CRUMB_CELLS)
        count = widths.count(widest)
        # All of the widest at once, down to the next: a title may have a million characters.
        least = max(rest, MIN_CRUMB_CELLS, widest - -(-(sum(widths) - room) // count))
        widths = [least if width == widest else width for width in widths]
    return [shorten_middle(crumb, width) for crumb, width in zip(crumbs, widths, strict=True)]


_KEY_CLASS: Final = "key-line--key"
_DESCRIPTION_CLASS: Final = "key-line--words"
_HOVERED_CLASS: Final = "key-line--hovered"


@dataclass(frozen=True, slots=True)
class FooterKey:
    """One key of the line, and where it stands."""

    key: str
    display: str
    description: str
    action: str
    tooltip: str
    is_enabled: bool
    start: int
    """Cells before it."""

    @property
    def key_text(self) -> str:
        """The key itself, with the blanks around it."""
        return f" {self.display} "

    @property
    def width(self) -> int:
        """Cells that it takes."""
        return Content(f"{self.key_text}{self.description} ").cell_length


class KeyLine(Widget):
    """The keys that can be pressed now, as one text: a click presses one.

    Textual's footer has a widget for each. All are mounted, styled and laid out anew, and the
    whole screen drawn, whenever the focus moves: half of what Tab took.
    """

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {_KEY_CLASS, _DESCRIPTION_CLASS, _HOVERED_CLASS}

    keys: reactive[tuple[FooterKey, ...]] = reactive(())
    hovered: reactive[FooterKey | None] = reactive(None)

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self.take_keys)

    def take_keys(self, screen: Screen[object]) -> None:
        """Show the keys that a screen has, but not those of a terminal that was left."""
        if not screen.app.app_focus or screen is not self.screen:
            return
        found: dict[str, FooterKey] = {}
        start = 0
        for _, binding, enabled, tooltip in screen.active_bindings.values():
            if not binding.show or binding.action in found:
                continue
            shown = FooterKey(
                binding.key,
                self.app.get_key_display(binding),
                binding.description,
                binding.action,
                tooltip,
                enabled,
                start,
            )
            found[binding.action] = shown
            start += shown.width
        self.keys = tuple(found.values())

    def render(self) -> Content:
        """Write all keys into one line."""
        return Content("").join(map(self._drawn, self.keys))

    def _drawn(self, shown: FooterKey) -> Content:
        drawn = Content.assemble(
            (shown.key_text, self.get_visual_style(_KEY_CLASS)),
            (f"{shown.description} ", self.get_visual_style(_DESCRIPTION_CLASS)),
        )
        if shown == self.hovered:
            drawn = drawn.stylize(
                Style(background=self.get_visual_style(_HOVERED_CLASS).background)
            )
        return drawn if shown.is_enabled else drawn.stylize(Style(dim=True))

    def key_at(self, x: int) -> FooterKey | None:
        """Return the key at a cell, None if there is none."""
        found = (each for each in self.keys if each.start <= x < each.start + each.width)
        return next(found, None)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Press the key under the mouse."""
        shown = self.key_at(event.x)
        if shown is None:
            return
        if shown.is_enabled:
            self.app.simulate_key(shown.key)
        else:
            self.app.bell()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Show what the key under the mouse does."""
        self.hovered = self.key_at(event.x)

    def on_leave(self) -> None:
        """No key is under the mouse any more."""
        self.hovered = None

    def watch_hovered(self, hovered: FooterKey | None) -> None:
        self.tooltip = hovered.tooltip if hovered and hovered.tooltip else None
