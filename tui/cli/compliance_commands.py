"""`ctxtop check`, `compliance` and `findings`: how agents return, and what reviewers found."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import click
from msgspec.structs import replace

from ...collectors.collector_thread import Collector
from ...core.compliance.agent_compliance import (
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
from ...core.compliance.agent_inventory import NO_INVENTORY, AgentInventory
from ...core.compliance.expectations import compliance_settings
from ...core.compliance.judge import judge_result
from ...core.compliance.run_verdict import ComplianceScore
from ...core.model.agent import Agent
from ...core.model.findings import ComplianceVerdict, Judgment, ReviewFinding, RunVerdict
from ...core.model.result_formats import ResultFormat
from ...core.readers.compliance_reader import read_inventory
from ...core.transcript.sanitize import one_line, sanitize_text
from ..base.command_errors import DONE, RefusedError
from ..text.compliance_text import (
    VERDICT_NAMES,
    definition_problem,
    drift_text,
    excess_text,
    findings_markdown,
    force_hook_text,
    model_text,
    reviewers_text,
)
from ..text.formats import NOTHING, date_time, iso_time, percent, plural, tokens
from ..text.tables import Cell, Column, TextColumn
from .command_options import options_of, refuse_options, session_option, store_command
from .command_store import StoreSnapshot, open_snapshot, read_policy
from .json_records import check_record, compliance_record, record_of, records_of
from .printing import draw_table, paint, print_lines, print_result, session_id_cell


@store_command()
@click.argument("file", default="-")
@click.option(
    "--format",
    "expected",
    type=click.Choice((ResultFormat.OUTPUT.value, ResultFormat.REVIEW.value)),
    default=ResultFormat.OUTPUT.value,
    show_default=True,
    help="The expected format.",
)
@click.option("--agent-type", metavar="T", help="The agent type that the text must name.")
def check(context: click.Context, *, file: str, expected: str, agent_type: str | None) -> int:
    """Check a text against the format of compressed results. FILE may be - (standard input)."""
    policy, _ = read_policy(options_of(context), None)
    limits = compliance_settings(policy).limits
    judgment = judge_result(_read_text(file), ResultFormat(expected), agent_type, limits)
    return print_result(context, check_record(judgment), lambda: _check_lines(judgment))


def _read_text(file: str) -> str:
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        why = error.strerror or error
        raise RefusedError(f"{file} cannot be read ({why}): name a file with the text") from error
    # As in the store: the verdict on a text does not depend on where it comes from.
    return sanitize_text(data.decode("utf-8", "replace"))


_VERDICT_COLORS: Final = {
    ComplianceVerdict.COMPLIANT: "ok",
    ComplianceVerdict.FORCED: "notice",
    ComplianceVerdict.NON_COMPLIANT: "bad",
    ComplianceVerdict.EXHAUSTED: "bad",
    ComplianceVerdict.CLOBBERED: "bad",
}


def _check_lines(judgment: Judgment) -> list[str]:
    verdict = judgment.verdict
    name = paint(VERDICT_NAMES[verdict], _VERDICT_COLORS.get(verdict, ""))
    lines = [f"{name}  {plural(judgment.lines, 'line')}, {judgment.chars:,} characters"]
    for each in (*judgment.violations, *judgment.warnings):
        color = "bad" if each.code.is_violation else "warning"
        lines.append(f"{paint(each.label, color)}  {each.sentence}")
        lines.append(f"  line {each.line}: {one_line(each.text)}")
    return lines


@store_command()
@session_option
@click.option("--type", "agent_type", metavar="T", help="Only agents of this type.")
def compliance(context: click.Context, *, session: str | None, agent_type: str | None) -> int:
    """Show how well agents compress their results, by type.

    Lists every agent that is defined or that compliance.rules names, also if it never ran, with
    its model and the longest result, and the hooks that enforce compression.
    """
    with open_snapshot(options_of(context), Collector.scan_and_count_tokens) as snapshot:
        agents = [
            each
            for each in snapshot.agents(snapshot.optional_session_id(session))
            if agent_type in {None, each.agent_type}
        ]
        inventory = _inventory(snapshot, agent_type) if session is None else NO_INVENTORY
        settings = compliance_settings(snapshot.policies.common)
        summary = summarize_compliance(agents, settings, inventory)
        types = tuple(each for each in summary.types if agent_type in {None, each.name})
        summary = replace(summary, types=types)
        return print_result(
            context,
            compliance_record(summary),
            lambda: _compliance_tables(summary, snapshot.short_ids()),
            "no agents yet",
        )


def _inventory(snapshot: StoreSnapshot, agent_type: str | None) -> AgentInventory:
    found = read_inventory(snapshot.db)
    agents = [each for each in found.agents if agent_type in {None, each.name}]
    return replace(found, agents=tuple(agents))


MAX_DAYS: Final = 14  # shown of the score over time; `--json` has all
MAX_ROWS: Final = 20  # of findings and of agents that did not comply; `--json` has all


def _compliance_tables(summary: ComplianceSummary, short_ids: Mapping[str, str]) -> list[str]:
    if not summary.types:
        return []
    lines = draw_table(_TYPE_COLUMNS, summary.types)
    lines += ["", *_summary_lines(summary), force_hook_text(summary.force_hooks)]
    lines += [
        one_line(f"{each.name}: {each.path} {problem}")
        for kind in summary.types
        for each in kind.definitions
        if (problem := definition_problem(each))
    ]
    lines += [
        one_line(f"{each.name}: {drift}") for each in summary.types if (drift := drift_text(each))
    ]
    if len(summary.days) > 1:
        lines += ["", *draw_table(_DAY_COLUMNS, summary.days[-MAX_DAYS:])]
    if summary.noncompliant:
        lines += ["", *_failed_table(summary, short_ids)]
    if summary.findings:
        lines += ["", *_review_table(summary.findings, short_ids)]
    lines += [
        one_line(f"{each.agent_type} reviewed more files than one review can cover well")
        for each in summary.oversized_reviews
    ]
    return lines


def _summary_lines(summary: ComplianceSummary) -> list[str]:
    score, cost = summary.score, summary.cost
    grep = (
        f"a grep of the whole transcript would have passed {score.grep_passed:,} of"
        f" {score.judged_count:,}, {score.grep_wrong:,} of them wrongly"
    )
    spent = f"results took ≈{tokens(cost.result_tokens)} tokens of their parents' contexts"
    saved = f"compliance would have saved ≈{tokens(cost.excess_tokens)}"
    retried = f"requests after a block used {tokens(cost.retry_tokens)}"
    lines = [
        f"shares need {summary.min_samples} results; {grep}",
        f"{spent}; {saved}; {retried}",
    ]
    if score.refires:
        lines.append(f"{plural(score.refires, 'refire')}: stops beyond what a block explains")
    if score.codes:
        codes = ", ".join(f"{code} {count}" for code, count in score.codes.items())
        lines.append(f"findings: {one_line(codes)}")
    return lines


Scored = AgentTypeCompliance | ComplianceDay


def _share_of(share: Callable[[ComplianceScore], float | None]) -> Callable[[Scored], str]:
    """Format a share of the judged results; empty where none was judged."""

    def text(scored: Scored) -> str:
        return percent(share(scored.score)) if scored.score.judged_count else ""

    return text


def _count_of(verdict: ComplianceVerdict) -> Callable[[Scored], str]:
    return lambda scored: str(scored.score.verdicts[verdict] or "")


def _failed_cell(scored: Scored) -> Cell:
    return Cell(str(scored.score.failed_count or ""), "bad")


def _line_limit(found: AgentTypeCompliance) -> str:
    return "" if found.line_limit is None else f"{found.line_limit} lines"


_complied = _share_of(lambda score: score.passed_share)
_complied_first = _share_of(lambda score: score.first_pass_share)

_TYPE_COLUMNS: Final[Sequence[TextColumn[AgentTypeCompliance]]] = (
    Column("type", lambda each: each.name, flexible=True),
    Column("expected", lambda each: ", ".join(each.formats), priority=3),
    Column("results", lambda each: str(each.runs), right=True),
    Column("complied", _complied, right=True),
    Column("first time", _complied_first, right=True, priority=2),
    Column("forced", _count_of(ComplianceVerdict.FORCED), right=True, priority=1),
    Column("failed", _failed_cell, right=True),
    Column("not checked", _count_of(ComplianceVerdict.UNKNOWN), right=True, priority=4),
    Column("tokens", lambda each: f"≈{tokens(each.cost.result_tokens)}", right=True, priority=5),
    Column("excess", lambda each: excess_text(each.cost), right=True, priority=6),
    Column("limit", _line_limit, right=True, priority=7),
    Column("model", model_text, priority=8),
)

_DAY_COLUMNS: Final[Sequence[TextColumn[ComplianceDay]]] = (
    Column("day (UTC)", lambda each: (iso_time(each.at) or NOTHING)[:10]),
    Column("checked", lambda each: str(each.score.judged_count), right=True),
    Column("complied", _complied, right=True),
    Column("first time", _complied_first, right=True),
    Column("failed", _failed_cell, right=True),
)


def _failed_table(summary: ComplianceSummary, short_ids: Mapping[str, str]) -> list[str]:
    columns: list[TextColumn[tuple[Agent, RunVerdict]]] = [
        Column("at", lambda row: date_time(row[0].ended_at), priority=2),
        Column("session", lambda row: session_id_cell(row[0].session_id, short_ids)),
        Column("type", lambda row: row[0].agent_type, flexible=True),
        Column("verdict", lambda row: Cell(VERDICT_NAMES[row[1].verdict], "bad")),
        Column("because", lambda row: _violation_labels(row[1])),
        Column("grep", lambda row: "passes" if row[1].grep_passes else "", priority=1),
        Column("line", lambda row: _first_violation(row[1]), flexible=True),
    ]
    rows = [
        (agent, agent.compliance)
        for agent in summary.noncompliant[:MAX_ROWS]
        if agent.compliance is not None and agent.compliance.violations
    ]
    return draw_table(columns, rows)


def _violation_labels(verdict: RunVerdict) -> str:
    return " ".join(dict.fromkeys(each.label for each in verdict.violations))


def _first_violation(verdict: RunVerdict) -> str:
    first = verdict.violations[0]
    return f"{first.line}: {first.text}"


def _review_table(found: Sequence[ReviewedFinding], short_ids: Mapping[str, str]) -> list[str]:
    columns: list[TextColumn[ReviewedFinding]] = [
        Column("severity", lambda each: _severity_cell(each.finding)),
        Column("file", lambda each: each.finding.path, flexible=True),
        Column("line", lambda each: str(each.finding.line), right=True),
        Column("finding", lambda each: each.finding.text, flexible=True),
        Column("session", lambda each: session_id_cell(each.session_id, short_ids), priority=1),
        Column("reviewer", lambda each: each.agent_type, priority=2),
    ]
    return draw_table(columns, found[:MAX_ROWS])


def _severity_cell(finding: ReviewFinding) -> Cell:
    colors = {"critical": "bad", "warning": "warning"}
    return Cell(finding.severity, colors.get(finding.severity, ""))


@store_command()
@session_option
@click.option(
    "--severity", type=click.Choice(FINDING_SEVERITIES), help="Only findings of this severity."
)
@click.option("--file", "path", metavar="PATH", help="Only files whose path contains this.")
@click.option("--markdown", is_flag=True, help="Print as Markdown.")
def findings(
    context: click.Context,
    *,
    session: str | None,
    severity: str | None,
    path: str | None,
    markdown: bool,
) -> int:
    """List reviewers' findings by severity and file, each once."""
    if markdown:
        refuse_options(context, as_json="--markdown and --json cannot be combined: omit one")
    with open_snapshot(options_of(context), Collector.scan_and_count_tokens) as snapshot:
        session_id = snapshot.optional_session_id(session)
        projects = {each.session_id: each.project for each in snapshot.sessions(session_id)}
        settings = compliance_settings(snapshot.policies.common)
        reviewed = summarize_compliance(snapshot.agents(session_id), settings).findings
        groups = group_by_severity(
            each
            for each in group_findings(reviewed, projects)
            if severity in {None, each.finding.severity} and (path or "") in each.finding.path
        )
        if markdown:
            print_lines(findings_markdown(groups).splitlines())
            return DONE
        listed = [each for group in groups for file in group.files for each in file.findings]
        return print_result(
            context,
            [
                {
                    **record_of(each.finding, "severity"),
                    "project": each.project,
                    **record_of(each.finding, "path line last_line text"),
                    "said": records_of(each.reviews, "session_id agent_id agent_type at"),
                }
                for each in listed
            ],
            lambda: _finding_table(listed, snapshot.short_ids()) if listed else [],
            "no matching findings yet",
        )


def _finding_table(found: Sequence[GroupedFinding], short_ids: Mapping[str, str]) -> list[str]:
    def session(finding: GroupedFinding) -> str:
        session_id = finding.reviews[0].session_id
        return short_ids.get(session_id, session_id or NOTHING)

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
    return draw_table(columns, found)
