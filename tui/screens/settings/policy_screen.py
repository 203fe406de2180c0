"""The settings page: common settings with a control each, and every value with its origin."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from datetime import time
from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Static

from ....core.actions.setting_effects import todays_sessions
from ....core.policy.policy import ResolvedValue
from ....core.policy.schema import PRESETS
from ....core.policy.value_types import format_value
from ....core.transcript.sanitize import one_line
from ...base.keymap import bind, bind_hidden
from ...base.messages import FleetView
from ...entities import policy_table
from ...entities.policy_table import AREA_KEY_PREFIX, CHOSEN_SIGN, PolicySnapshot
from ...page_kit.hook_installation import install_features
from ...page_kit.page import TEXT_MARGIN_CELLS, FilteredPage
from ...page_kit.setting_editor import PolicyEditor
from ...text.formats import local_datetime, shorten
from ...text.listing import Row
from ...text.settings_text import ignored_lines
from ...text.text_lines import item_line
from ...widgets.controls import FilterBar
from ...widgets.header_footer import TabBar
from ...widgets.row_list import RowList
from ...widgets.setting_controls import SetControl, SettingControl
from ..settings import common_settings
from .common_pane import CommonPane
from .common_settings import EffectContext, MachineFacts
from .preset_page import PresetScreen

if TYPE_CHECKING:
    from ....core.model.problem import Problem


REFRESH_S: Final = 3.0  # the files may be edited elsewhere
NOON: Final = time(12)  # if the clock cannot be read
READING_TEXT: Final = "reading the settings …"
FOLDER_CELLS: Final = 40  # of a project's folder in the title
TABS: Final = ("Common", "All settings")
COMMON, ALL_SETTINGS = range(len(TABS))


class PolicyScreen(FilteredPage):
    """Common settings in one tab; in the other all values by area, those that were set marked."""

    CSS_PATH = "policy.tcss"

    KEYS_IF_ROOM = ("preset_steps", "policy_project", "undo", "copy")
    BINDINGS: ClassVar[list[BindingType]] = [
        bind_hidden("2", "tab(1)", "All", "all settings", "all_settings"),
        bind_hidden("1", "tab(0)", "Common", "the common settings", "common_settings"),
        bind_hidden("v", "preset", "Steps", "what the preset does, step by step", "preset_steps"),
        bind("l", "chosen", "Set only", "only settings that are set, or all", "set_only"),
        bind_hidden(
            "o",
            "project",
            "Project",
            "of the selected session's project, or of all",
            "policy_project",
        ),
        bind_hidden("u", "back", "Undo", "undo the last change", "undo"),
        bind_hidden("y", "copy", "Copy", "copy the key and its value", "copy"),
    ]

    chosen: reactive[bool] = reactive(False)  # noqa: FBT003
    tab: reactive[int] = reactive(0)  # of TABS

    def __init__(self, folder: str | None) -> None:
        """Show the policy of all projects; `folder` is the project that can be selected."""
        super().__init__("settings")
        self._project: Final = folder
        self._folder: str | None = None
        self._snapshot: PolicySnapshot | None = None
        self._shown: dict[str, ResolvedValue] = {}
        self._problem = ""
        self._facts = MachineFacts()
        self._folded: set[str] = set()

    def compose_page(self) -> Iterable[Widget]:
        yield TabBar(("1", "2"), id="tabs")
        yield Static(id="notices", markup=False)
        yield CommonPane(id="common")
        with Vertical(id="all"):
            yield RowList(id="policy", name="Settings", empty=READING_TEXT)
            yield FilterBar("words of a key, a value, an origin")

    def on_mount(self) -> None:
        self.query_one("#notices").display = False
        self.watch_tab()
        self._refresh()
        self._read_facts()
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

    def _read_facts(self) -> None:
        places = self.app.places
        sessions = todays_sessions(self.app.sessions, self.app.now_ms())

        def show(found: MachineFacts | Problem) -> None:
            if isinstance(found, MachineFacts):
                self._facts = found
                self._draw_common()
            else:
                self.app.toast(one_line(str(found)), "settings", "warning")

        if self.is_attached:
            self.look_up(lambda db: common_settings.read_machine_facts(db, places, sessions), show)

    def show_view(self, view: FleetView) -> None:
        """Compute the effects again."""
        del view
        self._draw_common()

    def draw(self) -> None:
        """Draw what matches; the cursor stays on its key."""
        snapshot = self._snapshot
        if not self.is_attached:
            return
        if snapshot is None:
            self.row_list.empty = self._problem or READING_TEXT
            self._show_notices([self._problem] if self._problem else ())
            return
        self._draw_title(snapshot)
        self._draw_common()
        if self.tab == ALL_SETTINGS:
            self._draw_list(snapshot)
        self._show_notices(
            (*snapshot.notices, *ignored_lines(snapshot.policy), *snapshot.untrusted)
        )

    def _show_notices(self, found: Iterable[object]) -> None:
        lines = policy_table.notice_lines(found, self.size.width - TEXT_MARGIN_CELLS)
        notices = self.query_one("#notices", Static)
        notices.display = bool(lines)
        notices.update(Content("\n").join(lines))

    def _draw_list(self, snapshot: PolicySnapshot) -> None:
        pane = self.row_list
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

    def _draw_rows(self, snapshot: PolicySnapshot, values: list[ResolvedValue]) -> None:
        width = self.row_list.row_width
        ignored = {value.key: value for value in snapshot.policy.ignored}
        columns = policy_table.policy_columns(values, width, ignored)
        self.row_list.show_columns(columns)
        groups: Iterable[tuple[str | None, list[ResolvedValue]]]
        groups = policy_table.group_by_area(values).items()
        if self.row_list.order is not None:
            groups = [(None, self.row_list.in_order(values))]
        rows = []
        for area, group in groups:
            is_folded = area in self._folded and not self.words
            if area is not None:
                line = policy_table.area_line(area, group, width, is_folded)
                rows.append(Row(f"{AREA_KEY_PREFIX}{area}", line))
            if not is_folded:
                rows += [Row(value.key.name, item_line(columns, value)) for value in group]
        self.row_list.show_rows(rows)

    def _draw_title(self, snapshot: PolicySnapshot) -> None:
        of = "of all projects"
        if snapshot.folder:
            of = f"of {shorten(one_line(snapshot.folder), FOLDER_CELLS)}"
        policy = snapshot.policy
        count = sum(map(policy_table.is_chosen, policy.values.values()))
        title = Content(f"Settings {of} · preset {policy.preset} · {count} {CHOSEN_SIGN} set")
        parts = ["set only" if self.chosen else "", f"/{self.words}" if self.words else ""]
        if snapshot.last_change is not None:
            parts.append(f"u undoes {snapshot.last_change.key}")
        notes = Content(" · ".join(filter(None, parts)))
        self.row_list.set_titles(title, notes)
        common = self.query_one(CommonPane)
        common.border_title, common.border_subtitle = title, notes

    # The common settings.

    def _draw_common(self) -> None:
        context = self._effect_context()
        if context is not None and self.is_attached:
            self.query_one(CommonPane).show_values(context)

    def _effect_context(self) -> EffectContext | None:
        if self._snapshot is None:
            return None
        now_ms, now = self.app.now_ms(), local_datetime(self.app.now_ms())
        sessions = common_settings.affected_sessions(
            self.app.sessions, self.app.feed.policies, self._folder, now_ms
        )
        return EffectContext(
            self._snapshot.policy, sessions, now_ms, now.time() if now else NOON, self._facts
        )

    @on(SettingControl.Changed)
    def _show_effect(self, event: SettingControl.Changed) -> None:
        event.stop()
        context = self._effect_context()
        if context is not None:
            self.query_one(CommonPane).show_effect(event.widget, context)

    @on(SettingControl.Saved)
    def _save(self, event: SettingControl.Saved) -> None:
        event.stop()
        control, snapshot = event.widget, self._snapshot
        if isinstance(control, SetControl):
            install_features(self.app, control.chosen, self._read_facts)
        elif snapshot is not None:
            self._editor.save(snapshot.policy.values[control.key], control.draft)

    @on(SettingControl.Opened)
    def _type_value(self, event: SettingControl.Opened) -> None:
        event.stop()
        if self._snapshot is not None and event.widget.key in self._snapshot.policy.values:
            self._editor.edit(self._snapshot.policy.values[event.widget.key])

    @property
    def _editor(self) -> PolicyEditor:
        return PolicyEditor(self.app, self._folder, self._refresh)

    def action_preset(self) -> None:
        """Show the steps of the preset that is drafted, else of the one in force."""
        preset = self.query_one(CommonPane).control("preset").draft
        if preset in PRESETS:
            self.app.push_screen(PresetScreen(str(preset)))

    # The tabs.

    def action_tab(self, place: int) -> None:
        self.tab = place

    @on(TabBar.Chosen)
    def _choose_tab(self, event: TabBar.Chosen) -> None:
        event.stop()
        self.tab = event.place

    def watch_tab(self) -> None:
        if not self.query(TabBar):
            return  # not composed yet
        is_common = self.tab == COMMON
        self.query_one(TabBar).show(self.tab, TABS)
        self.query_one(CommonPane).display = is_common
        self.query_one("#all").display = not is_common
        if is_common:
            self.query_one(CommonPane).focus_first()
        else:
            self.focus_list()
            self.call_after_refresh(self.draw)  # where the list has its width
        self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Allow what is about the list only where it is shown."""
        if action in {"chosen", "copy"} or (action, parameters) == ("tab", (COMMON,)):
            return self.tab == ALL_SETTINGS
        if action == "preset" or (action, parameters) == ("tab", (ALL_SETTINGS,)):
            return self.tab == COMMON
        return super().check_action(action, parameters)

    def action_filter(self) -> None:
        """Search all settings."""
        self.tab = ALL_SETTINGS
        super().action_filter()

    def action_leave(self) -> None:
        if self.tab == COMMON:
            self.app.pop_screen()
        else:
            super().action_leave()

    # All settings.

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
            self._editor.edit(value)

    def action_back(self) -> None:
        """Undo the newest change of a file, after a preview."""
        last = self._snapshot.last_change if self._snapshot else None
        self._editor.undo_last(last)

    def watch_chosen(self) -> None:
        self.draw()
