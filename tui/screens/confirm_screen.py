"""A question before something is changed: what will happen, with Cancel as the safe answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar, Final

from textual import on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Static

CANCEL_LABEL: Final = "Leave it alone"


def dialog_bindings(leave: str) -> tuple[Binding, ...]:
    """Bind the safe way out, and the arrows from one answer to the other."""
    words = CANCEL_LABEL.casefold()
    return (
        Binding(leave, "leave", CANCEL_LABEL, key_display="Esc", tooltip=words, id="leave"),
        Binding(
            "left,up", "app.focus_previous", "Other", show=False, tooltip="before", id="previous"
        ),
        Binding("right,down", "app.focus_next", "Other", show=False, tooltip="the next", id="next"),
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
        Binding(
            "pagedown,ctrl+d",
            "scroll('down')",
            "Page down",
            show=False,
            tooltip="a page down",
            id="page_down",
        ),
        Binding(
            "pageup,ctrl+u",
            "scroll('up')",
            "Page up",
            show=False,
            tooltip="a page up",
            id="page_up",
        ),
    ]

    def __init__(self, title: str, what: Content, action_label: str) -> None:
        """Ask with `what` will happen; `action_label` is on the button that does it."""
        super().__init__()
        self._title: Final = title
        self._what: Final = what
        self._action: Final = action_label

    def compose(self) -> ComposeResult:
        """Lay out the words above two buttons."""
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
        """Read on, or back."""
        getattr(self.query_one("#what"), f"scroll_page_{where}")(animate=False)

    def action_leave(self) -> None:
        """Change nothing."""
        self.dismiss(False)  # noqa: FBT003 -- the answer


def confirm(
    app: App[None], title: str, what: Content, action_label: str, on_yes: Callable[[], None]
) -> None:
    """Ask, and call `on_yes` where a person agrees."""
    app.push_screen(
        ConfirmScreen(title, what, action_label), lambda agreed: on_yes() if agreed else None
    )
