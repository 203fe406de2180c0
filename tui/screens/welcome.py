"""The first run: what ctxtop is, what it will and will not touch, and where to begin."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Button, Static

from ...collectors.folder import Trouble
from ..formats import one_line
from ..installing import Offer, install, offer_install
from ..welcome_words import ASK, CHOICES, INSTALLED, WHAT, WHAT_COMES, touched
from ..widgets.key_line import KeyLine
from .confirm import ConfirmScreen

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from ..app import CtxtopApp


class WelcomeScreen(Screen[None]):
    """Lies above the fleet once; Esc goes on, and nothing is done that was not chosen."""

    app: CtxtopApp
    CSS_PATH = "welcome.tcss"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "escape", "go_on", "Go on", key_display="Esc", tooltip="to the sessions", id="go_on"
        ),
        Binding("d", "demo", "Demo", tooltip=CHOICES["demo"].what, id="demo"),
        Binding("i", "install", "Install", tooltip=CHOICES["install"].what, id="install"),
        Binding("up,k", "app.focus_previous", "Up", show=False, tooltip="up", id="up"),
        Binding("down,j", "app.focus_next", "Down", show=False, tooltip="down", id="down"),
    ]

    def compose(self) -> ComposeResult:
        """Lay out the words above what one can begin with."""
        places = self.app.places
        with Vertical(id="welcome"):
            yield Static(WHAT, markup=False)
            with Vertical(id="touched"):
                for label, words in touched(places.config_dir, places.store):
                    yield Horizontal(Static(label), Static(words, markup=False, classes="words"))
            with Vertical(id="choices"):
                for name, choice in CHOICES.items():
                    yield Button(choice.title, id=name, compact=True)
                    yield Static(Content(choice.what), classes="what")
        yield KeyLine()

    def on_mount(self) -> None:
        """Let Enter go on."""
        self.query_one("#welcome").border_title = "Welcome to ctxtop"
        self.query_one("#go_on").focus()

    @on(Button.Pressed)
    async def _choose(self, event: Button.Pressed) -> None:
        event.stop()
        await self.run_action(str(event.button.id))

    def action_go_on(self) -> None:
        """Show the sessions, and never this again by itself."""
        self.app.update_ui_state(welcomed=True)
        self.app.feed.may_act.set()
        self.app.pop_screen()

    def action_demo(self) -> None:
        """Leave for the demo, which comes back here."""
        self.app.update_ui_state(welcomed=True)
        self.app.leave_for_demo()

    def action_install(self) -> None:
        """Work out what an installation would write, then ask."""
        places = self.app.places
        self.app.file_worker.submit(lambda: offer_install(places), self._ask)

    def _ask(self, found: Offer | Trouble | str) -> None:
        if not isinstance(found, Offer):
            self._notify(str(found))
            return
        lines = [Content(found.summary), Content(""), *(_line(each) for each in found.diff)]
        question = ConfirmScreen(ASK, Content("\n").join(lines), "Install it")
        self.app.push_screen(question, lambda agreed: self._install(found) if agreed else None)

    def _install(self, offer: Offer) -> None:
        places = self.app.places
        self.app.file_worker.submit(lambda: install(offer, places), self._notify_installed)

    def _notify_installed(self, found: str | Trouble) -> None:
        if isinstance(found, Trouble):
            self._notify(str(found))
            return
        self._notify(f"{INSTALLED} {found}", WHAT_COMES)

    def _notify(self, words: str, title: str = "") -> None:
        self.app.notify(one_line(words), title=title, markup=False)


def _line(line: str) -> Content:
    style = {"+": "$level-calm", "-": "$level-emergency"}.get(line[:1], "$quiet")
    return Content.styled(line, style)
