"""The rows of the compliance tabs and their reports: agent types, and reviewers' findings."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace
from rich.cells import cell_len
from textual.content import Content

from ....core.model.findings import ComplianceVerdict, FindingCode
from ....core.transcript.sanitize import one_line
from ...text import text_lines
from ...text.compliance_text import (
    VERDICT_NAMES,
    VERDICT_SIGNS,
    definition_problem,
    drift_text,
    excess_text,
    expected_text,
    force_hook_text,
    reviewers_text,
)
from ...text.formats import (
    NOTHING,
    age,
    date_time,
    duration,
    fit_left,
    fit_right,
    iso_time,
    percent,
    shorten,
    shorten_path,
    sparkline,
    tokens,
)
from ...text.tables import Cell, Column, fitting_columns, total_cells

if TYPE_CHECKING:
    from ....core.compliance.agent_compliance import (
        AgentTypeCompliance,
        ComplianceDay,
        FileFindings,
        GroupedFinding,
        ReviewedFinding,
        SeverityFindings,
    )
    from ....core.compliance.agent_inventory import ForceHook
    from ....core.compliance.run_verdict import ComplianceScore


SPARK_CELLS: Final = 8
LAST_VERDICTS: Final = 8


def type_columns(width: int) -> list[text_lines.ScreenColumn[AgentTypeCompliance]]:
    """Choose the columns that fit beside a name, which gets what is left over."""
    name, *others = fitting_columns(_TYPE_COLUMNS, width, lambda shown: total_cells(shown, 0))
    return [replace(name, cells=width - total_cells(others, 0)), *others]


def _complied_cell(found: AgentTypeCompliance) -> Cell:
    style = "$broken" if found.score.failed_count else "$foreground"
    return Cell(compliance_share_text(found.score), style)


def _complied_share(found: AgentTypeCompliance) -> float | None:
    judged = found.score.judged_count
    return found.score.passed_count / judged if judged else None


def _lines_cell(found: AgentTypeCompliance) -> Cell:
    sizes = found.sizes
    text = f"{sizes.median_lines:>4}{sizes.p90_lines:>6}" if sizes.results else NOTHING
    return Cell(text, "$foreground")


def _tokens_cell(found: AgentTypeCompliance) -> Cell:
    text = f"≈{tokens(found.cost.result_tokens)}" if found.sizes.results else NOTHING
    return Cell(text, "$foreground")


_TYPE_COLUMNS: Final[Sequence[text_lines.ScreenColumn[AgentTypeCompliance]]] = (
    Column(
        "type",
        lambda found: Cell(found.name, "$foreground"),
        cells=14,
        tooltip="the type that the parent asked for",
        sort_key=lambda found: found.name.casefold(),
    ),
    Column(
        "runs",
        lambda found: Cell(str(found.runs), "$foreground"),
        right=True,
        cells=6,
        priority=1,
        tooltip="agents of this type",
        sort_key=lambda found: found.runs,
    ),
    Column(
        "complied",
        _complied_cell,
        right=True,
        cells=12,
        priority=2,
        tooltip="results that kept to the format that was asked for",
        sort_key=_complied_share,
    ),
    Column(
        " by day",
        lambda found: Cell(f" {compliance_sparkline(found.days, SPARK_CELLS)}", "$accent"),
        cells=SPARK_CELLS + 1,
        priority=3,
        tooltip="the share that complied, day by day, the newest at the right",
    ),
    Column(
        " last",
        lambda found: Cell(f" {last_verdict_signs(found)}", "$foreground"),
        cells=LAST_VERDICTS + 1,
        priority=4,
        tooltip="the last verdicts, the newest at the right",
    ),
    Column(
        "lines  90%",
        _lines_cell,
        right=True,
        cells=11,
        priority=5,
        tooltip="lines of a result: the median, and what nine of ten do not exceed",
        sort_key=lambda found: found.sizes.median_lines if found.sizes.results else None,
    ),
    Column(
        "≈tokens",
        _tokens_cell,
        right=True,
        cells=8,
        priority=6,
        tooltip="what their results added to their parents",
        sort_key=lambda found: found.cost.result_tokens if found.sizes.results else None,
    ),
    Column(
        "excess",
        lambda found: Cell(excess_text(found.cost), "$broken"),
        right=True,
        cells=9,
        priority=7,
        tooltip="tokens above what the format allows",
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
    """Draw the share that complied day by day, newest last; days without a result are blank."""
    shares = [
        day.score.passed_count / day.score.judged_count if day.score.judged_count else None
        for day in days[-cells:]
    ]
    return sparkline(shares, cells, 1.0)


def last_verdict_signs(found: AgentTypeCompliance) -> str:
    return "".join(VERDICT_SIGNS[each] for each in reversed(found.last_verdicts[:LAST_VERDICTS]))


MAX_DAYS: Final = 14  # shown one by one; `ctxtop compliance --json` has them all
REPORT_SPARK_CELLS: Final = 40
BAR_CELLS: Final = 16


def type_report(
    found: AgentTypeCompliance, least: int, force_hooks: Sequence[ForceHook], width: int
) -> Content:
    """Write the history; below `least` results no share is shown."""
    lines = [
        Content.styled(found.name, "bold $foreground"),
        *text_lines.labeled_lines(_type_facts(found, least), width),
    ]
    if found.sizes.results:
        lines += text_lines.section_heading("Added to the parents' context")
        lines += text_lines.labeled_lines(_size_facts(found), width)
    lines += _verdict_bars(found)
    if found.score.codes:
        lines += text_lines.section_heading("Broken rules, by number of results")
        lines += _code_lines(found.score.codes, width)
    if found.definitions:
        lines += text_lines.section_heading("Definitions")
        facts = _definition_facts(found, force_hooks, width)
        lines += text_lines.labeled_lines(facts, width)
    if found.days:
        lines += text_lines.section_heading("Day by day (UTC)")
        lines += map(_day_line, reversed(found.days[-MAX_DAYS:]))
    return Content("\n").join(lines)


def _type_facts(found: AgentTypeCompliance, least: int) -> Iterator[text_lines.Fact]:
    score = found.score
    yield "runs", f"{found.runs}" + (f", {found.running} running" if found.running else "")
    yield "expected", expected_text(found) or "none: no compressed format was asked for"
    if drift := drift_text(found):
        yield "but", drift, "$broken"
    if not score.judged_count:
        return
    style = "$broken" if score.failed_count else "$foreground"
    yield "complied", compliance_share_text(score), style
    if score.passed_share is None:
        yield "", f"shares need {least} results or more", "$quiet"
    if score.first_pass_share is not None:
        first, forced = percent(score.first_pass_share), percent(score.forced_share)
        yield "", f"{first} at once, {forced} after a block"
    yield "by day", compliance_sparkline(found.days, REPORT_SPARK_CELLS), "$accent"
    yield "last", f"{last_verdict_signs(found)}  newest last"
    passing = f"{score.grep_passed} of {score.judged_count} would pass"
    yield "a grep", f"{passing}, {score.grep_wrong} of them wrongly"
    if score.refires:
        yield "refires", f"{score.refires:,} stops beyond what a block explains", "$level-notice"


def _definition_facts(
    found: AgentTypeCompliance, force_hooks: Sequence[ForceHook], width: int
) -> Iterator[text_lines.Fact]:
    cells = max(1, width - text_lines.LABEL_CELLS - 2)
    for each in found.definitions:
        yield each.scope.value, shorten_path(one_line(each.path), cells)
        if each.skills:
            yield "skills", one_line(", ".join(each.skills))
        if each.model:
            yield "model", one_line(each.model)
        if problem := definition_problem(each):
            yield "but", one_line(problem), "$broken"
    yield "enforced", force_hook_text(force_hooks), "$quiet"


def _size_facts(found: AgentTypeCompliance) -> Iterator[text_lines.Fact]:
    sizes, cost = found.sizes, found.cost
    yield "results", str(sizes.results)
    yield "lines", f"median {sizes.median_lines}, p90 {sizes.p90_lines}"
    half, large = tokens(sizes.median_tokens), tokens(sizes.p90_tokens)
    yield "tokens", f"median ≈{half}, p90 ≈{large}"
    yield "in all", f"≈{tokens(cost.result_tokens)} tokens"
    if cost.excess_tokens:
        excess = f"≈{tokens(cost.excess_tokens)} tokens were added by noncompliant results"
        yield "excess", excess, "$broken"
    if cost.retry_tokens:
        yield "blocks", f"{tokens(cost.retry_tokens)} tokens were used after a block"


def _verdict_bars(found: AgentTypeCompliance) -> Iterator[Content]:
    counts = {verdict: found.score.verdicts[verdict] for verdict in ComplianceVerdict}
    most = max(counts.values())
    if not most:
        return
    yield from text_lines.section_heading("Verdicts")
    for verdict, count in counts.items():
        if count:
            style = "$broken" if VERDICT_SIGNS[verdict] == "✗" else "$accent"
            yield Content.assemble(
                (f"  {VERDICT_NAMES[verdict]:<{text_lines.LABEL_CELLS}}", "$quiet"),
                *_bar(max(1, round(BAR_CELLS * count / most)), style),
                (fit_right(str(count), 5), "$foreground"),
            )


def _bar(cells: int, style: str) -> list[tuple[str, str]]:
    return [("▄" * cells, style), ("▁" * (BAR_CELLS - cells), "$bar-track")]


def _code_lines(codes: Mapping[str, int], width: int) -> Iterator[Content]:
    for label, count in codes.items():
        code = FindingCode(label.partition(":")[0])
        style = "$broken" if code.is_violation else "$level-notice"
        head = Content.assemble((f"{count:>5}  ", "$foreground"), (f"{label:<9}", style))
        text = Content.styled(code.sentence, "$quiet")
        yield from text_lines.hanging_lines(head, text, width)


def _day_line(day: ComplianceDay) -> Content:
    passed, judged = day.score.passed_count, day.score.judged_count
    excess = excess_text(day.cost)
    return Content.assemble(
        (f"  {(iso_time(day.at) or NOTHING)[:10]:<{text_lines.LABEL_CELLS}}", "$quiet"),
        *_bar(round(BAR_CELLS * passed / judged) if judged else 0, "$accent"),
        (f"  {passed} of {judged}", "$foreground"),
        (f"  {excess} excess" if excess else "", "$broken"),
    )


REVIEWER_CELLS: Final = 18
AGE_CELLS: Final = 7
MIN_TEXT_CELLS: Final = 30  # of a finding's text; before it is shorter, reviewer and age leave
_SEVERITIES: Final = {
    "critical": ("✗", "$level-emergency"),
    "warning": ("▲", "$level-warning"),
    "suggestion": ("○", "$quiet"),
}


@dataclass(frozen=True, slots=True)
class FindingRow:
    """A row: a severity, a file, or one finding."""

    key: str
    groups: tuple[SeverityFindings, ...]  # what the row represents, as groups of its own
    severity: str
    in_file: FileFindings | None = None
    finding: GroupedFinding | None = None
    folded: bool = False

    @property
    def fold_cell(self) -> int | None:
        """The cell of the fold sign, None if the row cannot be folded."""
        if self.finding is not None:
            return None
        return 0 if self.in_file is None else 2


def lay_out_findings(
    groups: Iterable[SeverityFindings], folded: Collection[str]
) -> list[FindingRow]:
    """Lay groups out as rows, without what is below a folded one."""
    rows = []
    for group in groups:
        is_folded = group.severity in folded
        rows.append(FindingRow(group.severity, (group,), group.severity, folded=is_folded))
        for in_file in () if is_folded else group.files:
            rows += _file_rows(group, in_file, folded)
    return rows


def _file_rows(
    group: SeverityFindings, in_file: FileFindings, folded: Collection[str]
) -> Iterator[FindingRow]:
    # No severity and no project contains a line break: no two rows have one key.
    key = "\n".join((group.severity, in_file.project, in_file.path))
    is_folded = key in folded
    own = type(group)(group.severity, (in_file,))
    yield FindingRow(key, (own,), group.severity, in_file, folded=is_folded)
    for number, finding in enumerate(() if is_folded else in_file.findings):
        single_file = type(in_file)(in_file.project, in_file.path, (finding,))
        single = type(group)(group.severity, (single_file,))
        place = f"{key}\n{finding.location}\n{number}"
        yield FindingRow(place, (single,), group.severity, in_file, finding)


def finding_columns(width: int) -> list[Column[FindingRow, Cell]]:
    """Describe the two columns; `finding_line` draws both."""

    def nothing(_: FindingRow) -> Cell:
        return Cell("")

    return [
        Column(
            "  severity, file, finding",
            nothing,
            cells=max(0, width - AGE_CELLS),
            tooltip="what reviewers found, by severity and file",
        ),
        Column("ago", nothing, right=True, cells=AGE_CELLS, tooltip="when it was last found"),
    ]


def finding_line(row: FindingRow, width: int, now_ms: int) -> Content:
    sign, style = severity_sign(row.severity)
    if row.in_file is None:
        name = f"{text_lines.FOLD_SIGNS[row.folded]} {sign} {row.severity}"
        return Content.assemble(
            (fit_left(name, max(0, width - AGE_CELLS)), f"bold {style}"),
            (fit_right(str(row.groups[0].count), AGE_CELLS), "bold $foreground"),
        )
    if row.finding is None:
        return _file_line(row.in_file, text_lines.FOLD_SIGNS[row.folded], width)
    return _text_line(row.finding, sign, style, width, now_ms)


def severity_sign(severity: str) -> tuple[str, str]:
    """Return the sign and the style of a severity; color alone never conveys it."""
    return _SEVERITIES.get(severity, ("·", "$foreground"))


def _file_line(in_file: FileFindings, fold_sign: str, width: int) -> Content:
    head = f"  {fold_sign} "
    project = f"  {in_file.project}" if in_file.project else ""
    room = max(0, width - len(head) - AGE_CELLS)
    if room < cell_len(in_file.path) + cell_len(project):
        project = ""
    path = shorten(in_file.path, room - cell_len(project))
    rest = room - cell_len(path) - cell_len(project)
    return Content.assemble(
        (head, "$quiet"),
        (path, "$foreground"),
        (project + " " * rest, "$quiet"),
        (fit_right(str(len(in_file.findings)), AGE_CELLS), "$quiet"),
    )


def _text_line(found: GroupedFinding, sign: str, style: str, width: int, now_ms: int) -> Content:
    place = _place_in_file(found)
    place = fit_left(place, max(6, cell_len(place)))
    head = f"    {sign} "
    room = width - len(head) - cell_len(place) - 1
    parts: list[tuple[str, str]] = []
    if room - AGE_CELLS >= MIN_TEXT_CELLS:
        parts.append((fit_right(age(found.reviews[0].at, now_ms), AGE_CELLS), "$quiet"))
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


def _place_in_file(found: GroupedFinding) -> str:
    return found.location.removeprefix(found.finding.path)


MAX_FILES: Final = 40  # of a severity; its rows have all of them


def finding_report(row: FindingRow, titles: Mapping[str, str], width: int, now_ms: int) -> Content:
    """Write what a row represents; `titles` names sessions by their ids."""
    if row.finding is not None:
        lines = list(_finding_lines(row.finding, titles, now_ms))
        in_file = row.in_file.findings if row.in_file else ()
        others = [finding for finding in in_file if finding != row.finding]
        if others:
            lines += text_lines.section_heading("Also in this file")
            lines += _short_lines(others, width)
    elif row.in_file is not None:
        lines = list(_file_lines(row.in_file, row.severity, width))
    else:
        sign, style = severity_sign(row.severity)
        group = row.groups[0]
        lines = [Content.styled(f"{sign} {group.count} × {row.severity}", f"bold {style}")]
        for in_one_file in group.files[:MAX_FILES]:
            lines += [Content(""), *_file_lines(in_one_file, row.severity, width)]
        if len(group.files) > MAX_FILES:
            lines.append(Content.styled(f"… {len(group.files) - MAX_FILES} more files", "$quiet"))
    return Content("\n").join(lines)


def _finding_lines(
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
    yield from text_lines.section_heading("Reported by")
    for review in found.reviews:
        yield from _review_lines(review, titles, now_ms)


def _review_lines(
    review: ReviewedFinding, titles: Mapping[str, str], now_ms: int
) -> Iterator[Content]:
    at = review.at
    time = NOTHING if at is None else f"{date_time(at)}, {duration(now_ms - at)} ago"
    yield Content.assemble((f"  {review.agent_type}", "$foreground"), (f"  {time}", "$quiet"))
    title = titles.get(review.session_id, review.session_id[:8])
    yield Content.styled(f"    in {one_line(title)}", "$quiet")


def _file_lines(in_file: FileFindings, severity: str, width: int) -> Iterator[Content]:
    _, style = severity_sign(severity)
    yield Content.assemble((in_file.path, f"bold {style}"), (f"  {in_file.project}", "$quiet"))
    yield from _short_lines(in_file.findings, width)


def _short_lines(findings: Iterable[GroupedFinding], width: int) -> Iterator[Content]:
    for found in findings:
        sign, style = severity_sign(found.finding.severity)
        place = f"{_place_in_file(found):<6} "
        head = Content.assemble((f"  {sign} ", style), (place, "$quiet"))
        yield from text_lines.hanging_lines(
            head, Content.styled(found.finding.text, "$foreground"), width
        )
