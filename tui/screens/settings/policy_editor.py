"""Change one value of the policy: type and check it, see the diff, confirm, write the file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static

from ....collectors.policy_editing import (
    AppliedPolicyChange,
    PolicyChangeHistory,
    PolicyFileChange,
    diff_policy_change,
)
from ....core.policy.policy import ResolvedValue
from ....core.policy.value_types import InvalidValueError, PolicyValue, format_value
from ....core.transcript.sanitize import one_line
from ...dashboard import Dashboard
from ...text.formats import shorten_middle
from ..dialogs import confirm, diff_content
from .policy_table import (
    EditablePolicyFile,
    PolicyChangeRefused,
    editable_files,
    fixed_reason,
    link_roots,
    parse_value,
    plan_policy_change,
    try_change,
    value_details,
    write_policy_change,
)

if TYPE_CHECKING:
    from ....core.model.problem import Problem


PATH_CELLS: Final = 66  # of a file's path in the box


@dataclass(frozen=True, slots=True)
class ValueEdit:
    """What a person wants a file to say; None: that it no longer says it."""

    file: EditablePolicyFile
    value: PolicyValue | None


class ValueScreen(ModalScreen[ValueEdit | None]):
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

    def __init__(self, found: ResolvedValue, files: Sequence[EditablePolicyFile]) -> None:
        super().__init__()
        self._found: Final = found
        self._files: Final = tuple(files)
        self._at = 0

    def compose(self) -> ComposeResult:
        """Lay out the value, the input, what is said of it, and the buttons."""
        with VerticalScroll(id="value"):
            yield Static(value_details(self._found))
            yield Input(one_line(format_value(self._found.value)), id="input", compact=True)
            yield Static(id="said", markup=False)
            yield Static(id="file", markup=False)
            with Horizontal(id="answers"):
                yield Button("Leave it", id="safe", compact=True)
                yield Button("See the change", id="change", variant="primary", compact=True)
                yield Button("Default (^r)", id="default", compact=True)
                if len(self._files) > 1:
                    yield Button("Other file (^o)", id="other", compact=True)

    def on_mount(self) -> None:
        self.query_one("#value").border_title = Content(self._found.key.name)
        self._show_file()
        self._check()
        self.query_one(Input).focus()

    def _check(self) -> PolicyValue | None:
        """Validate the input and show the outcome; return None if it is invalid."""
        line = self.query_one("#said", Static)
        try:
            value = parse_value(self._found.key.name, self.query_one(Input).value)
        except InvalidValueError as error:
            line.update(Content.styled(f"✗ {one_line(str(error))}", "$level-warning"))
            return None
        line.update(Content.styled(f"✓ {one_line(format_value(value)) or 'none'}", "$level-calm"))
        return value

    def _show_file(self) -> None:
        file = self._files[self._at]
        path = shorten_middle(one_line(str(file.path)), PATH_CELLS)
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
            self.dismiss(ValueEdit(self._files[self._at], value))

    def action_other_file(self) -> None:
        """Select the next file to write the value to."""
        self._at = (self._at + 1) % len(self._files)
        self._show_file()

    def action_take_out(self) -> None:
        """Remove the value, so that the next lower layer applies: the preset or the default."""
        self.dismiss(ValueEdit(self._files[self._at], None))

    def action_leave(self) -> None:
        """Change nothing."""
        self.dismiss(None)


REFUSAL_TOAST_S: Final = 8.0  # a line that says why nothing was written is read whole


class PolicyEditor:
    """One change, step by step; files are read and written in the thread for that."""

    def __init__(self, app: Dashboard, folder: str | None, done: Callable[[], None]) -> None:
        """Change the policy of all, or of a folder; `done` is called when a file was written."""
        self._app: Final = app
        self._changes: Final = PolicyChangeHistory(app.places.store)
        self._files: Final = editable_files(app.places.policy, folder)
        self._done: Final = done

    def edit(self, found: ResolvedValue) -> None:
        """Open the editor for a value, or show why it cannot be changed."""
        why = fixed_reason(found)
        if why or not self._files:
            self._show_refusal(why or "this run has no file for what you set")
            return
        self._app.push_screen(ValueScreen(found, self._files), partial(self._plan, found.key.name))

    def undo_last(self, last: AppliedPolicyChange | None) -> None:
        """Work out how the newest change is taken back."""
        if last is None:
            self._show_refusal("nothing was changed here that could be taken back")
            return
        roots = link_roots(last, self._files)
        back = partial(self._changes.undo, last)
        self._app.file_worker.submit(
            partial(try_change, partial(self._changes.plan_undo, last, roots)),
            partial(self._confirm, "Take it back", back),
        )

    def _plan(self, key: str, wish: ValueEdit | None) -> None:
        if wish is not None:
            self._app.file_worker.submit(
                partial(try_change, partial(plan_policy_change, wish.file, key, wish.value)),
                partial(self._confirm, "Write the file", self._changes.apply),
            )

    def _confirm(
        self,
        action: str,
        write: Callable[[PolicyFileChange], None],
        found: PolicyFileChange | PolicyChangeRefused | Problem,
    ) -> None:
        if not isinstance(found, PolicyFileChange):
            self._show_refusal(
                found.message if isinstance(found, PolicyChangeRefused) else str(found)
            )
            return
        path = str(found.file.path)
        if found.is_empty:
            self._show_refusal(f"{path} says so already: nothing is written")
            return
        head = Content.styled(one_line(path), "bold")
        what = diff_content(head, diff_policy_change(found))
        confirm(self._app, f"change {found.key}", what, action, partial(self._write, found, write))

    def _write(self, change: PolicyFileChange, write: Callable[[PolicyFileChange], None]) -> None:
        self._app.file_worker.submit(
            partial(
                try_change, partial(write_policy_change, self._app.places.policy, change, write)
            ),
            partial(self._finish, change),
        )

    def _finish(
        self, change: PolicyFileChange, found: PolicyChangeRefused | Problem | None
    ) -> None:
        if found is not None:
            self._show_refusal(
                found.message if isinstance(found, PolicyChangeRefused) else str(found)
            )
            return
        self._app.feed.reload_policy()
        words = f"{change.key} in {one_line(str(change.file.path))}"
        self._app.notify(words, title="the policy was changed", markup=False)
        self._done()

    def _show_refusal(self, why: str) -> None:
        words = one_line(why)
        self._app.notify(
            words,
            title="nothing was changed",
            severity="warning",
            timeout=REFUSAL_TOAST_S,
            markup=False,
        )
