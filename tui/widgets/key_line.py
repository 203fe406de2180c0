"""The line of keys at the foot of every screen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from textual.content import Content
from textual.reactive import reactive
from textual.style import Style
from textual.widget import Widget

if TYPE_CHECKING:
    from textual import events
    from textual.screen import Screen

_KEY: Final = "key-line--key"
_WORDS: Final = "key-line--words"
_HOVERED: Final = "key-line--hovered"


@dataclass(frozen=True, slots=True)
class ShownKey:
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
    COMPONENT_CLASSES: ClassVar[set[str]] = {_KEY, _WORDS, _HOVERED}

    keys: reactive[tuple[ShownKey, ...]] = reactive(())
    hovered: reactive[ShownKey | None] = reactive(None)

    def on_mount(self) -> None:
        """Hear of every change of the keys."""
        self.screen.bindings_updated_signal.subscribe(self, self.take_keys)

    def take_keys(self, screen: Screen[object]) -> None:
        """Show the keys that a screen has, but not those of a terminal that was left."""
        if not screen.app.app_focus or screen is not self.screen:
            return
        found: dict[str, ShownKey] = {}
        start = 0
        for _, binding, enabled, tooltip in screen.active_bindings.values():
            if not binding.show or binding.action in found:
                continue
            shown = ShownKey(
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

    def _drawn(self, shown: ShownKey) -> Content:
        drawn = Content.assemble(
            (shown.key_text, self.get_visual_style(_KEY)),
            (f"{shown.description} ", self.get_visual_style(_WORDS)),
        )
        if shown == self.hovered:
            drawn = drawn.stylize(Style(background=self.get_visual_style(_HOVERED).background))
        return drawn if shown.is_enabled else drawn.stylize(Style(dim=True))

    def key_at(self, x: int) -> ShownKey | None:
        """Say which key stands at a cell."""
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

    def watch_hovered(self, hovered: ShownKey | None) -> None:
        """Tell more of it than its word."""
        self.tooltip = hovered.tooltip if hovered and hovered.tooltip else None
