"""The help: the keys of the page below, and the signs, from the tables that define them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from textual import on
from textual.app import App, ComposeResult
from textual.binding import ActiveBinding, Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from ...core.model.agent import AgentStatus
from ...core.model.filter_language import Fields, fields_filter
from ...core.model.session import SessionStatus
from ...core.summaries.summary_comparison import ItemFate
from ...core.transcript.sanitize import one_line
from ..text.compliance_text import VERDICT_NAMES, VERDICT_SIGNS
from ..text.formats import NOTHING, fit_left
from ..text.gauge import LEVEL_MARK, TRIGGER_MARK
from ..text.summary_text import KIND_SIGNS
from ..widgets.text_pane import Reader
from ..widgets.timeline_picture import COMPACTION_SIGN, CURSOR_SIGN, MARK_MEANINGS, MARK_SIGNS
from .agents.agent_tree import AGENT_SIGNS
from .compact.compact_panes import BOX_OFF, BOX_ON, BOX_SOME, DEPENDENT_SIGN, PROTECTED_SIGN
from .fleet.session_table import PINNED_SIGN, SELECTED_SIGN, SESSION_SIGNS
from .summaries.comparison_text import COVERAGE_SIGNS as THING_SIGNS
from .summaries.summary_report import kind_name

SignGroup = tuple[str, tuple[tuple[str, str], ...]]  # a heading, and signs with what each means
_SESSION_MEANINGS: Final = {
    SessionStatus.WAITING: "waits for you",
    SessionStatus.BUSY: "at work",
    SessionStatus.ACTIVE: "at work",
    SessionStatus.IDLE: "open and idle",
    SessionStatus.TOO_LONG: "its prompt is too long",
    SessionStatus.GONE: "its transcript is gone",
}

_AGENT_MEANINGS: Final = {
    AgentStatus.RUNNING: "at work",
    AgentStatus.COMPLETED: "has returned",
    AgentStatus.FAILED: "failed",
    AgentStatus.STOPPED: "was stopped",
    AgentStatus.REJECTED: "was rejected",
    AgentStatus.NEVER_STARTED: "never started",
    AgentStatus.UNKNOWN: "nothing says how it ended",
}

_REPLACED_MEANINGS: Final = {
    ItemFate.SUMMARY: "the summary names it",
    ItemFate.STAYS: "the messages that stayed have it",
    ItemFate.LOST: "left out",
}

_NUMBER_MEANINGS: Final = (
    (LEVEL_MARK, "on a bar: 70 and 80 % of the window"),
    (TRIGGER_MARK, "on a bar: where Claude Code compacts by itself"),
    (SELECTED_SIGN, "marked with others: y copies all their ids"),
    (PINNED_SIGN, "pinned: stays on top"),
    ("▁▄█", "how the newest contexts went"),
    ("warm cold", "whether the next request is read from the prompt cache, and for how long"),
    ("↻2", "compacted twice"),
    ("4 ✗1", "of four agents one did not compress its result"),
    ("≈", "an estimate; without it the number is the API's"),
    (NOTHING, "not known yet"),
)


_PLAN_MEANINGS: Final = (
    (BOX_ON, "is part of the plan: space leaves it out"),
    (BOX_OFF, "is left out"),
    (BOX_SOME, "of this strategy some are left out"),
    (DEPENDENT_SIGN.strip(), "follows from the others, and goes with them"),
    (PROTECTED_SIGN.strip(), "no strategy touches it"),
)


def sign_groups() -> tuple[SignGroup, ...]:
    """Return all signs, grouped by subject."""
    return (
        (
            "Signs: sessions",
            _merge_by_sign(
                (SESSION_SIGNS[each][0], _SESSION_MEANINGS[each]) for each in _SESSION_MEANINGS
            ),
        ),
        (
            "Signs: agents",
            _merge_by_sign(
                (AGENT_SIGNS[each][0], _AGENT_MEANINGS[each]) for each in _AGENT_MEANINGS
            ),
        ),
        (
            "Signs: verdicts",
            _merge_by_sign((VERDICT_SIGNS[each], VERDICT_NAMES[each]) for each in VERDICT_NAMES),
        ),
        (
            "Signs: summaries",
            (
                *((KIND_SIGNS[kind], kind_name(kind)) for kind in KIND_SIGNS),
                *((THING_SIGNS[each], _REPLACED_MEANINGS[each]) for each in THING_SIGNS),
            ),
        ),
        (
            "Signs: a session's timeline",
            (
                *((MARK_SIGNS[each][0], MARK_MEANINGS[each]) for each in MARK_MEANINGS),
                (COMPACTION_SIGN, "compacted here, with the sizes before and after"),
                (CURSOR_SIGN, "the turn that is looked at"),
                ("✂", "something later says the same: it can go"),
            ),
        ),
        ("Signs: bars and numbers", _NUMBER_MEANINGS),
        ("Signs: a plan", _PLAN_MEANINGS),
    )


def _merge_by_sign(pairs: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Merge the pairs of each sign into one, without repeating a meaning."""
    found: dict[str, list[str]] = {}
    for sign, words in pairs:
        if sign.strip() and words not in (said := found.setdefault(sign, [])):
            said.append(words)
    return tuple((sign, ", ".join(said)) for sign, said in found.items())


PAGE_GROUP: Final = "On this page"
MOVEMENT_GROUP: Final = "Moving"
GLOBAL_GROUP: Final = "Everywhere"
KEY_GROUPS: Final = (PAGE_GROUP, GLOBAL_GROUP, MOVEMENT_GROUP)

MOVEMENT_IDS: Final = frozenset(
    {"down", "up", "first", "last", "page_down", "page_up", "left", "right", "previous", "next"}
)
"""Ids of what moves the mark or the page: everybody knows them, so they come last."""

TEXTUAL_QUIT_KEY: Final = "ctrl+q"  # Textual's own second key for leaving
KEY_CELLS: Final = 16


@dataclass(frozen=True, slots=True)
class KeyHelp:
    """What one or several keys do, and where."""

    group: str
    keys: tuple[str, ...]
    what: str


def explain_keys(
    active: Mapping[str, ActiveBinding], display: Callable[[Binding], str]
) -> tuple[KeyHelp, ...]:
    """Explain the bindings that a screen has just now; what says nothing is Textual's own."""
    keys: dict[tuple[str, str], list[str]] = {}
    for key, entry in active.items():
        binding = entry.binding
        if binding.system or not binding.tooltip or key == TEXTUAL_QUIT_KEY:
            continue
        shown = keys.setdefault((_key_group(entry), binding.tooltip), [])
        if (name := display(binding)) not in shown:
            shown.append(name)
    found = [KeyHelp(group, tuple(names), what) for (group, what), names in keys.items()]
    return tuple(sorted(found, key=lambda each: KEY_GROUPS.index(each.group)))


def _key_group(entry: ActiveBinding) -> str:
    if entry.binding.id in MOVEMENT_IDS:
        return MOVEMENT_GROUP
    return GLOBAL_GROUP if isinstance(entry.node, App) else PAGE_GROUP


def help_text(keys: Sequence[KeyHelp], words: str = "") -> Content:
    """Write keys and signs in groups; of those only what meets the filter."""
    is_wanted = fields_filter(words)
    lines: list[Content] = []
    for group in KEY_GROUPS:
        lines += _section(
            group,
            ((" ".join(each.keys), each.what) for each in keys if each.group == group),
            is_wanted,
        )
    for title, some in sign_groups():
        lines += _section(title, some, is_wanted)
    if not lines:
        return Content.styled(f"no key and no sign has the words “{one_line(words)}”", "$quiet")
    return Content("\n").join(lines[:-1])


def _section(
    title: str, rows: Iterable[tuple[str, str]], is_wanted: Callable[[Fields], bool]
) -> Iterator[Content]:
    found = [
        (sign, what) for sign, what in rows if is_wanted({"": f"{title} {sign} {what}".casefold()})
    ]
    if not found:
        return
    yield Content.styled(title, "bold $accent")
    for sign, what in found:
        yield Content.assemble(
            (f"  {fit_left(sign, KEY_CELLS)}", "$primary"), (what, "$foreground")
        )
    yield Content("")


class HelpScreen(ModalScreen[None]):
    """Every key of the screen below, and every sign; what is typed after / finds some."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,q,enter", "close", "Close", key_display="Esc", id="close"),
        Binding("slash", "find", "Find", show=False, id="find"),
    ]

    def __init__(self, title: str, keys: Sequence[KeyHelp]) -> None:
        """Explain the keys of a screen with this title."""
        super().__init__()
        self._title: Final = title
        self._keys: Final = keys

    def compose(self) -> ComposeResult:
        """Lay out the words below the line in which some are looked for."""
        with Vertical(id="help"):
            yield Input(placeholder="a key, a sign, a word …", id="find", compact=True)
            with Reader(id="keys"):
                yield Static(self._text(""))

    def on_mount(self) -> None:
        """Name the box, and let the keys scroll it."""
        box = self.query_one("#help")
        box.border_title = Content(f"Help: {one_line(self._title)}")
        box.border_subtitle = "/ finds, Esc closes"
        self.query_one("#find").display = False
        self.query_one("#keys").focus()

    def action_find(self) -> None:
        """Open the line."""
        line = self.query_one("#find", Input)
        line.display = True
        line.focus()

    def action_close(self) -> None:
        """Close the line, then the help."""
        line = self.query_one("#find", Input)
        if line.display and line.value:
            line.value = ""
            line.display = False
            self.query_one("#keys").focus()
        else:
            self.dismiss()

    @on(Input.Changed)
    def _find(self, event: Input.Changed) -> None:
        event.stop()
        self.query_one("#keys Static", Static).update(self._text(event.value))
        self.query_one("#keys").scroll_home(animate=False)

    @on(Input.Submitted)
    def _found(self, event: Input.Submitted) -> None:
        event.stop()
        self.query_one("#keys").focus()

    def _text(self, words: str) -> Content:
        return help_text(self._keys, words)
