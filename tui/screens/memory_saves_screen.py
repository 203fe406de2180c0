"""The memory saves page: a line for each project, and all that is known of one project's saves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, ClassVar, Final

from msgspec.structs import replace
from textual import events, on
from textual.binding import BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from ...core.saves.memory_plugin import PluginFit
from ...core.saves.save_status import NEEDS_ATTENTION, SaveState
from ...core.transcript.sanitize import one_line
from ..base.keymap import bind
from ..base.messages import FleetView
from ..page_kit.page import TEXT_MARGIN_CELLS, Page, ReadingScreen, text_width
from ..text import formats, save_facts, saves_text
from ..text.gauge import noise_meter
from ..text.listing import Row
from ..text.tables import Cell, Column, fitting_columns, total_cells
from ..text.text_lines import (
    Drawing,
    ScreenColumn,
    hanging_lines,
    item_line,
    section_heading,
)
from ..widgets.row_list import RowList, Rows

if TYPE_CHECKING:
    from ...core.saves.project_saves import MeasuredSave, ProjectSaves, SavesReport


SAVE_STATE_SIGNS: Final = {
    SaveState.NONE: ("–", "$quiet"),
    SaveState.TRIAGED: ("○", "$foreground"),
    SaveState.SAVING: ("●", "$level-calm"),
    SaveState.SAVED: ("✓", "$level-calm"),
    SaveState.PARTIAL: ("▲", "bold $level-warning"),
    SaveState.PENDING: ("▲", "bold $level-warning"),
    SaveState.ORPHANED: ("✗", "bold $level-emergency"),
    SaveState.FAILED_UNKNOWN: ("✗", "bold $level-emergency"),
    SaveState.CORRUPT: ("✗", "bold $level-emergency"),
}
"""Color alone never conveys a state."""

MAX_METER_CELLS: Final = 24
_GAP: Final = 1


def lay_out_saves(width: int, now_ms: int) -> list[ScreenColumn[ProjectSaves]]:
    """Choose the columns that fit; names and words share what is left over."""
    columns = fitting_columns(_saves_columns(now_ms), width, lambda shown: total_cells(shown, _GAP))
    spare = width - total_cells(columns, _GAP)
    names = {column.name for column in columns}
    longer = min(max(0, spare // 4), MAX_METER_CELLS - 10) if "meter" in names else 0
    rest = spare - longer
    more = {"meter": longer, "name": rest // 4 if "what" in names else rest}
    more["what"] = rest - more["name"]
    return [replace(each, cells=max(1, each.cells + more.get(each.name, 0))) for each in columns]


def _saves_columns(now_ms: int) -> list[ScreenColumn[ProjectSaves]]:
    return [
        Column("", lambda found: Cell(*SAVE_STATE_SIGNS[found.status.state]), cells=1),
        Column(
            "project",
            lambda found: Cell(one_line(found.name), "bold"),
            cells=14,
            name="name",
            tooltip="the project's folder",
            sort_key=lambda found: found.name.casefold(),
        ),
        Column(
            "state",
            _state_cell,
            cells=14,
            tooltip="what became of the last save",
            sort_key=lambda found: found.status.state_text,
        ),
        Column(
            "age",
            lambda found: Cell(saves_text.save_age(found, now_ms), "$quiet"),
            right=True,
            cells=6,
            priority=2,
            tooltip="how long ago it was saved",
            sort_key=lambda found: found.age_s(now_ms),
        ),
        Column(
            "what was saved, or will be",
            lambda found: Cell(one_line(saved_text(found)), "$foreground"),
            cells=14,
            priority=3,
            name="what",
            tooltip="what the last save kept, or the next one is to keep",
        ),
        Column(
            "noise",
            _meter,
            cells=10,
            priority=1,
            name="meter",
            tooltip="tokens that the last save put into the context, of those expected",
        ),
        _last_save_column(
            "of expected",
            saves_text.tokens_of_maximum_text,
            lambda save: save.noise.tokens,
            cells=15,
            tooltip="tokens that the last save put into the context, of those expected",
        ),
        _last_save_column(
            "lines",
            lambda save: f"{save.noise.lines:,}",
            lambda save: save.noise.lines,
            cells=6,
            priority=4,
            tooltip="lines of the transcript that the last save wrote",
        ),
        _last_save_column(
            "items",
            lambda save: f"{save.noise.items:,}",
            lambda save: save.noise.items,
            cells=6,
            priority=5,
            tooltip="calls and results of the last save",
        ),
        Column("", _met_cell, cells=1, tooltip="whether the last save kept to the expected size"),
        Column(
            "saves",
            _count_cell,
            right=True,
            cells=5,
            priority=6,
            tooltip="saves so far",
            sort_key=lambda found: len(found.saves),
        ),
    ]


def _state_cell(found: ProjectSaves) -> Cell:
    return Cell(found.status.state_text, SAVE_STATE_SIGNS[found.status.state][1])


def _meter(found: ProjectSaves) -> Cell | Drawing:
    if not found.saves:
        return Cell("", "$quiet")
    last = found.saves[-1]
    return lambda cells: noise_meter(last.noise.tokens, saves_text.expected_max_tokens(last), cells)


def _last_save_column(
    header: str,
    text: Callable[[MeasuredSave], str],
    amount: Callable[[MeasuredSave], int],
    *,
    cells: int,
    tooltip: str,
    priority: int = 0,
) -> ScreenColumn[ProjectSaves]:
    def cell(found: ProjectSaves) -> Cell:
        if not found.saves:
            return Cell(formats.NOTHING, "$quiet")
        return Cell(text(found.saves[-1]), "$foreground")

    return Column(
        header,
        cell,
        right=True,
        cells=cells,
        priority=priority,
        tooltip=tooltip,
        sort_key=lambda found: amount(found.saves[-1]) if found.saves else None,
    )


def _count_cell(found: ProjectSaves) -> Cell:
    count = len(found.saves)
    return Cell(f"{count:,}", "$foreground") if count else Cell(formats.NOTHING, "$quiet")


def _met_cell(found: ProjectSaves) -> Cell:
    return Cell(*saves_text.band_sign(found.saves[-1])) if found.saves else Cell("")


def saved_text(found: ProjectSaves) -> str:
    """Return what was saved or will be saved, else the reason for the state."""
    status = found.status
    if status.state is SaveState.SAVED:
        return save_facts.saved_text(status)
    return ", ".join(status.categories) or status.reason


_LABEL_CELLS: Final = 13
_NAME_CELLS: Final = 22
_STATE_CELLS: Final = 16
_REPORT_METER_CELLS: Final = 24
MAX_SAVES: Final = 20  # of the history; the command lists all

READING_TEXT: Final = "reading claude-memory's files …"
NO_SAVES_TEXT: Final = (
    "No claude-memory saves found: neither its files nor its Stop hook in a transcript."
)


def project_report(found: ProjectSaves, width: int, now_ms: int) -> Content:
    """Write all that is known of a project's saves for lines of `width` cells."""
    lines = [_head_line(found, now_ms)]
    for label, text, style in save_facts.save_facts(found, now_ms):
        head = Content.styled(f"    {label:<{_LABEL_CELLS}}", "$quiet")
        lines += hanging_lines(head, Content.styled(one_line(text), style), width)
    if found.saves:
        lines += section_heading("its saves, newest first")
        lines += _history_lines(found, width, now_ms)
        lines += section_heading("added by the last save")
        lines += _share_lines(found, width)
    if found.saves and (commands := found.saves[-1].noise.commands):
        lines += section_heading("commands of the last save's agents")
        for command in commands:
            lines += hanging_lines(
                Content("  "), Content.styled(one_line(command), "$quiet"), width
            )
    if found.trigger_rates:
        lines += section_heading("what triage wanted to save")
        lines += _rate_lines(found)
    if found.phases_ms:
        lines += section_heading("mean duration of each phase")
        lines += _phase_lines(found)
    return Content("\n").join(lines)


def plugin_report(report: SavesReport, width: int) -> list[Content]:
    """Write a line or more for each installation of the plugin."""
    lines: list[Content] = []
    for plugin in report.plugins:
        style = "bold $level-emergency" if plugin.fit is PluginFit.BROKEN else "$quiet"
        words = one_line(saves_text.installation_text(plugin))
        lines += hanging_lines(Content(""), Content.styled(words, style), width)
    return lines


def _history_lines(found: ProjectSaves, width: int, now_ms: int) -> Iterator[Content]:
    cells = min(_REPORT_METER_CELLS, max(10, width // 4))
    for save in list(reversed(found.saves))[:MAX_SAVES]:
        noise = save.noise
        sign, style = saves_text.band_sign(save)
        yield Content.assemble(
            (f"  {sign} ", style),
            (f"{formats.local_time(noise.at, now_ms):>12}  ", "$quiet"),
            noise_meter(noise.tokens, saves_text.expected_max_tokens(save), cells),
            (f" {formats.fit_right(saves_text.tokens_of_maximum_text(save), 16)}  ", "$foreground"),
            (saves_text.lines_and_items(noise.lines, noise.items), "$quiet"),
        )
    if len(found.saves) > MAX_SAVES:
        yield Content.styled(f"    and {len(found.saves) - MAX_SAVES:,} earlier", "$quiet")


def _share_lines(found: ProjectSaves, width: int) -> Iterator[Content]:
    """Yield the noise of the last save by class, largest first."""
    classes = found.saves[-1].noise.classes
    shares = sorted(classes.items(), key=lambda each: -each[1].estimated_tokens)
    total = sum(share.estimated_tokens for _, share in shares) or 1
    cells = min(_REPORT_METER_CELLS, max(10, width // 4))
    for name, share in shares:
        ratio = share.estimated_tokens / total
        yield Content.assemble(
            (f"  {name.value.replace('_', ' '):<13} ", "$foreground"),
            (f"{formats.half_cell_bar(ratio, cells):<{cells}}", "$accent"),
            (
                f" {formats.percent(ratio):>6}  ≈{formats.tokens(share.estimated_tokens)} tokens, ",
                "$foreground",
            ),
            (saves_text.lines_and_items(share.lines, share.items), "$quiet"),
        )


def _rate_lines(found: ProjectSaves) -> Iterator[Content]:
    for name, rate in found.trigger_rates.items():
        share = "" if rate.share is None else f"  {formats.percent(rate.share)}"
        yield Content.assemble(f"  {name:<20}", (f"{rate.hits} of {rate.total}{share}", "$quiet"))


def _phase_lines(found: ProjectSaves) -> Iterator[Content]:
    for name, took in found.phases_ms.items():
        yield Content.assemble(f"  {one_line(name):<20}", (formats.duration(round(took)), "$quiet"))


def _head_line(found: ProjectSaves, now_ms: int) -> Content:
    sign, style = SAVE_STATE_SIGNS[found.status.state]
    known = found.age_s(now_ms) is not None
    ago = f"{saves_text.save_age(found, now_ms)} ago" if known else formats.NOTHING
    stale = "" if found.is_fresh or not known else ", no longer fresh"
    return Content.assemble(
        (f"{sign} ", style),
        (
            formats.fit_left(formats.shorten(one_line(found.name), _NAME_CELLS), _NAME_CELLS),
            "bold",
        ),
        " ",
        (f"{found.status.state_text:<{_STATE_CELLS}}", style),
        (f"{ago}{stale}", "$quiet"),
    )


CRUMB: Final = "saves of claude-memory"


class SavesScreen(Page):
    """A line for each project: its state, and what its last save put into the context."""

    CSS_PATH = "saves.tcss"

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("y", "copy", "Copy", "copy the project's folder", "copy")
    ]

    def __init__(self, saves: SavesReport | None, now_ms: int) -> None:
        super().__init__(CRUMB)
        self._saves = saves
        self._now_ms = now_ms

    def compose_page(self) -> Iterable[Widget]:
        yield Static(id="plugins", markup=False)
        yield RowList(id="saves", name="Saves")

    def on_mount(self) -> None:
        self._draw()

    def show_view(self, view: FleetView) -> None:
        self._saves, self._now_ms = view.saves, view.now_ms
        self._draw()

    @on(Rows.RoomChanged)
    def _draw(self) -> None:
        if not self.is_attached:
            return
        pane, saves = self.row_list, self._saves
        pane.empty = READING_TEXT if saves is None else NO_SAVES_TEXT
        columns = lay_out_saves(pane.row_width, self._now_ms)
        # Those that need attention come first.
        projects = sorted(
            saves.projects if saves else (),
            key=lambda found: found.status.state not in NEEDS_ATTENTION,
        )
        pane.show_columns(columns)
        pane.show_rows(
            [Row(found.project, item_line(columns, found)) for found in pane.in_order(projects)]
        )
        pane.set_titles(Content(f"Saves · {len(projects)} projects" if projects else "Saves"))
        lines = plugin_report(saves, self.size.width - TEXT_MARGIN_CELLS) if saves else []
        plugins = self.query_one("#plugins", Static)
        plugins.display = bool(lines)
        plugins.update(Content("\n").join(lines))

    def action_copy(self) -> None:
        key = self.row_list.key
        if key:
            self.app.copy(one_line(key), "the project's folder")

    @on(RowList.Opened)
    def _open(self, event: RowList.Opened) -> None:
        found = _find_project(self._saves, event.key)
        if found:
            self.app.push_screen(ProjectSaveScreen(found, self.app.size.width, self._now_ms))


def _find_project(saves: SavesReport | None, project: str) -> ProjectSaves | None:
    projects = saves.projects if saves else ()
    return next((found for found in projects if found.project == project), None)


class ProjectSaveScreen(ReadingScreen):
    """All that is known of one project's saves; follows newer views."""

    def __init__(self, found: ProjectSaves, width: int, now_ms: int) -> None:
        self._saves = found
        self._now_ms = now_ms
        content = project_report(found, text_width(width), now_ms)
        super().__init__(CRUMB, found.name, content=content)

    def on_resize(self, event: events.Resize) -> None:
        self._draw(event.size.width)

    def show_view(self, view: FleetView) -> None:
        found = _find_project(view.saves, self._saves.project)
        if found is not None:
            self._saves, self._now_ms = found, view.now_ms
            self._draw(self.size.width)

    def _draw(self, width: int) -> None:
        content = project_report(self._saves, text_width(width), self._now_ms)
        if content.plain != self._content.plain:
            self.show(content)
