"""Reviewers' findings as rows by severity and file, and one or a group as a text to read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len
from textual.content import Content

from ....core.transcript.sanitize import one_line
from ...text.compliance_text import reviewers_text
from ...text.formats import NOTHING, age, date_time, duration, fit_left, fit_right, shorten_middle
from ...text.text_lines import FOLD_SIGNS, hanging_lines, section_heading

if TYPE_CHECKING:
    from ....core.measure.agent_compliance import (
        FileFindings,
        GroupedFinding,
        ReviewedFinding,
        SeverityFindings,
    )


REVIEWER_CELLS: Final = 18
AGE_CELLS: Final = 7
MIN_TEXT_CELLS: Final = 30
"""Cells; before a finding's words get less, who said it and when leave."""

_SEVERITIES: Final = {
    "critical": ("✗", "$level-emergency"),
    "warning": ("▲", "$level-warning"),
    "suggestion": ("○", "$quiet"),
}
_OTHER_SEVERITY: Final = ("·", "$foreground")


@dataclass(frozen=True, slots=True)
class FindingRow:
    """A row: a severity, a file, or one thing that was found."""

    key: str
    groups: tuple[SeverityFindings, ...]
    """What the row stands for, as groups of its own."""
    severity: str
    in_file: FileFindings | None = None
    finding: GroupedFinding | None = None
    folded: bool = False


def lay_out_findings(
    groups: Iterable[SeverityFindings], folded: Collection[str]
) -> list[FindingRow]:
    """Lay groups out as rows; what is below a folded one is left out."""
    return [line for group in groups for line in _severity_rows(group, folded)]


def _severity_rows(group: SeverityFindings, folded: Collection[str]) -> Iterator[FindingRow]:
    is_folded = group.severity in folded
    yield FindingRow(group.severity, (group,), group.severity, folded=is_folded)
    if not is_folded:
        for each in group.files:
            yield from _file_rows(group, each, folded)


def _file_rows(
    group: SeverityFindings, each: FileFindings, folded: Collection[str]
) -> Iterator[FindingRow]:
    # No severity and no project has a line's end in it: no two rows have one key.
    key = "\n".join((group.severity, each.project, each.path))
    is_folded = key in folded
    own = type(group)(group.severity, (each,))
    yield FindingRow(key, (own,), group.severity, each, folded=is_folded)
    if is_folded:
        return
    for number, found in enumerate(each.findings):
        alone = type(group)(group.severity, (type(each)(each.project, each.path, (found,)),))
        place = f"{key}\n{found.location}\n{number}"
        yield FindingRow(place, (alone,), group.severity, each, found)


def findings_header(width: int) -> Content:
    """Name the columns."""
    return Content(
        fit_left("  severity, file, finding", width - AGE_CELLS) + fit_right("ago", AGE_CELLS)
    )


def finding_line(line: FindingRow, width: int, now_ms: int) -> Content:
    """Write a row for a width."""
    sign, style = severity_sign(line.severity)
    if line.in_file is None:
        count = line.groups[0].count
        name = f"{FOLD_SIGNS[line.folded]} {sign} {line.severity}"
        return Content.assemble(
            (fit_left(name, max(0, width - AGE_CELLS)), f"bold {style}"),
            (fit_right(str(count), AGE_CELLS), "bold $foreground"),
        )
    if line.finding is None:
        return _file_line(line, line.in_file, width)
    return _text_line(line.finding, sign, style, width, now_ms)


def finding_fold_cell(line: FindingRow) -> int | None:
    """Return the cell of the fold sign in a row, None if the row cannot be folded."""
    if line.finding is not None:
        return None
    return 0 if line.in_file is None else 2


def severity_sign(severity: str) -> tuple[str, str]:
    """Return the sign and the style of a severity; colour alone never conveys it."""
    return _SEVERITIES.get(severity, _OTHER_SEVERITY)


def _file_line(line: FindingRow, in_file: FileFindings, width: int) -> Content:
    count = fit_right(str(len(in_file.findings)), AGE_CELLS)
    head = f"  {FOLD_SIGNS[line.folded]} "
    project = f"  {in_file.project}" if in_file.project else ""
    room = max(0, width - len(head) - AGE_CELLS)
    if room < cell_len(in_file.path) + cell_len(project):
        project = ""
    path = shorten_middle(in_file.path, room - cell_len(project))
    rest = room - cell_len(path) - cell_len(project)
    return Content.assemble(
        (head, "$quiet"),
        (path, "$foreground"),
        (project + " " * rest, "$quiet"),
        (count, "$quiet"),
    )


def _text_line(found: GroupedFinding, sign: str, style: str, width: int, now_ms: int) -> Content:
    place = found.location.removeprefix(found.finding.path)
    head = f"    {sign} "
    place = fit_left(place, max(6, cell_len(place)))
    room = width - len(head) - cell_len(place) - 1
    parts: list[tuple[str, str]] = []
    newest = found.reviews[0]
    if room - AGE_CELLS >= MIN_TEXT_CELLS:
        parts.append((fit_right(age(newest.at, now_ms), AGE_CELLS), "$quiet"))
        room -= AGE_CELLS
    if room - REVIEWER_CELLS - 1 >= MIN_TEXT_CELLS:
        parts.insert(0, (f" {fit_left(reviewers_text(found), REVIEWER_CELLS)}", "$quiet"))
        room -= REVIEWER_CELLS + 1
    return Content.assemble(
        (head, style),
        (f"{place} ", "$quiet"),
        (fit_left(found.finding.text, max(0, room)), "$foreground"),
        *parts,
    )


MAX_FILES: Final = 40
"""Of a severity; its rows have all of them."""


def finding_report(line: FindingRow, titles: Mapping[str, str], width: int, now_ms: int) -> Content:
    """Write what a row stands for; `titles` names sessions by their ids."""
    if line.finding is not None:
        lines = list(_finding_report(line.finding, titles, now_ms))
        others = (
            [each for each in line.in_file.findings if each != line.finding] if line.in_file else []
        )
        if others:
            lines += [
                *section_heading("Also in this file"),
                *(part for each in others for part in _short_finding(each, width)),
            ]
    elif line.in_file is not None:
        lines = list(_file_report(line.in_file, line.severity, width))
    else:
        sign, style = severity_sign(line.severity)
        group = line.groups[0]
        lines = [Content.styled(f"{sign} {group.count} × {line.severity}", f"bold {style}")]
        for each in group.files[:MAX_FILES]:
            lines += [Content(""), *_file_report(each, line.severity, width)]
        if len(group.files) > MAX_FILES:
            lines.append(Content.styled(f"… {len(group.files) - MAX_FILES} files more", "$quiet"))
    return Content("\n").join(lines)


def _finding_report(
    found: GroupedFinding, titles: Mapping[str, str], now_ms: int
) -> Iterator[Content]:
    sign, style = severity_sign(found.finding.severity)
    yield Content.assemble(
        (f"{sign} {found.finding.severity}  ", f"bold {style}"),
        (found.location, "bold $foreground"),
    )
    if found.project:
        yield Content.styled(found.project, "$quiet")
    yield Content("")
    yield Content.styled(found.finding.text, "$foreground")
    yield from section_heading("Who said it")
    for each in found.reviews:
        yield from _reviewer(each, titles, now_ms)


def _reviewer(each: ReviewedFinding, titles: Mapping[str, str], now_ms: int) -> Iterator[Content]:
    ago = NOTHING if each.at is None else f"{date_time(each.at)}, {duration(now_ms - each.at)} ago"
    yield Content.assemble((f"  {each.agent_type}", "$foreground"), (f"  {ago}", "$quiet"))
    title = titles.get(each.session_id, each.session_id[:8])
    yield Content.styled(f"    in {one_line(title)}", "$quiet")


def _file_report(each: FileFindings, severity: str, width: int) -> Iterator[Content]:
    _, style = severity_sign(severity)
    yield Content.assemble((each.path, f"bold {style}"), (f"  {each.project}", "$quiet"))
    for found in each.findings:
        yield from _short_finding(found, width)


def _short_finding(found: GroupedFinding, width: int) -> Iterator[Content]:
    sign, style = severity_sign(found.finding.severity)
    place = found.location.removeprefix(found.finding.path)
    head = Content.assemble((f"  {sign} ", style), (f"{place:<6} ", "$quiet"))
    yield from hanging_lines(head, Content.styled(found.finding.text, "$foreground"), width)
