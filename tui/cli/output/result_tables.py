"""The tables of the commands: sessions, agents, compactions, warnings, policy, context, checks."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ....core.measure import compaction_report
from ....core.measure.compaction_report import CompactionReport
from ....core.measure.composition import CategoryShare, Composition
from ....core.measure.tokens import tokens_or_estimate
from ....core.model.session import Session
from ....core.policy.policy import Policy, PolicyNotice, PolicyOrigin, ResolvedValue
from ....core.policy.value_types import format_value
from ....core.store.queries.query_rows import CompactionRow, SummaryRow
from ....core.summaries.lost_artifacts import ArtifactCounts
from ....core.transcript.sanitize import sanitize_text
from ...text.compaction_text import CONTENT_UNKNOWN, compaction_report_lines
from ...text.compliance_text import agent_count
from ...text.formats import (
    NOTHING,
    date_time,
    duration,
    model_name,
    percent,
    plural,
    shorten_middle,
    tokens,
    tokens_after,
)
from ...text.policy_text import ignored_table
from ...text.session_text import (
    SHARE_CELLS,
    composition_total_text,
    largest_parts,
    share_tokens_text,
)
from .text_table import (
    TextCell,
    TextColumn,
    clean_line,
    draw_table,
    gauge_cell,
    level_cell,
    paint,
    result_size,
    session_id_cell,
    shorten_ids,
    terminal_width,
    text_bar,
    time_since,
    tokens_of_window_text,
    verdict_cell,
)

if TYPE_CHECKING:
    from ....core.model.agent import Agent
    from ....core.store.readers.warning_reader import ContextWarning
    from ..doctor.machine_checks import DoctorCheck
    from .json_records import Record


_INDENT: Final = "  "
_LABEL_CELLS: Final = 13


def lost_cell(told: CompactionReport | None) -> TextCell | str:
    """Return the cell for how much a compaction lost."""
    if told is None:
        return NOTHING
    if not told.is_known:
        return TextCell("unknown", "quiet")
    counts = ", ".join(_lost_counts(told.forgotten.counts))
    return counts or TextCell("nothing", "quiet")


def thrash_cell(told: CompactionReport | None) -> TextCell | str:
    """Mark a compaction that came soon after another."""
    found = compaction_report.find_thrash(told.refill) if told else None
    return TextCell(f"after {plural(found.turns_since_last, 'turn')}", "warning") if found else ""


def compaction_detail_lines(told: CompactionReport | None, width: int) -> list[str]:
    """Lay out all that is told of a compaction, in lines of at most `width` cells."""
    if told is None:
        return [paint(f"{_INDENT}nothing is told of it yet: its file was not read", "quiet")]
    if not told.is_known:
        return [paint(f"{_INDENT}{CONTENT_UNKNOWN}", "quiet")]
    room = max(1, width - len(_INDENT) - _LABEL_CELLS)
    return [
        paint(_INDENT + f"{label:<{_LABEL_CELLS}}", "quiet")
        + shorten_middle(clean_line(text), room)
        for label, text in compaction_report_lines(told, room)
    ]


def _lost_counts(counts: ArtifactCounts) -> Iterator[str]:
    for count, what in (
        (counts.files, "file"),
        (counts.identifiers, "name"),
        (counts.decisions, "decision"),
        (counts.todos, "todo"),
        (counts.constraints, "rule"),
    ):
        if count:
            yield plural(count, what)


SUMMARY_LINES: Final = 12
"""Of each summary; `--json` has the whole."""

MIN_SUMMARY_CELLS: Final = 20
"""Columns of a text; a terminal that has fewer wraps for itself."""

SUMMARY_CHARS: Final = 300
"""Characters of a text that a row may show; no terminal has more room."""

Rows = Iterable[Sequence[TextCell | str]]

_CONTEXT_COLUMN: Final = TextColumn("context")
_TOKENS_COLUMN: Final = TextColumn("tokens", right=True)


def sessions_table(found: Sequence[Session], now_ms: int) -> list[str]:
    """Lay out `ctxtop sessions`."""
    if not found:
        return []
    short = shorten_ids([each.session_id for each in found])
    columns = [
        TextColumn("id", priority=1),
        TextColumn("title", flexible=True),
        TextColumn("project", flexible=True, priority=6),
        TextColumn("model", priority=5),
        TextColumn("status", priority=2),
        _CONTEXT_COLUMN,
        _TOKENS_COLUMN,
        TextColumn("level", priority=4),
        TextColumn("agents", right=True, priority=7),
        TextColumn("compactions", right=True, priority=8),
        TextColumn("age", right=True, priority=3),
    ]
    rows: Rows = (
        [
            session_id_cell(each.session_id, short),
            _session_title(each),
            each.project,
            model_name(each.model),
            each.status.value.replace("_", " "),
            gauge_cell(each.context),
            tokens_of_window_text(each.context),
            TextCell("refused", "emergency") if each.too_long else level_cell(each.context),
            agent_count(each.agents, each.agents_noncompliant),
            str(each.compactions or ""),
            time_since(each.last_activity_at, now_ms),
        ]
        for each in found
    )
    return draw_table(columns, rows, terminal_width())


def _session_title(found: Session) -> str:
    """Return a session's title; a fork names its parent, which has the same title."""
    return f"fork of {found.forked_from[:8]}: {found.title}" if found.forked_from else found.title


def agents_table(found: Sequence[Agent], short: Mapping[str, str], now_ms: int) -> list[str]:
    """Lay out `ctxtop agents`."""
    if not found:
        return []
    columns = [
        TextColumn("session", priority=4),
        TextColumn("type", flexible=True),
        TextColumn("description", flexible=True, priority=3),
        TextColumn("model", priority=5),
        TextColumn("status"),
        _CONTEXT_COLUMN,
        _TOKENS_COLUMN,
        TextColumn("tools", right=True, priority=6),
        TextColumn("result", right=True, priority=1),
        TextColumn("verdict"),
        TextColumn("age", right=True, priority=2),
    ]
    rows: Rows = (
        [
            session_id_cell(each.session_id, short),
            each.agent_type,
            each.description,
            model_name(each.model),
            each.status.value,
            gauge_cell(each.context),
            tokens_of_window_text(each.context),
            NOTHING if each.tool_uses is None else str(each.tool_uses),
            result_size(each),
            verdict_cell(each.compliance),
            time_since(each.ended_at or each.started_at, now_ms),
        ]
        for each in found
    )
    return draw_table(columns, rows, terminal_width())


def compactions_table(found: Sequence[CompactionRow], short: Mapping[str, str]) -> list[str]:
    """Lay out `ctxtop compactions`."""
    from ....core.measure.compaction_report import (
        decode_report,  # with all the rules: for this command alone
    )

    if not found:
        return []
    columns = [
        TextColumn("at"),
        TextColumn("session"),
        TextColumn("agent", flexible=True, priority=5),
        TextColumn("trigger"),
        TextColumn("before", right=True),
        TextColumn("after", right=True),
        TextColumn("took", right=True, priority=4),
        TextColumn("kept", right=True, priority=6),
        TextColumn("thrash", priority=1),
        TextColumn("forgot", flexible=True, priority=2),
        TextColumn("summary", flexible=True, priority=3),
    ]
    rows: Rows = (
        [
            date_time(each.at),
            session_id_cell(each.session_id, short),
            each.agent_id or "",
            each.trigger or NOTHING,
            tokens(each.pre_tokens),
            tokens_after(each.next_tokens, each.estimated_next_tokens, each.post_tokens),
            duration(each.duration_ms),
            NOTHING if each.kept_messages is None else str(each.kept_messages),
            thrash_cell(told),
            lost_cell(told),
            (each.summary or NOTHING)[:SUMMARY_CHARS],
        ]
        for each, told in ((row, decode_report(row.report)) for row in found)
    )
    return draw_table(columns, rows, terminal_width())


def detailed_compactions_table(
    found: Sequence[CompactionRow], short: Mapping[str, str]
) -> list[str]:
    """Lay out `ctxtop compactions --session`: below each row what is told of it."""
    from ....core.measure.compaction_report import decode_report

    head, *rows = compactions_table(found, short) or [""]
    if not rows:
        return []
    lines = [head]
    for row, drawn in zip(found, rows, strict=True):
        lines += [drawn, *compaction_detail_lines(decode_report(row.report), terminal_width())]
    return lines


def warnings_table(found: Sequence[ContextWarning], short: Mapping[str, str]) -> list[str]:
    """Lay out `ctxtop warnings`."""
    if not found:
        return []
    columns = [
        TextColumn("at"),
        TextColumn("session"),
        TextColumn("agent", flexible=True),
        TextColumn("level"),
        TextColumn("threshold", right=True, priority=1),
        TextColumn("reached", right=True),
        TextColumn("cleared"),
    ]
    rows: Rows = (
        [
            date_time(each.warning.at),
            session_id_cell(each.session_id, short),
            each.agent_id or "",
            TextCell(each.warning.level.value, each.warning.level.severity.value),
            percent(each.warning.threshold),
            percent(each.warning.ratio),
            date_time(each.warning.cleared_at),
        ]
        for each in found
    )
    return draw_table(columns, rows, terminal_width())


def policy_table(found: Policy, notices: Iterable[PolicyNotice]) -> list[str]:
    """Lay out `ctxtop policy`: what somebody chose stands out."""
    columns = [
        TextColumn("key"),
        TextColumn("value", flexible=True),
        TextColumn("unit", priority=3),
        TextColumn("origin", flexible=True, priority=1),
        TextColumn("description", flexible=True, priority=2),
    ]
    rows: Rows = (
        [
            TextCell(each.key.name, "" if each.origin is PolicyOrigin.BUILT_IN else "ok"),
            format_value(each.value) or "none",
            each.key.unit,
            _origin_text(each),
            each.key.description,
        ]
        for each in found.values.values()
    )
    lines = draw_table(columns, rows, terminal_width())
    said = (*map(str, notices), *ignored_table(found))
    return [*lines, *(paint(clean_line(line), "bad") for line in said)]


def _origin_text(resolved: ResolvedValue) -> str:
    named = resolved.origin.value.replace("_", " ")
    return f"{named} {resolved.where}" if resolved.where else named


def summaries_list(found: Iterable[SummaryRow]) -> list[str]:
    """Lay out `ctxtop summaries`: a head line, and how each text begins."""
    lines: list[str] = []
    for each in found:
        who = each.agent_type or "agent" if each.kind == "agent" else each.kind
        size = tokens(tokens_or_estimate(each.estimated_tokens, each.text))
        head = f"{date_time(each.at)}  {who}  {each.session_id}  ≈{size} tokens"
        said = each.text.strip("\n").split("\n")
        lines.append(paint(clean_line(head), "ok"))
        rows, whole = _first_lines(said)
        lines += [f"  {row}".rstrip() for row in rows]
        if more := len(said) - whole:
            lines.append(paint(f"  … {more} more line{'s' if more > 1 else ''}", "quiet"))
        lines.append("")
    return lines[:-1]


def _first_lines(said: Sequence[str]) -> tuple[list[str], int]:
    """Wrap the first lines of a text into `TEXT_LINES` rows, and count those that are there whole.

    The last row of a line that does not fit ends in a sign.
    """
    width = max(MIN_SUMMARY_CELLS, terminal_width() - 2)
    rows: list[str] = []
    for number, line in enumerate(said):
        left = SUMMARY_LINES - len(rows)
        # What cannot be shown is not looked at: a line may have megabytes.
        wrapped = textwrap.wrap(_clean_line(line[: SUMMARY_LINES * width]), width) or [""]
        if len(wrapped) > left or len(line) > SUMMARY_LINES * width:
            cut = wrapped[:left]
            return [*rows, *cut[:-1], *(f"{row[: width - 1]}…" for row in cut[-1:])], number
        rows += wrapped
    return rows, len(said)


def composition_tables(found: Composition) -> list[str]:
    """Lay out `ctxtop context`: the categories with their largest parts, then the items."""
    columns = [
        TextColumn("what fills it", flexible=True),
        TextColumn("tokens", right=True),
        TextColumn("share", right=True),
        TextColumn("", priority=1),
    ]
    rows: list[Sequence[TextCell | str]] = []
    for each in found.categories:
        rows.append(_share_row(each, TextCell(each.name)))
        rows += [
            _share_row(part, TextCell(f"  {part.name}", "quiet")) for part in largest_parts(each)
        ]
    lines = [composition_total_text(found), "", *draw_table(columns, rows, terminal_width())]
    if not found.largest:
        return lines
    items: Rows = (
        [
            f"≈{tokens(item.tokens)}",
            "" if item.line is None else str(item.line),
            item.kind,
            item.name,
            TextCell(item.superseded or "", "notice"),
        ]
        for item in found.largest
    )
    heads = [
        TextColumn("tokens", right=True),
        TextColumn("line", right=True, priority=2),
        TextColumn("kind", priority=3),
        TextColumn("largest items", flexible=True),
        TextColumn("superseded", priority=1),
    ]
    return [*lines, "", *draw_table(heads, items, terminal_width())]


def _share_row(found: CategoryShare, name: TextCell) -> Sequence[TextCell | str]:
    drawn = TextCell(text_bar(found.share, SHARE_CELLS), name.colour)
    return [name, share_tokens_text(found), percent(found.share), drawn]


def scan_lines(record: Record) -> list[str]:
    """Lay out `ctxtop scan`."""
    lines = count_lines({name: value for name, value in record.items() if isinstance(value, int)})
    lines += [
        f"unknown type  {clean_line(name)}  {count:,}"
        for name, count in record["unknown_types"].items()
    ]
    lines += [
        clean_line(f"{bad['file']} at {bad['offset']}, {bad['length']} bytes: {bad['reason']}")
        for bad in record.get("bad", ())
    ]
    more = record["bad_lines"] - len(record.get("bad", ())) if "bad" in record else 0
    lines += [f"{plural(more, 'bad line')} more: counted, not listed"] if more else []
    lines += [
        clean_line(f"{trouble['place']}: {trouble['what']}; {trouble['remedy']}")
        for trouble in record.get("troubles", ())
    ]
    return [*lines, f"in {record['seconds']:.1f} s"]


def count_lines(record: Record) -> list[str]:
    """Lay out an object of counts: names and whole numbers, right-aligned."""
    names = max(len(name) for name in record)
    numbers = {name: f"{value:,}" for name, value in record.items()}
    width = max(len(number) for number in numbers.values())
    return [
        f"{name.replace('_', ' '):<{names}}  {number:>{width}}" for name, number in numbers.items()
    ]


def totals_lines(record: Record) -> list[str]:
    """Lay out `ctxtop totals`: the sums, then those with what only progress lines hold."""
    lines = _sum_lines(record)
    more = record["agent_progress"]["responses"]
    if not more:
        return lines
    told = f"{more:,} more answers of agents are recorded only in progress lines; with them:"
    if more == 1:
        told = "1 more answer of agents is recorded only in progress lines; with it:"
    return [*lines, "", told, *_sum_lines(record["with_agent_progress"])]


def _sum_lines(record: Record) -> list[str]:
    lines = count_lines({name: value for name, value in record.items() if type(value) is int})
    usd = record["cost_usd"]
    if usd is None:
        return lines
    more = ", without models that have no price" if record["cost_partial"] else ""
    return [*lines, f"≈ ${usd:,.2f} by list prices{more}"]


def checks_list(found: Iterable[DoctorCheck]) -> list[str]:
    """Lay out `ctxtop doctor`."""
    listed = list(found)
    names = max(len(check.name) for check in listed)
    lines = []
    for check in listed:
        sign = paint("✓", "ok") if check.ok else paint("✗", "bad")
        fix = f" — {check.fix}" if check.fix else ""
        lines.append(f"{sign} {check.name:<{names}}  {clean_line(check.detail + fix)}")
    return lines


def _clean_line(line: str) -> str:
    return sanitize_text(line).expandtabs(4)
