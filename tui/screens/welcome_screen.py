"""The first run: what ctxtop is, what it reads and writes, the demo, and installing the plugin."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Button, Static

from ...core.model.problem import Problem
from ...core.transcript.sanitize import one_line
from ..keymap import bind, bind_hidden
from ..widgets.header_footer import KeyLine
from .dialogs import diff_content

if TYPE_CHECKING:
    from ...collectors.install.install_plan import InstallPlan
    from ...collectors.install.settings_file import InstallOptions
    from ...collectors.places import Places
    from ..dashboard import Dashboard


ALREADY_INSTALLED = "the plugin is already installed: see `ctxtop hooks status`"


@dataclass(frozen=True, slots=True)
class InstallOffer:
    plan: InstallPlan
    summary: str
    diff: tuple[str, ...]


def offer_plugin(places: Places) -> InstallOffer | str:
    """Plan it for the user without answers by hooks; or why not. Raises OSError."""
    from ...collectors.install.settings_file import InstallOptions

    options = InstallOptions(store=places.store, features=(), as_plugin=True, status_line=True)
    return offer_install(places, options)


def offer_install(places: Places, options: InstallOptions) -> InstallOffer | str:
    """Plan an installation for the user; or why not. Raises OSError."""
    from ...collectors.install.install_plan import install_diff, plan_install
    from ...collectors.install.settings_file import NotSafeError, SettingsScope, settings_location
    from ..cli.hooks_commands import install_plan_text

    location = settings_location(SettingsScope.USER, places.config_dir, Path.cwd())
    try:
        plan = plan_install(location, places.config_dir, options)
    except NotSafeError as error:
        return str(error)
    if plan.changes_nothing:
        return ALREADY_INSTALLED
    notes = "".join(f"\n{note}" for note in plan.notes)
    return InstallOffer(plan, install_plan_text(plan) + notes, tuple(install_diff(plan)))


def install_plugin(offer: InstallOffer, places: Places) -> str:
    """Install; returns where the previous settings are, or why not. Raises OSError."""
    from ...collectors.install.install_plan import apply_install
    from ...collectors.install.settings_file import NotSafeError

    try:
        backup = apply_install(offer.plan, places.store)
    except NotSafeError as error:
        return f"nothing was written: {error}"
    return f"backup {backup}" if backup else "there were no settings before"


WELCOME_CHOICES: Final = {
    "go_on": ("Continue to my sessions", "Enter or Esc; this page is shown once"),
    "demo": ("Look at the demo", "generated sessions; q returns here"),
    "install": (
        "Install the plugin",
        "shows what it would write, then asks; `ctxtop hooks` removes it",
    ),
}  # titles and explanations by action

INSTALL_QUESTION: Final = "Install the plugin?"
INSTALLED_TEXT: Final = "New sessions report their events to ctxtop."
INSTALLED_TITLE: Final = "The plugin is installed"

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
    """Shown once; Esc goes on to the fleet."""

    app: Dashboard
    CSS_PATH = "welcome.tcss"

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("escape", "go_on", "Continue", "to the sessions", "go_on", key_display="Esc"),
        bind("d", "demo", "Demo", WELCOME_CHOICES["demo"][1], "demo"),
        bind("i", "install", "Install", WELCOME_CHOICES["install"][1], "install"),
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
        places = self.app.places
        self.app.file_worker.submit(lambda: offer_plugin(places), self._ask)

    def _ask(self, found: InstallOffer | Problem | str) -> None:
        if not isinstance(found, InstallOffer):
            self.app.toast(str(found))
            return
        places, what = self.app.places, diff_content(Content(found.summary), found.diff)

        def install() -> None:
            self.app.file_worker.submit(lambda: install_plugin(found, places), self._report)

        self.app.confirm(INSTALL_QUESTION, what, "Install it", install)

    def _report(self, found: str | Problem) -> None:
        if isinstance(found, Problem):
            self.app.toast(str(found))
        else:
            self.app.toast(f"{INSTALLED_TEXT} {found}", INSTALLED_TITLE)
