"""A number that is chosen by sliding: keys, click and drag."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from rich.cells import cell_len
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from ..formats import fit
from ..sliding import track

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual import events

    from ..sliding import Scale

LARGE: Final = 5
"""Steps at once."""

SHORTEST: Final = 4
LONGEST: Final = 24
"""Cells of a track; a longer one is not set more exactly."""


class Slider(Widget, can_focus=True):
    """Shows its name, its track and its value in words, in one line."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "slide(-1)", "Less", show=False, tooltip="less", id="lower"),
        Binding("right,l", "slide(1)", "More", show=False, tooltip="more", id="higher"),
        Binding(
            "shift+left,H",
            f"slide({-LARGE})",
            "Much less",
            show=False,
            tooltip="much less",
            id="much_lower",
        ),
        Binding(
            "shift+right",
            f"slide({LARGE})",
            "Much more",
            show=False,
            tooltip="much more",
            id="much_higher",
        ),
        Binding("home", "slide(-1000)", "Least", show=False, tooltip="least", id="slider_least"),
        Binding("end", "slide(1000)", "Most", show=False, tooltip="most", id="slider_most"),
    ]

    value: reactive[int] = reactive(0, init=False)

    @dataclass
    class Changed(Message):
        """A person chose another value."""

        slider: Slider
        value: int

        @property
        def control(self) -> Slider:
            """The slider, for selectors."""
            return self.slider

    def __init__(
        self,
        scale: Scale,
        value: int,
        format_value: Callable[[int], str],
        *,
        id: str,  # noqa: A002 -- Textual's
        name: str,
    ) -> None:
        """Slide over a scale; `words` say a value."""
        super().__init__(id=id, name=name)
        self.scale = scale
        self._words: Final = format_value
        self.set_reactive(Slider.value, scale.nearest(value))

    def rescale(self, scale: Scale) -> None:
        """Take another scale; where the value is not on it, tell of the nearest one."""
        self.scale = scale
        self.choose(self.value)
        self.refresh(layout=True)

    def render(self) -> Content:
        """Draw the name, the track and the value."""
        style = "bold $accent" if self.has_focus else "$level-calm"
        label = Content.styled(f"{self.name} ", "bold $accent" if self.has_focus else "$quiet")
        cells = self._cells
        words = fit(self._words(self.value), max(0, self.size.width - self._start - cells - 1))
        drawn = track(self.scale, self.value, cells, style)
        return label + drawn + Content.styled(f" {words}", "$foreground")

    @property
    def _start(self) -> int:
        return cell_len(self.name or "") + 1

    @property
    def _cells(self) -> int:
        values = range(self.scale.lowest, self.scale.highest + 1, self.scale.step)
        longest = max(cell_len(self._words(each)) for each in values)
        room = self.size.width - self._start - longest - 1
        return self.scale.track_cells(min(max(room, SHORTEST), LONGEST))

    def action_slide(self, steps: int) -> None:
        """Go some steps on."""
        self.choose(self.value + steps * self.scale.step)

    def choose(self, value: int) -> None:
        """Take a value, and tell of it where it is another one."""
        chosen = self.scale.nearest(value)
        if chosen != self.value:
            self.value = chosen
            self.post_message(self.Changed(self, chosen))

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Take the knob to where the mouse is."""
        self.capture_mouse()
        self._choose_at(event.x)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Let the knob follow while it is held."""
        if self.app.mouse_captured is self:
            self._choose_at(event.x)

    def on_mouse_up(self) -> None:
        """Let go of the knob."""
        self.release_mouse()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Go a step on."""
        event.stop()
        self.action_slide(1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Go a step back."""
        event.stop()
        self.action_slide(-1)

    def _choose_at(self, x: int) -> None:
        self.choose(self.scale.value_at(x - self._start, self._cells))
