"""The memory saves page: a line for each project, and all that is known of one project's saves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

from textual import events, on
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from ....core.saves.save_metrics import AverageSave
from ....core.saves.save_plugin import PluginFit
from ....core.saves.save_status import NEEDS_ATTENTION, SaveState
from ....core.transcript.sanitize import one_line
from ...messages import FleetView
from ...tables import Cell, Column, fitting_columns, total_cells
from ...text.formats import (
    NOTHING,
    duration,
    fit_left,
    fit_right,
    half_cell_bar,
    local_time,
    percent,
    plural,
    shorten_middle,
    tokens,
)
from ...text.gauge import noise_meter
from ...text.saves_text import (
    band_sign,
    band_text,
    expected_max_tokens,
    noise_text,
    plugin_text,
    save_age,
    tokens_of_maximum_text,
)
from ...text.text_lines import Drawing, ScreenColumn, header_line, item_line
from ...widgets.row_list import Row, RowList, Rows
from ..page import TEXT_MARGIN_CELLS, Page, ReadingScreen, text_width

if TYPE_CHECKING:
    from ....core.saves.project_saves import ProjectSaves, SavesReport


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
"""State is never told by colour alone."""

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
        Column("", lambda each: Cell(*SAVE_STATE_SIGNS[each.status.state]), cells=1),
        Column("project", lambda each: Cell(one_line(each.name), "bold"), cells=14, name="name"),
        Column("state", _state_cell, cells=14),
        Column(
            "age",
            lambda each: Cell(save_age(each, now_ms), "$quiet"),
            right=True,
            cells=6,
            priority=2,
        ),
        Column(
            "what was saved, or is to be",
            lambda each: Cell(one_line(saved_text(each)), "$foreground"),
            cells=14,
            priority=3,
            name="what",
        ),
        Column("noise", _meter, cells=10, priority=1, name="meter"),
        Column("of expected", _tokens_cell, right=True, cells=15),
        Column("lines", _lines_cell, right=True, cells=6, priority=4),
        Column("items", _items_cell, right=True, cells=6, priority=5),
        Column("", _met_cell, cells=1),
        Column(
            "saves", lambda each: _number(len(each.saves) or None), right=True, cells=5, priority=6
        ),
    ]


def _state_cell(found: ProjectSaves) -> Cell:
    return Cell(save_state_text(found), SAVE_STATE_SIGNS[found.status.state][1])


def _meter(found: ProjectSaves) -> Cell | Drawing:
    if not found.saves:
        return Cell("", "$quiet")
    last = found.saves[-1]
    return lambda cells: noise_meter(last.noise.tokens, expected_max_tokens(last), cells)


def _tokens_cell(found: ProjectSaves) -> Cell:
    if not found.saves:
        return Cell(NOTHING, "$quiet")
    return Cell(tokens_of_maximum_text(found.saves[-1]), "$foreground")


def _lines_cell(found: ProjectSaves) -> Cell:
    return _number(found.saves[-1].noise.lines if found.saves else None)


def _items_cell(found: ProjectSaves) -> Cell:
    return _number(found.saves[-1].noise.items if found.saves else None)


def _met_cell(found: ProjectSaves) -> Cell:
    return Cell(*band_sign(found.saves[-1])) if found.saves else Cell("")


def _number(number: int | None) -> Cell:
    return Cell(NOTHING, "$quiet") if number is None else Cell(f"{number:,}", "$foreground")


def by_attention(projects: Iterable[ProjectSaves]) -> list[ProjectSaves]:
    """Put those first that need somebody, each group the newest first."""
    return sorted(projects, key=lambda each: each.status.state not in NEEDS_ATTENTION)


def save_state_text(found: ProjectSaves) -> str:
    """Name a state for a person."""
    return found.status.state.value.replace("_", " ")


def saved_text(found: ProjectSaves) -> str:
    """Return what was saved or will be saved, else the reason for the state."""
    standing = found.status
    if standing.state is SaveState.SAVED:
        return ", ".join(standing.titles or standing.saved_categories or standing.categories)
    return ", ".join(standing.categories) or standing.reason


_LABEL_CELLS: Final = 13
_NAME_CELLS: Final = 22
_STATE_CELLS: Final = 16
_INDENT_CELLS: Final = 4

_REPORT_METER_CELLS: Final = 24

MAX_SAVES: Final = 20  # of the history; the command lists all
READING_TEXT: Final = "claude-memory's files are being read …"

NO_SAVES_TEXT: Final = (
    "No save of claude-memory was seen yet: neither its files nor its Stop hook in a transcript."
)


def project_report(found: ProjectSaves, width: int, now_ms: int) -> Content:
    """Write all that is known of a project's saves for lines of `width` cells."""
    lines = [*_project_lines(found, width, now_ms)]
    if found.saves:
        lines += [Content(""), *_history_lines(found, width, now_ms)]
        lines += [Content(""), *_share_lines(found, width)]
    lines += [each for part in (_rate_lines(found), _phase_lines(found)) if part for each in part]
    return Content("\n").join(lines)


def plugin_report(report: SavesReport, width: int) -> list[Content]:
    """Write a line or more for each installation of the plugin."""
    lines: list[Content] = []
    for plugin in report.plugins:
        style = "bold $level-emergency" if plugin.fit is PluginFit.BROKEN else "$quiet"
        version = plugin.plugin.version or NOTHING
        words = f"{plugin.plugin.plugin_id} {version}: {plugin.reason}"
        lines += _wrapped(one_line(words), style, 0, width)
    return lines


def _history_lines(found: ProjectSaves, width: int, now_ms: int) -> Iterator[Content]:
    yield Content.styled("its saves, the newest first", "bold $accent")
    cells = min(_REPORT_METER_CELLS, max(10, width // 4))
    for save in list(reversed(found.saves))[:MAX_SAVES]:
        noise = save.noise
        mark, style = band_sign(save)
        yield Content.assemble(
            (f"  {mark} ", style),
            (f"{local_time(noise.at, now_ms):>12}  ", "$quiet"),
            noise_meter(noise.tokens, expected_max_tokens(save), cells),
            (f" {fit_right(tokens_of_maximum_text(save), 16)}  ", "$foreground"),
            (f"{plural(noise.lines, 'line')}, {plural(noise.items, 'item')}", "$quiet"),
        )
    if len(found.saves) > MAX_SAVES:
        yield Content.styled(f"    and {len(found.saves) - MAX_SAVES:,} before", "$quiet")


def _share_lines(found: ProjectSaves, width: int) -> Iterator[Content]:
    """Yield the noise of the last save by class, largest first."""
    noise = found.saves[-1].noise
    yield Content.styled("what the last one put in", "bold $accent")
    shares = sorted(noise.classes.items(), key=lambda each: -each[1].estimated_tokens)
    in_all = sum(share.estimated_tokens for _, share in shares) or 1
    cells = min(_REPORT_METER_CELLS, max(10, width // 4))
    for name, share in shares:
        ratio = share.estimated_tokens / in_all
        yield Content.assemble(
            (f"  {name.value.replace('_', ' '):<13} ", "$foreground"),
            (f"{half_cell_bar(ratio, cells):<{cells}}", "$accent"),
            (f" {percent(ratio):>6}  ≈{tokens(share.estimated_tokens)} tokens, ", "$foreground"),
            (f"{plural(share.lines, 'line')}, {plural(share.items, 'item')}", "$quiet"),
        )


def _rate_lines(found: ProjectSaves) -> list[Content]:
    if not found.trigger_rates:
        return []
    lines = [Content(""), Content.styled("what triage wanted to be saved", "bold $accent")]
    for name, rate in found.trigger_rates.items():
        share = "" if rate.share is None else f"  {percent(rate.share)}"
        lines.append(
            Content.assemble(
                (f"  {name:<20}", ""), (f"{rate.hits} of {rate.total}{share}", "$quiet")
            )
        )
    return lines


def _phase_lines(found: ProjectSaves) -> list[Content]:
    if not found.phases_ms:
        return []
    lines = [Content(""), Content.styled("how long each phase takes, in the mean", "bold $accent")]
    for name, took in found.phases_ms.items():
        lines.append(
            Content.assemble((f"  {one_line(name):<20}", ""), (duration(round(took)), "$quiet"))
        )
    return lines


def _project_lines(found: ProjectSaves, width: int, now_ms: int) -> Iterator[Content]:
    standing = found.status
    mark, style = SAVE_STATE_SIGNS[standing.state]
    known = found.age_s(now_ms) is not None
    ago = f"{save_age(found, now_ms)} ago" if known else NOTHING
    stale = "" if found.is_fresh or not known else ", no longer fresh"
    yield Content.assemble(
        (f"{mark} ", style),
        (fit_left(shorten_middle(one_line(found.name), _NAME_CELLS), _NAME_CELLS), "bold"),
        (" ", ""),
        (f"{save_state_text(found):<{_STATE_CELLS}}", style),
        (f"{ago}{stale}", "$quiet"),
    )
    for label, words, how in _project_facts(found):
        text = one_line(words)
        first, *rest = _wrapped(text, how, 0, max(1, width - _INDENT_CELLS - _LABEL_CELLS))
        yield Content.assemble((f"{'':<{_INDENT_CELLS}}{label:<{_LABEL_CELLS}}", "$quiet"), first)
        for line in rest:
            yield Content(" " * (_INDENT_CELLS + _LABEL_CELLS)) + line


def _project_facts(found: ProjectSaves) -> Iterator[tuple[str, str, str]]:
    standing = found.status
    yield "why", standing.reason, "$foreground"
    if standing.titles:
        yield "saved", ", ".join(standing.titles), "$foreground"
    elif standing.saved_categories:
        yield "saved", ", ".join(standing.saved_categories), "$foreground"
    if standing.state is not SaveState.SAVED and standing.categories:
        yield "to save", ", ".join(standing.categories), "$foreground"
    for error in standing.errors:
        yield "error", f"{error.category or NOTHING}: {error.error}", "$level-warning"
    if found.plugin_message.blind_spots:
        yield "but", plugin_text(found.plugin_message), "$level-warning"
    elif found.plugin_message.text and standing.state in NEEDS_ATTENTION:
        yield "plugin says", found.plugin_message.text, "$quiet"
    if found.was_confirmed is not None:
        yield "confirmed", "yes, a prompt was told" if found.was_confirmed else "not yet", "$quiet"
    if found.has_leftovers:
        yield "left behind", f"{len(found.staged_files)} staged files", "$level-warning"
    if found.saves:
        yield from _noise_facts(found)
    for each in found.crossings:
        how = "$level-warning" if each.would_cross else "$quiet"
        ends = "the next save crosses it" if each.would_cross else "a save fits"
        left = f"{tokens(each.tokens_to_trigger)} to the compaction, a save takes ≈"
        yield "ahead", f"{left}{tokens(each.cost.tokens)}: {ends}", how
    if standing.source_file:
        inside = f"{found.project}/"
        where = standing.source_file.path.removeprefix(inside)
        yield "from", f"{where} ({standing.source_file.generation.value})", "$quiet"


def _noise_facts(found: ProjectSaves) -> Iterator[tuple[str, str, str]]:
    last = found.saves[-1]
    judged = band_text(last)
    how = "$level-warning" if judged.startswith("✗") else "$foreground"
    yield "noise", f"{noise_text(last.noise)} in the last save · {judged}", how
    if last.noise.leaked_calls:
        calls = f"{last.noise.leaked_calls} calls, {last.noise.leaked_lines} lines"
        yield "leak", f"{calls} of the save agent in the main transcript", "$level-warning"
    if last.noise.agents_in_background:
        words = "the save agent runs by itself: the session does not wait for it"
        yield "background", words, "$quiet"
    if found.is_degraded:
        yield "degraded", "the triage's data came inline", "$level-warning"
    if found.refires:
        yield "fired again", f"{found.refires} times for the same save", "$level-warning"
    change = found.before_after
    if change.before and change.after and change.reduction is not None:
        words = (
            f"{_amount_text(change.before)} → {_amount_text(change.after)}"
            f" ({percent(change.reduction)})"
        )
        yield "change", words, "$foreground"
    if found.durations:
        took = found.durations
        words = (
            f"{duration(round(took.p50_ms))} in the median, {duration(round(took.p95_ms))} at"
            " most of 95 %"
        )
        yield "took", f"{words}, {took.count} saves", "$quiet"


def _amount_text(found: AverageSave) -> str:
    return f"{found.lines:.0f} lines, {found.items:.0f} items, {tokens(round(found.tokens))} tokens"


def _wrapped(text: str, style: str, indent: int, width: int) -> list[Content]:
    """Break a line between words, or anywhere in what has none."""
    lines = Content(text).wrap(max(1, width - indent)) if text else [Content("")]
    return [Content.styled(each.plain.rstrip(), style) for each in lines]


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

    def show_view(self, view: FleetView) -> None:
        """Show what a newer view says."""
        self._saves, self._now_ms = view.saves, view.now_ms
        self._draw()

    def _draw(self) -> None:
        if not self.is_attached:
            return
        pane, saves = self._list, self._saves
        pane.empty = READING_TEXT if saves is None else NO_SAVES_TEXT
        columns = lay_out_saves(pane.row_width, self._now_ms)
        projects = by_attention(saves.projects) if saves else []
        pane.show_header(header_line(columns))
        pane.show_rows([Row(each.project, item_line(columns, each)) for each in projects])
        pane.set_titles(Content(f"Saves · {len(projects)} projects" if projects else "Saves"))
        lines = plugin_report(saves, self.size.width - TEXT_MARGIN_CELLS) if saves else []
        plugins = self.query_one("#plugins", Static)
        plugins.display = bool(lines)
        plugins.update(Content("\n").join(lines))

    def _found(self, project: str | None) -> ProjectSaves | None:
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

    def __init__(self, found: ProjectSaves, width: int, now_ms: int) -> None:
        self._saves = found
        self._now_ms = now_ms
        content = project_report(found, text_width(width), now_ms)
        super().__init__(CRUMB, found.name, content=content)

    def on_resize(self, event: events.Resize) -> None:
        """Wrap the lines anew."""
        self._draw(event.size.width)

    def show_view(self, view: FleetView) -> None:
        """Show what a newer view says."""
        projects = view.saves.projects if view.saves else ()
        found = next((each for each in projects if each.project == self._saves.project), None)
        if found is not None:
            self._saves, self._now_ms = found, view.now_ms
            self._draw(self.size.width)

    def _draw(self, width: int) -> None:
        content = project_report(self._saves, text_width(width), self._now_ms)
        if content.plain != self._content.plain:
            self.show(content)
