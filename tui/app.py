"""The dashboard: its first frame, its life, and what the feed and a person set off in it."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
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
from textual.theme import Theme

from ..core.transcript.sanitize import one_line
from .app_base import TOAST_S
from .background_queries import WorkerThread
from .feed import Feed
from .messages import (
    FeedStopped,
    LevelReached,
    NoticeReported,
    ProblemReported,
    ProblemResolved,
    ScanProgressed,
    ViewChanged,
)
from .navigation import NavigationApp
from .session_actions import SessionActions
from .signals import ExitHandler
from .text.ascii_signs import to_ascii
from .theme import DARK, THEMES, fallback_colours
from .ui_state import (
    DashboardSettings,
    UiState,
    UiStateFile,
    UiStateManager,
    asks_for_ascii,
    read_dashboard_settings,
)
from .widgets.header_footer import FleetStatus, StatusLine

if TYPE_CHECKING:
    from ..collectors.places import Places, PolicySources
    from ..core.model.problem import Problem
    from .screens.fleet.fleet_screen import FleetScreen


class AsciiFilter(LineFilter):
    """Textual applies it to what any widget has drawn, its borders and scroll bars too."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Write the segments' texts plainly; none becomes wider."""
        return [Segment(to_ascii(text), style, control) for text, style, control in segments]


FULL_COLLECTION_FACTOR: Final = 3
"""Full collections come so many times rarer: each stops the screen for 40 to 80 ms, and most of
what it looks through is what Textual keeps of drawn lines. What is left waits that long in memory:
ten times rarer cost 8 MB over five hours of lines, and answered no key sooner."""

_DEFAULT_GC_THRESHOLDS: Final = gc.get_threshold()


def freeze_long_lived_objects() -> None:
    """Leave out of later collections all that there is now, and let full ones be rare.

    Modules, styles and widgets are some 80,000 objects: looking through them took 60 to 80 ms
    once a second while somebody typed. What dies of them is still freed where nothing refers
    to it any more; of cycles only those are kept that were there now.
    """
    gc.collect()
    gc.freeze()
    young, middle, old = _DEFAULT_GC_THRESHOLDS
    gc.set_threshold(young, middle, old * FULL_COLLECTION_FACTOR)


def restore_garbage_collection() -> None:
    """Undo `freeze_long_lived_objects`."""
    gc.set_threshold(*_DEFAULT_GC_THRESHOLDS)
    gc.unfreeze()


MAX_HELD_KEYS: Final = 32  # keys; more than that is a key that was held down


class OpeningScreen(Screen[None]):
    """Lies below the fleet and is seen for a moment."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self._source: Final = source
        self.held_keys: Final[list[events.Key]] = []
        """What was typed ahead: it is pressed again once the sessions' screen is there."""

    def compose(self) -> ComposeResult:
        """Show the same line as the fleet does."""
        line = StatusLine(id="status")
        line.set_reactive(StatusLine.status, FleetStatus(source=self._source, scan="opening"))
        yield line

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

COPIED_PREVIEW_CHARS: Final = 60
"""Characters of what was copied that the toast shows: not every terminal's clipboard takes it."""


class CtxtopApp(NavigationApp):
    """Shows what the feed reads; all work is done outside its thread."""

    CSS_PATH = Path(__file__).with_name("app.tcss")
    TITLE = "ctxtop"
    ENABLE_COMMAND_PALETTE = True
    PAUSE_GC_ON_SCROLL = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "t",
            "next_theme",
            "Theme",
            show=False,
            tooltip="dark, light, colour-blind-safe, high contrast",
            id="theme",
        ),
        Binding("u", "undo", "Undo", show=False, tooltip="take back what was done last", id="undo"),
        Binding("q,ctrl+c", "quit", "Quit", tooltip="leave", id="quit"),
    ]

    def __init__(
        self,
        places: Places,
        source: str = "ctxtop",
        notice: str = "",
        cleanup: Callable[[], None] = lambda: None,
        settings: PolicySources | None = None,
        *,
        welcomes: bool = False,
    ) -> None:
        """`settings` says how it looks and which keys it has; the policy's sources, if None."""
        super().__init__()
        self._tidy: Final = cleanup
        self.exit_handler: Final = ExitHandler(self, self._clean_up)
        self.places = places
        self.feed = Feed(places, self.post_message, self.now_ms)
        self._source: Final = source
        self._fleet: FleetScreen | None = None
        self.file_worker = WorkerThread("ctxtop works", self)
        self.lookup_worker = WorkerThread("ctxtop lookup", self)
        self.quick_worker = WorkerThread("ctxtop quick lookup", self)
        self.session_actions = SessionActions(self)
        """What changes sessions; it goes on when the page is left."""
        self._notice: Final = notice
        self.settings: Final = settings or places.policy
        """What says how it looks, and which keys it has."""
        self._welcomes = welcomes
        self._is_leaving = False
        self.is_left_for_demo = False
        """The demo is to be opened now, and then this again."""
        self._kept_file: Final = UiStateFile(places.store)
        self._keeper: Final = UiStateManager(self._kept_file, self.file_worker, self._toast_problem)
        self._plain_signs: Final = AsciiFilter(enabled=asks_for_ascii(self.settings))
        self._filters.append(self._plain_signs)
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = DARK.name

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Name our colours in themes that are not ours."""
        return fallback_colours(self.current_theme)

    def get_default_screen(self) -> Screen[None]:
        """Show something at once."""
        return OpeningScreen(self._source)

    def on_mount(self) -> None:
        """Open the fleet and start to read once the first frame is on the screen."""
        if not self.is_headless:
            self.exit_handler.start()
        self.call_after_refresh(
            self.file_worker.submit, self._read_state_and_settings, self._apply_state_and_settings
        )

    def _read_state_and_settings(self) -> tuple[UiState, DashboardSettings]:
        return self._kept_file.read(), read_dashboard_settings(self.settings)

    def _apply_state_and_settings(self, found: tuple[UiState, DashboardSettings] | Problem) -> None:
        """Apply the saved state and the settings before the fleet opens, so nothing shifts."""
        if isinstance(found, tuple):
            self._keeper.state, settings = found
            self._plain_signs.enabled = settings.ascii
            self.set_keymap(dict(settings.keymap))
            theme = settings.theme or self.ui_state.theme
            if theme in self.available_themes:
                self.theme = theme
            self._welcomes &= settings.welcome and not self.ui_state.welcomed
            for notice in settings.notices:
                self._toast(notice)
        else:
            self._toast_problem(found)
        self.theme_changed_signal.subscribe(self, self._keep_theme)
        self.call_later(self._open_fleet)

    def _keep_theme(self, theme: Theme) -> None:
        self.update_ui_state(theme=theme.name)

    def exit(
        self,
        result: None = None,
        return_code: int = 0,
        message: RenderableType | None = None,
    ) -> None:
        """Leave; what the feed says from now on finds no panes any more."""
        self._is_leaving = True
        super().exit(result, return_code, message)

    def _clean_up(self) -> None:
        self.feed.stop()
        self._tidy()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Allow only `ACTIONS_BEFORE_OPENING` until the sessions' screen is there."""
        if self._fleet is None and action not in ACTIONS_BEFORE_OPENING:
            return False
        return super().check_action(action, parameters)

    async def _open_fleet(self) -> None:
        from .screens.fleet.fleet_screen import FleetScreen

        opening = self.screen
        fleet = FleetScreen(self._source)
        # What the feed says needs the panes, which are there only after this.
        await self.push_screen(fleet)
        self._fleet = fleet
        self.call_after_refresh(self.feed.start)
        if self._welcomes:
            # The keys were not meant for this page, which may be answered only once.
            self.action_welcome()
        else:
            self.feed.may_act.set()
            for key in opening.held_keys if isinstance(opening, OpeningScreen) else ():
                self.post_message(key)
        if self._notice:
            self._toast(self._notice)

    @property
    def ui_state(self) -> UiState:
        """What a person arranged, and finds again."""
        return self._keeper.state

    def update_ui_state(self, **changes: object) -> None:
        """Change fields of what is kept; it is written behind the screen's back."""
        self._keeper.update(**changes)

    @property
    def fleet(self) -> FleetScreen:
        """The main screen, which is there before the feed says anything."""
        if self._fleet is None:
            raise RuntimeError("the fleet is not open yet")
        return self._fleet

    @property
    def has_read_all(self) -> bool:
        """The first scan is over and on the screen."""
        return self._fleet is not None and self._fleet.has_read_all

    def on_unmount(self) -> None:
        """End the threads."""
        self.notifier.stop()
        for worker in (self.file_worker, self.lookup_worker, self.quick_worker):
            worker.stop()
        self.feed.stop()
        restore_garbage_collection()

    def now_ms(self) -> int:
        """Return the time in milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    # What the feed says.

    @on(ViewChanged)
    def _show_view(self, event: ViewChanged) -> None:
        from .screens.page import Page

        self.feed.view_received()
        if self._is_leaving:
            return
        if event.view.scanned and not (self.view and self.view.scanned):
            self.call_after_refresh(freeze_long_lived_objects)
        self.view = event.view
        self.notifier.compare_view(event.view)
        self.fleet.show_view(event.view)
        # One that is being laid out takes the view when it is there.
        if isinstance(self.screen, Page) and self.screen.is_mounted:
            self.screen.show_view(event.view)
        self.screen.call_after_refresh(self.feed.view_drawn)

    @on(ScanProgressed)
    def _show_progress(self, event: ScanProgressed) -> None:
        self.notifier.note_progress(event.progress)
        self.fleet.show_progress(event.progress)

    @on(ProblemReported)
    def _show_problem(self, event: ProblemReported) -> None:
        self.notifier.log_problem(event.problem)
        self.fleet.show_trouble(event.problem)

    @on(NoticeReported)
    def _handle_notice(self, event: NoticeReported) -> None:
        self.notifier.handle_notice(event.problem)

    @on(ProblemResolved)
    def _resolve_problem(self, event: ProblemResolved) -> None:
        self.notifier.log_resolved(event.place)
        self.fleet.end_trouble(event.place)

    @on(FeedStopped)
    def _show_stop(self) -> None:
        self.notifier.log_feed_stopped()
        self.fleet.show_stop()

    @on(LevelReached)
    def _notify_level(self, event: LevelReached) -> None:
        self.notifier.notify_level(event.title, event.warning)

    def _toast(self, notice: str) -> None:
        self.notify(one_line(notice), timeout=TOAST_S * 2, markup=False)

    def _toast_problem(self, trouble: Problem) -> None:
        self._toast(str(trouble))

    def get_key_display(self, binding: Binding) -> str:
        """Write a key; where there is no ⏎ to draw, its name."""
        shown = super().get_key_display(binding)
        named = self._plain_signs.enabled and not shown.isascii()
        return binding.key if named else shown

    # What a person does.

    def action_undo(self) -> None:
        """Offer to take back what was done last."""
        self.session_actions.undo_last()

    def action_next_theme(self) -> None:
        """Change to the next of our themes."""
        names = [theme.name for theme in THEMES]
        place = names.index(self.theme) if self.theme in names else -1
        self.theme = names[(place + 1) % len(names)]

    def other_commands(self) -> Iterator[SystemCommand]:
        """Offer in the palette what has no key."""
        from textual.app import SystemCommand

        yield SystemCommand("Choose a theme", "all there are, shown as you go", self.search_themes)
        yield SystemCommand(
            "First steps", "what ctxtop does, and what it never touches", self.action_welcome
        )
        yield SystemCommand(
            "Send a test notice",
            "toast, bell and desktop, as notify.* says",
            self.notifier.send_test,
        )
        picture = "this screen as an SVG file"
        yield SystemCommand("Take a picture", picture, self.deliver_screenshot)

    def leave_for_demo(self) -> None:
        """End, for the demo to be opened."""
        self.is_left_for_demo = True
        self.exit()

    def report_end(self, title: str, words: str, *, failed: bool = False) -> None:
        """Log that something a person began has ended, and notify outside of the page."""
        self.notifier.log_end(title, words, failed=failed)

    def write_sequence(self, sequence: str) -> None:
        """Send an escape sequence to the terminal, as Textual sends a copied text."""
        if self._driver is not None and not self.is_headless and not self.is_web:
            self._driver.write(sequence)

    def copy(self, text: str, what: str) -> None:
        """Copy to the clipboard and say what; the words are shown where the terminal cannot."""
        self.copy_to_clipboard(text)
        start, title = (
            one_line(text)[:COPIED_PREVIEW_CHARS],
            one_line(f"copied {what}")[:COPIED_PREVIEW_CHARS],
        )
        self.notify(start, title=title, timeout=TOAST_S, markup=False)
