"""Controls in one line: filter input, filter chips, a choice among words, a slider."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar, Final

import msgspec
from msgspec.structs import replace
from rich.cells import cell_len
from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.suggester import Suggester
from textual.widget import Widget
from textual.widgets import Input, Static
from textual.widgets.input import Selection

from ...core.transcript.sanitize import one_line
from ..base.keymap import bind, bind_hidden
from ..base.messages import WidgetMessage
from ..base.type_ahead import TypeAheadApp
from ..text.formats import fit_left, shorten
from .draggable import Draggable

FILTER_SIGN: Final = "/"

Suggest = Callable[[str], str | None]  # completes a filter


class _FilterSuggester(Suggester):
    def __init__(self) -> None:
        # No cache, because the sessions change.
        super().__init__(use_cache=False, case_sensitive=True)
        self.suggest: Suggest = lambda _: None

    async def get_suggestion(self, value: str) -> str | None:
        return self.suggest(value)


class FilterInput(Input):
    """Tab accepts the suggestion."""

    def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        self.insert_text_at_cursor(one_line(event.text))

    async def _on_key(self, event: events.Key) -> None:
        if event.key not in {"escape", "down", "enter", "tab"}:
            await super()._on_key(event)
            return
        event.stop()
        event.prevent_default()
        if event.key == "tab":
            self.action_cursor_right()
        else:
            self.post_message(FilterBar.Cleared() if event.key == "escape" else FilterBar.Done())


class FilterBar(Horizontal):
    """Shown while a filter is typed or set; Esc clears it."""

    @dataclass
    class Typed(Message):
        words: str

    class Done(Message):
        """The user has finished typing; the filter stays."""

    class Cleared(Message):
        pass

    def __init__(self, placeholder: str = "") -> None:
        super().__init__(id="filter")
        self.display = False
        self._placeholder: Final = placeholder
        self._suggester: Final = _FilterSuggester()
        self._error = ""

    def compose(self) -> ComposeResult:
        yield Static(FILTER_SIGN, classes="sign", markup=False)
        yield FilterInput(select_on_focus=False, compact=True, suggester=self._suggester)
        yield Static(classes="wrong", markup=False)

    @property
    def value(self) -> str:
        return self.query_one(FilterInput).value

    def open(
        self, words: str, placeholder: str | None = None, suggest: Suggest = lambda _: None
    ) -> None:
        """Show the bar with `words` as its text, which typing replaces, and focus it."""
        self._suggester.suggest = suggest
        self.set_words(words)
        field = self.query_one(FilterInput)
        field.placeholder = self._placeholder if placeholder is None else placeholder
        field.selection = Selection(0, len(words))
        self.display = True
        if isinstance(self.app, TypeAheadApp):
            self.app.expect_typing()
        field.focus()

    def set_words(self, words: str) -> None:
        """Set the text without posting Typed."""
        field = self.query_one(FilterInput)
        with self.prevent(Input.Changed):
            field.value = words

    def show_error(self, error: str) -> None:
        if error != self._error:
            self._error = error
            self.query_one(".wrong", Static).update(Content(error))

    @on(Input.Changed)
    def _post_typed(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(self.Typed(event.value))


def _place_at(x: int, widths: Sequence[int]) -> int | None:
    """Return which of several parts in a line is at a cell."""
    ends = accumulate(widths)
    return next((place for place, end in enumerate(ends) if 0 <= x < end), None)


class Choice(Widget, can_focus=True):
    BINDINGS: ClassVar[list[BindingType]] = [
        bind_hidden("left,h", "step(-1)", "Previous", "previous one", "choice_previous"),
        bind_hidden("right,l", "step(1)", "Next", "next one", "choice_next"),
    ]

    value: reactive[str] = reactive("", init=False)

    @dataclass
    class Changed(WidgetMessage["Choice"]):
        value: str

    def __init__(
        self,
        values: Sequence[str],
        chosen: int = 0,
        *,
        id: str,  # noqa: A002
        name: str,
    ) -> None:
        super().__init__(id=id, name=name)
        self._values: Final = tuple(values)
        self.set_reactive(Choice.value, self._values[chosen])

    def render(self) -> Content:
        chosen = "bold $accent" if self.has_focus else "bold $level-calm"
        parts = [(f"{self.name} ", "bold $accent" if self.has_focus else "$quiet")]
        for value in self._values:
            is_chosen = value == self.value
            parts.append((f"[{value}]", chosen) if is_chosen else (f" {value} ", "$foreground"))
        return Content.assemble(*parts)

    def action_step(self, steps: int) -> None:
        place = self._values.index(self.value) + steps
        self.choose(self._values[min(max(place, 0), len(self._values) - 1)])

    def choose(self, value: str) -> None:
        """Select a value; post Changed if it is a new one."""
        if value != self.value:
            self.value = value
            self.post_message(self.Changed(self, value))

    def on_click(self, event: events.Click) -> None:
        x = event.x - cell_len(self.name or "") - 1
        place = _place_at(x, [cell_len(value) + 2 for value in self._values])
        if place is not None:
            self.choose(self._values[place])


VALUE_CELLS: Final = 18  # of a value; a project's name may be longer
SHORT_VALUE_CELLS: Final = 10  # of a value, if not all of them fit


class FilterChip(msgspec.Struct, frozen=True):
    """A filter with its values and their labels; None filters nothing."""

    name: str
    values: tuple[str | None, ...]
    labels: tuple[str, ...]
    chosen: int

    @property
    def value(self) -> str | None:
        return self.values[self.chosen]

    def text(self, cells: int = VALUE_CELLS) -> str:
        """Write the name and the value in `cells`; 0 asks for the shortest text."""
        if not cells and not self.chosen:
            return self.name
        value = shorten(self.labels[self.chosen], cells or SHORT_VALUE_CELLS)
        return f"{self.name}: {value}"


class Chips(Widget, can_focus=True):
    """Filter chips; ← → go from chip to chip, ↑ ↓ change the value."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind_hidden("left", "move(-1)", "Left", "filter to the left", "left"),
        bind_hidden("right", "move(1)", "Right", "filter to the right", "right"),
        bind("down,j,space", "turn(1)", "Change", "next value", "down", key_display="↑↓"),
        bind_hidden("up,k", "turn(-1)", "Change back", "previous value", "up"),
        bind_hidden("backspace,delete", "clear", "All", "clear the filters", "filter_nothing"),
        bind("enter", "done", "Done", "back to the list", "open", key_display="⏎"),
    ]

    @dataclass
    class Changed(Message):
        chips: tuple[FilterChip, ...]

    class Done(Message):
        """The user goes back to the list."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 -- Textual's
        super().__init__(id=id)
        self._chips: list[FilterChip] = []
        self._cursor = 0

    def show(self, chips: Sequence[FilterChip]) -> None:
        if list(chips) != self._chips:
            self._chips = list(chips)
            self.refresh()

    def render(self) -> Content:
        parts: list[tuple[str, str]] = []
        for place, (chip, text) in enumerate(zip(self._chips, self._texts(), strict=True)):
            style = "bold $accent" if chip.chosen else "$quiet"
            if place == self._cursor and self.has_focus:
                style = "$block-cursor-foreground on $block-cursor-background"
            parts += [(f" {text} ", style), (" ", "")]
        return Content.assemble(*parts)

    def _texts(self) -> list[str]:
        texts = [chip.text() for chip in self._chips]
        if sum(cell_len(text) + 3 for text in texts) > self.size.width:
            texts = [chip.text(0) for chip in self._chips]
        return texts

    def action_move(self, by: int) -> None:
        if self._chips:
            self._cursor = (self._cursor + by) % len(self._chips)
            self.refresh()

    def action_turn(self, by: int) -> None:
        self._turn(self._cursor, by)

    def action_clear(self) -> None:
        self._turn(self._cursor, -self._chips[self._cursor].chosen)

    def action_done(self) -> None:
        self.post_message(self.Done())

    def _turn(self, place: int, by: int) -> None:
        chip = self._chips[place]
        self._chips[place] = replace(chip, chosen=(chip.chosen + by) % len(chip.values))
        self.refresh()
        self.post_message(self.Changed(tuple(self._chips)))

    def on_click(self, event: events.Click) -> None:
        place = _place_at(event.x, [cell_len(text) + 3 for text in self._texts()])
        if place is not None:
            self._cursor = place
            self._turn(place, 1)


DOT, HOLE = "●", "○"
KNOB, LEFT, RIGHT = "●", "━", "─"

MAX_DOTS: Final = 9  # values up to which each is drawn as a dot


class SliderScale(msgspec.Struct, frozen=True):
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
    """Draw the track; signs tell the two parts apart as well as colors."""
    place = scale.place(value, cells)
    if scale.is_dotted:
        reached, rest = DOT * (place + 1), HOLE * (cells - place - 1)
    else:
        reached, rest = LEFT * place + KNOB, RIGHT * (cells - place - 1)
    return Content.styled(reached, style) + Content.styled(rest, "$bar-mark")


LARGE_STEP: Final = 5  # steps at once
MIN_TRACK_CELLS: Final = 4
MAX_TRACK_CELLS: Final = 24  # a longer track is not set more exactly


class Slider(Draggable, can_focus=True):
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
        super().__init__(id=id, name=name)
        self.scale = scale
        self._format_value: Final = format_value
        self.set_reactive(Slider.value, scale.nearest(value))

    def rescale(self, scale: SliderScale) -> None:
        """Change the scale; a value that is not on it changes to the nearest one."""
        self.scale = scale
        self.choose(self.value)
        self.refresh(layout=True)

    def render(self) -> Content:
        style = "bold $accent" if self.has_focus else "$level-calm"
        label = Content.styled(f"{self.name} ", "bold $accent" if self.has_focus else "$quiet")
        cells = self._track_cells
        room = max(0, self.size.width - self._track_start - cells - 1)
        value = fit_left(self._format_value(self.value), room)
        track = draw_track(self.scale, self.value, cells, style)
        return label + track + Content.styled(f" {value}", "$foreground")

    @property
    def _track_start(self) -> int:
        return cell_len(self.name or "") + 1

    @property
    def _track_cells(self) -> int:
        values = range(self.scale.lowest, self.scale.highest + 1, self.scale.step)
        longest = max(cell_len(self._format_value(each)) for each in values)
        room = self.size.width - self._track_start - longest - 1
        return self.scale.track_cells(min(max(room, MIN_TRACK_CELLS), MAX_TRACK_CELLS))

    def action_slide(self, steps: int) -> None:
        self.choose(self.value + steps * self.scale.step)

    def choose(self, value: int) -> None:
        """Select the nearest value on the scale; post Changed if it is a new one."""
        nearest = self.scale.nearest(value)
        if nearest != self.value:
            self.value = nearest
            self.post_message(self.Changed(self, nearest))

    def grab(self, x: int, y: int) -> bool:
        self.drag(x)
        return True

    def drag(self, x: int) -> None:
        self.choose(self.scale.value_at(x - self._track_start, self._track_cells))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.action_slide(1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.action_slide(-1)
