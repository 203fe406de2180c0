"""Which summaries to write into a Markdown file, and which file."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from textual import events, on
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from ..export_file import ExportError, ThereAlreadyError, named_path, write_export
from ..formats import one_line
from .confirm import ConfirmScreen

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from textual.app import ComposeResult

    from ...collectors.folder import Trouble
    from ...core.store.rows import SummaryRow
    from ...core.summary_list import PlanText
    from ..app import CtxtopApp

PAGE: Final = 200
"""Summaries that are held at once while many are written."""


@dataclass(frozen=True, slots=True)
class Export:
    """What can be exported."""

    row: SummaryRow
    """The one with the cursor."""
    marked: Sequence[int]
    shown: Sequence[int]
    """All that the filters show."""
    plans: tuple[PlanText, ...]
    where: Mapping[str, str]
    """Titles of sessions."""
    now_ms: int

    @property
    def scopes(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """What there is to choose from: words and ids."""
        one = ("this one", (self.row.summary_id,))
        marked = ((f"the {len(self.marked):,} marked", tuple(self.marked)),) if self.marked else ()
        every = len(self.shown)
        shown = ((f"all {every:,} shown", tuple(self.shown)),) if every > 1 else ()
        return (*marked, one, *shown)


class ExportScreen(ModalScreen[None]):
    """Asks; what is there already is replaced only where a person says so once more."""

    app: CtxtopApp

    CSS_PATH = "export.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "escape", "leave", "Leave it", key_display="Esc", tooltip="write nothing", id="back"
        ),
        Binding(
            "down,tab",
            "scope(1)",
            "What",
            show=False,
            tooltip="what to export",
            priority=True,
            id="down",
        ),
        Binding("up,shift+tab", "scope(-1)", "What", show=False, priority=True, id="up"),
    ]

    def __init__(self, export: Export) -> None:
        super().__init__()
        self._export: Final = export
        self._scope = 0

    def compose(self) -> ComposeResult:
        """Lay out what is exported above the file's name."""
        with Vertical(id="export"):
            yield Static(id="scopes", markup=False)
            yield Static("into the file", classes="label", markup=False)
            yield Input(value=str(self._default()), id="file", compact=True, select_on_focus=False)
            yield Static(id="said", markup=False)

    def on_mount(self) -> None:
        """Let the name be typed at once."""
        box = self.query_one("#export")
        box.border_title = "Export as Markdown"
        box.border_subtitle = "⏎ write   ↑↓ what   Esc leave it"
        self.query_one(Input).focus()
        self._draw()

    def _default(self) -> Path:
        # Not the folder one stands in: that is often somebody's repository.
        stamp = datetime.fromtimestamp(self._export.now_ms / 1000).astimezone()
        return Path.home() / f"ctxtop-summaries-{stamp:%Y%m%d-%H%M%S}.md"

    def _draw(self) -> None:
        parts: list[Content] = []
        for number, (words, _) in enumerate(self._export.scopes):
            chosen = number == self._scope
            sign = "●" if chosen else "○"
            parts.append(Content.styled(f" {sign} {words}", "bold $accent" if chosen else "$quiet"))
        self.query_one("#scopes", Static).update(Content("\n").join(parts))

    def _say(self, words: str) -> None:
        self.query_one("#said", Static).update(one_line(words))

    def action_scope(self, by: int) -> None:
        """Choose what to export."""
        self._scope = (self._scope + by) % len(self._export.scopes)
        self._draw()

    @on(events.Click, "#scopes")
    def _choose(self, event: events.Click) -> None:
        if 0 <= event.y < len(self._export.scopes):
            self._scope = event.y
            self._draw()

    @on(Input.Changed)
    def _forget(self, event: Input.Changed) -> None:
        event.stop()
        self._say("")

    @on(Input.Submitted)
    def _write(self, event: Input.Submitted) -> None:
        event.stop()
        self._start(event.value, replacing=False)

    def _start(self, typed: str, *, replacing: bool) -> None:
        try:
            path = named_path(typed, Path.home())
        except ExportError as error:
            self._say(str(error))
            return
        _, ids = self._export.scopes[self._scope]
        export, store = self._export, self.app.places.store

        def work() -> int | ExportError:
            try:
                return write_export(path, _parts(store, export, ids), replacing=replacing)
            except ExportError as error:
                return error

        def take(found: int | ExportError | Trouble) -> None:
            if isinstance(found, int):
                self._done(path, len(ids), found)
            elif isinstance(found, ThereAlreadyError) and self.is_attached:
                self._ask(path, typed)
            elif self.is_attached:
                self._say(str(found))

        self._say("writing …")
        self.app.works.do(work, take)

    def _done(self, path: Path, count: int, size: int) -> None:
        said = f"{count:,} summar{'y' if count == 1 else 'ies'}, {size:,} bytes, for you alone"
        self.app.notify(f"{one_line(str(path))}\n{said}", title="exported", markup=False)
        if self.is_current:
            self.dismiss()

    def _ask(self, path: Path, typed: str) -> None:
        self._say("")
        what = Content.assemble(
            (one_line(str(path)), "bold $foreground"),
            "\nis there already. What is in it now is lost when it is replaced.",
        )

        def answered(yes: bool | None) -> None:  # noqa: FBT001 -- Textual's form
            if yes:
                self._start(typed, replacing=True)

        self.app.push_screen(ConfirmScreen("Replace a file", what, "Replace it"), answered)

    def action_leave(self) -> None:
        """Write nothing."""
        self.dismiss()


def _parts(store: Path, export: Export, ids: Sequence[int]) -> Iterator[str]:
    from contextlib import closing

    from ...core.store.database import open_reader
    from ...core.summary_list import read_rows
    from ..summary_markdown import summaries_markdown

    def rows() -> Iterator[SummaryRow]:
        if list(ids) == [export.row.summary_id]:
            yield export.row
            return
        with closing(open_reader(store)) as db:
            for start in range(0, len(ids), PAGE):
                yield from read_rows(db, export.plans, ids[start : start + PAGE])

    yield from summaries_markdown(rows(), export.where)
