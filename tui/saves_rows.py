"""The projects with saves, a line each: state, age, what was saved, and the noise it made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from textual.content import Content

from ..core.saves.states import NEEDS_SOMEONE, SaveState
from .formats import NOTHING, age, fit, fit_right, one_line
from .noise_meter import meter, most_of, of_most, sign

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..core.saves.report import ProjectSave

MARKS: Final = {
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

LONGEST_METER: Final = 24


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its head, its cells, and how soon it goes where room is short."""

    name: str
    head: str
    cells: int
    rank: int = 0
    """Columns of the highest rank go first; rank 0 stays."""
    right: bool = False


_COLUMNS: Final = (
    Column("mark", "", 1),
    Column("name", "project", 14),
    Column("state", "state", 14),
    Column("age", "age", 6, 2, right=True),
    Column("what", "what was saved, or is to be", 14, 3),
    Column("meter", "noise", 10, 1),
    Column("tokens", "of expected", 15, right=True),
    Column("lines", "lines", 6, 4, right=True),
    Column("items", "items", 6, 5, right=True),
    Column("met", "", 1),
    Column("saves", "saves", 5, 6, right=True),
)
_GAP: Final = 1


def lay_out(width: int) -> tuple[Column, ...]:
    """Choose the columns that fit; names and words share what is left over."""
    columns = list(_COLUMNS)
    while _needed(columns) > width and any(column.rank for column in columns):
        highest = max(column.rank for column in columns)
        columns = [column for column in columns if column.rank != highest]
    spare = width - _needed(columns)
    names = {column.name for column in columns}
    longer = min(max(0, spare // 4), LONGEST_METER - 10) if "meter" in names else 0
    rest = spare - longer
    more = {"meter": longer, "name": rest // 4 if "what" in names else rest}
    more["what"] = rest - more["name"]
    return tuple(
        Column(
            each.name, each.head, max(1, each.cells + more.get(each.name, 0)), each.rank, each.right
        )
        for each in columns
    )


def _needed(columns: list[Column]) -> int:
    return sum(column.cells for column in columns) + _GAP * (len(columns) - 1)


def saves_head(columns: Iterable[Column]) -> Content:
    """Write the line above the projects."""
    cells = ((fit_right if each.right else fit)(each.head, each.cells) for each in columns)
    return Content.styled(" ".join(cells), "$quiet")


def in_need(projects: Iterable[ProjectSave]) -> list[ProjectSave]:
    """Put those first that need somebody, each group the newest first."""
    return sorted(projects, key=lambda each: each.status.state not in NEEDS_SOMEONE)


def saves_line(found: ProjectSave, columns: Iterable[Column], now_ms: int) -> Content:
    """Write a project's line."""
    return Content(" ").join(_CELLS[each.name](found, each.cells, now_ms) for each in columns)


def state_words(found: ProjectSave) -> str:
    """Name a state for a person."""
    return found.status.state.value.replace("_", " ")


def what_words(found: ProjectSave) -> str:
    """Say what was saved or is to be, else why the state is what it is."""
    standing = found.status
    if standing.state is SaveState.SAVED:
        return ", ".join(standing.titles or standing.saved_categories or standing.categories)
    return ", ".join(standing.categories) or standing.reason


def _mark(found: ProjectSave, cells: int, now_ms: int) -> Content:
    return Content.styled(*MARKS[found.status.state])


def _name(found: ProjectSave, cells: int, now_ms: int) -> Content:
    return Content.styled(fit(one_line(found.name), cells), "bold")


def _state(found: ProjectSave, cells: int, now_ms: int) -> Content:
    return Content.styled(fit(state_words(found), cells), MARKS[found.status.state][1])


def _age(found: ProjectSave, cells: int, now_ms: int) -> Content:
    seconds = found.age_s(now_ms)
    return Content.styled(
        fit_right(age(None if seconds is None else seconds * 1000), cells), "$quiet"
    )


def _what(found: ProjectSave, cells: int, now_ms: int) -> Content:
    return Content.styled(fit(one_line(what_words(found)), cells), "$foreground")


def _meter(found: ProjectSave, cells: int, now_ms: int) -> Content:
    if not found.saves:
        return Content.styled(fit("", cells), "$quiet")
    last = found.saves[-1]
    return meter(last.noise.tokens, most_of(last, "tokens"), cells)


def _tokens(found: ProjectSave, cells: int, now_ms: int) -> Content:
    words = of_most(found.saves[-1], cells) if found.saves else fit_right(NOTHING, cells)
    return Content.styled(words, "$foreground" if found.saves else "$quiet")


def _lines(found: ProjectSave, cells: int, now_ms: int) -> Content:
    return _number(found.saves[-1].noise.lines if found.saves else None, cells)


def _items(found: ProjectSave, cells: int, now_ms: int) -> Content:
    return _number(found.saves[-1].noise.items if found.saves else None, cells)


def _saves(found: ProjectSave, cells: int, now_ms: int) -> Content:
    return _number(len(found.saves) or None, cells)


def _number(number: int | None, cells: int) -> Content:
    words = NOTHING if number is None else f"{number:,}"
    return Content.styled(fit_right(words, cells), "$quiet" if number is None else "$foreground")


def _met(found: ProjectSave, cells: int, now_ms: int) -> Content:
    return Content.styled(*sign(found.saves[-1])) if found.saves else Content(" ")


_CELLS: Final[dict[str, Callable[[ProjectSave, int, int], Content]]] = {
    "mark": _mark,
    "name": _name,
    "state": _state,
    "age": _age,
    "what": _what,
    "meter": _meter,
    "tokens": _tokens,
    "lines": _lines,
    "items": _items,
    "met": _met,
    "saves": _saves,
}
