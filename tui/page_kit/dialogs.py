"""Dialogs over a page: confirm a change, or export what is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen, Screen
from textual.style import Style
from textual.timer import Timer
from textual.widgets import Button, Input, Static

from ...core.transcript.sanitize import one_line, reveal_line
from ..base.keymap import bind, bind_hidden
from ..export.documents import ExportError, FileThereError, parse_path, write_export
from ..text.formats import plural, shorten_middle
from ..widgets.text_pane import PAGER_PAGE_DOWN_KEYS
from ..widgets.whole_text_pane import Description, WholeTextPane

if TYPE_CHECKING:
    from ...core.model.problem import Problem
    from ..app_state.dashboard import Dashboard


CANCEL_LABEL: Final = "Cancel"

READING_S: Final = 0.25
"""How long a dialog must be on the screen without a key press before a key can choose: nobody reads
faster, and keys that are held or were typed ahead come sooner."""


def diff_description(head: str, diff: Iterable[str]) -> Description:
    styles = {"+": "$level-calm", "-": "$level-emergency"}
    lines = ((f"\n{line}", styles.get(line[:1], "$quiet")) for line in diff)
    return (head, "\n", *lines)


@dataclass(frozen=True, slots=True)
class DialogChoice:
    id: str  # of its button
    label: str
    approves: bool = True  # what is shown: only once all of it was


Result = TypeVar("Result")


class Dialog(ModalScreen[Result]):
    """A box over a page; Esc, and a click beside the box, leave it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("escape", "leave", CANCEL_LABEL, "cancel", "leave", key_display="Esc")
    ]

    def action_leave(self) -> None:
        self.dismiss()

    def on_click(self, event: events.Click) -> None:
        if event.widget is self:
            self.action_leave()


def key_hints(*hints: tuple[str, str]) -> Content:
    """Write keys and what they do, for a border; a click runs the screen's action."""
    return Content("   ").join(
        Content.styled(words, Style.from_meta({"@click": f"screen.{action}"}))
        for words, action in hints
    )


CANCEL_ID: Final = "safe"
QUESTION_CELLS: Final = 100  # at most three rows: a longer name is whole in the text above


class QuestionScreen(Dialog[Result]):
    """A text, and a button for each choice; the first one, Cancel, has the focus.

    What is shown is shown whole: nothing can be approved before its last line was on the screen.
    """

    CANCEL: ClassVar[DialogChoice] = DialogChoice(CANCEL_ID, f"Esc {CANCEL_LABEL}", approves=False)
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("escape,q", "leave", CANCEL_LABEL, "cancel", "leave", key_display="Esc"),
        bind_hidden("left", "app.focus_previous", "Other", "before", "previous"),
        bind_hidden("right", "app.focus_next", "Other", "next", "next"),
        bind_hidden("up,k", "line(-1)", "Up", "up", "up"),
        bind_hidden("down,j", "line(1)", "Down", "down", "down"),
        bind_hidden(PAGER_PAGE_DOWN_KEYS, "page('down')", "Page down", "a page down", "page_down"),
        bind_hidden("pageup,ctrl+u", "page('up')", "Page up", "a page up", "page_up"),
    ]
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (60, "-wide")]  # noqa: RUF012 -- Textual's
    VERTICAL_BREAKPOINTS = [(0, "-short"), (20, "-tall")]  # noqa: RUF012

    def __init__(
        self,
        title: str,
        description: Description,
        choices: Sequence[DialogChoice],
        question: str = "",
    ) -> None:
        """`description` may be anyone's text, and `question` is always visible below it."""
        super().__init__()
        self._title: Final = title
        self._description: Final = description
        self._question: Final = shorten_middle(reveal_line(question), QUESTION_CELLS)
        self.choices: Final = tuple(choices)
        self._reading: Timer | None = None
        self.takes_keys = False

    def compose(self) -> ComposeResult:
        with Vertical(id="confirm"):
            yield WholeTextPane(self._description, id="what")
            with Vertical(id="foot"):
                yield Static(id="unread")
                if self._question:
                    yield Static(Content(self._question), id="question")
                yield from self.compose_input()
                with Horizontal(id="answers"):
                    yield Button(self.CANCEL.label, id=self.CANCEL.id, compact=True)
                    for each in self.choices:
                        yield Button(
                            each.label,
                            id=each.id,
                            variant="warning",
                            compact=True,
                            disabled=each.approves,
                        )

    def compose_input(self) -> ComposeResult:
        """Yield what can be typed, between the text and the buttons."""
        yield from ()

    def on_mount(self) -> None:
        """Focus Cancel, so that Enter alone changes nothing."""
        self.query_one("#confirm").border_title = Content(reveal_line(self._title))
        self.query_one(f"#{CANCEL_ID}").focus()
        self.call_after_refresh(self._begin_reading)
        self.screen_layout_refresh_signal.subscribe(self, self._fit)

    def _fit(self, _screen: Screen[object]) -> None:
        """Limit the text to the rows that the question and the buttons leave."""
        if not self.is_attached:
            return
        box, foot = self.query_one("#confirm"), self.query_one("#foot")
        buttons = self.query("#answers Button")
        needed = sum(each.outer_size.width + each.styles.margin.width for each in buttons)
        self.query_one("#answers").set_class(needed > foot.size.width, "-stacked")
        rows = max(1, self.size.height - box.gutter.height - foot.outer_size.height)
        self._pane.styles.max_height = rows
        self._pane.note_rows()

    @property
    def _pane(self) -> WholeTextPane:
        return self.query_one(WholeTextPane)

    @on(WholeTextPane.RowsShown)
    def _show_unread(self) -> None:
        pane = self._pane
        if pane.max_scroll_y:
            unread, left = self.query_one("#unread", Static), pane.rows_left
            unread.update(f"↓ {plural(left, 'more line')}: PgDn" if left else "all of it was shown")
            unread.set_class(bool(left), "-left")
            unread.display = True
        waiting = [each for each in self.query("#answers Button") if each.disabled]
        if pane.is_seen and waiting:
            for each in waiting:
                each.disabled = False
            self._begin_reading()

    def _begin_reading(self) -> None:
        self.takes_keys = False
        if self._reading is not None:
            self._reading.stop()
        self._reading = self.set_timer(READING_S, self._end_reading)

    def _end_reading(self) -> None:
        self.takes_keys = True

    def result_of(self, choice_id: str) -> Result:
        """Return what the screen returns for a choice, or for Cancel."""
        raise NotImplementedError

    @on(Button.Pressed)
    def _answer(self, event: Button.Pressed) -> None:
        event.stop()
        self.dismiss(self.result_of(event.button.id or CANCEL_ID))

    def action_choose(self, choice_id: str) -> None:
        """Choose by a key, unless nobody can have read the dialog yet."""
        if not self.takes_keys:
            self._begin_reading()
            return
        for each in self.choices:
            if each.id == choice_id and (self._pane.is_seen or not each.approves):
                self.dismiss(self.result_of(choice_id))

    def action_line(self, by: int) -> None:
        """Scroll by a line; go to another button if the whole text is on the screen."""
        if self._pane.max_scroll_y:
            self._pane.scroll_relative(y=by, animate=False)
        elif by > 0:
            self.focus_next()
        else:
            self.focus_previous()

    def action_page(self, where: str) -> None:
        getattr(self._pane, f"scroll_page_{where}")(animate=False)

    def action_leave(self) -> None:
        self.dismiss(self.result_of(CANCEL_ID))


ACTION_ID: Final = "action"


class YesNoScreen(QuestionScreen[Result]):
    """A question with one action, whose button has the id ACTION_ID."""

    CANCEL = DialogChoice(CANCEL_ID, f"n {CANCEL_LABEL}", approves=False)
    BINDINGS: ClassVar[list[BindingType]] = [
        bind_hidden("y", f"choose('{ACTION_ID}')", "Yes", "yes, do it", "confirm"),
        bind_hidden("n", "leave", "No", "no, change nothing", "decline"),
    ]

    def __init__(self, title: str, description: Description, action_label: str) -> None:
        """`description` is of the action, and `action_label` is on the button for it."""
        super().__init__(title, description, [DialogChoice(ACTION_ID, f"y {action_label}")])


class ConfirmScreen(YesNoScreen[bool]):
    """Returns True only if the user chose the button that names the action."""

    def result_of(self, choice_id: str) -> bool:
        return choice_id != CANCEL_ID


class ChoiceScreen(QuestionScreen[str]):
    """Returns the id of the choice; empty if the user cancels. A subclass has keys for them."""

    def result_of(self, choice_id: str) -> str:
        return "" if choice_id == CANCEL_ID else choice_id


@dataclass(frozen=True, slots=True)
class ExportChoice:
    label: str  # as "the 3 marked"
    description: str  # as "3 summaries"
    make_parts: Callable[[], Iterable[str]]  # of the document; called outside the screen's thread


class ExportScreen(Dialog[None]):
    """Asks what to export and where to; replaces a file only after another question."""

    app: Dashboard

    CSS_PATH = "export.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        bind_hidden("down,tab", "scope(1)", "What", "what to export", "down", priority=True),
        bind_hidden("up,shift+tab", "scope(-1)", "What", "", "up", priority=True),
        bind("ctrl+y", "copy", "Copy", "copy to the clipboard instead", "copy"),
    ]

    def __init__(self, title: str, choices: Sequence[ExportChoice], name: str, now_ms: int) -> None:
        """`name` begins that of the file."""
        super().__init__()
        self._title: Final = title
        self._choices: Final = choices
        # Not in the working directory, which is often a repository.
        stamp = datetime.fromtimestamp(now_ms / 1000).astimezone()
        self._default_path: Final = Path.home() / f"ctxtop-{name}-{stamp:%Y%m%d-%H%M%S}.md"
        self._chosen = 0

    def compose(self) -> ComposeResult:
        with Vertical(id="export"):
            yield Static(id="scopes", markup=False)
            yield Static("write the file", classes="label", markup=False)
            path = str(self._default_path)
            yield Input(value=path, id="file", compact=True, select_on_focus=False)
            yield Static(id="said", markup=False)

    def on_mount(self) -> None:
        box = self.query_one("#export")
        box.border_title = Content(one_line(f"Export {self._title} as Markdown"))
        box.border_subtitle = key_hints(
            ("⏎ write", "write"),
            ("^y copy", "copy"),
            ("↑↓ what", "scope(1)"),
            ("Esc cancel", "leave"),
        )
        self.query_one(Input).focus()
        self._choose(0)

    def _choose(self, place: int) -> None:
        self._chosen = place
        lines = [
            Content.styled(f" ● {choice.label}", "bold $accent")
            if choice is self._choice
            else Content.styled(f" ○ {choice.label}", "$quiet")
            for choice in self._choices
        ]
        self.query_one("#scopes", Static).update(Content("\n").join(lines))

    @property
    def _choice(self) -> ExportChoice:
        return self._choices[self._chosen]

    def action_scope(self, by: int) -> None:
        self._choose((self._chosen + by) % len(self._choices))

    @on(events.Click, "#scopes")
    def _choose_clicked(self, event: events.Click) -> None:
        if 0 <= event.y < len(self._choices):
            self._choose(event.y)

    def _show_status(self, words: str) -> None:
        self.query_one("#said", Static).update(one_line(words))

    @on(Input.Changed)
    def _clear_status(self, event: Input.Changed) -> None:
        event.stop()
        self._show_status("")

    @on(Input.Submitted)
    def action_write(self) -> None:
        self._write(self.query_one(Input).value, replacing=False)

    def _write(self, typed: str, *, replacing: bool) -> None:
        try:
            path = parse_path(typed, Path.home())
        except ExportError as error:
            self._show_status(str(error))
            return
        choice = self._choice

        def write() -> int | ExportError:
            try:
                return write_export(path, choice.make_parts(), replacing=replacing)
            except ExportError as error:
                return error

        def report(found: int | ExportError | Problem) -> None:
            if isinstance(found, int):
                size = f"{choice.description}, {found:,} bytes, readable only by you"
                self.app.notify(f"{one_line(str(path))}\n{size}", title="exported", markup=False)
                if self.is_current:
                    self.dismiss()
            elif isinstance(found, FileThereError) and self.is_attached:
                self._confirm_replacing(path, typed)
            elif self.is_attached:
                self._show_status(str(found))

        self._show_status("writing …")
        self.app.file_worker.submit(write, report)

    def _confirm_replacing(self, path: Path, typed: str) -> None:
        self._show_status("")
        what = (
            (reveal_line(str(path)), "bold $foreground"),
            "\nalready exists. Replacing it deletes its current content.",
        )
        on_yes = partial(self._write, typed, replacing=True)
        self.app.confirm("Replace a file", what, "Replace", on_yes)

    def action_copy(self) -> None:
        choice = self._choice

        def copy(found: str | Problem) -> None:
            if isinstance(found, str):
                self.app.copy(found, choice.description)
            if self.is_current:
                self.dismiss()

        self.app.file_worker.submit(lambda: "".join(choice.make_parts()), copy)
