"""The dashboard."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.app import App
from textual.binding import Binding, BindingType

from .acts import Acts
from .destinations import DESTINATIONS
from .feed import Feed
from .formats import one_line
from .kept import Keeper, KeptFile
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
from .plain_filter import PlainSigns
from .screens.opening import OpeningScreen
from .settings import asks_for_ascii, read_settings
from .theme import DARK, THEMES, stand_ins
from .worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from textual.app import SystemCommand
    from textual.command import Provider
    from textual.screen import Screen
    from textual.theme import Theme

    from ..collectors.folder import Trouble
    from ..collectors.policy_sources import PolicySources
    from ..core.agents import Agent
    from ..core.sessions import Session
    from ..core.store.rows import SummaryRow
    from .herald import Herald
    from .kept import Kept
    from .places import Places
    from .screens.fleet import FleetScreen
    from .settings import Settings
    from .view import View

TOAST_S: Final = 6.0

GRACE_S: Final = 2.0
"""After a signal: Textual writes a last time, which a terminal that is gone blocks for ever."""

COPIED_SHOWN: Final = 60
"""Characters of what was copied that the toast shows: not every terminal's clipboard takes it."""


def _commands() -> type[Provider]:
    from .palette import Commands

    return Commands


def _sessions() -> type[Provider]:
    from .palette import Sessions

    return Sessions


class CtxtopApp(App[None]):
    """Shows what the feed reads; all work is done outside its thread."""

    CSS_PATH = Path(__file__).with_name("app.tcss")
    TITLE = "ctxtop"
    ENABLE_COMMAND_PALETTE = True
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {_commands, _sessions}
    PAUSE_GC_ON_SCROLL = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark", "help", "Help", key_display="?", tooltip="these keys", id="help"),
        Binding(
            "t",
            "next_theme",
            "Theme",
            show=False,
            tooltip="dark, light, colour-blind-safe, high contrast",
            id="theme",
        ),
        Binding(
            "colon,ctrl+p",
            "command_palette",
            "Commands",
            key_display=":",
            tooltip="everything else, by name",
            id="commands",
        ),
        Binding(
            "J", "jump", "Go to session", show=False, tooltip="go to a session by title", id="jump"
        ),
        Binding("u", "undo", "Undo", show=False, tooltip="take back what was done last", id="undo"),
        Binding("q,ctrl+c", "quit", "Quit", tooltip="leave", id="quit"),
        *(
            Binding(
                each.key,
                f"go('{each.name}')",
                each.title,
                show=False,
                tooltip=each.tooltip,
                id=each.name,
            )
            for each in DESTINATIONS
        ),
    ]

    def __init__(
        self,
        places: Places,
        source: str = "ctxtop",
        notice: str = "",
        tidy: Callable[[], None] = lambda: None,
        settings: PolicySources | None = None,
        *,
        welcomes: bool = False,
    ) -> None:
        """`settings` says how it looks and which keys it has; the policy's sources, if None."""
        super().__init__()
        self._tidy: Final = tidy
        self.places: Final = places
        self.feed: Final = Feed(places, self.post_message, self.now_ms)
        self._source: Final = source
        self._fleet: FleetScreen | None = None
        self.view: View | None = None
        """The newest."""
        self.works: Final = Worker("ctxtop works", self.post_message)
        """For what changes files: one thing after the other."""
        self.acts: Final = Acts(self)
        """What changes sessions; it goes on when the page is left."""
        self._notice: Final = notice
        self.settings: Final = settings or places.policy
        """What says how it looks, and which keys it has."""
        self._welcomes = welcomes
        self.is_left_for_demo = False
        """The demo is to be opened now, and then this again."""
        self._kept_file: Final = KeptFile(places.store)
        self._keeper: Final = Keeper(self._kept_file, self.works, self._tell_trouble)
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
            self._leave_when_told()
        self.call_after_refresh(self.works.do, self._read_arrangement, self._arrange)

    def _read_arrangement(self) -> tuple[Kept, Settings]:
        return self._kept_file.read(), read_settings(self.settings)

    def _arrange(self, found: tuple[Kept, Settings] | Trouble) -> None:
        """Take over what a person arranged, then show the fleet: nothing changes under the eye."""
        if isinstance(found, tuple):
            self._keeper.kept, settings = found
            self._plain_signs.enabled = settings.ascii
            self.set_keymap(dict(settings.keymap))
            theme = settings.theme or self.kept.theme
            if theme in self.available_themes:
                self.theme = theme
            self._welcomes &= settings.welcome and not self.kept.welcomed
            for notice in settings.notices:
                self._tell(notice)
        else:
            self._tell_trouble(found)
        self.theme_changed_signal.subscribe(self, self._keep_theme)
        self.call_later(self._open_fleet)

    def _keep_theme(self, theme: Theme) -> None:
        self.keep(theme=theme.name)

    def _leave_when_told(self) -> None:
        # Else the terminal stays as we set it, and the demo's folder stays where it is.
        if sys.platform == "win32":
            return
        loop = asyncio.get_running_loop()
        for told in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(told, self._leave, 128 + told)

    def _leave(self, code: int) -> None:
        last = threading.Timer(GRACE_S, self._leave_at_once, [code])
        last.daemon = True
        last.start()
        self.exit(return_code=code)

    def _leave_at_once(self, code: int) -> None:
        self.feed.stop()
        self._tidy()
        os._exit(code)

    async def _open_fleet(self) -> None:
        from .screens.fleet import FleetScreen

        fleet = FleetScreen(self._source)
        # What the feed says needs the panes, which are there only after this.
        await self.push_screen(fleet)
        self._fleet = fleet
        self.call_after_refresh(self.feed.start)
        if self._welcomes:
            self.action_welcome()
        if self._notice:
            self._tell(self._notice)

    @property
    def kept(self) -> Kept:
        """What a person arranged, and finds again."""
        return self._keeper.kept

    def keep(self, **changes: object) -> None:
        """Change fields of what is kept; it is written behind the screen's back."""
        self._keeper.keep(**changes)

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
    def herald(self) -> Herald:
        """Who tells of what the feed says."""
        from .herald import Herald

        return Herald(self)

    def on_unmount(self) -> None:
        """End the threads."""
        self.herald.stop()
        self.works.stop()
        self.feed.stop()

    def now_ms(self) -> int:
        """Tell the time, in milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    # What the feed says.

    @on(ViewChanged)
    def _show_view(self, event: ViewChanged) -> None:
        from .screens.page import Page

        self.view = event.view
        self.herald.see(event.view)
        self.fleet.show_view(event.view)
        if isinstance(self.screen, Page):
            self.screen.show_view(event.view)
        self.screen.call_after_refresh(self.feed.drawn)

    @on(ScanProgressed)
    def _show_progress(self, event: ScanProgressed) -> None:
        self.herald.hear_progress(event.progress)
        self.fleet.show_progress(event.progress)

    @on(Troubled)
    def _show_trouble(self, event: Troubled) -> None:
        self.herald.hear_trouble(event.trouble)
        self.fleet.show_trouble(event.trouble)

    @on(Noted)
    def _tell_note(self, event: Noted) -> None:
        self.herald.hear_note(event.notice)

    @on(Eased)
    def _end_trouble(self, event: Eased) -> None:
        self.herald.hear_ease(event.place)
        self.fleet.end_trouble(event.place)

    @on(Stopped)
    def _show_stop(self) -> None:
        self.herald.hear_stop()
        self.fleet.show_stop()

    @on(Answered)
    def _take_answer(self, event: Answered) -> None:
        event.deliver()

    @on(LevelReached)
    def _tell_level(self, event: LevelReached) -> None:
        self.herald.hear_level(event.title, event.found)

    def _tell(self, notice: str) -> None:
        self.notify(one_line(notice), timeout=TOAST_S * 2, markup=False)

    def _tell_trouble(self, trouble: Trouble) -> None:
        self._tell(str(trouble))

    def get_key_display(self, binding: Binding) -> str:
        """Write a key; where there is no ⏎ to draw, its name."""
        shown = super().get_key_display(binding)
        named = self._plain_signs.enabled and not shown.isascii()
        return binding.key if named else shown

    # What a person does.

    def action_help(self) -> None:
        """Show the keys of what is on the screen."""
        from .help_text import explain
        from .screens.help import HelpScreen

        keys = explain(self.screen.active_bindings, self.get_key_display)
        self.push_screen(HelpScreen(getattr(self.screen, "crumbs", ("sessions",))[-1], keys))

    def action_go(self, name: str) -> None:
        """Open a page, or go back to it where it lies below."""
        destination = next(each for each in DESTINATIONS if each.name == name)
        page = destination.make(self)
        if page is None:
            return
        for below in self.screen_stack:
            if type(below) is type(page) and below.session_id == page.session_id:
                self._go_back_to(below)
                return
        self.push_screen(page)

    def go_back(self, crumbs: tuple[str, ...], session_id: str | None) -> None:
        """Go back to the page of a crumb; where none is open, to the session's or the fleet."""
        from .screens.page import Page

        for below in reversed(self.screen_stack[:-1]):
            if isinstance(below, Page) and below.crumbs == crumbs:
                self._go_back_to(below)
                return
        session = self.marked_session
        self._go_back_to(self.fleet)
        if len(crumbs) > 1 and session and session.session_id == session_id:
            self.open_session(session)

    def _go_back_to(self, below: Screen[None]) -> None:
        while self.screen is not below:
            self.pop_screen()

    @property
    def marked_session(self) -> Session | None:
        """The session whose page is open, else the one that is marked."""
        session_id = getattr(self.screen, "session_id", None) or self.fleet.marked
        sessions = self.view.sessions if self.view else ()
        return next((each for each in sessions if each.session_id == session_id), None)

    def action_undo(self) -> None:
        """Offer to take back what was done last."""
        self.acts.undo_last()

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
            "Send a test notice", "toast, bell and desktop, as notify.* says", self.herald.test
        )
        picture = "this screen as an SVG file"
        yield SystemCommand("Take a picture", picture, self.deliver_screenshot)

    def action_welcome(self) -> None:
        """Show what ctxtop is and where to begin."""
        from .screens.welcome import WelcomeScreen

        if not any(isinstance(screen, WelcomeScreen) for screen in self.screen_stack):
            self.push_screen(WelcomeScreen())

    def leave_for_demo(self) -> None:
        """End, for the demo to be opened."""
        self.is_left_for_demo = True
        self.exit()

    def action_command_palette(self) -> None:
        """Show what can be done, by name."""
        from textual.command import CommandPalette

        if not isinstance(self.screen, CommandPalette):
            self.push_screen(CommandPalette(placeholder="What to do, or a session's title …"))

    def search_themes(self) -> None:
        """Show themes while one chooses."""
        from .palette import ThemeChooser

        self.push_screen(ThemeChooser())

    def action_jump(self) -> None:
        """Go to a session by its title."""
        from textual.command import CommandPalette

        from .palette import Jumps

        self.push_screen(CommandPalette([Jumps], placeholder="Go to a session …"))

    def write_sequence(self, sequence: str) -> None:
        """Send an escape sequence to the terminal, as Textual sends a copied text."""
        if self._driver is not None and not self.is_headless and not self.is_web:
            self._driver.write(sequence)

    def copy(self, text: str, what: str) -> None:
        """Copy to the clipboard and say what; the words are shown where the terminal cannot."""
        self.copy_to_clipboard(text)
        start, title = one_line(text)[:COPIED_SHOWN], one_line(f"copied {what}")[:COPIED_SHOWN]
        self.notify(start, title=title, timeout=TOAST_S, markup=False)

    def open_summary(self, row: SummaryRow, title: str) -> None:
        """Show a summary whole."""
        from .screens.summary import SummaryScreen
        from .summary_report import Known

        self.push_screen(SummaryScreen(row, Known(title), crumbs=(title,)))

    def open_agent(self, agent: Agent, title: str) -> None:
        """Show what an agent returned, whether that complies, and what it was given."""
        from .screens.agent import AgentScreen

        self.push_screen(AgentScreen(agent, title, self.size.width, self.now_ms()))

    def open_session(self, session: Session) -> None:
        """Show what is known of a session, and how."""
        from .screens.session import SessionScreen

        self.push_screen(SessionScreen(session))


def run_dashboard(
    places: Places,
    source: str = "ctxtop",
    notice: str = "",
    tidy: Callable[[], None] = lambda: None,
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
        app = CtxtopApp(places, source, notice, tidy, settings, welcomes=welcomes)
        app.run(mouse=mouse)
        if not app.is_left_for_demo:
            return app.return_code or 0
        from .demo import run_demo

        run_demo(policy=app.settings.command_line, mouse=mouse)
