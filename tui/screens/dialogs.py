"""Dialogs over a page: confirm a change, export what is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from textual import events, on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static

from ...core.transcript.sanitize import one_line
from ..export.documents import ExportError, FileThereError, parse_path, write_export
from ..keymap import bind, bind_hidden

if TYPE_CHECKING:
    from ...core.model.problem import Problem
    from ..dashboard import Dashboard


CANCEL_LABEL: Final = "Leave it alone"


def dialog_bindings(leave: str) -> tuple[Binding, ...]:
    """Bind the safe way out, and the arrows from one answer to the other."""
    words = CANCEL_LABEL.casefold()
    return (
        bind(leave, "leave", CANCEL_LABEL, words, "leave", key_display="Esc"),
        bind_hidden("left,up", "app.focus_previous", "Other", "before", "previous"),
        bind_hidden("right,down", "app.focus_next", "Other", "the next", "next"),
    )


def diff_content(head: Content, lines: Iterable[str]) -> Content:
    """Return what is asked about, above the lines that files gain and lose."""
    styles = {"+": "$level-calm", "-": "$level-emergency"}
    shown = [Content.styled(line, styles.get(line[:1], "$quiet")) for line in lines]
    return Content("\n").join([head, Content(""), *shown])


class ConfirmScreen(ModalScreen[bool]):
    """Answers True only where a person went to the button that names the action."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *dialog_bindings("escape,q"),
        bind_hidden("pagedown,ctrl+d", "scroll('down')", "Page down", "a page down", "page_down"),
        bind_hidden("pageup,ctrl+u", "scroll('up')", "Page up", "a page up", "page_up"),
    ]

    def __init__(self, title: str, what: Content, action_label: str) -> None:
        """Ask with `what` will happen; `action_label` is on the button that does it."""
        super().__init__()
        self._title: Final = title
        self._what: Final = what
        self._action: Final = action_label

    def compose(self) -> ComposeResult:
        with Vertical(id="confirm"):
            # What will happen can be long; the answers stay in sight.
            with VerticalScroll(id="what", can_focus=False):
                yield Static(self._what)
            with Horizontal(id="answers"):
                yield Button(CANCEL_LABEL, id="safe", compact=True)
                yield Button(self._action, id="action", variant="warning", compact=True)

    def on_mount(self) -> None:
        """Focus the safe answer, so that Enter alone changes nothing."""
        self.query_one("#confirm").border_title = self._title
        self.query_one("#safe").focus()

    @on(Button.Pressed)
    def _answer(self, event: Button.Pressed) -> None:
        event.stop()
        self.dismiss(event.button.id == "action")

    def action_scroll(self, where: str) -> None:
        getattr(self.query_one("#what"), f"scroll_page_{where}")(animate=False)

    def action_leave(self) -> None:
        self.dismiss(False)  # noqa: FBT003 -- the answer


def confirm(
    app: App[None], title: str, what: Content, action_label: str, on_yes: Callable[[], None]
) -> None:
    """Ask, and call `on_yes` where a person agrees."""
    app.push_screen(
        ConfirmScreen(title, what, action_label), lambda agreed: on_yes() if agreed else None
    )


@dataclass(frozen=True, slots=True)
class ExportChoice:
    """What can be exported."""

    label: str  # as "the 3 marked"
    description: str  # as "3 summaries"
    make_parts: Callable[[], Iterable[str]]
    """Makes the document; called outside the screen's thread."""


class ExportScreen(ModalScreen[None]):
    """Asks; what is there already is replaced only where a person says so once more."""

    app: Dashboard

    CSS_PATH = "export.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("escape", "leave", "Leave it", "write nothing", "back", key_display="Esc"),
        bind_hidden("down,tab", "scope(1)", "What", "what to export", "down", priority=True),
        bind_hidden("up,shift+tab", "scope(-1)", "What", "", "up", priority=True),
        bind("ctrl+y", "copy", "Copy", "into the clipboard instead", "copy"),
    ]

    def __init__(self, title: str, choices: Sequence[ExportChoice], name: str, now_ms: int) -> None:
        """Offer to write one of `choices`, for which `name` begins a file's."""
        super().__init__()
        self._title: Final = title
        self._choices: Final = choices
        self._file_name: Final = name
        self._now_ms: Final = now_ms
        self._chosen = 0

    def compose(self) -> ComposeResult:
        with Vertical(id="export"):
            yield Static(id="scopes", markup=False)
            yield Static("into the file", classes="label", markup=False)
            yield Input(value=str(self._default()), id="file", compact=True, select_on_focus=False)
            yield Static(id="said", markup=False)

    def on_mount(self) -> None:
        box = self.query_one("#export")
        box.border_title = Content(one_line(f"Export {self._title} as Markdown"))
        box.border_subtitle = "⏎ write   ^y copy   ↑↓ what   Esc leave it"
        self.query_one(Input).focus()
        self._draw()

    def _default(self) -> Path:
        # Not the folder one stands in: that is often somebody's repository.
        stamp = datetime.fromtimestamp(self._now_ms / 1000).astimezone()
        return Path.home() / f"ctxtop-{self._file_name}-{stamp:%Y%m%d-%H%M%S}.md"

    def _draw(self) -> None:
        parts: list[Content] = []
        for number, choice in enumerate(self._choices):
            chosen = number == self._chosen
            sign = "●" if chosen else "○"
            parts.append(
                Content.styled(f" {sign} {choice.label}", "bold $accent" if chosen else "$quiet")
            )
        self.query_one("#scopes", Static).update(Content("\n").join(parts))

    def _show_status(self, words: str) -> None:
        self.query_one("#said", Static).update(one_line(words))

    def action_scope(self, by: int) -> None:
        self._chosen = (self._chosen + by) % len(self._choices)
        self._draw()

    @on(events.Click, "#scopes")
    def _choose(self, event: events.Click) -> None:
        if 0 <= event.y < len(self._choices):
            self._chosen = event.y
            self._draw()

    @on(Input.Changed)
    def _forget(self, event: Input.Changed) -> None:
        event.stop()
        self._show_status("")

    @on(Input.Submitted)
    def _write(self, event: Input.Submitted) -> None:
        event.stop()
        self._start(event.value, replacing=False)

    def _start(self, typed: str, *, replacing: bool) -> None:
        try:
            path = parse_path(typed, Path.home())
        except ExportError as error:
            self._show_status(str(error))
            return
        choice = self._choices[self._chosen]

        def work() -> int | ExportError:
            try:
                return write_export(path, choice.make_parts(), replacing=replacing)
            except ExportError as error:
                return error

        def take(found: int | ExportError | Problem) -> None:
            if isinstance(found, int):
                self._done(path, choice, found)
            elif isinstance(found, FileThereError) and self.is_attached:
                self._ask(path, typed)
            elif self.is_attached:
                self._show_status(str(found))

        self._show_status("writing …")
        self.app.file_worker.submit(work, take)

    def _done(self, path: Path, choice: ExportChoice, size: int) -> None:
        said = f"{choice.description}, {size:,} bytes, for you alone"
        self.app.notify(f"{one_line(str(path))}\n{said}", title="exported", markup=False)
        if self.is_current:
            self.dismiss()

    def _ask(self, path: Path, typed: str) -> None:
        self._show_status("")
        what = Content.assemble(
            (one_line(str(path)), "bold $foreground"),
            "\nis there already. What is in it now is lost when it is replaced.",
        )

        confirm(
            self.app,
            "Replace a file",
            what,
            "Replace it",
            lambda: self._start(typed, replacing=True),
        )

    def action_copy(self) -> None:
        """Copy it and be done."""
        choice = self._choices[self._chosen]

        def take(found: str | Problem) -> None:
            if isinstance(found, str):
                self.app.copy(found, choice.description)
            if self.is_current:
                self.dismiss()

        self.app.file_worker.submit(lambda: "".join(choice.make_parts()), take)

    def action_leave(self) -> None:
        self.dismiss()
