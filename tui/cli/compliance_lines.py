"""What people read of compliance: one text's findings, and the score of many agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...core.compliance.codes import Verdict
from ..compliance_words import WORDS
from ..formats import NOTHING, moment, percent, plural, tokens
from .cells import session_id
from .columns import Cell, Column, draw, one_line, paint, terminal_width
from .times import time_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...core.compliance.findings import Judgement
    from ...core.compliance.score import Score
    from ...core.compliance_summary import Compliance, Reviewed

DAYS: Final = 14
"""Shown of the score over time; `--json` has them all."""

MOST_ROWS: Final = 20
"""Of findings and of agents that did not comply; `--json` has them all."""

COLOURS: Final = {
    Verdict.COMPLIANT: "ok",
    Verdict.FORCED: "notice",
    Verdict.NON_COMPLIANT: "bad",
    Verdict.EXHAUSTED: "bad",
    Verdict.CLOBBERED: "bad",
}


def checked(found: Judgement) -> list[str]:
    """Lay out `ctxtop check`."""
    size = plural(found.lines, "line")
    said = paint(WORDS[found.verdict], COLOURS.get(found.verdict, ""))
    lines = [f"{said}  {size}, {found.chars:,} characters"]
    for each in (*found.violations, *found.warnings):
        colour = "bad" if each.code.is_violation else "warning"
        lines.append(f"{paint(each.label, colour)}  {each.sentence}")
        lines.append(f"  line {each.line}: {one_line(each.text)}")
    return lines


def summed(found: Compliance, short: Mapping[str, str]) -> list[str]:
    """Lay out `ctxtop compliance`."""
    if not found.types:
        return []
    lines = _types(found)
    lines += ["", *_sums(found)]
    lines += [
        one_line(f"{each.name}: the policy's rules say {each.drift}, its definition does not")
        for each in found.types
        if each.drift
    ]
    if len(found.days) > 1:
        lines += ["", *_days(found)]
    if found.noncompliant:
        lines += ["", *_failed(found, short)]
    if found.findings:
        lines += ["", *_reviewed(found.findings, short)]
    lines += [
        one_line(f"{each.agent_type} reviewed more files than one review holds well")
        for each in found.oversized_reviews
    ]
    return lines


def _sums(found: Compliance) -> list[str]:
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
        lines.append(f"findings: {one_line(codes)}")
    return lines


def _types(found: Compliance) -> list[str]:
    columns = [
        Column("type", flexible=True),
        Column("expected", priority=3),
        Column("results", right=True),
        Column("complied", right=True),
        Column("first time", right=True, priority=2),
        Column("forced", right=True, priority=1),
        Column("failed", right=True),
        Column("not judged", right=True, priority=4),
        Column("tokens", right=True, priority=5),
        Column("too many", right=True, priority=6),
    ]
    rows: list[Sequence[Cell | str]] = [
        [
            each.name,
            ", ".join(each.formats),
            str(each.runs),
            _share(each.score.passed_share, each.score),
            _share(each.score.first_pass_share, each.score),
            str(each.score.verdicts[Verdict.FORCED] or ""),
            Cell(str(_failures(each.score) or ""), "bad"),
            str(each.score.verdicts[Verdict.UNKNOWN] or ""),
            f"≈{tokens(each.cost.result_tokens)}",
            f"≈{tokens(each.cost.excess_tokens)}" if each.cost.excess_tokens else "",
        ]
        for each in found.types
    ]
    return draw(columns, rows, terminal_width())


def _days(found: Compliance) -> list[str]:
    columns = [
        Column("day (UTC)"),
        Column("judged", right=True),
        Column("complied", right=True),
        Column("first time", right=True),
        Column("failed", right=True),
    ]
    rows: list[Sequence[Cell | str]] = [
        [
            _day(each.at),
            str(each.score.judged_count),
            _share(each.score.passed_share, each.score),
            _share(each.score.first_pass_share, each.score),
            Cell(str(_failures(each.score) or ""), "bad"),
        ]
        for each in found.days[-DAYS:]
    ]
    return draw(columns, rows, terminal_width())


def _failed(found: Compliance, short: Mapping[str, str]) -> list[str]:
    columns = [
        Column("at", priority=2),
        Column("session"),
        Column("type", flexible=True),
        Column("verdict"),
        Column("because"),
        Column("grep", priority=1),
        Column("line", flexible=True),
    ]
    rows: list[Sequence[Cell | str]] = []
    for each in found.noncompliant[:MOST_ROWS]:
        ruling = each.compliance
        if ruling is None or not ruling.violations:
            continue
        first = ruling.violations[0]
        rows.append(
            [
                moment(each.ended_at),
                session_id(each.session_id, short),
                each.agent_type,
                Cell(WORDS[ruling.verdict], "bad"),
                " ".join(dict.fromkeys(one.label for one in ruling.violations)),
                "passes" if ruling.grep_passes else "",
                f"{first.line}: {first.text}",
            ]
        )
    return draw(columns, rows, terminal_width())


def _reviewed(found: Sequence[Reviewed], short: Mapping[str, str]) -> list[str]:
    columns = [
        Column("severity"),
        Column("file", flexible=True),
        Column("line", right=True),
        Column("finding", flexible=True),
        Column("session", priority=1),
        Column("reviewer", priority=2),
    ]
    rows: list[Sequence[Cell | str]] = [
        [
            Cell(each.finding.severity, _SEVERITY.get(each.finding.severity, "")),
            each.finding.path,
            str(each.finding.line),
            each.finding.text,
            session_id(each.session_id, short),
            each.agent_type,
        ]
        for each in found[:MOST_ROWS]
    ]
    return draw(columns, rows, terminal_width())


_SEVERITY: Final = {"critical": "bad", "warning": "warning"}


def _share(share: float | None, score: Score) -> str:
    if not score.judged_count:
        return ""
    return NOTHING if share is None else percent(share)


def _failures(score: Score) -> int:
    return sum(
        score.verdicts[each]
        for each in (Verdict.NON_COMPLIANT, Verdict.EXHAUSTED, Verdict.CLOBBERED)
    )


def _day(at_ms: int) -> str:
    return (time_of(at_ms) or NOTHING)[:10]
