"""Choosing with keys or the mouse: among a few words in one line, or a number by sliding."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

from rich.cells import cell_len
from textual import events
from textual.binding import BindingType
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from ..keymap import bind, bind_hidden
from ..messages import WidgetMessage
from ..text.formats import fit_left, shorten_middle


class Choice(Widget, can_focus=True):
    """Shows its name and the words in one line; the chosen one stands in brackets."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind_hidden("left,h", "step(-1)", "Before", "the one before", "choice_previous"),
        bind_hidden("right,l", "step(1)", "Next", "the next one", "choice_next"),
    ]

    value: reactive[str] = reactive("", init=False)

    @dataclass
    class Changed(WidgetMessage["Choice"]):
        value: str

    def __init__(self, values: Sequence[str], *, id: str, name: str) -> None:  # noqa: A002
        super().__init__(id=id, name=name)
        self._values: Final = tuple(values)
        self.set_reactive(Choice.value, self._values[0])

    def render(self) -> Content:
        focused = "bold $accent" if self.has_focus else "bold $level-calm"
        parts = [Content.styled(f"{self.name} ", "bold $accent" if self.has_focus else "$quiet")]
        for value in self._values:
            if value == self.value:
                parts.append(Content.styled(f"[{value}]", focused))
            else:
                parts.append(Content.styled(f" {value} ", "$foreground"))
        return Content("").join(parts)

    def action_step(self, steps: int) -> None:
        place = self._values.index(self.value) + steps
        self.choose(self._values[min(max(place, 0), len(self._values) - 1)])

    def choose(self, value: str) -> None:
        """Select a value; post Changed if it is a new one."""
        if value != self.value:
            self.value = value
            self.post_message(self.Changed(self, value))

    def on_click(self, event: events.Click) -> None:
        for start, end, value in self._places():
            if start <= event.x < end:
                self.choose(value)

    def _places(self) -> Iterator[tuple[int, int, str]]:
        start = cell_len(self.name or "") + 1
        for value in self._values:
            end = start + cell_len(value) + 2
            yield start, end, value
            start = end


VALUE_CELLS: Final = 18  # of a value; a project's name may be longer
SHORT_VALUE_CELLS: Final = 10  # of a value, where all of them do not fit


@dataclass(frozen=True, slots=True)
class FilterChip:
    """A filter: what it is called, and the words for its values; the first filters nothing."""

    name: str
    values: tuple[str, ...]
    chosen: int = 0

    def text(self, cells: int = VALUE_CELLS) -> str:
        """Write it with so many cells for its value; with none what filters nothing is a name."""
        if not cells and not self.chosen:
            return self.name
        return (
            f"{self.name}: {shorten_middle(self.values[self.chosen], cells or SHORT_VALUE_CELLS)}"
        )


class Chips(Widget, can_focus=True):
    """The line; ← → go from filter to filter, ↑ ↓ change the value."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"chips--chip", "chips--set", "chips--cursor"}
    BINDINGS: ClassVar[list[BindingType]] = [
        bind_hidden("left", "move(-1)", "Left", "the filter to the left", "left"),
        bind_hidden("right", "move(1)", "Right", "the filter to the right", "right"),
        bind("down,j,space", "turn(1)", "Change", "the next value", "down", key_display="↑↓"),
        bind_hidden("up,k", "turn(-1)", "Change back", "the value before", "up"),
        bind_hidden("backspace,delete", "clear", "All", "filter nothing", "filter_nothing"),
        bind("enter", "done", "Done", "back to the list", "open", key_display="⏎"),
    ]

    @dataclass
    class Changed(Message):
        chips: tuple[FilterChip, ...] = field(default_factory=tuple)

    class Done(Message):
        """A person goes back to the list."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 -- Textual's
        super().__init__(id=id)
        self._chips: list[FilterChip] = []
        self._at = 0

    def show(self, chips: Sequence[FilterChip]) -> None:
        if list(chips) != self._chips:
            self._chips = list(chips)
            self.refresh()

    def render(self) -> Content:
        parts: list[tuple[str, str]] = []
        for number, (chip, text) in enumerate(zip(self._chips, self._texts(), strict=True)):
            style = "bold $accent" if chip.chosen else "$quiet"
            if number == self._at and self.has_focus:
                style = "$block-cursor-foreground on $block-cursor-background"
            parts += [(f" {text} ", style), (" ", "")]
        return Content.assemble(*parts)

    def _texts(self) -> list[str]:
        texts = [chip.text() for chip in self._chips]
        if sum(Content(text).cell_length + 3 for text in texts) > self.size.width:
            texts = [chip.text(0) for chip in self._chips]
        return texts

    def action_move(self, by: int) -> None:
        if self._chips:
            self._at = (self._at + by) % len(self._chips)
            self.refresh()

    def action_turn(self, by: int) -> None:
        self._turn(self._at, by)

    def action_clear(self) -> None:
        """Filter nothing any more."""
        chip = self._chips[self._at]
        self._turn(self._at, -chip.chosen)

    def action_done(self) -> None:
        self.post_message(self.Done())

    def _turn(self, number: int, by: int) -> None:
        chip = self._chips[number]
        chosen = (chip.chosen + by) % len(chip.values)
        self._chips[number] = FilterChip(chip.name, chip.values, chosen)
        self.refresh()
        self.post_message(self.Changed(tuple(self._chips)))

    def on_click(self, event: events.Click) -> None:
        start = 0
        for number, text in enumerate(self._texts()):
            end = start + Content(text).cell_length + 3
            if start <= event.x < end:
                self._at = number
                self._turn(number, 1)
                return
            start = end


DOT, HOLE = "●", "○"
KNOB, LEFT, RIGHT = "●", "━", "─"

MAX_DOTS: Final = 9  # values up to which each has a dot of its own


@dataclass(frozen=True, slots=True)
class SliderScale:
    """The values that a slider can have."""

    lowest: int
    highest: int
    step: int = 1

    @property
    def count(self) -> int:
        return (self.highest - self.lowest) // self.step + 1

    @property
    def is_dotted(self) -> bool:
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


LARGE_STEP: Final = 5  # steps at once
MIN_TRACK_CELLS: Final = 4
MAX_TRACK_CELLS: Final = 24  # cells of a track; a longer one is not set more exactly


class Slider(Widget, can_focus=True):
    """Shows its name, its track and its value in words, in one line."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind_hidden("left,h", "slide(-1)", "Less", "less", "lower"),
        bind_hidden("right,l", "slide(1)", "More", "more", "higher"),
        bind_hidden(
            "shift+left,H", f"slide({-LARGE_STEP})", "Much less", "much less", "much_lower"
        ),
        bind_hidden("shift+right", f"slide({LARGE_STEP})", "Much more", "much more", "much_higher"),
        bind_hidden("home", "slide(-1000)", "Least", "least", "slider_least"),
        bind_hidden("end", "slide(1000)", "Most", "most", "slider_most"),
    ]

    value: reactive[int] = reactive(0, init=False)

    @dataclass
    class Changed(WidgetMessage["Slider"]):
        value: int

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
        event.stop()
        self.action_slide(1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.action_slide(-1)

    def _choose_at(self, x: int) -> None:
        self.choose(self.scale.value_at(x - self._start, self._cells))
