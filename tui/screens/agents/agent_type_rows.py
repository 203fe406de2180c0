"""A type of agent as a row, and its history as a text: compliance, result sizes, verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from textual.content import Content

from ....core.compliance.findings import (
    CODE_SENTENCES,
    ComplianceVerdict,
    FindingCode,
    ResultFormat,
)
from ...tables import Cell, Column, fitting_columns, total_cells
from ...text.compliance_text import VERDICT_NAMES, VERDICT_SIGNS, excess_text
from ...text.formats import NOTHING, fit_right, iso_time, percent, sparkline, tokens
from ...text.table_lines import ScreenColumn, header_line, item_line
from ...text.text_lines import LABEL_CELLS, hanging_lines, labelled_line, section_heading

if TYPE_CHECKING:
    from ....core.compliance.run_verdict import ComplianceScore
    from ....core.measure.agent_compliance import AgentTypeCompliance, ComplianceDay


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


MAX_DAYS: Final = 14
"""Shown one by one; `ctxtop compliance --json` has them all."""

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
