"""`ctxtop findings`: what reviewers found, by severity and file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ...collectors.collect import Collector
from ...core.compliance.expected import terms_of
from ...core.compliance_summary import sum_up
from ...core.review_groups import SEVERITIES, by_severity, gather
from ...core.store import queries
from ..findings_markdown import findings_markdown
from ..formats import NOTHING, moment
from . import columns
from .cells import shorten
from .columns import Cell, Column, terminal_width
from .emit import emit
from .options import chosen, reading, refuse, session
from .reading import open_reading
from .report import DONE
from .times import time_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...core.review_groups import Found, Severe

_COLOURS = {"critical": "bad", "warning": "warning"}


@click.command()
@reading
@session
@click.option("--severity", type=click.Choice(SEVERITIES), help="Only what is of this severity.")
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
        refuse(context, as_json="it is Markdown or JSON: leave one of them out")
    with open_reading(chosen(context), Collector.scan_and_count_tokens) as found:
        sessions = found.sessions(found.session_id(session))
        agents = found.agents(found.session_id(session))
        reviewed = sum_up(agents, terms_of(found.policies.common)).findings
        groups = by_severity(
            each
            for each in gather(reviewed, {each.session_id: each.project for each in sessions})
            if severity in {None, each.finding.severity} and (path or "") in each.finding.path
        )
        short = shorten(queries.find_sessions(found.db, ""))
        if markdown:
            columns.put(findings_markdown(groups).splitlines())
            return DONE
        return emit(
            context,
            [
                record(each)
                for group in groups
                for in_file in group.files
                for each in in_file.findings
            ],
            lambda: lines(groups, short) or ["no review has found any of that yet"],
        )


def record(found: Found) -> dict[str, Any]:
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
                "at": time_of(each.at),
            }
            for each in found.reviews
        ],
    }


def lines(groups: Sequence[Severe], short: Mapping[str, str]) -> list[str]:
    """Lay the groups out as a table."""
    heads = [
        Column("severity"),
        Column("project", priority=2),
        Column("file", flexible=True),
        Column("line", right=True),
        Column("finding", flexible=True),
        Column("reviewer", priority=1),
        Column("at", priority=3),
        Column("session", priority=4),
    ]
    rows = [
        _row(found, short) for group in groups for each in group.files for found in each.findings
    ]
    return columns.draw(heads, rows, terminal_width()) if rows else []


def _row(found: Found, short: Mapping[str, str]) -> Sequence[Cell | str]:
    finding, newest = found.finding, found.reviews[0]
    more = f" +{len(found.reviews) - 1}" if len(found.reviews) > 1 else ""
    return [
        Cell(finding.severity, _COLOURS.get(finding.severity, "")),
        found.project,
        finding.path,
        found.location.removeprefix(f"{finding.path}:"),
        finding.text,
        f"{newest.agent_type}{more}",
        moment(newest.at),
        short.get(newest.session_id, newest.session_id or NOTHING),
    ]
