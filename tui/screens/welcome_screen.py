"""The first run: what ctxtop is, what it reads and writes, the demo, and installing the plugin."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Button, Static

from ...core.transcript.sanitize import one_line
from ..base.keymap import bind, bind_hidden
from ..page_kit.archive_dialogs import choose_archive_mode
from ..page_kit.hook_installation import install_plugin
from ..widgets.header_footer import KeyLine

if TYPE_CHECKING:
    from ..app_state.dashboard import Dashboard


WELCOME_CHOICES: Final = {
    "go_on": ("Continue to my sessions", "Enter or Esc; this page is shown once"),
    "demo": ("Look at the demo", "generated sessions; q returns here"),
    "install": (
        "Install the plugin",
        "shows what it would write, then asks; `ctxtop hooks` removes it",
    ),
    "archive": (
        "Keep old sessions",
        "Claude Code deletes them; choose what ctxtop archives first",
    ),
}  # titles and explanations by action

INTRODUCTION: Final = (
    "See how full the context of every Claude Code session and agent is, what fills it, and when it"
    " will be full. Make it smaller when you want to."
)


def access_summary(config_dir: Path, store: Path) -> tuple[tuple[str, str], ...]:
    return (
        ("It reads", one_line(f"{config_dir}: transcripts, agents, settings")),
        ("It keeps", one_line(f"{store}: a cache of what it read, readable only by you")),
        (
            "It writes",
            "to Claude Code's files only when you ask, with backup, receipt and undo",
        ),
        ("It sends", "nothing; a model writes a summary only if you name one"),
    )


class WelcomeScreen(Screen[None]):
    """Shown once; Esc opens the sessions."""

    app: Dashboard
    CSS_PATH = "welcome.tcss"

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("escape", "go_on", "Continue", "to the sessions", "go_on", key_display="Esc"),
        bind("d", "demo", "Demo", WELCOME_CHOICES["demo"][1], "demo"),
        bind("i", "install", "Install", WELCOME_CHOICES["install"][1], "install"),
        bind("o", "archive", "Keep", WELCOME_CHOICES["archive"][1], "keep_sessions"),
        bind_hidden("up,k", "app.focus_previous", "Up", "up", "up"),
        bind_hidden("down,j", "app.focus_next", "Down", "down", "down"),
    ]

    def compose(self) -> ComposeResult:
        places = self.app.places
        with Vertical(id="welcome"):
            yield Static(INTRODUCTION, markup=False)
            with Vertical(id="touched"):
                for label, words in access_summary(places.config_dir, places.store):
                    yield Horizontal(Static(label), Static(words, markup=False, classes="words"))
            with Vertical(id="choices"):
                for action, (title, what) in WELCOME_CHOICES.items():
                    yield Button(title, id=action, compact=True)
                    yield Static(Content(what), classes="what")
        yield KeyLine()

    def on_mount(self) -> None:
        self.query_one("#welcome").border_title = "Welcome to ctxtop"
        self.query_one("#go_on").focus()

    @on(Button.Pressed)
    async def _choose(self, event: Button.Pressed) -> None:
        event.stop()
        await self.run_action(str(event.button.id))

    def action_go_on(self) -> None:
        """Show the sessions; this page does not open by itself again."""
        self.app.update_ui_state(welcomed=True)
        self.app.feed.may_act.set()
        self.app.pop_screen()

    def action_demo(self) -> None:
        """Leave for the demo, which comes back here."""
        self.app.update_ui_state(welcomed=True)
        self.app.is_left_for_demo = True
        self.app.exit()

    def action_install(self) -> None:
        install_plugin(self.app)

    def action_archive(self) -> None:
        """Ask what to keep of sessions that Claude Code deletes."""
        choose_archive_mode(self.app)
