"""Where claude-memory's saves stand, project by project; it follows what happens."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Static

from ..formats import one_line
from ..saves_report import BEING_READ, NO_SAVES, plugin_report, project_report
from ..saves_rows import in_need, lay_out, saves_head, saves_line
from ..widgets.row_list import Row, RowList, Rows
from .page import Page
from .reading import MARGINS, WIDEST, ReadingScreen

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.widget import Widget

    from ...core.saves.report import ProjectSave, SavesReport
    from ..view import View

CRUMB: Final = "saves of claude-memory"


class SavesScreen(Page):
    """A line a project: its state, and what its last save put into the context."""

    CSS_PATH = "saves.tcss"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "copy", "Copy", tooltip="copy the project's folder", id="copy"),
    ]

    def __init__(self, saves: SavesReport | None, now_ms: int) -> None:
        super().__init__(CRUMB)
        self._saves = saves
        self._now_ms = now_ms

    def compose_page(self) -> Iterable[Widget]:
        """Lay out the plugin's line and the projects."""
        yield Static(id="plugins", markup=False)
        yield RowList(id="saves", number="", name="Saves")

    def on_mount(self) -> None:
        """Show what is known."""
        self._list.rows.focus()
        self._draw()

    @property
    def _list(self) -> RowList:
        return self.query_one(RowList)

    def show_view(self, view: View) -> None:
        """Show what a newer view says."""
        self._saves, self._now_ms = view.saves, view.now_ms
        self._draw()

    def _draw(self) -> None:
        if not self.is_attached:
            return
        pane, saves = self._list, self._saves
        pane.empty = BEING_READ if saves is None else NO_SAVES
        columns = lay_out(pane.row_width)
        projects = in_need(saves.projects) if saves else []
        pane.show_header(saves_head(columns))
        pane.show_rows(
            [Row(each.project, saves_line(each, columns, self._now_ms)) for each in projects]
        )
        pane.set_titles(Content(f"Saves · {len(projects)} projects" if projects else "Saves"))
        lines = plugin_report(saves, self.size.width - MARGINS) if saves else []
        plugins = self.query_one("#plugins", Static)
        plugins.display = bool(lines)
        plugins.update(Content("\n").join(lines))

    def _found(self, project: str | None) -> ProjectSave | None:
        projects = self._saves.projects if self._saves else ()
        return next((each for each in projects if each.project == project), None)

    def action_copy(self) -> None:
        """Copy the marked project's folder."""
        key = self._list.key
        if key:
            self.app.copy(one_line(key), "the project's folder")

    @on(RowList.Opened)
    def _open(self, event: RowList.Opened) -> None:
        found = self._found(event.key)
        if found:
            self.app.push_screen(ProjectSaveScreen(found, self.app.size.width, self._now_ms))

    @on(Rows.RoomChanged)
    def _draw_for_room(self) -> None:
        self._draw()


class ProjectSaveScreen(ReadingScreen):
    """All that is known of one project's saves, and of each newer view's."""

    def __init__(self, found: ProjectSave, width: int, now_ms: int) -> None:
        self._width: Final = min(width - MARGINS, WIDEST)
        self._project: Final = found.project
        content = project_report(found, self._width, now_ms)
        super().__init__(CRUMB, found.name, content=content)

    def show_view(self, view: View) -> None:
        """Show what a newer view says."""
        projects = view.saves.projects if view.saves else ()
        found = next((each for each in projects if each.project == self._project), None)
        if found is not None:
            content = project_report(found, self._width, view.now_ms)
            if content.plain != self._content.plain:
                self.show(content)
