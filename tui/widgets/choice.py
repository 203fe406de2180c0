"""One of a few words that stand beside each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from rich.cells import cell_len
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from textual import events


class Choice(Widget, can_focus=True):
    """Shows its name and the words in one line; the chosen one stands in brackets."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "left,h", "step(-1)", "Before", show=False, tooltip="the one before", id="previous"
        ),
        Binding("right,l", "step(1)", "Next", show=False, tooltip="the next one", id="next"),
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
        """Take a value, and tell of it where it is another one."""
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
