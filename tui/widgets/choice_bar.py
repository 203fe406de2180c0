"""Choosing among a few words in one line: one choice, or several filters with their values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final

from rich.cells import cell_len
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from ..text.formats import shorten_middle

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from textual import events


class Choice(Widget, can_focus=True):
    """Shows its name and the words in one line; the chosen one stands in brackets."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "left,h",
            "step(-1)",
            "Before",
            show=False,
            tooltip="the one before",
            id="choice_previous",
        ),
        Binding("right,l", "step(1)", "Next", show=False, tooltip="the next one", id="choice_next"),
    ]

    value: reactive[str] = reactive("", init=False)

    @dataclass
    class Changed(Message):
        """A person chose another one."""

        choice: Choice
        value: str

        @property
        def control(self) -> Choice:
            """The choice, for selectors."""
            return self.choice

    def __init__(self, values: Sequence[str], *, id: str, name: str) -> None:  # noqa: A002
        super().__init__(id=id, name=name)
        self._values: Final = tuple(values)
        self.set_reactive(Choice.value, self._values[0])

    def render(self) -> Content:
        """Draw the words."""
        focused = "bold $accent" if self.has_focus else "bold $level-calm"
        parts = [Content.styled(f"{self.name} ", "bold $accent" if self.has_focus else "$quiet")]
        for value in self._values:
            if value == self.value:
                parts.append(Content.styled(f"[{value}]", focused))
            else:
                parts.append(Content.styled(f" {value} ", "$foreground"))
        return Content("").join(parts)

    def action_step(self, steps: int) -> None:
        """Choose the one that stands some places on."""
        place = self._values.index(self.value) + steps
        self.choose(self._values[min(max(place, 0), len(self._values) - 1)])

    def choose(self, value: str) -> None:
        """Select a value; post Changed if it is a new one."""
        if value != self.value:
            self.value = value
            self.post_message(self.Changed(self, value))

    def on_click(self, event: events.Click) -> None:
        """Choose the word under the mouse."""
        for start, end, value in self._places():
            if start <= event.x < end:
                self.choose(value)

    def _places(self) -> Iterator[tuple[int, int, str]]:
        start = cell_len(self.name or "") + 1
        for value in self._values:
            end = start + cell_len(value) + 2
            yield start, end, value
            start = end


VALUE_CELLS: Final = 18
"""Of a value; a project's name may be longer."""

SHORT_VALUE_CELLS: Final = 10
"""Of a value, where all of them do not fit."""


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
        Binding(
            "left", "move(-1)", "Left", show=False, tooltip="the filter to the left", id="left"
        ),
        Binding(
            "right", "move(1)", "Right", show=False, tooltip="the filter to the right", id="right"
        ),
        Binding(
            "down,j,space",
            "turn(1)",
            "Change",
            key_display="↑↓",
            tooltip="the next value",
            id="down",
        ),
        Binding("up,k", "turn(-1)", "Change back", show=False, tooltip="the value before", id="up"),
        Binding(
            "backspace,delete",
            "clear",
            "All",
            show=False,
            tooltip="filter nothing",
            id="filter_nothing",
        ),
        Binding("enter", "done", "Done", key_display="⏎", tooltip="back to the list", id="open"),
    ]

    @dataclass
    class Changed(Message):
        """Another value was chosen."""

        chips: tuple[FilterChip, ...] = field(default_factory=tuple)

    class Done(Message):
        """A person goes back to the list."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 -- Textual's
        super().__init__(id=id)
        self._chips: list[FilterChip] = []
        self._at = 0

    def show(self, chips: Sequence[FilterChip]) -> None:
        """Show these filters."""
        if list(chips) != self._chips:
            self._chips = list(chips)
            self.refresh()

    def render(self) -> Content:
        """Draw the line."""
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
        """Go to another filter."""
        if self._chips:
            self._at = (self._at + by) % len(self._chips)
            self.refresh()

    def action_turn(self, by: int) -> None:
        """Choose another value."""
        self._turn(self._at, by)

    def action_clear(self) -> None:
        """Filter nothing any more."""
        chip = self._chips[self._at]
        self._turn(self._at, -chip.chosen)

    def action_done(self) -> None:
        """Go back to the list."""
        self.post_message(self.Done())

    def _turn(self, number: int, by: int) -> None:
        chip = self._chips[number]
        chosen = (chip.chosen + by) % len(chip.values)
        self._chips[number] = FilterChip(chip.name, chip.values, chosen)
        self.refresh()
        self.post_message(self.Changed(tuple(self._chips)))

    def on_click(self, event: events.Click) -> None:
        """Change the filter that was clicked."""
        start = 0
        for number, text in enumerate(self._texts()):
            end = start + Content(text).cell_length + 3
            if start <= event.x < end:
                self._at = number
                self._turn(number, 1)
                return
            start = end
