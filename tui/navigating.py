"""From screen to screen: pages, crumbs, the palette, the help."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.app import App
from textual.binding import Binding, BindingType

from .destinations import DESTINATIONS
from .forgetting import forget_gone

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.await_complete import AwaitComplete
    from textual.command import Provider
    from textual.screen import Screen

    from ..core.agents import Agent
    from ..core.sessions import Session
    from ..core.store.rows import SummaryRow
    from .places import Places
    from .screens.fleet import FleetScreen
    from .view import View


def _commands() -> type[Provider]:
    from .palette import Commands

    return Commands


def _sessions() -> type[Provider]:
    from .palette import Sessions

    return Sessions


class Navigating(App[None]):
    """Opens pages; the dashboard has the fleet and the newest view."""

    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {_commands, _sessions}

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark", "help", "Help", key_display="?", tooltip="these keys", id="help"),
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

    places: Places
    view: View | None = None
    """The newest."""

    @property
    def fleet(self) -> FleetScreen:
        """The main screen, which is there before the feed says anything."""
        raise NotImplementedError

    def now_ms(self) -> int:
        """Tell the time, in milliseconds since 1970."""
        raise NotImplementedError

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
        session = self.current_session
        self._go_back_to(self.fleet)
        if len(crumbs) > 1 and session and session.session_id == session_id:
            self.open_session(session)

    def pop_screen(self) -> AwaitComplete:
        """Leave a screen; what Textual keeps of its drawing goes too."""
        left = super().pop_screen()
        self.call_later(forget_gone)
        return left

    def _go_back_to(self, below: Screen[None]) -> None:
        while self.screen is not below:
            self.pop_screen()

    @property
    def current_session(self) -> Session | None:
        """The session whose page is open, else the one that is marked."""
        session_id = getattr(self.screen, "session_id", None) or self.fleet.marked
        sessions = self.view.sessions if self.view else ()
        return next((each for each in sessions if each.session_id == session_id), None)

    def action_welcome(self) -> None:
        """Show what ctxtop is and where to begin."""
        from .screens.welcome import WelcomeScreen

        if not any(isinstance(screen, WelcomeScreen) for screen in self.screen_stack):
            self.push_screen(WelcomeScreen())

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
