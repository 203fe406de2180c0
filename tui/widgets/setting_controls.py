"""Controls of one setting: its label, a way to change it, its origin, and what it does now.

A control holds a draft. Nothing is written before a person saves it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from rich.cells import cell_len
from textual import events
from textual.binding import BindingType
from textual.content import Content
from textual.style import Style
from textual.widget import Widget

from ...core.policy.value_types import PolicyValue, format_value
from ...core.transcript.sanitize import one_line
from ..base.keymap import bind, bind_hidden
from ..base.messages import WidgetMessage
from ..text.formats import fit_left, shorten
from .controls import LARGE_STEP, SliderScale, draw_track
from .draggable import Draggable

LABEL_CELLS: Final = 15
SAVE_TEXT: Final = "changed: ⏎ shows the diff"
PART: Final = "part"  # style metadata: the place of a choice, from 0
_SAVE: Final = "save"  # style metadata: what saves the draft


def control_id(key: str) -> str:
    return key.replace(".", "-")


class SettingControl(Widget, can_focus=True):
    """Subclasses draw `draw_control` and change `draft` in `step`."""

    DEFAULT_CSS = """
    SettingControl { height: 2; text-wrap: nowrap; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("left", "step(-1)", "Change", "less, or the one before", "lower", key_display="←→"),
        bind_hidden("right", "step(1)", "More", "more, or the next one", "higher"),
        bind_hidden("shift+left", f"step({-LARGE_STEP})", "Much less", "much less", "much_lower"),
        bind_hidden("shift+right", f"step({LARGE_STEP})", "Much more", "much more", "much_higher"),
        bind(
            "enter",
            "save",
            "Save",
            "show the file's diff",
            "save_setting",
            key_display="⏎",
        ),
        bind("enter", "type", "Type", "type a value", "save_setting", key_display="⏎"),
        bind_hidden("backspace", "reset", "Reset", "discard the change", "reset_setting"),
        bind_hidden("up,k", "app.focus_previous", "Up", "up", "up"),
        bind_hidden("down,j", "app.focus_next", "Down", "down", "down"),
    ]

    class Changed(WidgetMessage["SettingControl"]):
        """The draft is another one."""

    class Saved(WidgetMessage["SettingControl"]):
        """The user wants the draft to be written."""

    class Opened(WidgetMessage["SettingControl"]):
        """The user wants to type a value."""

    def __init__(self, key: str, label: str) -> None:
        super().__init__(id=control_id(key))
        self.key: Final = key
        self.label: Final = label
        self.saved: PolicyValue = ""
        self.draft: PolicyValue = ""
        self._origin = ""
        self._effect = ""

    def show_value(self, value: PolicyValue, origin: str) -> None:
        """Show the value in force; a draft is kept while that stays the same."""
        if value != self.saved:
            self.saved = self.draft = value
            self.refresh_bindings()
        self._origin = origin
        self.refresh()

    def show_effect(self, effect: str) -> None:
        if effect != self._effect:
            self._effect = effect
            self.refresh()

    @property
    def is_changed(self) -> bool:
        return self.draft != self.saved

    def draw_control(self, cells: int) -> Content:
        raise NotImplementedError

    def step(self, steps: int) -> None:
        """Change the draft by some steps; negative ones go back."""

    def set_draft(self, value: PolicyValue) -> None:
        """Replace the draft; post Changed if it is another one."""
        if value != self.draft:
            self.draft = value
            self.refresh()
            self.refresh_bindings()
            self.post_message(self.Changed(self))

    def render(self) -> Content:
        width = self.size.width
        end = SAVE_TEXT if self.is_changed else self._origin
        end_cells = min(cell_len(end), max(0, width // 3))
        end_style = "bold $accent" if self.is_changed else "$quiet"
        right = Content.styled(shorten(end, end_cells), end_style)
        if self.is_changed:
            right = right.stylize(Style.from_meta({_SAVE: True}))
        label_style = "bold $accent" if self.has_focus else "$foreground"
        head = Content.styled(fit_left(self.label, LABEL_CELLS), label_style)
        control = self.draw_control(max(0, width - LABEL_CELLS - right.cell_length - 2))
        gap = width - head.cell_length - control.cell_length - right.cell_length
        indent = Content(" " * LABEL_CELLS)
        effect = Content.styled(one_line(self._effect), "$quiet").truncate(
            max(0, width - LABEL_CELLS), ellipsis=True
        )
        first = head + control + " " * max(1, gap) + right
        return Content("\n").join([first, *self.draw_below(), indent + effect])

    def draw_below(self) -> Sequence[Content]:
        """Return the lines between the control and its effect."""
        return ()

    def action_step(self, steps: int) -> None:
        self.step(steps)

    def action_reset(self) -> None:
        self.set_draft(self.saved)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Save the draft; without a change, type a value instead."""
        if action in {"save", "type"}:
            return self.is_changed == (action == "save")
        return super().check_action(action, parameters)

    def action_save(self) -> None:
        self.post_message(self.Saved(self))

    def action_type(self) -> None:
        self.post_message(self.Opened(self))

    def on_click(self, event: events.Click) -> None:
        meta = event.style.meta
        place = meta.get(PART)
        if meta.get(_SAVE):
            self.action_save()
        elif isinstance(place, int):
            self.choose_part(place)

    def choose_part(self, place: int) -> None:
        """React to a click at one of the parts that `draw_control` marked."""


@dataclass(frozen=True, slots=True)
class ControlChoice:
    value: PolicyValue
    label: str


SWITCH_CHOICES: Final = (ControlChoice(False, "off"), ControlChoice(True, "on"))  # noqa: FBT003


class ChoiceControl(SettingControl):
    """One of some values; all are drawn where there is room, else the chosen one with arrows."""

    def __init__(self, key: str, label: str, choices: Sequence[ControlChoice]) -> None:
        super().__init__(key, label)
        self._choices: Final = tuple(choices)

    @property
    def choices(self) -> tuple[ControlChoice, ...]:
        """The choices, and the saved value if it is none of them."""
        if any(each.value == self.saved for each in self._choices):
            return self._choices
        return (*self._choices, ControlChoice(self.saved, one_line(format_value(self.saved))))

    @property
    def _place(self) -> int:
        values = [each.value for each in self.choices]
        return values.index(self.draft) if self.draft in values else 0

    def step(self, steps: int) -> None:
        self.choose_part(min(max(self._place + steps, 0), len(self.choices) - 1))

    def choose_part(self, place: int) -> None:
        self.set_draft(self.choices[place].value)

    def draw_control(self, cells: int) -> Content:
        if sum(cell_len(each.label) + 2 for each in self.choices) <= cells:
            return Content("").join(map(self._draw_choice, range(len(self.choices))))
        before, after = max(0, self._place - 1), min(len(self.choices) - 1, self._place + 1)
        return Content.assemble(
            Content.styled("‹ ", "$accent").stylize(Style.from_meta({PART: before})),
            (shorten(self.choices[self._place].label, max(0, cells - 4)), self._style),
            Content.styled(" ›", "$accent").stylize(Style.from_meta({PART: after})),
        )

    @property
    def _style(self) -> str:
        return "bold $accent" if self.has_focus else "bold $level-calm"

    def _draw_choice(self, place: int) -> Content:
        label = self.choices[place].label
        drawn = (
            Content.styled(f"[{label}]", self._style)
            if place == self._place
            else Content.styled(f" {label} ", "$foreground")
        )
        return drawn.stylize(Style.from_meta({PART: place}))


class NumberControl(SettingControl, Draggable):
    """A number on a slider; one that is not on the scale stays until the slider is moved."""

    def __init__(self, key: str, label: str, scale: SliderScale, unit: str) -> None:
        super().__init__(key, label)
        self._scale: Final = scale
        self._unit: Final = unit

    @property
    def _number(self) -> int:
        return self.draft if isinstance(self.draft, int) else self._scale.lowest

    @property
    def _track_cells(self) -> int:
        return self._scale.track_cells(min(24, self.size.width - LABEL_CELLS - 40))

    def step(self, steps: int) -> None:
        self.set_draft(self._scale.nearest(self._number + steps * self._scale.step))

    def draw_control(self, cells: int) -> Content:
        style = "bold $accent" if self.has_focus else "$level-calm"
        number = self._scale.nearest(self._number)
        track = draw_track(self._scale, number, self._track_cells, style)
        value = fit_left(f" {self._number:,} {self._unit}", max(0, cells - track.cell_length))
        return track + Content.styled(value.rstrip(), "$foreground")

    def grab(self, x: int, y: int) -> bool:
        is_on_track = y == 0 and 0 <= x - LABEL_CELLS < self._track_cells
        if is_on_track:
            self.drag(x)
        return is_on_track

    def drag(self, x: int) -> None:
        self.set_draft(self._scale.value_at(x - LABEL_CELLS, self._track_cells))


class TextControl(SettingControl):
    """A value that is typed: Enter or a click opens the input."""

    def draw_control(self, cells: int) -> Content:
        text = one_line(format_value(self.draft)) or "none"
        shown = Content.styled(shorten(text, max(0, cells)), "bold $level-calm")
        return shown.stylize(Style.from_meta({PART: 0}))

    def choose_part(self, place: int) -> None:
        self.post_message(self.Opened(self))


class SetControl(SettingControl):
    """Any of some words: ← → go from word to word, space switches one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("space", "switch", "On/off", "turn the selected one on or off", "switch")
    ]

    def __init__(self, key: str, label: str, words: Sequence[str]) -> None:
        super().__init__(key, label)
        self._words: Final = tuple(words)
        self.place = 0

    @property
    def word(self) -> str:
        """The word under the cursor."""
        return self._words[self.place]

    @property
    def chosen(self) -> tuple[str, ...]:
        draft = self.draft if isinstance(self.draft, tuple) else ()
        return tuple(str(each) for each in draft)

    def step(self, steps: int) -> None:
        self.place = min(max(self.place + steps, 0), len(self._words) - 1)
        self.refresh()
        self.post_message(self.Changed(self))

    def choose_part(self, place: int) -> None:
        self.place = place
        self.action_switch()

    def action_switch(self) -> None:
        chosen = {*self.chosen} ^ {self.word}
        self.set_draft(tuple(each for each in self._words if each in chosen))

    def draw_control(self, cells: int) -> Content:
        shown = Content("").join(map(self._draw_word, range(len(self._words))))
        return shown.truncate(max(0, cells))

    def _draw_word(self, place: int) -> Content:
        word = self._words[place]
        is_on = word in self.chosen
        style = "bold $level-calm" if is_on else "$foreground"
        if self.has_focus and place == self.place:
            style = "$block-cursor-foreground on $block-cursor-background bold"
        drawn = Content.styled(f"[{word}]" if is_on else f" {word} ", style)
        return drawn.stylize(Style.from_meta({PART: place}))
