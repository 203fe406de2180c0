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

from ..text.formats import fit_left

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual import events


DOT, HOLE = "●", "○"
KNOB, LEFT, RIGHT = "●", "━", "─"

MAX_DOTS: Final = 9
"""Values up to which each has a dot of its own."""


@dataclass(frozen=True, slots=True)
class SliderScale:
    """The values that a slider can have."""

    lowest: int
    highest: int
    step: int = 1

    @property
    def count(self) -> int:
        """How many there are."""
        return (self.highest - self.lowest) // self.step + 1

    @property
    def is_dotted(self) -> bool:
        """Whether each value is drawn as a dot."""
        return self.count <= MAX_DOTS

    def nearest(self, value: int) -> int:
        """Return the nearest value on the scale, clamped to its ends."""
        steps = round((value - self.lowest) / self.step)
        return self.lowest + min(max(steps, 0), self.count - 1) * self.step

    def place(self, value: int, cells: int) -> int:
        """Return the cell of a value, counted from 0."""
        if self.is_dotted:
            return (value - self.lowest) // self.step
        span = max(1, self.highest - self.lowest)
        return round((value - self.lowest) * (cells - 1) / span)

    def value_at(self, cell: int, cells: int) -> int:
        """Return the value at a cell; cells beside the track give the nearest end."""
        if self.is_dotted:
            return self.nearest(self.lowest + cell * self.step)
        span = self.highest - self.lowest
        return self.nearest(round(self.lowest + cell * span / max(1, cells - 1)))

    def track_cells(self, room: int) -> int:
        """Return the length of the track if `room` cells are available."""
        return self.count if self.is_dotted else max(2, room)


def draw_track(scale: SliderScale, value: int, cells: int, style: str) -> Content:
    """Draw the track; what is reached is told by its sign too, not by its colour alone."""
    place = scale.place(value, cells)
    if scale.is_dotted:
        reached, rest = DOT * (place + 1), HOLE * (cells - place - 1)
    else:
        reached, rest = LEFT * place + KNOB, RIGHT * (cells - place - 1)
    return Content.styled(reached, style) + Content.styled(rest, "$bar-mark")


LARGE_STEP: Final = 5
"""Steps at once."""

MIN_TRACK_CELLS: Final = 4
MAX_TRACK_CELLS: Final = 24
"""Cells of a track; a longer one is not set more exactly."""


class Slider(Widget, can_focus=True):
    """Shows its name, its track and its value in words, in one line."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "slide(-1)", "Less", show=False, tooltip="less", id="lower"),
        Binding("right,l", "slide(1)", "More", show=False, tooltip="more", id="higher"),
        Binding(
            "shift+left,H",
            f"slide({-LARGE_STEP})",
            "Much less",
            show=False,
            tooltip="much less",
            id="much_lower",
        ),
        Binding(
            "shift+right",
            f"slide({LARGE_STEP})",
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
        scale: SliderScale,
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

    def rescale(self, scale: SliderScale) -> None:
        """Change the scale; a value that is not on it changes to the nearest one."""
        self.scale = scale
        self.choose(self.value)
        self.refresh(layout=True)

    def render(self) -> Content:
        """Draw the name, the track and the value."""
        style = "bold $accent" if self.has_focus else "$level-calm"
        label = Content.styled(f"{self.name} ", "bold $accent" if self.has_focus else "$quiet")
        cells = self._cells
        words = fit_left(self._words(self.value), max(0, self.size.width - self._start - cells - 1))
        drawn = draw_track(self.scale, self.value, cells, style)
        return label + drawn + Content.styled(f" {words}", "$foreground")

    @property
    def _start(self) -> int:
        return cell_len(self.name or "") + 1

    @property
    def _cells(self) -> int:
        values = range(self.scale.lowest, self.scale.highest + 1, self.scale.step)
        longest = max(cell_len(self._words(each)) for each in values)
        room = self.size.width - self._start - longest - 1
        return self.scale.track_cells(min(max(room, MIN_TRACK_CELLS), MAX_TRACK_CELLS))

    def action_slide(self, steps: int) -> None:
        """Go some steps on."""
        self.choose(self.value + steps * self.scale.step)

    def choose(self, value: int) -> None:
        """Select the nearest value on the scale; post Changed if it is a new one."""
        chosen = self.scale.nearest(value)
        if chosen != self.value:
            self.value = chosen
            self.post_message(self.Changed(self, chosen))

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self.capture_mouse()
        self._choose_at(event.x)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self.app.mouse_captured is self:
            self._choose_at(event.x)

    def on_mouse_up(self) -> None:
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
