"""The command palette: what the keys do just now, by name, and sessions by their titles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from textual import on
from textual.binding import ActiveBinding
from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.types import IgnoreReturnCallbackType
from textual.widgets import OptionList

from ..core.model.session import Session
from ..core.transcript.sanitize import one_line
from .screens.help_screen import MOVEMENT_IDS
from .theme import THEMES

if TYPE_CHECKING:
    from .dashboard import Dashboard


MAX_SESSIONS: Final = 50  # sessions that are offered: more words find fewer
TITLE_CHARS: Final = 80  # characters of a title; the palette wraps what is longer
HIDDEN_BINDING_IDS: Final = MOVEMENT_IDS | {"commands", None}
"""Ids of what nobody looks for by name; Textual's own second key for leaving has none."""

GO_TO_SESSION: Final = "Go to session"


@dataclass(frozen=True, slots=True)
class PaletteCommand:
    """Something that can be done by name; the words are data and never parsed."""

    title: str
    help: str
    run: IgnoreReturnCallbackType
    search_text: str = ""  # what else it is found by

    def hit(self, score: float) -> Hit:
        """Offer it as found; the palette would read plain words as markup."""
        return Hit(score, Content(self.title), self.run, text=self.title, help=_unparsed(self.help))

    def discovery(self) -> DiscoveryHit:
        """Offer it before anything is typed."""
        return DiscoveryHit(
            Content(self.title), self.run, text=self.title, help=_unparsed(self.help)
        )


def _unparsed(words: str) -> str:
    # A Content is given back as it is by what would else parse markup.
    return Content(words)  # type: ignore[return-value]


class PaletteProvider(Provider):
    """Finds offers by all the words that are typed."""

    def commands(self) -> Iterator[PaletteCommand]:
        raise NotImplementedError

    def initial_commands(self) -> Iterator[PaletteCommand]:
        """Return the commands that are listed before the user types anything."""
        return self.commands()

    @property
    def dashboard(self) -> Dashboard:
        """The app, which is no other."""
        from .dashboard import Dashboard

        app = self.app
        if not isinstance(app, Dashboard):
            raise TypeError("this palette belongs to ctxtop")
        return app

    async def discover(self) -> Hits:
        """Offer before anything is typed."""
        for offer in self.initial_commands():
            yield offer.discovery()

    async def search(self, query: str) -> Hits:
        """Offer what has all the words; the nearer to its beginning, the better."""
        wanted = query.casefold().split()
        found = 0
        for offer in self.commands():
            score = match_score(f"{offer.title} {offer.search_text}", wanted)
            if score and found < MAX_SESSIONS:
                found += 1
                yield offer.hit(score)


def match_score(text: str, words: list[str]) -> float:
    """Rank a text from 0 to 1 by where the words stand in it; 0 where one does not."""
    there = text.casefold()
    places = [there.find(word) for word in words]
    if not places or min(places) < 0:
        return 0.0
    return 1 / (1 + sum(places) / len(places) / 10)


class CommandProvider(PaletteProvider):
    """What the screen's keys do, in its own words."""

    def commands(self) -> Iterator[PaletteCommand]:
        """Offer each binding that says what it does, once."""
        seen: set[str] = set()
        for entry in self.screen.active_bindings.values():
            binding = entry.binding
            if binding.system or binding.id in HIDDEN_BINDING_IDS or binding.tooltip in {"", *seen}:
                continue
            seen.add(binding.tooltip)
            key = self.dashboard.get_key_display(binding)
            what = f"{binding.tooltip}  ({key})"
            yield PaletteCommand(binding.description, what, self._runner(entry), binding.tooltip)
        for each in self.dashboard.other_commands():
            yield PaletteCommand(each.title, each.help, each.callback)

    def _runner(self, entry: ActiveBinding) -> Callable[[], object]:
        return partial(self.app.run_action, entry.binding.action, entry.node)


class SessionProvider(PaletteProvider):
    """Sessions by title, project or id."""

    def commands(self) -> Iterator[PaletteCommand]:
        """Offer those that there are, in the order of need."""
        sessions = self.dashboard.view.sessions if self.dashboard.view else ()
        return (self._offer(each) for each in sessions)

    def initial_commands(self) -> Iterator[PaletteCommand]:
        """Show none: the palette begins with what can be done."""
        return iter(())

    def _offer(self, session: Session) -> PaletteCommand:
        words = one_line(session.title)[:TITLE_CHARS]
        return PaletteCommand(
            words,
            one_line(f"{GO_TO_SESSION} in {session.project}")[:TITLE_CHARS],
            partial(self.dashboard.open_session, session),
            f"{session.project} {session.session_id} {GO_TO_SESSION}",
        )


class SessionJumpProvider(SessionProvider):
    """The same where nothing else is asked for: all are shown at once."""

    def initial_commands(self) -> Iterator[PaletteCommand]:
        """Show the first of them."""
        return (offer for offer, _ in zip(self.commands(), range(MAX_SESSIONS), strict=False))


class ThemeProvider(PaletteProvider):
    """Ours first, then Textual's own."""

    def commands(self) -> Iterator[PaletteCommand]:
        """Offer every theme."""
        ours = {theme.name: "made for ctxtop" for theme in THEMES}
        others = {name: "" for name in sorted(self.app.available_themes) if name not in ours}
        for name, what in (ours | others).items():
            yield PaletteCommand(name, what, partial(setattr, self.app, "theme", name))


class ThemeChooser(CommandPalette):
    """Shows a theme as soon as it is marked; leaving without a choice gives back the one before."""

    def __init__(self) -> None:
        super().__init__(providers=[ThemeProvider], placeholder="Themes: the marked one is shown …")
        self._before = ""
        self._is_chosen = False

    def on_mount(self) -> None:
        """Remember what there was."""
        self._before = self.app.theme

    @on(OptionList.OptionHighlighted)
    def _show(self, event: OptionList.OptionHighlighted) -> None:
        name = getattr(getattr(event.option, "hit", None), "text", None)
        if name in self.app.available_themes:
            self.app.theme = name

    @on(OptionList.OptionSelected)
    def _choose(self) -> None:
        self._is_chosen = True

    def on_unmount(self) -> None:
        """Restore the previous theme, unless the user chose another."""
        if not self._is_chosen:
            self.app.theme = self._before
