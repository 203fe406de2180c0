"""`ctxtop check`, `compliance` and `findings`: how agents return, and what reviewers found."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from ...collectors.claude_code.collector_thread import Collector
from ...core.compliance.findings import ComplianceVerdict, Judgement, ResultFormat, ReviewFinding
from ...core.compliance.judge import compliance_settings, judge_result
from ...core.compliance.run_verdict import ComplianceScore, RunVerdict
from ...core.measure.agent_compliance import (
    FINDING_SEVERITIES,
    AgentTypeCompliance,
    ComplianceDay,
    ComplianceSummary,
    GroupedFinding,
    ReviewedFinding,
    group_by_severity,
    group_findings,
    summarize_compliance,
)
from ...core.model.agent import Agent
from ...core.store.queries import session_queries
from ...core.transcript.sanitize import sanitize_text
from ..tables import Cell, Column, TextColumn
from ..text.compliance_text import VERDICT_NAMES, excess_text, findings_markdown, reviewers_text
from ..text.formats import NOTHING, date_time, iso_time, percent, plural, tokens
from .command_errors import DONE, RefusedError
from .command_options import options_of, refuse_options, session_option, store_options
from .command_store import open_snapshot, read_policy
from .output import compliance_json
from .output.printing import (
    clean_line,
    draw_table,
    paint,
    print_lines,
    print_result,
    session_id_cell,
    shorten_ids,
)

MAX_DAYS: Final = 14  # shown of the score over time; `--json` has them all
MAX_ROWS: Final = 20  # of findings and of agents that did not comply; `--json` has them all
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
    lines = draw_table(_TYPE_COLUMNS, found.types)
    lines += ["", *_summary_lines(found)]
    lines += [
        clean_line(f"{each.name}: the policy's rules say {each.drift}, its definition does not")
        for each in found.types
        if each.drift
    ]
    if len(found.days) > 1:
        lines += ["", *draw_table(_DAY_COLUMNS, found.days[-MAX_DAYS:])]
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


def _share_text(share: float | None, score: ComplianceScore) -> str:
    if not score.judged_count:
        return ""
    return NOTHING if share is None else percent(share)


def _day_text(at_ms: int) -> str:
    return (iso_time(at_ms) or NOTHING)[:10]


def _failure_cell(score: ComplianceScore) -> Cell:
    return Cell(str(score.failed_count or ""), "bad")


_TYPE_COLUMNS: Final[Sequence[TextColumn[AgentTypeCompliance]]] = (
    Column("type", lambda each: each.name, flexible=True),
    Column("expected", lambda each: ", ".join(each.formats), priority=3),
    Column("results", lambda each: str(each.runs), right=True),
    Column("complied", lambda each: _share_text(each.score.passed_share, each.score), right=True),
    Column(
        "first time",
        lambda each: _share_text(each.score.first_pass_share, each.score),
        right=True,
        priority=2,
    ),
    Column(
        "forced",
        lambda each: str(each.score.verdicts[ComplianceVerdict.FORCED] or ""),
        right=True,
        priority=1,
    ),
    Column("failed", lambda each: _failure_cell(each.score), right=True),
    Column(
        "not judged",
        lambda each: str(each.score.verdicts[ComplianceVerdict.UNKNOWN] or ""),
        right=True,
        priority=4,
    ),
    Column("tokens", lambda each: f"≈{tokens(each.cost.result_tokens)}", right=True, priority=5),
    Column("too many", lambda each: excess_text(each.cost), right=True, priority=6),
)

_DAY_COLUMNS: Final[Sequence[TextColumn[ComplianceDay]]] = (
    Column("day (UTC)", lambda each: _day_text(each.at)),
    Column("judged", lambda each: str(each.score.judged_count), right=True),
    Column("complied", lambda each: _share_text(each.score.passed_share, each.score), right=True),
    Column(
        "first time", lambda each: _share_text(each.score.first_pass_share, each.score), right=True
    ),
    Column("failed", lambda each: _failure_cell(each.score), right=True),
)


def _failed_table(found: ComplianceSummary, short: Mapping[str, str]) -> list[str]:
    columns: list[TextColumn[tuple[Agent, RunVerdict]]] = [
        Column("at", lambda each: date_time(each[0].ended_at), priority=2),
        Column("session", lambda each: session_id_cell(each[0].session_id, short)),
        Column("type", lambda each: each[0].agent_type, flexible=True),
        Column("verdict", lambda each: Cell(VERDICT_NAMES[each[1].verdict], "bad")),
        Column("because", lambda each: _violation_labels(each[1])),
        Column("grep", lambda each: "passes" if each[1].grep_passes else "", priority=1),
        Column("line", lambda each: _first_violation(each[1]), flexible=True),
    ]
    judged = [
        (each, each.compliance)
        for each in found.noncompliant[:MAX_ROWS]
        if each.compliance is not None and each.compliance.violations
    ]
    return draw_table(columns, judged)


def _violation_labels(ruling: RunVerdict) -> str:
    return " ".join(dict.fromkeys(one.label for one in ruling.violations))


def _first_violation(ruling: RunVerdict) -> str:
    first = ruling.violations[0]
    return f"{first.line}: {first.text}"


def _review_table(found: Sequence[ReviewedFinding], short: Mapping[str, str]) -> list[str]:
    columns: list[TextColumn[ReviewedFinding]] = [
        Column("severity", lambda each: _severity_cell(each.finding)),
        Column("file", lambda each: each.finding.path, flexible=True),
        Column("line", lambda each: str(each.finding.line), right=True),
        Column("finding", lambda each: each.finding.text, flexible=True),
        Column("session", lambda each: session_id_cell(each.session_id, short), priority=1),
        Column("reviewer", lambda each: each.agent_type, priority=2),
    ]
    return draw_table(columns, found[:MAX_ROWS])


def _severity_cell(found: ReviewFinding) -> Cell:
    return Cell(found.severity, _SEVERITY_COLOURS.get(found.severity, ""))


_SEVERITY_COLOURS: Final = {"critical": "bad", "warning": "warning"}


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
        listed = [each for group in groups for in_file in group.files for each in in_file.findings]
        if markdown:
            print_lines(findings_markdown(groups).splitlines())
            return DONE
        return print_result(
            context,
            [finding_record(each) for each in listed],
            lambda: finding_table(listed, short) or ["no review has found any of that yet"],
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


def finding_table(found: Sequence[GroupedFinding], short: Mapping[str, str]) -> list[str]:
    """Lay out `ctxtop findings`."""

    def session(found: GroupedFinding) -> str:
        session_id = found.reviews[0].session_id
        return short.get(session_id, session_id or NOTHING)

    columns: list[TextColumn[GroupedFinding]] = [
        Column("severity", lambda each: _severity_cell(each.finding)),
        Column("project", lambda each: each.project, priority=2),
        Column("file", lambda each: each.finding.path, flexible=True),
        Column(
            "line", lambda each: each.location.removeprefix(f"{each.finding.path}:"), right=True
        ),
        Column("finding", lambda each: each.finding.text, flexible=True),
        Column("reviewer", reviewers_text, priority=1),
        Column("at", lambda each: date_time(each.reviews[0].at), priority=3),
        Column("session", session, priority=4),
    ]
    return draw_table(columns, found) if found else []
