"""`ctxtop check`, `compliance` and `findings`: how agents return, and what reviewers found."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from ...collectors.claude_code.collector_thread import Collector
from ...core.compliance.findings import ComplianceVerdict, Judgement, ResultFormat
from ...core.compliance.judge import compliance_settings, judge_result
from ...core.compliance.run_verdict import ComplianceScore
from ...core.measure.agent_compliance import (
    FINDING_SEVERITIES,
    ComplianceSummary,
    GroupedFinding,
    ReviewedFinding,
    SeverityFindings,
    group_by_severity,
    group_findings,
    summarize_compliance,
)
from ...core.store.queries import session_queries
from ...core.transcript.sanitize import sanitize_text
from ..text.compliance_text import VERDICT_NAMES, findings_markdown
from ..text.formats import NOTHING, date_time, iso_time, percent, plural, tokens
from .command_errors import DONE, RefusedError
from .command_options import options_of, refuse_options, session_option, store_options
from .command_store import open_snapshot, read_policy
from .output import compliance_json, text_table
from .output.printing import print_result
from .output.text_table import (
    TextCell,
    TextColumn,
    clean_line,
    draw_table,
    paint,
    session_id_cell,
    shorten_ids,
    terminal_width,
)

MAX_DAYS: Final = 14
"""Shown of the score over time; `--json` has them all."""

MAX_ROWS: Final = 20
"""Of findings and of agents that did not comply; `--json` has them all."""

VERDICT_COLOURS: Final = {
    ComplianceVerdict.COMPLIANT: "ok",
    ComplianceVerdict.FORCED: "notice",
    ComplianceVerdict.NON_COMPLIANT: "bad",
    ComplianceVerdict.EXHAUSTED: "bad",
    ComplianceVerdict.CLOBBERED: "bad",
}


def check_lines(found: Judgement) -> list[str]:
    """Lay out `ctxtop check`."""
    size = plural(found.lines, "line")
    said = paint(VERDICT_NAMES[found.verdict], VERDICT_COLOURS.get(found.verdict, ""))
    lines = [f"{said}  {size}, {found.chars:,} characters"]
    for each in (*found.violations, *found.warnings):
        colour = "bad" if each.code.is_violation else "warning"
        lines.append(f"{paint(each.label, colour)}  {each.sentence}")
        lines.append(f"  line {each.line}: {clean_line(each.text)}")
    return lines


def compliance_tables(found: ComplianceSummary, short: Mapping[str, str]) -> list[str]:
    """Lay out `ctxtop compliance`."""
    if not found.types:
        return []
    lines = _type_table(found)
    lines += ["", *_summary_lines(found)]
    lines += [
        clean_line(f"{each.name}: the policy's rules say {each.drift}, its definition does not")
        for each in found.types
        if each.drift
    ]
    if len(found.days) > 1:
        lines += ["", *_day_table(found)]
    if found.noncompliant:
        lines += ["", *_failed_table(found, short)]
    if found.findings:
        lines += ["", *_review_table(found.findings, short)]
    lines += [
        clean_line(f"{each.agent_type} reviewed more files than one review holds well")
        for each in found.oversized_reviews
    ]
    return lines


def _summary_lines(found: ComplianceSummary) -> list[str]:
    score, cost = found.score, found.cost
    grep = (
        f"a grep over the whole transcript would have passed {score.grep_passed:,} of"
        f" {score.judged_count:,}, {score.grep_wrong:,} of them wrongly"
    )
    spent = f"results took ≈{tokens(cost.result_tokens)} tokens of their parents' contexts"
    saved = f"compliance would have saved ≈{tokens(cost.excess_tokens)}"
    retried = f"requests after a block spent {tokens(cost.retry_tokens)}"
    lines = [
        f"a share is told of {found.min_samples} results or more; {grep}",
        f"{spent}; {saved}; {retried}",
    ]
    if score.codes:
        codes = ", ".join(f"{code} {count}" for code, count in score.codes.items())
        lines.append(f"findings: {clean_line(codes)}")
    return lines


def _type_table(found: ComplianceSummary) -> list[str]:
    columns = [
        TextColumn("type", flexible=True),
        TextColumn("expected", priority=3),
        TextColumn("results", right=True),
        TextColumn("complied", right=True),
        TextColumn("first time", right=True, priority=2),
        TextColumn("forced", right=True, priority=1),
        TextColumn("failed", right=True),
        TextColumn("not judged", right=True, priority=4),
        TextColumn("tokens", right=True, priority=5),
        TextColumn("too many", right=True, priority=6),
    ]
    rows: list[Sequence[TextCell | str]] = [
        [
            each.name,
            ", ".join(each.formats),
            str(each.runs),
            _share_text(each.score.passed_share, each.score),
            _share_text(each.score.first_pass_share, each.score),
            str(each.score.verdicts[ComplianceVerdict.FORCED] or ""),
            TextCell(str(_failure_count(each.score) or ""), "bad"),
            str(each.score.verdicts[ComplianceVerdict.UNKNOWN] or ""),
            f"≈{tokens(each.cost.result_tokens)}",
            f"≈{tokens(each.cost.excess_tokens)}" if each.cost.excess_tokens else "",
        ]
        for each in found.types
    ]
    return draw_table(columns, rows, terminal_width())


def _day_table(found: ComplianceSummary) -> list[str]:
    columns = [
        TextColumn("day (UTC)"),
        TextColumn("judged", right=True),
        TextColumn("complied", right=True),
        TextColumn("first time", right=True),
        TextColumn("failed", right=True),
    ]
    rows: list[Sequence[TextCell | str]] = [
        [
            _day_text(each.at),
            str(each.score.judged_count),
            _share_text(each.score.passed_share, each.score),
            _share_text(each.score.first_pass_share, each.score),
            TextCell(str(_failure_count(each.score) or ""), "bad"),
        ]
        for each in found.days[-MAX_DAYS:]
    ]
    return draw_table(columns, rows, terminal_width())


def _failed_table(found: ComplianceSummary, short: Mapping[str, str]) -> list[str]:
    columns = [
        TextColumn("at", priority=2),
        TextColumn("session"),
        TextColumn("type", flexible=True),
        TextColumn("verdict"),
        TextColumn("because"),
        TextColumn("grep", priority=1),
        TextColumn("line", flexible=True),
    ]
    rows: list[Sequence[TextCell | str]] = []
    for each in found.noncompliant[:MAX_ROWS]:
        ruling = each.compliance
        if ruling is None or not ruling.violations:
            continue
        first = ruling.violations[0]
        rows.append(
            [
                date_time(each.ended_at),
                session_id_cell(each.session_id, short),
                each.agent_type,
                TextCell(VERDICT_NAMES[ruling.verdict], "bad"),
                " ".join(dict.fromkeys(one.label for one in ruling.violations)),
                "passes" if ruling.grep_passes else "",
                f"{first.line}: {first.text}",
            ]
        )
    return draw_table(columns, rows, terminal_width())


def _review_table(found: Sequence[ReviewedFinding], short: Mapping[str, str]) -> list[str]:
    columns = [
        TextColumn("severity"),
        TextColumn("file", flexible=True),
        TextColumn("line", right=True),
        TextColumn("finding", flexible=True),
        TextColumn("session", priority=1),
        TextColumn("reviewer", priority=2),
    ]
    rows: list[Sequence[TextCell | str]] = [
        [
            TextCell(each.finding.severity, _REVIEW_COLOURS.get(each.finding.severity, "")),
            each.finding.path,
            str(each.finding.line),
            each.finding.text,
            session_id_cell(each.session_id, short),
            each.agent_type,
        ]
        for each in found[:MAX_ROWS]
    ]
    return draw_table(columns, rows, terminal_width())


_REVIEW_COLOURS: Final = {"critical": "bad", "warning": "warning"}


def _share_text(share: float | None, score: ComplianceScore) -> str:
    if not score.judged_count:
        return ""
    return NOTHING if share is None else percent(share)


def _failure_count(score: ComplianceScore) -> int:
    return sum(
        score.verdicts[each]
        for each in (
            ComplianceVerdict.NON_COMPLIANT,
            ComplianceVerdict.EXHAUSTED,
            ComplianceVerdict.CLOBBERED,
        )
    )


def _day_text(at_ms: int) -> str:
    return (iso_time(at_ms) or NOTHING)[:10]


_CHECKED_FORMATS: Final = (ResultFormat.OUTPUT.value, ResultFormat.REVIEW.value)


@click.command()
@store_options
@click.argument("file", default="-")
@click.option(
    "--format",
    "expected",
    type=click.Choice(_CHECKED_FORMATS),
    default=ResultFormat.OUTPUT.value,
    show_default=True,
    help="What the text is expected to be.",
)
@click.option("--agent-type", metavar="T", help="The type that the text must name.")
@click.pass_context
def check(context: click.Context, *, file: str, expected: str, agent_type: str | None) -> int:
    """Judge one text by the grammar of compressed results. FILE is - for the input."""
    policy, _ = read_policy(options_of(context), None)
    limits = compliance_settings(policy).limits
    judged = judge_result(_read_text(file), ResultFormat(expected), agent_type, limits)
    return print_result(context, compliance_json.check_record(judged), lambda: check_lines(judged))


def _read_text(file: str) -> str:
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        why = error.strerror or error
        raise RefusedError(f"{file} cannot be read ({why}): name a file with the text") from error
    # As the store keeps it: a text is judged the same wherever it comes from.
    return sanitize_text(data.decode("utf-8", "replace"))


@click.command()
@store_options
@session_option
@click.option("--type", "agent_type", metavar="T", help="Only agents of this type.")
@click.pass_context
def compliance(context: click.Context, *, session: str | None, agent_type: str | None) -> int:
    """Say how well agents compress what they return, by type and over time."""
    with open_snapshot(options_of(context), Collector.scan_and_count_tokens) as found:
        agents = [
            each
            for each in found.agents(found.session_id(session))
            if agent_type in {None, each.agent_type}
        ]
        summed = summarize_compliance(agents, compliance_settings(found.policies.common))
        short = shorten_ids(session_queries.find_sessions(found.db, ""))
        return print_result(
            context,
            compliance_json.compliance_record(summed),
            lambda: compliance_tables(summed, short) or ["no agents yet"],
        )


_FINDING_COLOURS = {"critical": "bad", "warning": "warning"}


@click.command()
@store_options
@session_option
@click.option(
    "--severity", type=click.Choice(FINDING_SEVERITIES), help="Only what is of this severity."
)
@click.option("--file", "path", metavar="PATH", help="Only in files whose path has this in it.")
@click.option("--markdown", is_flag=True, help="Print a Markdown document.")
@click.pass_context
def findings(
    context: click.Context,
    *,
    session: str | None,
    severity: str | None,
    path: str | None,
    markdown: bool,
) -> int:
    """List what reviewers found, by severity and file; what several said stands there once."""
    if markdown:
        refuse_options(context, as_json="it is Markdown or JSON: leave one of them out")
    with open_snapshot(options_of(context), Collector.scan_and_count_tokens) as found:
        sessions = found.sessions(found.session_id(session))
        agents = found.agents(found.session_id(session))
        reviewed = summarize_compliance(agents, compliance_settings(found.policies.common)).findings
        groups = group_by_severity(
            each
            for each in group_findings(
                reviewed, {each.session_id: each.project for each in sessions}
            )
            if severity in {None, each.finding.severity} and (path or "") in each.finding.path
        )
        short = shorten_ids(session_queries.find_sessions(found.db, ""))
        if markdown:
            text_table.print_lines(findings_markdown(groups).splitlines())
            return DONE
        return print_result(
            context,
            [
                finding_record(each)
                for group in groups
                for in_file in group.files
                for each in in_file.findings
            ],
            lambda: finding_table(groups, short) or ["no review has found any of that yet"],
        )


def finding_record(found: GroupedFinding) -> dict[str, Any]:
    """Make the object of one finding."""
    finding = found.finding
    return {
        "severity": finding.severity,
        "project": found.project,
        "path": finding.path,
        "line": finding.line,
        "last_line": finding.last_line,
        "text": finding.text,
        "said": [
            {
                "session_id": each.session_id,
                "agent_id": each.agent_id,
                "agent_type": each.agent_type,
                "at": iso_time(each.at),
            }
            for each in found.reviews
        ],
    }


def finding_table(groups: Sequence[SeverityFindings], short: Mapping[str, str]) -> list[str]:
    """Lay the groups out as a table."""
    heads = [
        TextColumn("severity"),
        TextColumn("project", priority=2),
        TextColumn("file", flexible=True),
        TextColumn("line", right=True),
        TextColumn("finding", flexible=True),
        TextColumn("reviewer", priority=1),
        TextColumn("at", priority=3),
        TextColumn("session", priority=4),
    ]
    rows = [
        _finding_row(found, short)
        for group in groups
        for each in group.files
        for found in each.findings
    ]
    return text_table.draw_table(heads, rows, terminal_width()) if rows else []


def _finding_row(found: GroupedFinding, short: Mapping[str, str]) -> Sequence[TextCell | str]:
    finding, newest = found.finding, found.reviews[0]
    more = f" +{len(found.reviews) - 1}" if len(found.reviews) > 1 else ""
    return [
        TextCell(finding.severity, _FINDING_COLOURS.get(finding.severity, "")),
        found.project,
        finding.path,
        found.location.removeprefix(f"{finding.path}:"),
        finding.text,
        f"{newest.agent_type}{more}",
        date_time(newest.at),
        short.get(newest.session_id, newest.session_id or NOTHING),
    ]
