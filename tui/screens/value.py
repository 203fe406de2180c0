"""Changing one value of the policy: typed, checked at once, and where it is to be said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static

from ...core.policy.kinds import BadValueError, words
from ..formats import middle, one_line
from ..policy_files import check_value
from ..policy_rows import whole_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult

    from ...core.policy.kinds import Value
    from ...core.policy.policy import Resolved
    from ..policy_files import PolicyFile

PATH_CELLS: Final = 66
"""Of a file's path in the box."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What a person wants a file to say; None: that it no longer says it."""

    file: PolicyFile
    value: Value | None


class ValueScreen(ModalScreen[Wish | None]):
    """An input with the check of the key's kind, and the files that can say it."""

    CSS_PATH = "policy.tcss"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "escape", "leave", "Leave it", key_display="Esc", tooltip="change nothing", id="leave"
        ),
        Binding(
            "ctrl+o", "other_file", "Other file", tooltip="say it in the other file", id="other"
        ),
        Binding(
            "ctrl+r", "take_out", "Default", tooltip="take the key out of the file", id="default"
        ),
    ]

    def __init__(self, found: Resolved, files: Sequence[PolicyFile]) -> None:
        super().__init__()
        self._found: Final = found
        self._files: Final = tuple(files)
        self._at = 0

    def compose(self) -> ComposeResult:
        """Lay out the value, the input, what is said of it, and the buttons."""
        with VerticalScroll(id="value"):
            yield Static(whole_value(self._found))
            yield Input(one_line(words(self._found.value)), id="input", compact=True)
            yield Static(id="said", markup=False)
            yield Static(id="file", markup=False)
            with Horizontal(id="answers"):
                yield Button("Leave it", id="safe", compact=True)
                yield Button("See the change", id="change", variant="primary", compact=True)
                yield Button("Default (^r)", id="default", compact=True)
                if len(self._files) > 1:
                    yield Button("Other file (^o)", id="other", compact=True)

    def on_mount(self) -> None:
        """Let the person type."""
        self.query_one("#value").border_title = Content(self._found.key.name)
        self._show_file()
        self._check()
        self.query_one(Input).focus()

    def _check(self) -> Value | None:
        """Say at once whether what is typed is taken."""
        line = self.query_one("#said", Static)
        try:
            value = check_value(self._found.key.name, self.query_one(Input).value)
        except BadValueError as error:
            line.update(Content.styled(f"✗ {one_line(str(error))}", "$level-warning"))
            return None
        line.update(Content.styled(f"✓ {one_line(words(value)) or 'none'}", "$level-calm"))
        return value

    def _show_file(self) -> None:
        file = self._files[self._at]
        path = middle(one_line(str(file.path)), PATH_CELLS)
        self.query_one("#file", Static).update(
            Content.assemble(("in ", "$quiet"), (file.name, "bold"), (f"\n   {path}", "$quiet"))
        )

    @on(Input.Changed)
    def _say(self, event: Input.Changed) -> None:
        event.stop()
        self._check()

    @on(Input.Submitted)
    def _submit(self, event: Input.Submitted) -> None:
        event.stop()
        self._go_on()

    @on(Button.Pressed)
    def _press(self, event: Button.Pressed) -> None:
        event.stop()
        actions = {
            "safe": self.action_leave,
            "change": self._go_on,
            "default": self.action_take_out,
            "other": self.action_other_file,
        }
        actions[event.button.id or "safe"]()

    def _go_on(self) -> None:
        value = self._check()
        if value is not None:
            self.dismiss(Wish(self._files[self._at], value))

    def action_other_file(self) -> None:
        """Say it in the other file."""
        self._at = (self._at + 1) % len(self._files)
        self._show_file()

    def action_take_out(self) -> None:
        """Let the next lower layer hold: the preset, or what is built in."""
        self.dismiss(Wish(self._files[self._at], None))

    def action_leave(self) -> None:
        """Change nothing."""
        self.dismiss(None)
