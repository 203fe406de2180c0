"""Where a document is to go: into a file that a person names, or into the clipboard."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static

from ..formats import one_line

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from ...collectors.folder import Trouble
    from ..app import CtxtopApp

NAMED: Final = "Name a file that is not there yet; nothing is written over."


class ExportScreen(ModalScreen[None]):
    """Writes or copies a document, and says what came of it; Esc does neither."""

    app: CtxtopApp

    CSS_PATH = "export.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Back", key_display="Esc", tooltip="write nothing", id="back"),
        Binding("ctrl+y", "copy", "Copy", tooltip="into the clipboard instead", id="copy_instead"),
    ]

    def __init__(self, title: str, document: str, name: str) -> None:
        """Offer to write `document`, which `title` names, to a file called `name`."""
        super().__init__()
        self._title: Final = title
        self._document: Final = document
        self._file_name: Final = name

    def compose(self) -> ComposeResult:
        """Lay out the file's name above the answers."""
        with Vertical(id="export"):
            yield Static(NAMED, id="why", markup=False)
            yield Input(self._file_name, id="name", compact=True, select_on_focus=False)
            with Horizontal(id="answers"):
                yield Button("Write the file", id="write", compact=True)
                yield Button("Copy instead", id="copy", compact=True)
                yield Button("Leave it", id="leave", compact=True)

    def on_mount(self) -> None:
        """Let a person type at once."""
        self.query_one("#export").border_title = one_line(f"Export {self._title} as Markdown")
        self.query_one("#name").focus()

    @on(Input.Submitted)
    @on(Button.Pressed, "#write")
    def _write(self) -> None:
        from ..export_file import write_new

        name = self.query_one("#name", Input).value.strip()
        document = self._document
        if name:
            self.app.works.do(lambda: write_new(name, document), self._tell)

    def _tell(self, written: object) -> None:
        from ...collectors.folder import Trouble

        if not isinstance(written, Trouble):
            self.app.notify(one_line(str(written)), title="written", markup=False)
            self.dismiss()
        elif self.is_attached:
            self._say(written)

    def _say(self, trouble: Trouble) -> None:
        said = self.query_one("#why", Static)
        said.update(one_line(f"✗ {trouble}"))
        said.add_class("-wrong")

    @on(Button.Pressed, "#copy")
    def action_copy(self) -> None:
        """Copy it and be done."""
        self.dismiss()
        self.app.copy(self._document, self._title)

    @on(Button.Pressed, "#leave")
    def action_leave(self) -> None:
        """Do neither."""
        self.dismiss()
