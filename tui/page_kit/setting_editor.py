"""A change of one setting: typed or chosen, shown as a diff, written once confirmed, and undone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.widgets import Button, Input, Static

from ...collectors.policy_editing import (
    AppliedPolicyChange,
    PolicyChangeHistory,
    PolicyFileChange,
    diff_policy_change,
    plan_value_change,
)
from ...core.policy.policy import KeyPermission, ResolvedValue, key_permission
from ...core.policy.schema import parse_change
from ...core.policy.value_types import InvalidValueError, PolicyValue, format_value
from ...core.transcript.sanitize import one_line, reveal_line
from ..app_state.dashboard import Dashboard
from ..base.keymap import bind
from ..entities import policy_table
from ..entities.policy_table import EditablePolicyFile, PolicyChangeRefused, try_change
from ..text.formats import shorten
from .dialogs import Dialog, diff_description

if TYPE_CHECKING:
    from ...core.model.problem import Problem


PATH_CELLS: Final = 66  # of a file's path in the box


class ValueEdit(NamedTuple):
    """The new value of a key in a file; None removes the key."""

    file: EditablePolicyFile
    value: PolicyValue | None


class ValueScreen(Dialog[ValueEdit | None]):
    """An input that is checked against the key's type, and the files that can set the key."""

    CSS_PATH = "setting_editor.tcss"

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("ctrl+o", "other_file", "Other file", "write to the other file", "other"),
        bind("ctrl+r", "take_out", "Default", "remove the key from the file", "default"),
    ]

    def __init__(self, value: ResolvedValue, files: Sequence[EditablePolicyFile]) -> None:
        super().__init__()
        self._value: Final = value
        self._files: Final = tuple(files)
        self._selected = 0

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="value"):
            yield Static(policy_table.value_details(self._value))
            yield Input(one_line(format_value(self._value.value)), id="input", compact=True)
            yield Static(id="said", markup=False)
            yield Static(id="file", markup=False)
            with Horizontal(id="answers"):
                yield Button("Esc Cancel", id="safe", compact=True)
                yield Button("⏎ See the change", id="change", variant="primary", compact=True)
                yield Button("^r Default", id="default", compact=True)
                if len(self._files) > 1:
                    yield Button("^o Other file", id="other", compact=True)

    def on_mount(self) -> None:
        self.query_one("#value").border_title = Content(self._value.key.name)
        self._show_file()
        self._check()
        self.query_one(Input).focus()

    def _check(self) -> PolicyValue | None:
        """Validate the input and show the outcome; return None if it is invalid."""
        line = self.query_one("#said", Static)
        try:
            value = parse_change(
                self._value.key.name, self.query_one(Input).value.strip(), self._value.value
            )
        except InvalidValueError as error:
            line.update(Content.styled(f"✗ {one_line(str(error))}", "$level-warning"))
            return None
        line.update(Content.styled(f"✓ {one_line(format_value(value)) or 'none'}", "$level-calm"))
        return value

    def _show_file(self) -> None:
        file = self._files[self._selected]
        path = shorten(one_line(str(file.path)), PATH_CELLS)
        self.query_one("#file", Static).update(
            Content.assemble(("in ", "$quiet"), (file.name, "bold"), (f"\n   {path}", "$quiet"))
        )

    @on(Input.Changed)
    def _on_change(self, event: Input.Changed) -> None:
        event.stop()
        self._check()

    @on(Input.Submitted)
    def _on_submit(self, event: Input.Submitted) -> None:
        event.stop()
        self._submit()

    @on(Button.Pressed)
    def _on_press(self, event: Button.Pressed) -> None:
        event.stop()
        actions = {
            "safe": self.action_leave,
            "change": self._submit,
            "default": self.action_take_out,
            "other": self.action_other_file,
        }
        actions[event.button.id or "safe"]()

    def _submit(self) -> None:
        value = self._check()
        if value is not None:
            self.dismiss(ValueEdit(self._files[self._selected], value))

    def action_other_file(self) -> None:
        """Select the next file to write the value to."""
        self._selected = (self._selected + 1) % len(self._files)
        self._show_file()

    def action_take_out(self) -> None:
        """Remove the value, so that the next lower layer applies: the preset or the default."""
        self.dismiss(ValueEdit(self._files[self._selected], None))


class PolicyEditor:
    """One change, step by step; files are read and written in the file worker's thread."""

    def __init__(self, app: Dashboard, folder: str | None, done: Callable[[], None]) -> None:
        """Change the policy of all projects, or of a folder; `done` is called after writing."""
        self._app: Final = app
        self._changes: Final = PolicyChangeHistory(app.places.store)
        self._files: Final = policy_table.editable_files(app.places.policy, folder)
        self._done: Final = done

    def edit(self, value: ResolvedValue) -> None:
        """Open the editor for a value, or show why it cannot be changed."""
        if self._can_change(value):
            plan = partial(self._plan, value.key.name)
            self._app.push_screen(ValueScreen(value, self._files), plan)

    def save(self, value: ResolvedValue, new: PolicyValue) -> None:
        """Show what setting a new value would change, and write it if that is confirmed.

        It goes to the project's file if the project's settings are shown and it may set the key.
        """
        if self._can_change(value):
            is_personal = key_permission(value.key.name) is KeyPermission.PERSON
            self._plan(value.key.name, ValueEdit(self._files[0 if is_personal else -1], new))

    def _can_change(self, value: ResolvedValue) -> bool:
        """Whether a file can change a value; show why if none can."""
        why = policy_table.fixed_reason(value)
        if not why and not self._files:
            why = "there is no config file to write to"
        if why:
            self._refuse(why)
        return not why

    def undo_last(self, last: AppliedPolicyChange | None) -> None:
        """Show how the newest change is undone, and undo it if that is confirmed."""
        if last is None:
            self._refuse("there is no change to undo")
            return
        path = Path(last.path)
        roots = next((file.roots for file in self._files if file.path == path), (path.parent,))
        plan = partial(self._changes.plan_undo, last, roots)
        self._preview(plan, "Undo", partial(self._changes.undo, last))

    def _plan(self, key: str, edit: ValueEdit | None) -> None:
        if edit is not None:
            plan = partial(plan_value_change, edit.file.path, edit.file.roots, key, edit.value)
            self._preview(plan, "Write the file", self._changes.apply)

    def _preview(
        self,
        plan: Callable[[], PolicyFileChange],
        action: str,
        write: Callable[[PolicyFileChange], None],
    ) -> None:
        confirm_change = partial(self._confirm, action, write)
        self._app.file_worker.submit(partial(try_change, plan), confirm_change)

    def _confirm(
        self,
        action: str,
        write: Callable[[PolicyFileChange], None],
        change: PolicyFileChange | PolicyChangeRefused | Problem,
    ) -> None:
        if not isinstance(change, PolicyFileChange):
            self._refuse(str(change))
            return
        path = str(change.file.path)
        if change.is_empty:
            self._refuse(f"{path} already has this value: nothing to write")
            return
        what = diff_description(reveal_line(path), diff_policy_change(change))
        self._app.confirm(f"change {change.key}", what, action, partial(self._write, change, write))

    def _write(self, change: PolicyFileChange, write: Callable[[PolicyFileChange], None]) -> None:
        policy = self._app.places.policy
        self._app.file_worker.submit(
            partial(try_change, partial(policy_table.write_policy_change, policy, change, write)),
            partial(self._finish, change),
        )

    def _finish(
        self, change: PolicyFileChange, failure: PolicyChangeRefused | Problem | None
    ) -> None:
        if failure is not None:
            self._refuse(str(failure))
            return
        self._app.feed.reload_policy()
        self._app.toast(f"{change.key} in {change.file.path}", "setting changed")
        self._done()

    def _refuse(self, why: str) -> None:
        self._app.toast(why, "nothing was changed", "warning")
