"""The dashboard app: its first frame, its settings, and what it does with the feed's messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from rich.console import RenderableType
from rich.segment import Segment
from textual import events, on
from textual.app import ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.color import Color
from textual.filter import LineFilter
from textual.screen import Screen
from textual.widgets import Static

from ..core.store.bulkhead import FAILED, NOT_SHOWN, bulkhead
from .app_state.dashboard import SessionActions
from .app_state.feed import Feed
from .base import messages, ui_state
from .base.background_queries import WorkerThread
from .base.garbage import freeze_long_lived_objects, unfreeze_objects
from .base.keymap import bind, bind_hidden
from .base.theme import DARK, THEMES, fallback_colors
from .base.ui_state import DashboardSettings, UiState
from .navigation import NavigationApp
from .page_kit.terminal_actions import TerminalActions
from .text.ascii_signs import to_ascii
from .widgets.header_footer import FleetStatus, StatusLine

if TYPE_CHECKING:
    from ..collectors.locations.places import Places, PolicySources
    from ..core.model.problem import Problem
    from .app_state.notifier import Notifier


class AsciiFilter(LineFilter):
    """Textual applies it to what any widget has drawn, its borders and scroll bars too."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Write the segments' texts plainly; none becomes wider."""
        return [Segment(to_ascii(text), style, control) for text, style, control in segments]


MAX_HELD_KEYS: Final = 32  # more than that is a key that was held down


class OpeningScreen(Screen[None]):
    def __init__(self, source: str) -> None:
        super().__init__()
        self._source: Final = source
        self.held_keys: Final[list[events.Key]] = []  # pressed again once the fleet is open

    def compose(self) -> ComposeResult:
        line = StatusLine(id="status")
        line.set_reactive(StatusLine.status, FleetStatus(source=self._source, scan="opening"))
        yield line
        yield Static("reading transcripts …", markup=False)

    def on_key(self, event: events.Key) -> None:
        """Hold a key that nothing here can act on yet."""
        active = self.active_bindings.get(event.key)
        if active is not None and active.enabled:
            return
        event.stop()
        if len(self.held_keys) < MAX_HELD_KEYS:
            self.held_keys.append(event.copy())


ACTIONS_BEFORE_OPENING: Final = frozenset({"quit", "suspend_process"})
"""Actions that need neither the sessions nor the settings."""


class CtxtopApp(NavigationApp):
    """Shows what the feed reads; all other work is done outside its thread."""

    CSS_PATH = Path(__file__).with_name("app.tcss")
    TITLE = "ctxtop"
    ENABLE_COMMAND_PALETTE = True
    PAUSE_GC_ON_SCROLL = True
    BINDINGS: ClassVar[list[BindingType]] = [
        bind_hidden(
            "t", "next_theme", "Theme", "dark, light, color-blind-safe, high contrast", "theme"
        ),
        bind_hidden("u", "undo", "Undo", "undo the last change", "undo"),
        bind("q,ctrl+c", "quit", "Quit", "leave", "quit"),
    ]

    def __init__(
        self,
        places: Places,
        source: str = "ctxtop",
        notice: str = "",
        settings: PolicySources | None = None,
        *,
        welcomes: bool = False,
    ) -> None:
        """`settings` sets appearance and keys, by default the policy of `places`."""
        super().__init__()
        self.places = places
        self.feed = Feed(places, self.post_message, self.now_ms)
        self._source: Final = source
        self.file_worker = WorkerThread("ctxtop works", self)
        self.lookup_worker = WorkerThread("ctxtop lookup", self)
        self.quick_worker = WorkerThread("ctxtop quick lookup", self)
        self.session_actions = SessionActions(self, self._show_end)
        self.terminal_actions = TerminalActions(self, self._show_end)
        self._notice: Final = notice
        self.settings: Final = settings or places.policy
        self._welcomes = welcomes
        self._is_leaving = False
        self.before_first_frame: Callable[[], None] = lambda: None  # called where there is a screen
        self.state_file = ui_state.UiStateFile(places.store)
        self._ascii_filter: Final = AsciiFilter(enabled=ui_state.asks_for_ascii(self.settings))
        self._filters.append(self._ascii_filter)
        for theme in THEMES:
            self.register_theme(theme)
        # Assigning it would parse every style sheet twice before the first frame.
        self.set_reactive(CtxtopApp.theme, DARK.name)
        self.stylesheet.set_variables(self.get_css_variables())

    @cached_property
    def notifier(self) -> Notifier:
        from .app_state.notifier import Notifier  # after the first paint

        return Notifier(self, self.write_sequence)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Name our colors in themes that are not ours."""
        return fallback_colors(self.current_theme)

    def get_default_screen(self) -> Screen[None]:
        return OpeningScreen(self._source)

    def on_mount(self) -> None:
        """Open the fleet and start to read once the first frame is on the screen."""
        if not self.is_headless:
            self.before_first_frame()
        self.call_after_refresh(
            self.file_worker.submit, self._read_state_and_settings, self._apply_state_and_settings
        )

    def _read_state_and_settings(self) -> tuple[UiState, DashboardSettings]:
        return self.state_file.read(), ui_state.read_dashboard_settings(self.settings)

    def _apply_state_and_settings(self, found: tuple[UiState, DashboardSettings] | Problem) -> None:
        """Apply the saved state and the settings before the fleet opens, so nothing shifts."""
        if isinstance(found, tuple):
            self.ui_state, settings = found
            self._ascii_filter.enabled = settings.ascii
            self.set_keymap(dict(settings.keymap))
            theme = settings.theme or self.ui_state.theme
            if theme in self.available_themes:
                self.theme = theme
            self._welcomes &= settings.welcome and not self.ui_state.welcomed
            for notice in settings.notices:
                self.toast(notice)
        else:
            self.toast(str(found))
        self.theme_changed_signal.subscribe(
            self, lambda theme: self.update_ui_state(theme=theme.name)
        )
        self.call_later(self._open_fleet)

    async def _open_fleet(self) -> None:
        from .screens.fleet.fleet_screen import FleetScreen

        opening = self.screen
        fleet = FleetScreen(self._source)
        # The feed's messages need its panes, which exist only after this.
        await self.push_screen(fleet)
        self._fleet = fleet
        self.call_after_refresh(self.feed.start)
        if self._welcomes:
            # The keys were not meant for the welcome page, which may be answered only once.
            self.action_welcome()
        else:
            self.feed.may_act.set()
            for key in opening.held_keys if isinstance(opening, OpeningScreen) else ():
                self.post_message(key)
        if self._notice:
            self.toast(self._notice)

    def exit(
        self, result: None = None, return_code: int = 0, message: RenderableType | None = None
    ) -> None:
        """Leave; later messages of the feed are ignored, because the panes are removed."""
        self._is_leaving = True
        super().exit(result, return_code, message)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Allow only `ACTIONS_BEFORE_OPENING` until the fleet is open."""
        if self._fleet is None and action not in ACTIONS_BEFORE_OPENING:
            return False
        return super().check_action(action, parameters)

    def on_unmount(self) -> None:
        """End the threads, and undo `freeze_long_lived_objects`."""
        self.notifier.stop()
        for worker in (self.file_worker, self.lookup_worker, self.quick_worker):
            worker.stop()
        self.feed.stop()
        unfreeze_objects()

    # The feed's messages.

    @on(messages.ViewChanged)
    def _show_view(self, event: messages.ViewChanged) -> None:
        from .page_kit.page import Page

        self.feed.view_received()
        if self._is_leaving:
            return
        if event.view.scanned and not (self.view and self.view.scanned):
            self.call_after_refresh(freeze_long_lived_objects)
        self.view = event.view
        with bulkhead("notifications", FAILED):
            self.notifier.compare_view(event.view)
        with bulkhead("the fleet", NOT_SHOWN):
            self.fleet.show_view(event.view)
        # A page that is being laid out reads the view once it is mounted.
        if isinstance(self.screen, Page) and self.screen.is_mounted:
            with bulkhead(f"the page {self.screen.crumbs[-1]}", NOT_SHOWN):
                self.screen.show_view(event.view)
        self.screen.call_after_refresh(self.feed.view_drawn)

    @on(messages.ScanProgressed)
    def _show_progress(self, event: messages.ScanProgressed) -> None:
        self.notifier.note_progress(event.progress)
        self.fleet.show_progress(event.progress)

    @on(messages.ProblemReported)
    def _show_problem(self, event: messages.ProblemReported) -> None:
        self.notifier.log_problem(event.problem)
        self.fleet.show_problem(event.problem)

    @on(messages.NoticeReported)
    def _handle_notice(self, event: messages.NoticeReported) -> None:
        with bulkhead("notifications", FAILED):
            self.notifier.handle_notice(event.problem)

    @on(messages.ProblemResolved)
    def _resolve_problem(self, event: messages.ProblemResolved) -> None:
        self.notifier.log_resolved(event.place)
        self.fleet.resolve_problem(event.place)

    @on(messages.OpenConversation)
    def _open_conversation(self, event: messages.OpenConversation) -> None:
        self.open_conversation(event.session_id, event.agent_id, event.line_offset, event.words)

    @on(messages.FeedStopped)
    def _show_stop(self) -> None:
        self.notifier.log_feed_stopped()
        self.fleet.show_stop()

    @on(messages.LevelReached)
    def _notify_level(self, event: messages.LevelReached) -> None:
        with bulkhead("notifications", FAILED):
            self.notifier.notify_level(event.title, event.warning)

    # What the user does.

    def get_key_display(self, binding: Binding) -> str:
        """Return the name of a key whose sign, as ⏎, cannot be drawn in ASCII."""
        shown = super().get_key_display(binding)
        return binding.key if self._ascii_filter.enabled and not shown.isascii() else shown

    def action_undo(self) -> None:
        self.session_actions.undo_last()

    def action_next_theme(self) -> None:
        names = [theme.name for theme in THEMES]
        place = names.index(self.theme) if self.theme in names else -1
        self.theme = names[(place + 1) % len(names)]

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Return the palette's commands that have no key."""
        yield SystemCommand("Choose a theme", "preview each one as you move", self.search_themes)
        yield SystemCommand(
            "First steps", "what ctxtop does, and what it never changes", self.action_welcome
        )
        yield SystemCommand(
            "Send a test notification",
            "dashboard, bell and desktop, as set in notify.*",
            self.notifier.send_test,
        )
        picture = "save this screen as SVG"
        yield SystemCommand("Save a screenshot", picture, self.deliver_screenshot)

    def _show_end(self, title: str, text: str, *, failed: bool) -> None:
        # `log_end` keeps it in the log.
        self.toast(text, title, "error" if failed else "information", None)
        self.notifier.log_end(title, text, failed=failed)

    def write_sequence(self, sequence: str) -> None:
        """Send an escape sequence to the terminal, as Textual sends a copied text."""
        if self._driver is not None and not self.is_headless and not self.is_web:
            self._driver.write(sequence)
