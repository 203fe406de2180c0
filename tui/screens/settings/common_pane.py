"""The tab of common settings: a control for each, in groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from ....collectors.plugin.installed_commands import FEATURE_EVENTS
from ....core.archive.archive_mode import ArchiveMode
from ....core.model.levels import Level
from ....core.policy.policy import ResolvedValue
from ....core.policy.schema import DESKTOP_CHANNELS, LAST_CHOSEN, OFF, PRESETS
from ...base.keymap import bind_hidden
from ...base.theme import THEMES
from ...widgets.controls import SliderScale
from ...widgets.level_control import LevelControl
from ...widgets.setting_controls import (
    SWITCH_CHOICES,
    ChoiceControl,
    ControlChoice,
    NumberControl,
    SetControl,
    SettingControl,
    TextControl,
    control_id,
)
from . import common_settings
from .common_settings import FEATURES_KEY, EffectContext

QUIET_HOURS: Final = (OFF, "22:00-07:00", "20:00-08:00")  # others are typed
KEEP_DAYS: Final = SliderScale(0, 180, 5)
MAX_MIB: Final = SliderScale(256, 8192, 256)


def _choice(key: str, label: str, values: Iterable[str]) -> ChoiceControl:
    return ChoiceControl(key, label, [ControlChoice(each, each) for each in values])


def _switch(key: str, label: str) -> ChoiceControl:
    return ChoiceControl(key, label, SWITCH_CHOICES)


def make_controls() -> Mapping[str, tuple[SettingControl, ...]]:
    """Make the controls, by the heading above them."""
    themes = [ControlChoice(LAST_CHOSEN, "last chosen")]
    themes += [ControlChoice(each.name, each.name.removeprefix("ctxtop-")) for each in THEMES]
    return {
        "Levels": (
            LevelControl("threshold", "warn at"),
            _choice("preset", "preset", PRESETS),
        ),
        "Notifications": (
            _switch("notify.toast", "dashboard"),
            _switch("notify.bell", "bell"),
            _choice("notify.desktop", "desktop", DESKTOP_CHANNELS),
            _choice("notify.level", "from level", (*Level, OFF)),
            _choice("notify.quiet", "quiet hours", QUIET_HOURS),
        ),
        "Appearance": (
            ChoiceControl("ui.theme", "theme", themes),
            _switch("ui.ascii", "ASCII only"),
        ),
        "Automation": (
            _choice("mode", "mode", ("observe", "suggest", "auto")),
            _choice("compact.by", "compacts by", ("plan", "client")),
            _switch("recovery.auto", "recovers"),
        ),
        "Prices": (TextControl("price", "prices"),),
        "What hooks may do": (SetControl(FEATURES_KEY, "features", tuple(FEATURE_EVENTS)),),
        "Backups": (
            NumberControl("backup.keep_days", "keep for", KEEP_DAYS, "days"),
            NumberControl("backup.max_mib", "use at most", MAX_MIB, "MiB"),
        ),
        "Archive": (_choice("archive.mode", "keeps", ArchiveMode),),
    }


class CommonPane(VerticalScroll, can_focus=False, inherit_bindings=False):
    BINDINGS: ClassVar[list[BindingType]] = [
        bind_hidden("g,home", "scroll_home", "First", "first", "first"),
        bind_hidden("G,end", "scroll_end", "Last", "last", "last"),
        bind_hidden("ctrl+d,pagedown", "page_down", "Page down", "a page down", "page_down"),
        bind_hidden("ctrl+u,pageup", "page_up", "Page up", "a page up", "page_up"),
    ]

    def compose(self) -> ComposeResult:
        for heading, controls in make_controls().items():
            yield Static(Content.styled(heading, "bold $primary"), classes="heading")
            yield from controls

    @property
    def controls(self) -> list[SettingControl]:
        return list(self.query(SettingControl))

    def control(self, key: str) -> SettingControl:
        return self.query_one(f"#{control_id(key)}", SettingControl)

    def show_values(self, context: EffectContext) -> None:
        """Show the values in force and their effects; drafts stay."""
        for control in self.controls:
            if control.key == FEATURES_KEY:
                control.show_value(context.facts.features, "in Claude Code")
            else:
                value: ResolvedValue = context.policy.values[control.key]
                control.show_value(value.value, common_settings.origin_text(value))
            self.show_effect(control, context)

    def show_effect(self, control: SettingControl, context: EffectContext) -> None:
        if isinstance(control, LevelControl):
            text = common_settings.level_text(context, control.draft, control.level)
        elif isinstance(control, SetControl):
            text = common_settings.features_text(context, control.word, control.chosen)
        else:
            text = common_settings.effect_text(context, control.key, control.draft)
        control.show_effect(text)

    def focus_first(self) -> None:
        """Focus the control that had the focus last, at first the first one."""
        focused = self.screen.focused
        if focused not in self.controls:
            self.controls[0].focus()
