"""One thing that reviewers found, or a group of them, as a text to read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.content import Content

from .finding_rows import severity_sign
from .formats import NOTHING, age, moment, one_line
from .report_lines import hung, section

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..core.compliance_summary import Reviewed
    from ..core.review_groups import Found, InFile
    from .finding_rows import FindingLine

FILES_SHOWN: Final = 40
"""Of a severity; its rows have all of them."""


def finding_report(
    line: FindingLine, titles: Mapping[str, str], width: int, now_ms: int
) -> Content:
    """Write what a row stands for; `titles` names sessions by their ids."""
    if line.finding is not None:
        lines = list(_found(line.finding, titles, now_ms))
        others = (
            [each for each in line.in_file.findings if each != line.finding] if line.in_file else []
        )
        if others:
            lines += [
                *section("Also in this file"),
                *(part for each in others for part in _short(each, width)),
            ]
    elif line.in_file is not None:
        lines = list(_in_file(line.in_file, line.severity, width))
    else:
        sign, style = severity_sign(line.severity)
        group = line.groups[0]
        lines = [Content.styled(f"{sign} {group.count} × {line.severity}", f"bold {style}")]
        for each in group.files[:FILES_SHOWN]:
            lines += [Content(""), *_in_file(each, line.severity, width)]
        if len(group.files) > FILES_SHOWN:
            lines.append(Content.styled(f"… {len(group.files) - FILES_SHOWN} files more", "$quiet"))
    return Content("\n").join(lines)


def _found(found: Found, titles: Mapping[str, str], now_ms: int) -> Iterator[Content]:
    sign, style = severity_sign(found.finding.severity)
    yield Content.assemble(
        (f"{sign} {found.finding.severity}  ", f"bold {style}"),
        (found.location, "bold $foreground"),
    )
    if found.project:
        yield Content.styled(found.project, "$quiet")
    yield Content("")
    yield Content.styled(found.finding.text, "$foreground")
    yield from section("Who said it")
    for each in found.reviews:
        yield from _who(each, titles, now_ms)


def _who(each: Reviewed, titles: Mapping[str, str], now_ms: int) -> Iterator[Content]:
    ago = NOTHING if each.at is None else f"{moment(each.at)}, {age(now_ms - each.at)} ago"
    yield Content.assemble((f"  {each.agent_type}", "$foreground"), (f"  {ago}", "$quiet"))
    title = titles.get(each.session_id, each.session_id[:8])
    yield Content.styled(f"    in {one_line(title)}", "$quiet")


def _in_file(each: InFile, severity: str, width: int) -> Iterator[Content]:
    _, style = severity_sign(severity)
    yield Content.assemble((each.path, f"bold {style}"), (f"  {each.project}", "$quiet"))
    for found in each.findings:
        yield from _short(found, width)


def _short(found: Found, width: int) -> Iterator[Content]:
    sign, style = severity_sign(found.finding.severity)
    place = found.location.removeprefix(found.finding.path)
    head = Content.assemble((f"  {sign} ", style), (f"{place:<6} ", "$quiet"))
    yield from hung(head, Content.styled(found.finding.text, "$foreground"), width)
