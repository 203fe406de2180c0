"""The dashboard."""

from __future__ import annotations

import time
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.binding import Binding, BindingType

from .acts import Acts
from .feed import Feed
from .formats import one_line
from .kept import Keeper, KeptFile
from .lasting import spare_lasting, spare_nothing
from .leaving import Leaving
from .messages import (
    Answered,
    Eased,
    LevelReached,
    Noted,
    ScanProgressed,
    Stopped,
    Troubled,
    ViewChanged,
)
from .navigating import Navigating
from .plain_filter import PlainSigns
from .screens.opening import OpeningScreen
from .settings import asks_for_ascii, read_settings
from .theme import DARK, THEMES, stand_ins
from .worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import RenderableType
    from textual.app import SystemCommand
    from textual.screen import Screen
    from textual.theme import Theme

    from ..collectors.folder import Trouble
    from ..collectors.policy_sources import PolicySources
    from .herald import Herald
    from .kept import Kept
    from .places import Places
    from .screens.fleet import FleetScreen
    from .settings import Settings

TOAST_S: Final = 6.0

BEFORE_OPENING: Final = frozenset({"quit", "suspend_process"})
"""Actions that need neither the sessions nor the settings."""

COPIED_SHOWN: Final = 60
"""Characters of what was copied that the toast shows: not every terminal's clipboard takes it."""


class CtxtopApp(Navigating):
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
        self.exit_handler: Final = Leaving(self, self._clean_up)
        self.places = places
        self.feed: Final = Feed(places, self.post_message, self.now_ms)
        self._source: Final = source
        self._fleet: FleetScreen | None = None
        self.file_worker: Final = Worker("ctxtop works", self.post_message)
        """For what changes files: one thing after the other."""
        self.session_actions: Final = Acts(self)
        """What changes sessions; it goes on when the page is left."""
        self._notice: Final = notice
        self.settings: Final = settings or places.policy
        """What says how it looks, and which keys it has."""
        self._welcomes = welcomes
        self._is_leaving = False
        self.is_left_for_demo = False
        """The demo is to be opened now, and then this again."""
        self._kept_file: Final = KeptFile(places.store)
        self._keeper: Final = Keeper(self._kept_file, self.file_worker, self._toast_problem)
        self._plain_signs: Final = PlainSigns(enabled=asks_for_ascii(self.settings))
        self._filters.append(self._plain_signs)
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = DARK.name

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Name our colours in themes that are not ours."""
        return stand_ins(self.current_theme)

    def get_default_screen(self) -> Screen[None]:
        """Show something at once."""
        return OpeningScreen(self._source)

    def on_mount(self) -> None:
        """Open the fleet and start to read once the first frame is on the screen."""
        if not self.is_headless:
            self.exit_handler.start()
        self.call_after_refresh(self.file_worker.submit, self._read_state_and_settings, self._apply_state_and_settings)

    def _read_state_and_settings(self) -> tuple[Kept, Settings]:
        return self._kept_file.read(), read_settings(self.settings)

    def _apply_state_and_settings(self, found: tuple[Kept, Settings] | Trouble) -> None:
        """Take over what a person arranged, then show the fleet: nothing changes under the eye."""
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
        """Allow only `BEFORE_OPENING` until the sessions' screen is there."""
        if self._fleet is None and action not in BEFORE_OPENING:
            return False
        return super().check_action(action, parameters)

    async def _open_fleet(self) -> None:
        from .screens.fleet import FleetScreen

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
    def ui_state(self) -> Kept:
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

    @cached_property
    def notifier(self) -> Herald:
        """Who tells of what the feed says."""
        from .herald import Herald

        return Herald(self)

    def on_unmount(self) -> None:
        """End the threads."""
        self.notifier.stop()
        self.file_worker.stop()
        self.feed.stop()
        spare_nothing()

    def now_ms(self) -> int:
        """Tell the time, in milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    # What the feed says.

    @on(ViewChanged)
    def _show_view(self, event: ViewChanged) -> None:
        from .screens.page import Page

        self.feed.view_received()
        if self._is_leaving:
            return
        if event.view.scanned and not (self.view and self.view.scanned):
            self.call_after_refresh(spare_lasting)
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

    @on(Troubled)
    def _show_problem(self, event: Troubled) -> None:
        self.notifier.log_problem(event.problem)
        self.fleet.show_trouble(event.problem)

    @on(Noted)
    def _handle_notice(self, event: Noted) -> None:
        self.notifier.handle_notice(event.problem)

    @on(Eased)
    def _resolve_problem(self, event: Eased) -> None:
        self.notifier.log_resolved(event.place)
        self.fleet.end_trouble(event.place)

    @on(Stopped)
    def _show_stop(self) -> None:
        self.notifier.log_feed_stopped()
        self.fleet.show_stop()

    @on(Answered)
    def _run_result(self, event: Answered) -> None:
        event.run()

    @on(LevelReached)
    def _notify_level(self, event: LevelReached) -> None:
        self.notifier.notify_level(event.title, event.warning)

    def _toast(self, notice: str) -> None:
        self.notify(one_line(notice), timeout=TOAST_S * 2, markup=False)

    def _toast_problem(self, trouble: Trouble) -> None:
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
            "Send a test notice", "toast, bell and desktop, as notify.* says", self.notifier.send_test
        )
        picture = "this screen as an SVG file"
        yield SystemCommand("Take a picture", picture, self.deliver_screenshot)

    def leave_for_demo(self) -> None:
        """End, for the demo to be opened."""
        self.is_left_for_demo = True
        self.exit()

    def write_sequence(self, sequence: str) -> None:
        """Send an escape sequence to the terminal, as Textual sends a copied text."""
        if self._driver is not None and not self.is_headless and not self.is_web:
            self._driver.write(sequence)

    def copy(self, text: str, what: str) -> None:
        """Copy to the clipboard and say what; the words are shown where the terminal cannot."""
        self.copy_to_clipboard(text)
        start, title = one_line(text)[:COPIED_SHOWN], one_line(f"copied {what}")[:COPIED_SHOWN]
        self.notify(start, title=title, timeout=TOAST_S, markup=False)


def run_dashboard(
    places: Places,
    source: str = "ctxtop",
    notice: str = "",
    cleanup: Callable[[], None] = lambda: None,
    *,
    settings: PolicySources | None = None,
    mouse: bool = True,
    welcomes: bool = False,
) -> int:
    """Open the dashboard; returns the exit code when a person leaves it.

    `tidy` is called only where it cannot return: the terminal went and blocks the way out.
    Without `mouse` the terminal's own selection works.
    """
    while True:
        app = CtxtopApp(places, source, notice, cleanup, settings, welcomes=welcomes)
        try:
            app.run(mouse=mouse)
        finally:
            app.exit_handler.stop()
        if not app.is_left_for_demo:
            return app.return_code or 0
        from .demo import run_demo

        run_demo(policy=app.settings.command_line, mouse=mouse)
