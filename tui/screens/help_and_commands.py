"""The help (keys and signs of the page below) and the command palette (the same keys by name)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, Final, cast

from textual import on
from textual.app import App, ComposeResult
from textual.binding import ActiveBinding, Binding, BindingType
from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.containers import Vertical
from textual.content import Content
from textual.types import IgnoreReturnCallbackType
from textual.widgets import Input, OptionList, Static

from ...core.model.agent import AgentStatus
from ...core.model.session import Session, SessionStatus
from ...core.summaries.summary_comparison import ItemFate
from ...core.transcript.filter_language import Fields, fields_filter
from ...core.transcript.sanitize import one_line
from ..base.keymap import bind, bind_hidden, with_own_display
from ..base.theme import THEMES
from ..entities.agent_tree import AGENT_SIGNS
from ..entities.timeline_picture import COMPACTION_SIGN, CURSOR_SIGN, MARK_MEANINGS, MARK_SIGNS
from ..page_kit.dialogs import Dialog, YesNoScreen, key_hints
from ..text.compliance_text import VERDICT_NAMES, VERDICT_SIGNS
from ..text.formats import NOTHING, fit_left
from ..text.gauge import LEVEL_MARK, TRIGGER_MARK
from ..text.plan_text import BOX_OFF, BOX_ON, BOX_SOME, DEPENDENT_SIGN, PROTECTED_SIGN
from ..text.session_text import FORK_SIGN, PINNED_SIGN, SELECTED_SIGN, SESSION_SIGNS
from ..text.summary_text import COVERAGE_SIGNS, KIND_NAMES, KIND_SIGNS
from ..widgets.text_pane import Reader

if TYPE_CHECKING:
    from ..app_state.dashboard import Dashboard


_SESSION_MEANINGS: Final = {
    SessionStatus.WAITING: "waits for you",
    SessionStatus.BUSY: "working",
    SessionStatus.ACTIVE: "working",
    SessionStatus.IDLE: "open and idle",
    SessionStatus.BACKGROUND: "its agent or shell works",
    SessionStatus.TOO_LONG: "its prompt is too long",
    SessionStatus.UNREAD: "its transcript is not read",
    SessionStatus.GONE: "its transcript is gone",
    SessionStatus.ARCHIVED: "only ctxtop's archive has it",
}
_AGENT_MEANINGS: Final = {
    AgentStatus.RUNNING: "running",
    AgentStatus.ZOMBIE: "silent for 30 minutes",
    AgentStatus.CLOSED: "was closed by hand",
    AgentStatus.COMPLETED: "has returned",
    AgentStatus.FAILED: "failed",
    AgentStatus.STOPPED: "was stopped",
    AgentStatus.REJECTED: "was rejected",
    AgentStatus.NEVER_STARTED: "never started",
    AgentStatus.UNREAD: "its transcript is not read",
    AgentStatus.UNKNOWN: "its end is unknown",
}
_COVERAGE_MEANINGS: Final = {
    ItemFate.SUMMARY: "the summary names it",
    ItemFate.STAYS: "in the messages that were kept",
    ItemFate.LOST: "left out",
}

_SIGNS: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "sessions": tuple(
        (SESSION_SIGNS[each][0], _SESSION_MEANINGS[each]) for each in _SESSION_MEANINGS
    ),
    "agents": tuple((AGENT_SIGNS[each][0], _AGENT_MEANINGS[each]) for each in _AGENT_MEANINGS),
    "verdicts": tuple((VERDICT_SIGNS[each], VERDICT_NAMES[each]) for each in VERDICT_NAMES),
    "summaries": (
        *((KIND_SIGNS[kind], KIND_NAMES[kind]) for kind in KIND_SIGNS),
        *((COVERAGE_SIGNS[each], _COVERAGE_MEANINGS[each]) for each in _COVERAGE_MEANINGS),
    ),
    "a session's timeline": (
        *((MARK_SIGNS[each][0], MARK_MEANINGS[each]) for each in MARK_MEANINGS),
        (COMPACTION_SIGN, "compacted here, with the sizes before and after"),
        (CURSOR_SIGN, "the selected turn"),
        ("✂", "superseded later: it can be removed"),
    ),
    "bars and numbers": (
        (LEVEL_MARK, "on a bar: 70 and 80 % of the window"),
        (TRIGGER_MARK, "on a bar: where Claude Code auto-compacts"),
        (SELECTED_SIGN, "marked: y copies the ids of all marked sessions"),
        (PINNED_SIGN, "pinned: stays on top"),
        (FORK_SIGN, "a fork, with what it is"),
        ("▁▄█", "the context over the last turns, from 0 to the window"),
        ("warm cold", "whether the prompt cache is warm, and for how long"),
        ("40+ turns", "at least 40 turns until Claude Code auto-compacts"),
        ("4 ✗1", "four agents, one of them noncompliant"),
        ("≈", "an estimate; other numbers are measured"),
        (NOTHING, "not known yet"),
    ),
    "a plan": (
        (BOX_ON, "in the plan; space leaves it out"),
        (BOX_OFF, "left out"),
        (BOX_SOME, "some operations of this strategy are left out"),
        (DEPENDENT_SIGN.strip(), "depends on the others, and is removed with them"),
        (PROTECTED_SIGN.strip(), "protected: no strategy changes it"),
    ),
}  # by subject: signs, each with a meaning; a sign may have several


def sign_groups() -> Iterator[tuple[str, tuple[tuple[str, str], ...]]]:
    """Yield a heading for each subject, and its signs with what each means."""
    for subject, signs in _SIGNS.items():
        meanings: dict[str, dict[str, None]] = {}
        for sign, meaning in signs:
            if sign.strip():
                meanings.setdefault(sign, {})[meaning] = None
        merged = tuple((sign, ", ".join(several)) for sign, several in meanings.items())
        yield f"Signs: {subject}", merged


PAGE_GROUP: Final = "On this page"
MOVEMENT_GROUP: Final = "Moving"
GLOBAL_GROUP: Final = "Everywhere"
DIALOG_GROUP: Final = "In a question"
KEY_GROUPS: Final = (PAGE_GROUP, GLOBAL_GROUP, DIALOG_GROUP, MOVEMENT_GROUP)

MOVEMENT_IDS: Final = frozenset(
    {"down", "up", "first", "last", "page_down", "page_up", "left", "right", "previous", "next"}
)
"""Ids of bindings that move the cursor or the page: everybody knows them, so they come last."""

TEXTUAL_SECOND_KEYS: Final = frozenset({"ctrl+q", "super+c"})  # for leaving, and for copying
TEXTUAL_ACTIONS: Final = {
    "app.focus_next": "next pane",
    "app.focus_previous": "previous pane",
    "screen.copy_text": "copy the text selected with the mouse",
}  # what Textual's own keys do that have no tooltip
KEY_CELLS: Final = 16


@dataclass(frozen=True, slots=True)
class KeyHelp:
    group: str
    keys: tuple[str, ...]  # those that do the same
    what: str


def explain_keys(
    active: Mapping[str, ActiveBinding], display: Callable[[Binding], str]
) -> tuple[KeyHelp, ...]:
    """Explain each key that a screen has now, by itself, except Textual's own second keys."""
    keys: dict[tuple[str, str], dict[str, None]] = {}
    for key, entry in active.items():
        binding = entry.binding
        what = binding.tooltip or TEXTUAL_ACTIONS.get(binding.action, "")
        if not binding.system and what and key not in TEXTUAL_SECOND_KEYS:
            group = GLOBAL_GROUP if isinstance(entry.node, App) else PAGE_GROUP
            if binding.id in MOVEMENT_IDS or binding.action in TEXTUAL_ACTIONS:
                group = MOVEMENT_GROUP
            keys.setdefault((group, what), {})[display(with_own_display(binding))] = None
    rows = [KeyHelp(group, tuple(names), what) for (group, what), names in keys.items()]
    return tuple(sorted(rows, key=lambda each: KEY_GROUPS.index(each.group)))


def question_keys(display: Callable[[Binding], str]) -> Iterator[KeyHelp]:
    """Explain the keys that answer a question about a change."""
    for binding in YesNoScreen.BINDINGS:
        if isinstance(binding, Binding):
            yield KeyHelp(DIALOG_GROUP, (display(binding),), binding.tooltip)
    yield KeyHelp(DIALOG_GROUP, ("PgDn",), "the next lines: y counts once all were shown")
    yield KeyHelp(DIALOG_GROUP, ("⏎",), "the marked button, at first Cancel")


def help_text(keys: Sequence[KeyHelp], words: str = "") -> Content:
    is_wanted = fields_filter(words)
    lines: list[Content] = []
    for group in KEY_GROUPS:
        rows = ((" ".join(each.keys), each.what) for each in keys if each.group == group)
        lines += _section(group, rows, is_wanted)
    for title, signs in sign_groups():
        lines += _section(title, signs, is_wanted)
    if not lines:
        return Content.styled(f"no key or symbol matches “{one_line(words)}”", "$quiet")
    return Content("\n").join(lines[:-1])


def _section(
    title: str, rows: Iterable[tuple[str, str]], is_wanted: Callable[[Fields], bool]
) -> Iterator[Content]:
    matching = [row for row in rows if is_wanted({"": f"{title} {row[0]} {row[1]}".casefold()})]
    if not matching:
        return
    yield Content.styled(title, "bold $accent")
    for sign, what in matching:
        yield Content.assemble(
            (f"  {fit_left(sign, KEY_CELLS)}", "$primary"), (what, "$foreground")
        )
    yield Content("")


class HelpScreen(Dialog[None]):
    """Every key of the screen below and every sign, or those that match what is typed after /."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("escape,question_mark,q,enter", "leave", "Close", "", "close", key_display="Esc"),
        bind_hidden("slash", "find", "Find", "", "find"),
    ]

    def __init__(self, title: str, keys: Sequence[KeyHelp]) -> None:
        """`title` is that of the screen below."""
        super().__init__()
        self._title: Final = title
        self._keys: Final = keys

    def compose(self) -> ComposeResult:
        with Vertical(id="help"):
            yield Input(placeholder="a key, a sign, a word …", id="find", compact=True)
            with Reader(id="keys"):
                yield Static(help_text(self._keys))

    def on_mount(self) -> None:
        box = self.query_one("#help")
        box.border_title = Content(f"Help: {one_line(self._title)}")
        box.border_subtitle = key_hints(("/ search", "find"), ("Esc close", "leave"))
        self.query_one("#find").display = False
        self.query_one("#keys").focus()

    def action_find(self) -> None:
        self.query_one("#find").display = True
        self.query_one("#find").focus()

    def action_leave(self) -> None:
        """Close the search, then the help."""
        search = self.query_one("#find", Input)
        if search.display and search.value:
            search.value = ""
            search.display = False
            self.query_one("#keys").focus()
        else:
            self.dismiss()

    @on(Input.Changed)
    def _find(self, event: Input.Changed) -> None:
        event.stop()
        self.query_one("#keys Static", Static).update(help_text(self._keys, event.value))
        self.query_one("#keys").scroll_home(animate=False)

    @on(Input.Submitted)
    def _focus_keys(self, event: Input.Submitted) -> None:
        event.stop()
        self.query_one("#keys").focus()


MAX_SESSIONS: Final = 50  # sessions that are offered: more words find fewer
TITLE_CHARS: Final = 80  # of a title: the palette wraps a longer one
HIDDEN_BINDING_IDS: Final = MOVEMENT_IDS | {"commands", None}
"""Ids of what nobody looks for by name; Textual's own second key for leaving has none."""

GO_TO_SESSION: Final = "Go to session"


@dataclass(frozen=True, slots=True)
class PaletteCommand:
    """A command of the palette; its texts are never parsed as markup."""

    title: str
    help: str
    run: IgnoreReturnCallbackType
    search_text: str = ""  # what it is found by beside its title

    def hit(self, score: float) -> Hit:
        return Hit(score, Content(self.title), self.run, text=self.title, help=self._help)

    def discovery(self) -> DiscoveryHit:
        return DiscoveryHit(Content(self.title), self.run, text=self.title, help=self._help)

    @property
    def _help(self) -> str:
        # The palette parses a str as markup, but leaves a Content as it is.
        return Content(self.help)  # type: ignore[return-value]


class PaletteProvider(Provider):
    @property
    def dashboard(self) -> Dashboard:
        return cast("Dashboard", self.app)

    def commands(self) -> Iterator[PaletteCommand]:
        raise NotImplementedError

    def initial_commands(self) -> Iterator[PaletteCommand]:
        """Return the commands that are listed before the user types anything."""
        return self.commands()

    async def discover(self) -> Hits:
        for command in self.initial_commands():
            yield command.discovery()

    async def search(self, query: str) -> Hits:
        words = query.casefold().split()
        scored = (
            (match_score(f"{each.title} {each.search_text}", words), each)
            for each in self.commands()
        )
        for score, command in islice((pair for pair in scored if pair[0]), MAX_SESSIONS):
            yield command.hit(score)


def match_score(text: str, words: list[str]) -> float:
    """Rank a text from 0 to 1: higher the nearer to its beginning, 0 if it lacks a word."""
    folded = text.casefold()
    places = [folded.find(word) for word in words]
    if not places or min(places) < 0:
        return 0.0
    return 1 / (1 + sum(places) / len(places) / 10)


class CommandProvider(PaletteProvider):
    """What the screen's keys do, and the app's commands without a key."""

    def commands(self) -> Iterator[PaletteCommand]:
        tooltips = {""}
        for entry in self.screen.active_bindings.values():
            binding = entry.binding
            if binding.system or binding.id in HIDDEN_BINDING_IDS or binding.tooltip in tooltips:
                continue
            tooltips.add(binding.tooltip)
            key = self.dashboard.get_key_display(with_own_display(binding))
            what = f"{binding.tooltip}  ({key})"
            run = partial(self.dashboard.run_action, binding.action, entry.node)
            # An id keeps its name when a title changes: `policy` finds Settings.
            found_by = f"{binding.tooltip} {binding.id or ''}"
            yield PaletteCommand(binding.description, what, run, found_by)
        for each in self.dashboard.get_system_commands(self.screen):
            yield PaletteCommand(each.title, each.help, each.callback)


class SessionProvider(PaletteProvider):
    def commands(self) -> Iterator[PaletteCommand]:
        return map(self._command, self.dashboard.sessions)

    def initial_commands(self) -> Iterator[PaletteCommand]:
        return iter(())

    def _command(self, session: Session) -> PaletteCommand:
        return PaletteCommand(
            one_line(session.title)[:TITLE_CHARS],
            one_line(f"{GO_TO_SESSION} in {session.project}")[:TITLE_CHARS],
            partial(self.dashboard.open_session, session),
            f"{session.project} {session.session_id} {GO_TO_SESSION}",
        )


class SessionJumpProvider(SessionProvider):
    """The sessions alone, listed before anything is typed."""

    def initial_commands(self) -> Iterator[PaletteCommand]:
        return islice(self.commands(), MAX_SESSIONS)


class ThemeProvider(PaletteProvider):
    def commands(self) -> Iterator[PaletteCommand]:
        themes = {theme.name: "made for ctxtop" for theme in THEMES}
        themes |= {name: "" for name in sorted(self.app.available_themes) if name not in themes}
        for name, what in themes.items():
            yield PaletteCommand(name, what, partial(setattr, self.app, "theme", name))


class ThemeChooser(CommandPalette):
    """Previews the highlighted theme; closing it without a choice restores the previous one."""

    def __init__(self) -> None:
        super().__init__(
            providers=[ThemeProvider], placeholder="Themes: the highlighted one is previewed …"
        )
        self._before = ""
        self._is_chosen = False

    def on_mount(self) -> None:
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
        if not self._is_chosen:
            self.app.theme = self._before
