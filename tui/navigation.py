"""The routes: which key opens which page, and how the app goes from one to another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from textual._styles_cache import StylesCache
from textual.await_complete import AwaitComplete
from textual.binding import Binding, BindingType
from textual.command import Provider
from textual.screen import Screen

from .dashboard import Dashboard

if TYPE_CHECKING:
    from ..core.model.agent import Agent
    from ..core.model.session import Session
    from ..core.store.queries.query_rows import SummaryRow
    from .screens.fleet.fleet_screen import FleetScreen
    from .screens.page import Page


@dataclass(frozen=True, slots=True)
class Route:
    """A page, the key that opens it, and how it is made."""

    name: str  # the binding's id, by which a person can give it other keys
    key: str
    title: str
    tooltip: str
    make: Callable[[NavigationApp], Page | None]
    """Its module is imported only now; None where there is nothing that it could show."""


def _make_saves_page(app: NavigationApp) -> Page:
    from .screens.memory_saves.saves_screen import SavesScreen

    saves = app.view.saves if app.view else None
    return SavesScreen(saves, app.now_ms())


def _make_policy_page(app: NavigationApp) -> Page:
    from .screens.settings.policy_screen import PolicyScreen

    session = app.current_session
    return PolicyScreen(session.project_root if session else None)


def _make_log_page(app: NavigationApp) -> Page:
    from .screens.log.log_screen import LogScreen

    return LogScreen()


def _make_doctor_page(app: NavigationApp) -> Page:
    from .screens.doctor_screen import DoctorScreen

    return DoctorScreen()


def _make_agents_page(app: NavigationApp) -> Page:
    from .screens.agents.agents_screen import AgentsScreen

    return AgentsScreen(app.current_session)


def _make_summaries_page(app: NavigationApp) -> Page:
    from .screens.summaries.summaries_screen import SummariesScreen
    from .screens.summaries.summary_source import SummarySource

    return SummariesScreen(SummarySource(app.places.store), app.current_session)


def _make_compact_page(app: NavigationApp) -> Page | None:
    from .screens.compact.compact_screen import CompactScreen

    session = app.current_session
    if session and app.screen is app.fleet and len(app.fleet.arrangement.selected) > 1:
        app.notify("one session at a time is compacted: the one under the cursor", markup=False)
    if session and not session.path:
        app.notify("nothing was said in it yet: there is nothing to compact", markup=False)
        return None
    return CompactScreen(session) if session else None


def _make_recover_page(app: NavigationApp) -> Page | None:
    from .screens.recover_screen import RecoverScreen

    session = app.current_session
    if session is None:
        return None
    if session.too_long is None:
        words = "only a session that is too long is recovered; c makes any smaller"
        app.notify(words, markup=False)
        return None
    return RecoverScreen(session)


def _make_history_page(app: NavigationApp) -> Page:
    from .screens.history.history_screen import ReceiptsScreen

    return ReceiptsScreen()


ROUTES: Final = (
    Route(
        "agents_page", "A", "Agents", "agents, their types, reviewers' findings", _make_agents_page
    ),
    Route(
        "summaries",
        "S",
        "Summaries",
        "search what was returned, kept and planned",
        _make_summaries_page,
    ),
    Route("compact", "c", "Compact", "plan how to make this session smaller", _make_compact_page),
    Route("recover", "r", "Recover", "mend a session that is too long", _make_recover_page),
    Route("receipts", "R", "Receipts", "every action ever taken, and undo", _make_history_page),
    Route("saves", "M,m", "Saves", "how the saves of claude-memory stand", _make_saves_page),
    Route(
        "policy",
        "P",
        "Policy",
        "what is set, where it was said, and to change it",
        _make_policy_page,
    ),
    Route("log", "L", "Log", "what was read, set aside and told", _make_log_page),
    Route("doctor", "D", "Doctor", "whether ctxtop can do its work here", _make_doctor_page),
)


def clear_styles_cache() -> None:
    """Drop what was drawn of every widget but those on the screen, which draw on.

    A cache of 1,024 calls holds each widget's drawn lines as long as the call is in it (seen in
    Textual 8.2.8): an open dashboard would grow by what every page has shown.
    """
    # Where another version has no such cache there is nothing to let go.
    clear = getattr(StylesCache.get_inner_outer, "cache_clear", None)
    if clear is not None:
        clear()


def _command_provider() -> type[Provider]:
    from .command_palette import CommandProvider

    return CommandProvider


def _session_provider() -> type[Provider]:
    from .command_palette import SessionProvider

    return SessionProvider


class NavigationApp(Dashboard):
    """Opens pages; the dashboard has the fleet and the newest view."""

    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {
        _command_provider,
        _session_provider,
    }

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
            for each in ROUTES
        ),
    ]

    @property
    def fleet(self) -> FleetScreen:
        """The main screen, which is there before the feed says anything."""
        raise NotImplementedError

    def action_help(self) -> None:
        """Show the keys of what is on the screen."""
        from .screens.help_screen import HelpScreen, explain_keys

        keys = explain_keys(self.screen.active_bindings, self.get_key_display)
        self.push_screen(HelpScreen(getattr(self.screen, "crumbs", ("sessions",))[-1], keys))

    def action_go(self, name: str) -> None:
        """Open a page, or go back to it where it lies below."""
        destination = next(each for each in ROUTES if each.name == name)
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
        self.call_later(clear_styles_cache)
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
        from .screens.welcome_screen import WelcomeScreen

        if not any(isinstance(screen, WelcomeScreen) for screen in self.screen_stack):
            self.push_screen(WelcomeScreen())

    def action_command_palette(self) -> None:
        """Show what can be done, by name."""
        from textual.command import CommandPalette

        if not isinstance(self.screen, CommandPalette):
            self.push_screen(CommandPalette(placeholder="What to do, or a session's title …"))

    def search_themes(self) -> None:
        """Show themes while one chooses."""
        from .command_palette import ThemeChooser

        self.push_screen(ThemeChooser())

    def action_jump(self) -> None:
        """Go to a session by its title."""
        from textual.command import CommandPalette

        from .command_palette import SessionJumpProvider

        self.push_screen(CommandPalette([SessionJumpProvider], placeholder="Go to a session …"))

    def open_summary(self, row: SummaryRow, title: str) -> None:
        """Show a summary whole."""
        from .screens.summaries.summary_report import SummaryDetails
        from .screens.summaries.summary_screen import SummaryScreen

        self.push_screen(SummaryScreen(row, SummaryDetails(title), crumbs=(title,)))

    def open_agent(self, agent: Agent, title: str) -> None:
        """Show what an agent returned, whether that complies, and what it was given."""
        from .screens.agents.agent_screen import AgentScreen

        self.push_screen(AgentScreen(agent, title, self.size.width, self.now_ms()))

    def open_session(self, session: Session) -> None:
        """Show what is known of a session, and how."""
        from .screens.session.session_screen import SessionScreen

        self.push_screen(SessionScreen(session))
