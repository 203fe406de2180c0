"""The settings page: every value of the policy with its origin, and a way to change it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Static

from ....core.policy.policy import PolicyNotice, ResolvedValue
from ....core.transcript.sanitize import one_line
from ...text.formats import shorten_middle
from ...text.policy_text import ignored_lines
from ...widgets.controls import FilterBar
from ...widgets.row_list import Row, RowList
from ..page import TEXT_MARGIN_CELLS, FilteredPage
from .policy_table import (
    AREA_KEY_PREFIX,
    CHOSEN_SIGN,
    PolicySnapshot,
    area_line,
    filter_values,
    group_by_area,
    is_chosen,
    lay_out_policy,
    notice_lines,
    policy_header,
    value_line,
)

if TYPE_CHECKING:
    from ....core.model.problem import Problem


REFRESH_S: Final = 3.0  # between two looks at the files: somebody may edit them elsewhere
READING_TEXT: Final = "the policy's files are being read …"

FOLDER_CELLS: Final = 40  # of a project's folder in the title


class PolicyScreen(FilteredPage):
    """The values by area; what somebody chose is marked, and can be shown alone."""

    CSS_PATH = "policy.tcss"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("l", "chosen", "Set only", tooltip="only what somebody set, or all", id="set_only"),
        Binding(
            "o",
            "project",
            "Project",
            show=False,
            tooltip="of the marked session's project, or of all",
            id="policy_project",
        ),
        Binding(
            "u",
            "back",
            "Undo",
            show=False,
            tooltip="take the last change of a file back",
            id="undo",
        ),
        Binding("y", "copy", "Copy", show=False, tooltip="copy the key and its value", id="copy"),
    ]

    chosen: reactive[bool] = reactive(False)  # noqa: FBT003

    def __init__(self, folder: str | None) -> None:
        """Show the policy of all; `folder` is the project that can be chosen."""
        super().__init__("policy")
        self._project: Final = folder
        self._folder: str | None = None
        self._picture: PolicySnapshot | None = None
        self._shown: dict[str, ResolvedValue] = {}
        self._trouble = ""
        self._folded: set[str] = set()

    def compose_page(self) -> Iterable[Widget]:
        """Lay out what does not hold, the values, and the filter."""
        yield Static(id="notices", markup=False)
        yield RowList(id="policy", number="", name="Policy")
        yield FilterBar("words of a key, a value, an origin")

    def on_mount(self) -> None:
        """Read the files, and look again from time to time."""
        self._list.empty = READING_TEXT
        self._list.rows.focus()
        self.query_one("#notices").display = False
        self._look()
        self.set_interval(REFRESH_S, self._look)

    @property
    def _list(self) -> RowList:
        return self.query_one(RowList)

    def _look(self) -> None:
        places, folder = self.app.places, self._folder

        def ask(db: sqlite3.Connection) -> PolicySnapshot:
            from .policy_table import read_policy_snapshot

            return read_policy_snapshot(db, places.policy, places.store, folder)

        self.look_up(ask, self._take)

    def _take(self, found: PolicySnapshot | Problem) -> None:
        from .policy_table import PolicySnapshot

        if not isinstance(found, PolicySnapshot):
            self._trouble = one_line(str(found))
        elif found != self._picture and found.folder == self._folder:
            self._picture, self._trouble = found, ""
        else:
            return
        self.draw()

    def draw(self) -> None:
        """Draw what matches; the mark stays on its key."""
        picture = self._picture
        if not self.is_attached:
            return
        pane = self._list
        width = pane.row_width
        if picture is None:
            pane.empty = self._trouble or READING_TEXT
            return
        found = filter_values(picture.policy, self.words, chosen_only=self.chosen)
        self._shown = {each.key.name: each for each in found}
        pane.empty = self._empty_words()
        layout = lay_out_policy(width)
        ignored = {each.key: each for each in picture.policy.ignored}
        rows = []
        for area, values in group_by_area(found).items():
            is_folded = area in self._folded and not self.words
            rows.append(Row(f"{AREA_KEY_PREFIX}{area}", area_line(area, values, width, is_folded)))
            if not is_folded:
                rows += [
                    Row(each.key.name, value_line(each, layout, ignored.get(each.key.name)))
                    for each in values
                ]
        is_first = pane.key is None
        pane.show_header(policy_header(layout))
        pane.show_rows(rows)
        if is_first and len(rows) > 1:
            # On the first value: the row above it is its area's.
            pane.rows.highlighted = 1
        self._draw_title(picture)
        said: tuple[PolicyNotice | str, ...] = (
            *picture.notices,
            *ignored_lines(picture.policy),
            *picture.untrusted,
        )
        lines = notice_lines(said, self.size.width - TEXT_MARGIN_CELLS)
        notices = self.query_one("#notices", Static)
        notices.display = bool(lines)
        notices.update(Content("\n").join(lines))

    def _empty_words(self) -> str:
        if self.words:
            return f"no key has “{self.words}”; Esc shows all"
        return "nobody set anything here: l shows every value, Enter on one changes it"

    def _draw_title(self, picture: PolicySnapshot) -> None:
        of = "of all projects"
        if picture.folder:
            of = f"of {shorten_middle(one_line(picture.folder), FOLDER_CELLS)}"
        count = sum(is_chosen(each) for each in picture.policy.values.values())
        preset = picture.policy.preset
        title = Content(f"Policy {of} · preset {preset} · {count} {CHOSEN_SIGN} set")
        parts = ["set only" if self.chosen else "", f"/{self.words}" if self.words else ""]
        if picture.last_change is not None:
            parts.append(f"u takes {picture.last_change.key} back")
        self._list.set_titles(title, Content(" · ".join(each for each in parts if each)))

    # What a person does.

    def action_chosen(self) -> None:
        """Show what somebody set alone, or everything."""
        self.chosen = not self.chosen

    def action_project(self) -> None:
        """Turn between the policy of all and the project's."""
        if self._project is None:
            words = "mark a session first: its project's policy is shown then"
            self.app.notify(words, title="policy", severity="warning", markup=False)
            return
        self._folder = None if self._folder else self._project
        self._look()

    def action_copy(self) -> None:
        """Copy a key and its value, as --set takes it."""
        from ....core.policy.value_types import format_value

        found = self._shown.get(self._list.key or "")
        if found:
            said = f"{found.key.name}={format_value(found.value)}"
            self.app.copy(one_line(said), found.key.name)

    @property
    def is_filtered(self) -> bool:
        """Words or what was set keep values from being shown."""
        return super().is_filtered or self.chosen

    def clear_filters(self) -> None:
        """Show everything."""
        super().clear_filters()
        self.chosen = False

    @on(RowList.Opened)
    def _change(self, event: RowList.Opened) -> None:
        from .policy_editor import PolicyEditor

        found = self._shown.get(event.key)
        if event.key.startswith(AREA_KEY_PREFIX):
            self._folded ^= {event.key.removeprefix(AREA_KEY_PREFIX)}
            self.draw()
        elif found:
            PolicyEditor(self.app, self._folder, self._look_again).edit(found)

    def action_back(self) -> None:
        """Undo the newest change of a file, after a preview."""
        from .policy_editor import PolicyEditor

        last = self._picture.last_change if self._picture else None
        PolicyEditor(self.app, self._folder, self._look_again).undo_last(last)

    def _look_again(self) -> None:
        if self.is_attached:
            self._look()

    def watch_chosen(self) -> None:
        """Draw what was set, or all."""
        self.draw()
