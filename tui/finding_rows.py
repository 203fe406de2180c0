"""What reviewers found as lines: severities, below them files, below them what was found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len
from textual.content import Content

from .formats import NOTHING, age, fit, fit_right, middle

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from ..core.review_groups import Found, InFile, Severe

WHO_CELLS: Final = 18
AGE_CELLS: Final = 7
SHORTEST_TEXT: Final = 30
"""Cells; before a finding's words get less, who said it and when leave."""

_SEVERITIES: Final = {
    "critical": ("✗", "$level-emergency"),
    "warning": ("▲", "$level-warning"),
    "suggestion": ("○", "$quiet"),
}
_OTHER: Final = ("·", "$foreground")

SIGNS: Final = {True: "▸", False: "▾"}


@dataclass(frozen=True, slots=True)
class FindingLine:
    """A row: a severity, a file, or one thing that was found."""

    key: str
    groups: tuple[Severe, ...]
    """What the row stands for, as groups of its own."""
    severity: str
    in_file: InFile | None = None
    finding: Found | None = None
    folded: bool = False


def finding_lines(groups: Iterable[Severe], folded: Collection[str]) -> list[FindingLine]:
    """Lay groups out as rows; what is below a folded one is left out."""
    return [line for group in groups for line in _severe(group, folded)]


def _severe(group: Severe, folded: Collection[str]) -> Iterator[FindingLine]:
    is_folded = group.severity in folded
    yield FindingLine(group.severity, (group,), group.severity, folded=is_folded)
    if not is_folded:
        for each in group.files:
            yield from _in_file(group, each, folded)


def _in_file(group: Severe, each: InFile, folded: Collection[str]) -> Iterator[FindingLine]:
    # No severity and no project has a line's end in it: no two rows have one key.
    key = "\n".join((group.severity, each.project, each.path))
    is_folded = key in folded
    own = type(group)(group.severity, (each,))
    yield FindingLine(key, (own,), group.severity, each, folded=is_folded)
    if is_folded:
        return
    for number, found in enumerate(each.findings):
        alone = type(group)(group.severity, (type(each)(each.project, each.path, (found,)),))
        place = f"{key}\n{found.location}\n{number}"
        yield FindingLine(place, (alone,), group.severity, each, found)


def finding_head(width: int) -> Content:
    """Name the columns."""
    return Content(
        fit("  severity, file, finding", width - AGE_CELLS) + fit_right("ago", AGE_CELLS)
    )


def finding_line(line: FindingLine, width: int, now_ms: int) -> Content:
    """Write a row for a width."""
    sign, style = severity_sign(line.severity)
    if line.in_file is None:
        count = line.groups[0].count
        name = f"{SIGNS[line.folded]} {sign} {line.severity}"
        return Content.assemble(
            (fit(name, max(0, width - AGE_CELLS)), f"bold {style}"),
            (fit_right(str(count), AGE_CELLS), "bold $foreground"),
        )
    if line.finding is None:
        return _file_line(line, line.in_file, width)
    return _found_line(line.finding, sign, style, width, now_ms)


def fold_cell(line: FindingLine) -> int | None:
    """Give the cell of a row at which its fold can be clicked; None where it has none."""
    if line.finding is not None:
        return None
    return 0 if line.in_file is None else 2


def severity_sign(severity: str) -> tuple[str, str]:
    """Give a severity's sign and style: never told by colour alone."""
    return _SEVERITIES.get(severity, _OTHER)


def _file_line(line: FindingLine, in_file: InFile, width: int) -> Content:
    count = fit_right(str(len(in_file.findings)), AGE_CELLS)
    head = f"  {SIGNS[line.folded]} "
    project = f"  {in_file.project}" if in_file.project else ""
    room = max(0, width - len(head) - AGE_CELLS)
    if room < cell_len(in_file.path) + cell_len(project):
        project = ""
    path = middle(in_file.path, room - cell_len(project))
    rest = room - cell_len(path) - cell_len(project)
    return Content.assemble(
        (head, "$quiet"),
        (path, "$foreground"),
        (project + " " * rest, "$quiet"),
        (count, "$quiet"),
    )


def _found_line(found: Found, sign: str, style: str, width: int, now_ms: int) -> Content:
    place = found.location.removeprefix(found.finding.path)
    head = f"    {sign} "
    place = fit(place, max(6, cell_len(place)))
    room = width - len(head) - cell_len(place) - 1
    parts: list[tuple[str, str]] = []
    newest = found.reviews[0]
    if room - AGE_CELLS >= SHORTEST_TEXT:
        since = age(None if newest.at is None else now_ms - newest.at)
        parts.append((fit_right(since or NOTHING, AGE_CELLS), "$quiet"))
        room -= AGE_CELLS
    if room - WHO_CELLS - 1 >= SHORTEST_TEXT:
        parts.insert(0, (f" {fit(who_said(found), WHO_CELLS)}", "$quiet"))
        room -= WHO_CELLS + 1
    return Content.assemble(
        (head, style),
        (f"{place} ", "$quiet"),
        (fit(found.finding.text, max(0, room)), "$foreground"),
        *parts,
    )


def who_said(found: Found) -> str:
    """Name who said it last, and count the others."""
    newest, *others = found.reviews
    return f"{newest.agent_type} +{len(others)}" if others else newest.agent_type
