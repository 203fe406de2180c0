"""The tables of the commands: sessions, agents, compactions, warnings, policy, context, checks."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ....core.measure import compaction_report
from ....core.measure.compaction_report import CompactionReport
from ....core.measure.composition import CategoryShare, Composition, ContextItem
from ....core.measure.levels import Level
from ....core.measure.tokens import tokens_or_estimate
from ....core.model.session import Session
from ....core.policy.policy import Policy, PolicyNotice, PolicyOrigin, ResolvedValue
from ....core.policy.value_types import format_value
from ....core.store.queries.query_rows import CompactionRow, SummaryRow
from ....core.transcript.sanitize import sanitize_text
from ...tables import Cell, Column, TextColumn
from ...text.compaction_text import (
    CONTENT_UNKNOWN,
    compaction_report_lines,
    lost_counts,
    tokens_left,
)
from ...text.compliance_text import agent_count
from ...text.formats import (
    NOTHING,
    age,
    count_text,
    date_time,
    duration,
    model_name,
    percent,
    plural,
    shorten_middle,
    tokens,
    tokens_of_window,
)
from ...text.policy_text import ignored_table
from ...text.session_text import (
    SHARE_CELLS,
    composition_total_text,
    largest_parts,
    share_tokens_text,
)
from .printing import (
    clean_line,
    draw_table,
    gauge_cell,
    paint,
    result_size,
    session_id_cell,
    shorten_ids,
    terminal_width,
    text_bar,
    verdict_cell,
)

if TYPE_CHECKING:
    from ....core.model.agent import Agent
    from ....core.store.warning_log import ContextWarning
    from ..doctor.machine_checks import DoctorCheck
    from .json_records import Record


_INDENT: Final = "  "
_LABEL_CELLS: Final = 13


def lost_cell(told: CompactionReport | None) -> Cell | str:
    """Return the cell for how much a compaction lost."""
    if told is None:
        return NOTHING
    if not told.is_known:
        return Cell("unknown", "quiet")
    counts = lost_counts(told.forgotten)
    said = [plural(counts[kind], kind) for kind in _LOST_KINDS if counts[kind]]
    return ", ".join(said) or Cell("nothing", "quiet")


_LOST_KINDS: Final = ("file", "name", "decision", "todo", "rule")


def thrash_cell(told: CompactionReport | None) -> Cell | str:
    """Mark a compaction that came soon after another."""
    found = compaction_report.find_thrash(told.refill) if told else None
    return Cell(f"after {plural(found.turns_since_last, 'turn')}", "warning") if found else ""


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


SUMMARY_LINES: Final = 12  # of each summary; `--json` has the whole
MIN_SUMMARY_CELLS: Final = 20  # columns of a text; a terminal that has fewer wraps for itself
SUMMARY_CHARS: Final = 300  # characters of a text that a row may show; no terminal has more room


def sessions_table(found: Sequence[Session], now_ms: int) -> list[str]:
    """Lay out `ctxtop sessions`."""
    short = shorten_ids([each.session_id for each in found])
    columns: list[TextColumn[Session]] = [
        Column("id", lambda each: session_id_cell(each.session_id, short), priority=1),
        Column("title", _session_title, flexible=True),
        Column("project", lambda each: each.project, flexible=True, priority=6),
        Column("model", lambda each: model_name(each.model), priority=5),
        Column("status", lambda each: each.status.value.replace("_", " "), priority=2),
        Column("context", lambda each: gauge_cell(each.context)),
        Column("tokens", lambda each: tokens_of_window(each.context), right=True),
        Column("level", _level_cell, priority=4),
        Column("agents", _agent_count, right=True, priority=7),
        Column("compactions", lambda each: str(each.compactions or ""), right=True, priority=8),
        Column("age", lambda each: age(each.last_activity_at, now_ms), right=True, priority=3),
    ]
    return draw_table(columns, found) if found else []


def _level_cell(found: Session) -> Cell:
    if found.too_long:
        return Cell("refused", "emergency")
    return level_cell(found.context.level) if found.context.level else Cell("")


def _agent_count(found: Session) -> str:
    return agent_count(found.agents, found.agents_noncompliant)


def _session_title(found: Session) -> str:
    """Return a session's title; a fork names its parent, which has the same title."""
    return f"fork of {found.forked_from[:8]}: {found.title}" if found.forked_from else found.title


def agents_table(found: Sequence[Agent], short: Mapping[str, str], now_ms: int) -> list[str]:
    """Lay out `ctxtop agents`."""
    columns: list[TextColumn[Agent]] = [
        Column("session", lambda each: session_id_cell(each.session_id, short), priority=4),
        Column("type", lambda each: each.agent_type, flexible=True),
        Column("description", lambda each: each.description, flexible=True, priority=3),
        Column("model", lambda each: model_name(each.model), priority=5),
        Column("status", lambda each: each.status.value),
        Column("context", lambda each: gauge_cell(each.context)),
        Column("tokens", lambda each: tokens_of_window(each.context), right=True),
        Column("tools", lambda each: count_text(each.tool_uses), right=True, priority=6),
        Column("result", result_size, right=True, priority=1),
        Column("verdict", lambda each: verdict_cell(each.compliance)),
        Column(
            "age",
            lambda each: age(each.ended_at or each.started_at, now_ms),
            right=True,
            priority=2,
        ),
    ]
    return draw_table(columns, found) if found else []


ReportedCompaction = tuple[CompactionRow, CompactionReport | None]


def compactions_table(found: Sequence[CompactionRow], short: Mapping[str, str]) -> list[str]:
    """Lay out `ctxtop compactions`."""
    columns: list[TextColumn[ReportedCompaction]] = [
        Column("at", lambda each: date_time(each[0].at)),
        Column("session", lambda each: session_id_cell(each[0].session_id, short)),
        Column("agent", lambda each: each[0].agent_id or "", flexible=True, priority=5),
        Column("trigger", lambda each: each[0].trigger or NOTHING),
        Column("before", lambda each: tokens(each[0].pre_tokens), right=True),
        Column("after", lambda each: tokens_left(each[0]), right=True),
        Column("took", lambda each: duration(each[0].duration_ms), right=True, priority=4),
        Column("kept", lambda each: count_text(each[0].kept_messages), right=True, priority=6),
        Column("thrash", lambda each: thrash_cell(each[1]), priority=1),
        Column("forgot", lambda each: lost_cell(each[1]), flexible=True, priority=2),
        Column(
            "summary",
            lambda each: (each[0].summary or NOTHING)[:SUMMARY_CHARS],
            flexible=True,
            priority=3,
        ),
    ]
    return draw_table(columns, _with_reports(found)) if found else []


def _with_reports(found: Iterable[CompactionRow]) -> list[ReportedCompaction]:
    # With all the rules: for this command alone.
    from ....core.measure.compaction_report import decode_report

    return [(row, decode_report(row.report)) for row in found]


def detailed_compactions_table(
    found: Sequence[CompactionRow], short: Mapping[str, str]
) -> list[str]:
    """Lay out `ctxtop compactions --session`: below each row what is told of it."""
    head, *rows = compactions_table(found, short) or [""]
    lines = [head] if rows else []
    for (_, told), drawn in zip(_with_reports(found), rows, strict=True):
        lines += [drawn, *compaction_detail_lines(told, terminal_width())]
    return lines


def warnings_table(found: Sequence[ContextWarning], short: Mapping[str, str]) -> list[str]:
    """Lay out `ctxtop warnings`."""
    columns: list[TextColumn[ContextWarning]] = [
        Column("at", lambda each: date_time(each.warning.at)),
        Column("session", lambda each: session_id_cell(each.session_id, short)),
        Column("agent", lambda each: each.agent_id or "", flexible=True),
        Column("level", lambda each: level_cell(each.warning.level)),
        Column("threshold", lambda each: percent(each.warning.threshold), right=True, priority=1),
        Column("reached", lambda each: percent(each.warning.ratio), right=True),
        Column("cleared", lambda each: date_time(each.warning.cleared_at)),
    ]
    return draw_table(columns, found) if found else []


def level_cell(level: Level) -> Cell:
    return Cell(level.value, level.severity.value)


def _key_cell(found: ResolvedValue) -> Cell:
    return Cell(found.key.name, "" if found.origin is PolicyOrigin.BUILT_IN else "ok")


def _origin_text(resolved: ResolvedValue) -> str:
    named = resolved.origin.value.replace("_", " ")
    return f"{named} {resolved.where}" if resolved.where else named


_POLICY_COLUMNS: Final[Sequence[TextColumn[ResolvedValue]]] = (
    Column("key", _key_cell),
    Column("value", lambda each: format_value(each.value) or "none", flexible=True),
    Column("unit", lambda each: each.key.unit, priority=3),
    Column("origin", _origin_text, flexible=True, priority=1),
    Column("description", lambda each: each.key.description, flexible=True, priority=2),
)


def policy_table(found: Policy, notices: Iterable[PolicyNotice]) -> list[str]:
    """Lay out `ctxtop policy`: what somebody chose stands out."""
    lines = draw_table(_POLICY_COLUMNS, list(found.values.values()))
    said = (*map(str, notices), *ignored_table(found))
    return [*lines, *(paint(clean_line(line), "bad") for line in said)]


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


@dataclass(frozen=True, slots=True)
class _ShareLine:
    """A category of a composition, or one of its parts."""

    share: CategoryShare
    name: Cell


_SHARE_COLUMNS: Final[Sequence[TextColumn[_ShareLine]]] = (
    Column("what fills it", lambda each: each.name, flexible=True),
    Column("tokens", lambda each: share_tokens_text(each.share), right=True),
    Column("share", lambda each: percent(each.share.share), right=True),
    Column(
        "", lambda each: Cell(text_bar(each.share.share, SHARE_CELLS), each.name.style), priority=1
    ),
)

_ITEM_COLUMNS: Final[Sequence[TextColumn[ContextItem]]] = (
    Column("tokens", lambda each: f"≈{tokens(each.tokens)}", right=True),
    Column(
        "line", lambda each: "" if each.line is None else str(each.line), right=True, priority=2
    ),
    Column("kind", lambda each: each.kind, priority=3),
    Column("largest items", lambda each: each.name, flexible=True),
    Column("superseded", lambda each: Cell(each.superseded or "", "notice"), priority=1),
)


def composition_tables(found: Composition) -> list[str]:
    """Lay out `ctxtop context`: the categories with their largest parts, then the items."""
    shares: list[_ShareLine] = []
    for each in found.categories:
        shares.append(_ShareLine(each, Cell(each.name)))
        shares += [
            _ShareLine(part, Cell(f"  {part.name}", "quiet")) for part in largest_parts(each)
        ]
    lines = [composition_total_text(found), "", *draw_table(_SHARE_COLUMNS, shares)]
    return [*lines, "", *draw_table(_ITEM_COLUMNS, found.largest)] if found.largest else lines


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
