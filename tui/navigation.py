"""The routes: which key opens which page, and how the app goes from one to another."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec
from textual._styles_cache import StylesCache
from textual.await_complete import AwaitComplete
from textual.binding import BindingType
from textual.screen import Screen

from .base.keymap import bind, bind_hidden
from .page_kit.terminal_actions import TerminalApp

if TYPE_CHECKING:
    from ..core.model.agent import Agent
    from ..core.model.session import Session
    from ..core.model.stored_rows import SummaryRow
    from .page_kit.page import Page
    from .screens.fleet.fleet_screen import FleetScreen
    from .widgets.whole_text_pane import Description


class Route(msgspec.Struct, frozen=True):
    name: str  # the binding's id
    key: str
    title: str
    tooltip: str
    make: Callable[[NavigationApp], Page | None]
    """Imports the page's module; returns None where the page has nothing to show."""


def _agents_page(app: NavigationApp) -> Page:
    from .screens.agents.agents_screen import AgentsScreen

    return AgentsScreen(app.current_session)


def _summaries_page(app: NavigationApp) -> Page:
    from .screens.summaries.summaries_screen import SummariesScreen

    return SummariesScreen(app.places.store, app.current_session)


def _search_page(_app: NavigationApp) -> Page:
    from .screens.search.search_screen import SearchScreen

    return SearchScreen()


def _compact_page(app: NavigationApp) -> Page | None:
    from ..core.compaction.policy_strategy import whole_options
    from .screens.compact.compact_screen import CompactScreen

    session, fleet = app.current_session, app.fleet
    if session and app.screen == fleet and len(fleet.arrangement.selected) > 1:
        app.toast("only one session can be compacted at a time: the selected one")
    if session and not session.path:
        app.toast("this session has no messages yet: there is nothing to compact")
        return None
    if session is None:
        return None
    policy = app.feed.policies.acting.for_project(session.project_root)
    return CompactScreen(session, whole_options(policy))


def _recover_page(app: NavigationApp) -> Page | None:
    from .screens.recover_screen import RecoverScreen

    session = app.current_session
    if session is not None and session.recovered_in is not None:
        app.toast(f"it was recovered already: resume the fork {session.recovered_in[:8]}")
        return None
    if session is not None and session.too_long is None:
        app.toast("only a session that is too long can be recovered; c compacts any session")
        return None
    return RecoverScreen(session) if session else None


def _receipts_page(_app: NavigationApp) -> Page:
    from .screens.history.history_screen import ReceiptsScreen

    return ReceiptsScreen()


def _saves_page(app: NavigationApp) -> Page:
    from .screens.memory_saves_screen import SavesScreen

    return SavesScreen(app.view.saves if app.view else None, app.now_ms())


def _policy_page(app: NavigationApp) -> Page:
    from .screens.settings.policy_screen import PolicyScreen

    session = app.current_session
    return PolicyScreen(session.project_root if session else None)


def _log_page(_app: NavigationApp) -> Page:
    from .screens.log.log_screen import LogScreen

    return LogScreen()


def _doctor_page(_app: NavigationApp) -> Page:
    from .screens.doctor_screen import DoctorScreen

    return DoctorScreen()


def _limits_page(_app: NavigationApp) -> Page:
    from .screens.limits_screen import LimitsScreen

    return LimitsScreen()


ROUTES: Final = (
    Route("agents_page", "A", "Agents", "agents, their types, reviewers' findings", _agents_page),
    Route("summaries", "S", "Summaries", "search results, summaries and plans", _summaries_page),
    Route("search", "F", "Search", "search the prompts and answers of all sessions", _search_page),
    Route("compact", "c", "Compact", "plan a compaction of this session", _compact_page),
    Route("recover", "r", "Recover", "repair a session that is too long", _recover_page),
    Route("receipts", "R", "History", "all changes, and undo", _receipts_page),
    Route("saves", "M,m", "Saves", "the state of claude-memory's saves", _saves_page),
    Route("policy", "P", "Settings", "view and change settings", _policy_page),
    Route("limits", "U", "Limits", "how much of the plan's limits is used, by whom", _limits_page),
    Route("log", "L", "Log", "what was read, skipped and reported", _log_page),
    Route("doctor", "D", "Doctor", "check that everything works", _doctor_page),
)


def clear_styles_cache() -> None:
    """Drop the cached drawings of widgets; those on the screen are drawn again.

    The cache of 1,024 calls holds each widget's drawn lines as long as the call is in it (seen in
    Textual 8.2.8): an open dashboard would grow by what every page has shown.
    """
    # Another version of Textual may have no such cache.
    clear = getattr(StylesCache.get_inner_outer, "cache_clear", None)
    if clear is not None:
        clear()


class NavigationApp(TerminalApp):
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("question_mark", "help", "Help", "keys and symbols", "help", key_display="?"),
        bind(
            "colon,ctrl+p",
            "command_palette",
            "Commands",
            "all commands, by name",
            "commands",
            key_display=":",
        ),
        bind_hidden("J", "jump", "Go to session", "go to a session by title", "jump"),
        *(
            bind_hidden(each.key, f"go('{each.name}')", each.title, each.tooltip, each.name)
            for each in ROUTES
        ),
    ]

    _fleet: FleetScreen | None = None

    @property
    def fleet(self) -> FleetScreen:
        """The main screen; it is open before the feed posts anything."""
        if self._fleet is None:
            raise RuntimeError("the sessions are not loaded yet")
        return self._fleet

    @property
    def current_session(self) -> Session | None:
        return self.find_session(getattr(self.screen, "session_id", None) or self.fleet.marked)

    def show_session(self, session: Session) -> None:
        self._go_back_to(self.fleet)
        if not self.fleet.mark_session(session):
            self.open_session(session)

    def action_go(self, name: str) -> None:
        """Open the page of a route, or go back to it if it is open below."""
        page = next(each for each in ROUTES if each.name == name).make(self)
        if page is None:
            return
        for screen in self.screen_stack:
            if type(screen) is type(page) and screen.session_id == page.session_id:
                self._go_back_to(screen)
                return
        self.push_screen(page)
        if page.OPENS_FIELD:
            self.expect_typing()

    def go_back(self, crumbs: tuple[str, ...], session_id: str | None) -> None:
        from .page_kit.page import Page

        for screen in reversed(self.screen_stack[:-1]):
            if isinstance(screen, Page) and screen.crumbs == crumbs:
                self._go_back_to(screen)
                return
        session = self.current_session
        self._go_back_to(self.fleet)
        if len(crumbs) > 1 and session and session.session_id == session_id:
            self.open_session(session)

    def _go_back_to(self, screen: Screen[None]) -> None:
        while self.screen is not screen:
            self.pop_screen()

    def _load_screen_css(self, screen: Screen[Any]) -> None:
        """Read a page's style sheet; Textual parses all others again too, and restyles the app."""
        for path in map(str, screen.css_path):
            if not self.stylesheet.has_source(path):
                self.stylesheet.read(path)
        super()._load_screen_css(screen)

    def pop_screen(self) -> AwaitComplete:
        left = self.screen
        popped = super().pop_screen()
        self._forget_toasts(left)
        self.call_later(clear_styles_cache)
        return popped

    def _forget_toasts(self, changed: Screen[Any]) -> None:
        # A dialog over a page is still the same page.
        if not changed.is_modal:
            self.leave_toasts()

    def action_help(self) -> None:
        from .screens.help_and_commands import HelpScreen, explain_keys, question_keys

        display = self.get_key_display
        keys = *explain_keys(self.screen.active_bindings, display), *question_keys(display)
        self.push_screen(HelpScreen(getattr(self.screen, "crumbs", ("sessions",))[-1], keys))

    def action_welcome(self) -> None:
        from .screens.welcome_screen import WelcomeScreen

        if not any(isinstance(screen, WelcomeScreen) for screen in self.screen_stack):
            self.push_screen(WelcomeScreen())

    def action_command_palette(self) -> None:
        from textual.command import CommandPalette

        from .screens.help_and_commands import CommandProvider, SessionProvider

        if not isinstance(self.screen, CommandPalette):
            palette = CommandPalette(
                [CommandProvider, SessionProvider], placeholder="A command, or a session's title …"
            )
            self.push_screen(palette)
            self.expect_typing()

    def action_jump(self) -> None:
        from textual.command import CommandPalette

        from .screens.help_and_commands import SessionJumpProvider

        self.push_screen(CommandPalette([SessionJumpProvider], placeholder="Go to a session …"))
        self.expect_typing()

    def search_themes(self) -> None:
        from .screens.help_and_commands import ThemeChooser

        self.push_screen(ThemeChooser())

    def confirm(
        self, title: str, what: Description, action_label: str, on_yes: Callable[[], None]
    ) -> None:
        from .page_kit.dialogs import ConfirmScreen

        screen = ConfirmScreen(title, what, action_label)
        self.push_screen(screen, lambda agreed: on_yes() if agreed else None)

    def open_summary(self, row: SummaryRow, title: str) -> None:
        from ..core.readers.summary_reader import summary_flaws
        from .screens.summaries.summary_screen import SummaryDetails, SummaryScreen

        session = self.find_session(row.session_id)
        policy = self.feed.policies.for_project(session.project_root if session else None)
        known = SummaryDetails(title, flaws=summary_flaws(row, policy))
        self.push_screen(SummaryScreen(row, known, crumbs=(title,)))

    def open_receipt(self, receipt_id: str, title: str) -> None:
        from .screens.history.receipt_screen import ReceiptScreen

        self.push_screen(ReceiptScreen(receipt_id, title, 0))

    def open_agent(self, agent: Agent, title: str) -> None:
        from .screens.agents.agents_screen import AgentScreen

        self.push_screen(AgentScreen(agent, title, self.size.width, self.now_ms()))

    def action_view_conversation(self) -> None:
        """Show the last prompt and answer of the current session."""
        if (session := self.current_session) is not None:
            self.open_conversation(session.session_id, None, None)

    def open_conversation(
        self,
        session_id: str,
        agent_id: str | None,
        line_offset: int | None,
        words: tuple[str, ...] = (),
    ) -> None:
        """Open the Conversation tab at a line, on the session's page if that is open already."""
        from .conversation.conversation_reading import ConversationPlace
        from .screens.session.session_screen import SessionScreen

        session = self.find_session(session_id)
        if session is None:
            self.toast("this session is unknown: its folder was not read")
            return
        place = ConversationPlace(session_id, agent_id, line_offset, words)
        for screen in self.screen_stack:
            if isinstance(screen, SessionScreen) and screen.session_id == session_id:
                self._go_back_to(screen)
                screen.open_conversation(place)
                return
        self.push_screen(SessionScreen(session, place))

    def open_session(self, session: Session) -> None:
        from .screens.session.session_screen import SessionScreen

        self.push_screen(SessionScreen(session))
