"""The rows of the compliance tabs: agent types, and reviewers' findings."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len
from textual.content import Content

from ....core.compliance.findings import (
    CODE_SENTENCES,
    ComplianceVerdict,
    FindingCode,
    ResultFormat,
)
from ....core.transcript.sanitize import one_line
from ...tables import Cell, Column, fitting_columns, total_cells
from ...text.compliance_text import VERDICT_NAMES, VERDICT_SIGNS, excess_text, reviewers_text
from ...text.formats import (
    NOTHING,
    age,
    date_time,
    duration,
    fit_left,
    fit_right,
    iso_time,
    percent,
    shorten_middle,
    sparkline,
    tokens,
)
from ...text.text_lines import (
    FOLD_SIGNS,
    LABEL_CELLS,
    ScreenColumn,
    hanging_lines,
    header_line,
    item_line,
    labelled_line,
    section_heading,
)

if TYPE_CHECKING:
    from ....core.compliance.run_verdict import ComplianceScore
    from ....core.measure.agent_compliance import (
        AgentTypeCompliance,
        ComplianceDay,
        FileFindings,
        GroupedFinding,
        ReviewedFinding,
        SeverityFindings,
    )


SPARK_CELLS: Final = 8
LAST_VERDICTS: Final = 8
MIN_NAME_CELLS: Final = 14


def types_header(width: int) -> Content:
    """Name the columns."""
    return header_line(_fitting_columns(width), gap="", style="")


def type_line(part: AgentTypeCompliance, width: int) -> Content:
    """Write a type's line for a width."""
    return item_line(_fitting_columns(width), part, gap="")


def _fitting_columns(width: int) -> list[ScreenColumn[AgentTypeCompliance]]:
    """Choose the columns that fit beside a name, which gets what is left over."""
    name, *others = fitting_columns(_COLUMNS, width, lambda shown: total_cells(shown, 0))
    return [replace(name, cells=width - total_cells(others, 0)), *others]


def _complied_cell(part: AgentTypeCompliance) -> Cell:
    style = "$level-warning" if part.score.failed_count else "$foreground"
    return Cell(compliance_share_text(part.score), style)


def _lines_cell(part: AgentTypeCompliance) -> Cell:
    sizes = part.sizes
    text = f"{sizes.median_lines:>4}{sizes.p90_lines:>6}" if sizes.results else NOTHING
    return Cell(text, "$foreground")


def _tokens_cell(part: AgentTypeCompliance) -> Cell:
    text = f"≈{tokens(part.cost.result_tokens)}" if part.sizes.results else NOTHING
    return Cell(text, "$foreground")


_COLUMNS: Final[Sequence[ScreenColumn[AgentTypeCompliance]]] = (
    Column("type", lambda part: Cell(part.name, "$foreground"), cells=MIN_NAME_CELLS),
    Column(
        "runs", lambda part: Cell(str(part.runs), "$foreground"), right=True, cells=6, priority=1
    ),
    Column("complied", _complied_cell, right=True, cells=12, priority=2),
    Column(
        " by day",
        lambda part: Cell(f" {compliance_sparkline(part.days, SPARK_CELLS)}", "$accent"),
        cells=SPARK_CELLS + 1,
        priority=3,
    ),
    Column(
        " last",
        lambda part: Cell(f" {last_verdict_signs(part)}", "$foreground"),
        cells=LAST_VERDICTS + 1,
        priority=4,
    ),
    Column("lines  90%", _lines_cell, right=True, cells=11, priority=5),
    Column("≈tokens", _tokens_cell, right=True, cells=8, priority=6),
    Column(
        "too many",
        lambda part: Cell(excess_text(part.cost), "$level-warning"),
        right=True,
        cells=9,
        priority=7,
    ),
)


def compliance_share_text(score: ComplianceScore) -> str:
    """Return the share of compliant results, or the counts if there are too few results."""
    if not score.judged_count:
        return NOTHING
    if score.passed_share is None:
        return f"{score.passed_count} of {score.judged_count}"
    return f"{percent(score.passed_share)} of {score.judged_count}"


def compliance_sparkline(days: Sequence[ComplianceDay], cells: int) -> str:
    """Draw the share that complied day by day, newest last; days without a result are left out."""
    newest = days[-cells:]
    shares = [
        day.score.passed_count / day.score.judged_count if day.score.judged_count else None
        for day in newest
    ]
    return sparkline(shares, cells, 1.0)


def last_verdict_signs(part: AgentTypeCompliance) -> str:
    """Write the newest verdicts as signs, the newest last."""
    return "".join(VERDICT_SIGNS[each] for each in reversed(part.last_verdicts[:LAST_VERDICTS]))


MAX_DAYS: Final = 14  # shown one by one; `ctxtop compliance --json` has them all
REPORT_SPARK_CELLS: Final = 40
BAR_CELLS: Final = 16


def type_report(part: AgentTypeCompliance, least: int, width: int) -> Content:
    """Write the history; `least` results there must be before a share is told."""
    return Content("\n").join(
        [
            *_head(part, least, width),
            *_sizes(part, width),
            *_verdicts(part),
            *_codes(part, width),
            *_days(part),
        ]
    )


def _head(part: AgentTypeCompliance, least: int, width: int) -> Iterator[Content]:
    yield Content.styled(part.name, "bold $foreground")
    score = part.score
    running = f", {part.running} running" if part.running else ""
    yield from labelled_line("runs", f"{part.runs}{running}", width)
    formats = ", ".join(each.value for each in part.formats if each is not ResultFormat.NONE)
    yield from labelled_line(
        "expected", formats or "nothing: nobody asks for a compressed result", width
    )
    if part.drift is not None:
        drifts = f"the policy's rules say {part.drift.value}, its definition does not"
        yield from labelled_line("but", drifts, width, "$level-warning")
    if not score.judged_count:
        return
    yield from labelled_line(
        "complied",
        compliance_share_text(score),
        width,
        "$level-warning" if score.failed_count else "$foreground",
    )
    if score.passed_share is None:
        yield from labelled_line("", f"a share is told of {least} results or more", width, "$quiet")
    if score.first_pass_share is not None:
        first, forced = percent(score.first_pass_share), percent(score.forced_share)
        yield from labelled_line("", f"{first} at once, {forced} after a block", width)
    yield from labelled_line(
        "by day", compliance_sparkline(part.days, REPORT_SPARK_CELLS), width, "$accent"
    )
    yield from labelled_line("last", f"{last_verdict_signs(part)}  the newest last", width)
    grep = (
        f"{score.grep_passed} of {score.judged_count} would pass, {score.grep_wrong} of them"
        " wrongly"
    )
    yield from labelled_line("a grep", grep, width)


def _sizes(part: AgentTypeCompliance, width: int) -> Iterator[Content]:
    sizes, cost = part.sizes, part.cost
    if not sizes.results:
        return
    yield from section_heading("What it puts into its parents")
    yield from labelled_line("results", str(sizes.results), width)
    yield from labelled_line(
        "lines", f"half have at most {sizes.median_lines}, nine in ten {sizes.p90_lines}", width
    )
    half, large = tokens(sizes.median_tokens), tokens(sizes.p90_tokens)
    yield from labelled_line("tokens", f"half have at most ≈{half}, nine in ten ≈{large}", width)
    yield from labelled_line("in all", f"≈{tokens(cost.result_tokens)} tokens", width)
    if cost.excess_tokens:
        saved = f"≈{tokens(cost.excess_tokens)} tokens would not have been there had all complied"
        yield from labelled_line("too many", saved, width, "$level-warning")
    if cost.retry_tokens:
        yield from labelled_line(
            "blocks", f"{tokens(cost.retry_tokens)} tokens were spent after a block", width
        )


def _verdicts(part: AgentTypeCompliance) -> Iterator[Content]:
    counted = [
        (each, part.score.verdicts[each]) for each in ComplianceVerdict if part.score.verdicts[each]
    ]
    most = max((count for _, count in counted), default=0)
    if not most:
        return
    yield from section_heading("Verdicts")
    for each, count in counted:
        cells = max(1, round(BAR_CELLS * count / most))
        bad = VERDICT_SIGNS[each] == "✗"
        yield Content.assemble(
            (f"  {VERDICT_NAMES[each]:<{LABEL_CELLS}}", "$quiet"),
            ("▄" * cells, "$level-warning" if bad else "$accent"),
            ("▁" * (BAR_CELLS - cells), "$bar-track"),
            (fit_right(str(count), 5), "$foreground"),
        )


def _codes(part: AgentTypeCompliance, width: int) -> Iterator[Content]:
    if not part.score.codes:
        return
    yield from section_heading("What was wrong, in how many results")
    for label, count in part.score.codes.items():
        code = FindingCode(label.partition(":")[0])
        style = "$level-warning" if code.is_violation else "$level-notice"
        head = Content.assemble((f"{count:>5}  ", "$foreground"), (f"{label:<9}", style))
        yield from hanging_lines(head, Content.styled(CODE_SENTENCES[code], "$quiet"), width)


def _days(part: AgentTypeCompliance) -> Iterator[Content]:
    if not part.days:
        return
    yield from section_heading("Day by day (UTC)")
    for each in reversed(part.days[-MAX_DAYS:]):
        yield _day_line(each)


def _day_line(each: ComplianceDay) -> Content:
    passed = each.score.passed_count
    cells = round(BAR_CELLS * passed / each.score.judged_count) if each.score.judged_count else 0
    return Content.assemble(
        (f"  {(iso_time(each.at) or NOTHING)[:10]:<{LABEL_CELLS}}", "$quiet"),
        ("▄" * cells, "$accent"),
        ("▁" * (BAR_CELLS - cells), "$bar-track"),
        (f"  {passed} of {each.score.judged_count}", "$foreground"),
        (
            f"  ≈{tokens(each.cost.excess_tokens)} too many" if each.cost.excess_tokens else "",
            "$level-warning",
        ),
    )


REVIEWER_CELLS: Final = 18
AGE_CELLS: Final = 7
MIN_TEXT_CELLS: Final = 30  # cells; before a finding's words get less, who said it and when leave
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
    groups: tuple[SeverityFindings, ...]  # what the row stands for, as groups of its own
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


MAX_FILES: Final = 40  # of a severity; its rows have all of them


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
