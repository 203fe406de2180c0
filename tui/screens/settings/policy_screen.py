"""The settings page: every value of the policy with its origin, and a way to change it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.reactive import reactive
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Button, Input, Static

from ....collectors.policy_editing import (
    AppliedPolicyChange,
    PolicyChangeHistory,
    PolicyFileChange,
    diff_policy_change,
    plan_value_change,
)
from ....core.policy.policy import ResolvedValue
from ....core.policy.schema import parse_change
from ....core.policy.value_types import InvalidValueError, PolicyValue, format_value
from ....core.transcript.sanitize import one_line
from ...dashboard import Dashboard
from ...keymap import bind, bind_hidden
from ...text.formats import shorten_middle
from ...text.policy_text import ignored_lines
from ...text.text_lines import header_line, item_line
from ...widgets.controls import FilterBar
from ...widgets.row_list import Row, RowList
from ..dialogs import diff_content
from ..page import TEXT_MARGIN_CELLS, FilteredPage
from . import policy_table
from .policy_table import (
    AREA_KEY_PREFIX,
    CHOSEN_SIGN,
    EditablePolicyFile,
    PolicyChangeRefused,
    PolicySnapshot,
    try_change,
)

if TYPE_CHECKING:
    from ....core.model.problem import Problem


REFRESH_S: Final = 3.0  # the files may be edited elsewhere
READING_TEXT: Final = "reading the settings …"
FOLDER_CELLS: Final = 40  # of a project's folder in the title


class PolicyScreen(FilteredPage):
    """The values by area; those that somebody set are marked, and can be shown alone."""

    CSS_PATH = "policy.tcss"

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("l", "chosen", "Set only", "only changed settings, or all", "set_only"),
        bind_hidden(
            "o",
            "project",
            "Project",
            "of the marked session's project, or of all",
            "policy_project",
        ),
        bind_hidden("u", "back", "Undo", "undo the last change", "undo"),
        bind_hidden("y", "copy", "Copy", "copy the key and its value", "copy"),
    ]

    chosen: reactive[bool] = reactive(False)  # noqa: FBT003

    def __init__(self, folder: str | None) -> None:
        """Show the policy of all projects; `folder` is the project that can be selected."""
        super().__init__("settings")
        self._project: Final = folder
        self._folder: str | None = None
        self._snapshot: PolicySnapshot | None = None
        self._shown: dict[str, ResolvedValue] = {}
        self._problem = ""
        self._folded: set[str] = set()

    def compose_page(self) -> Iterable[Widget]:
        yield Static(id="notices", markup=False)
        yield RowList(id="policy", name="Settings", empty=READING_TEXT)
        yield FilterBar("words of a key, a value, an origin")

    def on_mount(self) -> None:
        self.query_one("#notices").display = False
        self._refresh()
        self.set_interval(REFRESH_S, self._refresh)

    def _refresh(self) -> None:
        places, folder = self.app.places, self._folder

        def read(db: sqlite3.Connection) -> PolicySnapshot:
            return policy_table.read_policy_snapshot(db, places.policy, places.store, folder)

        if self.is_attached:
            self.look_up(read, self._show)

    def _show(self, found: PolicySnapshot | Problem) -> None:
        if not isinstance(found, PolicySnapshot):
            self._problem = one_line(str(found))
        elif found != self._snapshot and found.folder == self._folder:
            self._snapshot, self._problem = found, ""
        else:
            return
        self.draw()

    def draw(self) -> None:
        """Draw what matches; the cursor stays on its key."""
        snapshot = self._snapshot
        if not self.is_attached:
            return
        pane = self.row_list
        if snapshot is None:
            pane.empty = self._problem or READING_TEXT
            return
        values = policy_table.filter_values(snapshot.policy, self.words, chosen_only=self.chosen)
        self._shown = {value.key.name: value for value in values}
        pane.empty = "all settings have their defaults: l shows them, Enter changes one"
        if self.words:
            pane.empty = f"no key has “{self.words}”; Esc shows all"
        is_first = pane.key is None
        self._draw_rows(snapshot, values)
        if is_first and len(pane.shown) > 1:
            # On the first value: the row above it is its area's.
            pane.rows.highlighted = 1
        self._draw_title(snapshot)
        said = (*snapshot.notices, *ignored_lines(snapshot.policy), *snapshot.untrusted)
        lines = policy_table.notice_lines(said, self.size.width - TEXT_MARGIN_CELLS)
        notices = self.query_one("#notices", Static)
        notices.display = bool(lines)
        notices.update(Content("\n").join(lines))

    def _draw_rows(self, snapshot: PolicySnapshot, values: list[ResolvedValue]) -> None:
        width = self.row_list.row_width
        ignored = {value.key: value for value in snapshot.policy.ignored}
        columns = policy_table.policy_columns(width, ignored)
        rows = []
        for area, group in policy_table.group_by_area(values).items():
            is_folded = area in self._folded and not self.words
            line = policy_table.area_line(area, group, width, is_folded)
            rows.append(Row(f"{AREA_KEY_PREFIX}{area}", line))
            if not is_folded:
                rows += [Row(value.key.name, item_line(columns, value, gap="")) for value in group]
        self.row_list.show_header(header_line(columns, gap=""))
        self.row_list.show_rows(rows)

    def _draw_title(self, snapshot: PolicySnapshot) -> None:
        of = "of all projects"
        if snapshot.folder:
            of = f"of {shorten_middle(one_line(snapshot.folder), FOLDER_CELLS)}"
        policy = snapshot.policy
        count = sum(map(policy_table.is_chosen, policy.values.values()))
        title = Content(f"Settings {of} · preset {policy.preset} · {count} {CHOSEN_SIGN} set")
        parts = ["set only" if self.chosen else "", f"/{self.words}" if self.words else ""]
        if snapshot.last_change is not None:
            parts.append(f"u undoes {snapshot.last_change.key}")
        self.row_list.set_titles(title, Content(" · ".join(filter(None, parts))))

    def action_chosen(self) -> None:
        self.chosen = not self.chosen

    def action_project(self) -> None:
        """Switch between the policy of all projects and the project's."""
        if self._project is None:
            text = "select a session first to see its project's settings"
            self.app.toast(text, "settings", "warning")
            return
        self._folder = None if self._folder else self._project
        self._refresh()

    def action_copy(self) -> None:
        """Copy a key and its value, as --set takes it."""
        value = self._shown.get(self.row_list.key or "")
        if value:
            text = f"{value.key.name}={format_value(value.value)}"
            self.app.copy(one_line(text), value.key.name)

    @property
    def is_filtered(self) -> bool:
        return super().is_filtered or self.chosen

    def clear_filters(self) -> None:
        super().clear_filters()
        self.chosen = False

    @on(RowList.Opened)
    def _open(self, event: RowList.Opened) -> None:
        value = self._shown.get(event.key)
        if event.key.startswith(AREA_KEY_PREFIX):
            self._folded ^= {event.key.removeprefix(AREA_KEY_PREFIX)}
            self.draw()
        elif value:
            PolicyEditor(self.app, self._folder, self._refresh).edit(value)

    def action_back(self) -> None:
        """Undo the newest change of a file, after a preview."""
        last = self._snapshot.last_change if self._snapshot else None
        PolicyEditor(self.app, self._folder, self._refresh).undo_last(last)

    def watch_chosen(self) -> None:
        self.draw()


PATH_CELLS: Final = 66  # of a file's path in the box


class ValueEdit(NamedTuple):
    """The new value of a key in a file; None removes the key."""

    file: EditablePolicyFile
    value: PolicyValue | None


class ValueScreen(ModalScreen[ValueEdit | None]):
    """An input that is checked against the key's type, and the files that can set the key."""

    CSS_PATH = "policy.tcss"

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("escape", "leave", "Cancel", "cancel", "leave", key_display="Esc"),
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
                yield Button("Cancel", id="safe", compact=True)
                yield Button("See the change", id="change", variant="primary", compact=True)
                yield Button("Default (^r)", id="default", compact=True)
                if len(self._files) > 1:
                    yield Button("Other file (^o)", id="other", compact=True)

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
        path = shorten_middle(one_line(str(file.path)), PATH_CELLS)
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

    def action_leave(self) -> None:
        self.dismiss(None)


REFUSAL_TOAST_S: Final = 8.0  # long enough to read a whole line


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
        why = policy_table.fixed_reason(value)
        if why or not self._files:
            self._refuse(why or "there is no config file to write to")
            return
        self._app.push_screen(ValueScreen(value, self._files), partial(self._plan, value.key.name))

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
        what = diff_content(Content.styled(one_line(path), "bold"), diff_policy_change(change))
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
        self._app.toast(why, "nothing was changed", "warning", REFUSAL_TOAST_S)
