"""The tables of the commands: sessions, agents, compactions, warnings, policy, context, checks."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from ...core.measure.stored_tokens import tokens_or_estimate
from ...core.model.levels import Level
from ...core.model.stored_rows import CompactionRow, SummaryRow
from ...core.policy.policy import Policy, PolicyNotice, PolicyOrigin, ResolvedValue
from ...core.policy.value_types import format_value
from ...core.store.bulkhead import NOT_SHOWN, place_of, work_apart
from ...core.summaries.compaction_quality import ReductionFlag, flag_reduction
from ...core.transcript.sanitize import one_line, sanitize_text
from ..text import formats, session_text
from ..text.formats import NOTHING, age, date_time, percent, plural, tokens
from ..text.settings_text import ignored_table
from ..text.tables import Cell, Column, TextColumn
from .command_store import shorten_ids
from .json_records import decode_reports
from .printing import draw_table, paint, session_id_cell, terminal_width

if TYPE_CHECKING:
    from ...core.measure.composition import CategoryShare, Composition, ContextItem
    from ...core.model.agent import Agent
    from ...core.model.findings import RunVerdict
    from ...core.model.levels import LevelWarning
    from ...core.model.rule import ListedRule
    from ...core.model.session import Session
    from ...core.store.warning_log import ContextWarning
    from ...core.summaries.compaction_report import CompactionReport
    from ..doctor.doctor_check import DoctorCheck
    from .json_records import Record


def sessions_table(sessions: Sequence[Session], now_ms: int) -> list[str]:
    short_ids = shorten_ids([each.session_id for each in sessions])
    columns: list[TextColumn[Session]] = [
        Column("id", lambda each: session_id_cell(each.session_id, short_ids), priority=1),
        Column("title", _session_title, flexible=True),
        Column("project", lambda each: each.project, flexible=True, priority=6),
        Column("model", lambda each: formats.model_name(each.model), priority=5),
        Column("status", lambda each: _status_text(each, now_ms), priority=2),
        Column("context", _context_cell),
        Column("tokens", _tokens_text, right=True),
        Column("level", _session_level_cell, priority=4),
        Column("agents", _agent_count, right=True, priority=7),
        Column("compactions", lambda each: str(each.compactions or ""), right=True, priority=8),
        Column("cache", lambda each: session_text.short_cache_text(each, now_ms), priority=9),
        Column("age", lambda each: age(each.last_activity_at, now_ms), right=True, priority=3),
    ]
    return draw_table(columns, sessions) if sessions else []


def _session_title(session: Session) -> str:
    """Return a session's title; a fork names its parent, which may have the same title."""
    mark = session_text.fork_text(session)
    parent = f" of {session.forked_from[:8]}" if session.forked_from else ""
    return f"{mark}{parent}: {session.title}" if mark else session.title


def _status_text(session: Session, now_ms: int) -> str | Cell:
    if unsaved := session_text.unsaved_texts(session, now_ms):
        return Cell(f"{session.status}, {unsaved[-1]}", "bad")
    recovered = session_text.recovered_texts(session)[-1:]
    return next(iter(recovered), session.status.value.replace("_", " "))


def _context_cell(measured: Session | Agent) -> Cell:
    if measured.problem:
        return Cell("not read", "bad")
    context = measured.context
    text = f"{formats.text_bar(context.limit_ratio, 10)} {formats.used_percent(context):>6}"
    return Cell(text, context.level.severity.value if context.level else "")


def _tokens_text(measured: Session | Agent) -> str:
    return "" if measured.problem else formats.tokens_of_window(measured.context)


def _session_level_cell(session: Session) -> Cell:
    if session.too_long:
        return Cell("refused", "emergency")
    level = session.context.level
    return _level_cell(level) if level and not session.problem else Cell("")


def _level_cell(level: Level) -> Cell:
    return Cell(level.value, level.severity.value)


def _agent_count(session: Session) -> str:
    return session_text.agent_count(session.agents, session.agents_noncompliant)


def _holders_text(agent: Agent) -> str:
    return plural(agent.sessions, "session") if agent.sessions > 1 else ""


def agents_table(agents: Sequence[Agent], short_ids: Mapping[str, str], now_ms: int) -> list[str]:
    columns: list[TextColumn[Agent]] = [
        Column("session", lambda each: session_id_cell(each.session_id, short_ids), priority=4),
        Column("type", lambda each: each.agent_type, flexible=True),
        Column("description", lambda each: each.description, flexible=True, priority=3),
        Column("model", lambda each: formats.model_name(each.model), priority=5),
        Column("status", lambda each: each.status_label),
        Column("context", _context_cell),
        Column("tokens", _tokens_text, right=True),
        Column("tools", lambda each: _count(each.tool_uses), right=True, priority=6),
        Column("result", _result_size, right=True, priority=1),
        Column("verdict", lambda each: _verdict_cell(each.compliance)),
        Column("in", _holders_text, right=True, priority=7),
        Column(
            "age",
            lambda each: age(each.ended_at or each.started_at, now_ms),
            right=True,
            priority=2,
        ),
    ]
    return draw_table(columns, agents) if agents else []


def _result_size(agent: Agent) -> str:
    if (result := agent.result) is None:
        return NOTHING
    count = tokens_or_estimate(result.estimated_tokens, result.text)
    return f"{plural(result.lines, 'line')} ≈{tokens(count)}"


def _verdict_cell(run: RunVerdict | None) -> Cell:
    if run is None:
        return Cell("")
    from ..text import compliance_text  # with the vocabulary of verdicts, which takes 4 ms

    sign = compliance_text.VERDICT_SIGNS[run.verdict].strip()
    if not sign:
        return Cell("")
    text = f"{sign} {compliance_text.short_verdict(run)}".rstrip()
    return Cell(text, "bad" if run.failed else "")


ReportedCompaction = tuple[CompactionRow, "CompactionReport | None"]
MAX_SUMMARY_CHARS: Final = 300  # of a summary in a row; no terminal has more room


def compactions_table(
    rows: Sequence[CompactionRow],
    short_ids: Mapping[str, str],
    target: tuple[float, float],
    *,
    detailed: bool,
) -> list[str]:
    """Lay out `ctxtop compactions`; if `detailed`, with the whole report below each row.

    `target` is the range that the freed share should be in, 0..1.
    """
    if not rows:
        return []
    columns: list[TextColumn[ReportedCompaction]] = [
        Column("at", lambda each: date_time(each[0].at)),
        Column("session", lambda each: session_id_cell(each[0].session_id, short_ids)),
        Column("agent", lambda each: each[0].agent_id or "", flexible=True, priority=5),
        Column("trigger", lambda each: each[0].trigger or NOTHING),
        Column("before", lambda each: formats.tokens_before(each[0]), right=True),
        Column("after", lambda each: formats.tokens_after(each[0]), right=True),
        Column("less", lambda each: _reduction_cell(each[0], target), right=True, priority=3),
        Column("took", lambda each: formats.duration(each[0].duration_ms), right=True, priority=4),
        Column("kept", lambda each: _count(each[0].kept_messages), right=True, priority=6),
        Column("too soon", lambda each: _thrash_cell(each[1]), priority=1),
        Column("lost", lambda each: _lost_cell(each[1]), flexible=True, priority=2),
        Column("summary", lambda each: _summary_start(each[0]), flexible=True, priority=3),
    ]
    reported = list(zip(rows, decode_reports(rows), strict=True))
    head, *drawn = draw_table(columns, reported)
    lines = [head]
    for (_, report), line in zip(reported, drawn, strict=True):
        lines += [line, *(_report_lines(report) if detailed else ())]
    return lines


def _count(count: int | None) -> str:
    return NOTHING if count is None else str(count)


def _reduction_cell(row: CompactionRow, target: tuple[float, float]) -> Cell:
    share = formats.compaction_reduction(row)
    is_low = flag_reduction(share, target) is ReductionFlag.BELOW
    return Cell(formats.reduction_with_sign(share, target), "warning" if is_low else "")


def _summary_start(row: CompactionRow) -> str:
    return (row.summary or NOTHING)[:MAX_SUMMARY_CHARS]


def _lost_cell(report: CompactionReport | None) -> Cell | str:
    if report is None:
        return NOTHING
    if not report.is_known:
        return Cell("unknown", "quiet")
    from ..text.compaction_text import lost_counts  # with all that reports are made of

    counts = lost_counts(report.forgotten)
    kinds = ("file", "name", "decision", "todo", "rule")
    lost = ", ".join(plural(counts[kind], kind) for kind in kinds if counts[kind])
    return lost or Cell("nothing", "quiet")


def _thrash_cell(report: CompactionReport | None) -> Cell | str:
    thrash = report.thrash if report else None
    return Cell(f"after {plural(thrash.turns_since_last, 'turn')}", "warning") if thrash else ""


_INDENT: Final = "  "
_LABEL_CELLS: Final = 13


def _report_lines(report: CompactionReport | None) -> list[str]:
    if report is None:
        return [paint(f"{_INDENT}no details yet: its file was not read", "quiet")]
    from ..text.compaction_text import CONTENT_UNKNOWN, compaction_report_lines

    if not report.is_known:
        return [paint(f"{_INDENT}{CONTENT_UNKNOWN}", "quiet")]
    room = max(1, terminal_width() - len(_INDENT) - _LABEL_CELLS)
    return [
        paint(_INDENT + f"{label:<{_LABEL_CELLS}}", "quiet") + formats.shorten(one_line(text), room)
        for label, text in compaction_report_lines(report, room)
    ]


def warnings_table(warnings: Sequence[ContextWarning], short_ids: Mapping[str, str]) -> list[str]:
    columns: list[TextColumn[ContextWarning]] = [
        Column("at", lambda each: date_time(each.warning.at)),
        Column("session", lambda each: session_id_cell(each.session_id, short_ids)),
        Column("agent", lambda each: each.agent_id or "", flexible=True),
        Column("level", lambda each: _level_cell(each.warning.level)),
        Column("threshold", lambda each: _threshold_share(each.warning), right=True, priority=1),
        Column("reached", lambda each: percent(each.warning.limit_ratio), right=True),
        Column("cleared", lambda each: date_time(each.warning.cleared_at)),
    ]
    if any(each.warning.limit_tokens for each in warnings):
        columns.insert(-1, Column("of", _measured_by))
    return draw_table(columns, warnings) if warnings else []


def _threshold_share(warning: LevelWarning) -> str:
    share = warning.placed_threshold.limit_share
    return percent(share if warning.limit_tokens else warning.threshold)


def _measured_by(found: ContextWarning) -> str:
    limit = found.warning.limit_tokens
    return f"{limit:,} limit" if limit else "window"


_EVENT_COLORS: Final = {"warning": "warning", "trouble": "bad"}
_EVENT_COLUMNS: Final[Sequence[TextColumn[Record]]] = (
    Column("at", lambda each: Cell(each["at"] or "", "quiet"), priority=1),
    Column("level", lambda each: Cell(each["level"], _EVENT_COLORS.get(each["level"], ""))),
    Column("source", lambda each: each["source"], priority=2),
    Column("where", lambda each: each["where"], flexible=True),
    Column("what", lambda each: each["what"], flexible=True),
)


def log_table(records: Sequence[Record]) -> list[str]:
    return draw_table(_EVENT_COLUMNS, records) if records else []


def _key_cell(resolved: ResolvedValue) -> Cell:
    return Cell(resolved.key.name, "" if resolved.origin is PolicyOrigin.BUILT_IN else "ok")


def _origin_text(resolved: ResolvedValue) -> str:
    origin = resolved.origin.value.replace("_", " ")
    return f"{origin} {resolved.where}" if resolved.where else origin


_POLICY_COLUMNS: Final[Sequence[TextColumn[ResolvedValue]]] = (
    Column("key", _key_cell),
    Column("value", lambda each: format_value(each.value) or "none", flexible=True),
    Column("unit", lambda each: each.key.unit, priority=3),
    Column("origin", _origin_text, flexible=True, priority=1),
    Column("description", lambda each: each.key.description, flexible=True, priority=2),
)


def policy_table(policy: Policy, notices: Iterable[PolicyNotice]) -> list[str]:
    lines = draw_table(_POLICY_COLUMNS, list(policy.values.values()))
    remarks = (*map(str, notices), *ignored_table(policy))
    return [*lines, *(paint(one_line(line), "bad") for line in remarks)]


SUMMARY_LINES: Final = 12  # of each summary; `--json` has the whole
MIN_SUMMARY_CELLS: Final = 20  # a narrower terminal wraps by itself


def summaries_list(
    rows: Iterable[tuple[SummaryRow, str]],
    rules: Mapping[int, ListedRule],
    flaws: Mapping[int, Sequence[str]],
) -> list[str]:
    """Lay out `ctxtop summaries`: each summary with the short id that `ctxtop diff` takes."""
    named = list(rows)
    lines = work_apart(
        named,
        lambda some: [line for each in some for line in _summary_lines(*each, rules, flaws)],
        lambda each: f"summary {each[1]} of {place_of(each[0])}",
        NOT_SHOWN,
    )
    return lines[:-1]


def _summary_lines(
    row: SummaryRow,
    short_id: str,
    rules: Mapping[int, ListedRule],
    flaws: Mapping[int, Sequence[str]],
) -> Iterator[str]:
    kind = row.agent_type or "agent" if row.kind == "agent" else row.kind
    size = tokens(tokens_or_estimate(row.estimated_tokens, row.text))
    head = f"{short_id}  {date_time(row.at)}  {kind}  {row.session_id}  ≈{size} tokens"
    text_lines = row.text.strip("\n").split("\n")
    yield paint(one_line(head), "ok")
    if rule := rules.get(row.summary_id):
        yield paint(f"  {_rule_line(rule)}", "quiet")
    if found := flaws.get(row.summary_id):
        yield paint(f"  ⚠ {', '.join(found)}", "notice")
    wrapped, whole = _first_lines(text_lines)
    yield from (f"  {line}".rstrip() for line in wrapped)
    if more := len(text_lines) - whole:
        yield paint(f"  … {more} more line{'s' if more > 1 else ''}", "quiet")
    yield ""


def _rule_line(rule: ListedRule) -> str:
    from ..text.summary_text import rule_state  # loads Textual

    source = f"in {rule.path}" if rule.path else "in a prompt"
    return f"{rule_state(rule)} · {one_line(source)}"


def _first_lines(text_lines: Sequence[str]) -> tuple[list[str], int]:
    """Wrap a text into SUMMARY_LINES rows; also returns how many of its lines are there whole."""
    width = max(MIN_SUMMARY_CELLS, terminal_width() - 2)
    rows: list[str] = []
    for number, line in enumerate(text_lines):
        left = SUMMARY_LINES - len(rows)
        # A line may have megabytes: only what can be shown is wrapped.
        start = sanitize_text(line[: SUMMARY_LINES * width]).expandtabs(4)
        wrapped = textwrap.wrap(start, width) or [""]
        if len(wrapped) > left or len(line) > SUMMARY_LINES * width:
            cut = wrapped[:left]
            return [*rows, *cut[:-1], *(f"{row[: width - 1]}…" for row in cut[-1:])], number
        rows += wrapped
    return rows, len(text_lines)


class _ShareRow(NamedTuple):
    share: CategoryShare  # a category of a composition, or one of its parts
    name: Cell
    largest: int  # tokens of the largest category
    window: int


def _share_bar(row: _ShareRow) -> Cell:
    ratio = row.share.tokens / (row.largest or 1)
    return Cell(formats.text_bar(ratio, session_text.SHARE_CELLS), row.name.style)


_SHARE_COLUMNS: Final[Sequence[TextColumn[_ShareRow]]] = (
    Column("breakdown", lambda each: each.name, flexible=True),
    Column("tokens", lambda each: session_text.share_tokens_text(each.share), right=True),
    Column(
        "of window",
        lambda each: session_text.window_percent(each.share.tokens, each.window),
        right=True,
    ),
    Column("", _share_bar, priority=1),
)

_ITEM_COLUMNS: Final[Sequence[TextColumn[ContextItem]]] = (
    Column("tokens", lambda each: f"≈{tokens(each.tokens)}", right=True),
    Column(
        "line", lambda each: "" if each.line is None else str(each.line), right=True, priority=2
    ),
    Column("kind", lambda each: each.kind, priority=3),
    Column("largest items", lambda each: each.name, flexible=True),
    Column("superseded", lambda each: Cell(each.superseded or "", "notice"), priority=1),
    Column(
        "oversized",
        lambda each: Cell(session_text.oversized_text(each), "warning"),
        priority=1,
    ),
)


def composition_tables(found: Composition, window_tokens: int) -> list[str]:
    shares: list[_ShareRow] = []
    largest = max((each.tokens for each in found.categories), default=0)
    for each in found.categories:
        shares.append(_ShareRow(each, Cell(each.name), largest, window_tokens))
        shares += [
            _ShareRow(part, Cell(f"  {part.name}", "quiet"), largest, window_tokens)
            for part in session_text.largest_parts(each)
        ]
    total = session_text.composition_total_text(found)
    lines = [total, "", *draw_table(_SHARE_COLUMNS, shares)]
    return [*lines, "", *draw_table(_ITEM_COLUMNS, found.largest)] if found.largest else lines


def scan_lines(record: Record) -> list[str]:
    bad, problems = record.get("bad"), record.get("troubles", ())
    lines = _count_lines(record)
    lines += [
        f"unknown type  {one_line(name)}  {count:,}"
        for name, count in record["unknown_types"].items()
    ]
    if bad is not None:
        for each in bad:
            place = f"{each['file']} at {each['offset']}, {each['length']} bytes"
            lines.append(one_line(f"{place}: {each['reason']}"))
        if more := record["bad_lines"] - len(bad):
            lines.append(f"{plural(more, 'bad line')} more: counted, not listed")
    lines += [one_line(f"{each['place']}: {each['what']}; {each['remedy']}") for each in problems]
    return [*lines, f"in {record['seconds']:.1f} s"]


def _count_lines(record: Record) -> list[str]:
    numbers = {name: f"{value:,}" for name, value in record.items() if type(value) is int}
    names, width = max(map(len, numbers)), max(map(len, numbers.values()))
    return [
        f"{name.replace('_', ' '):<{names}}  {number:>{width}}" for name, number in numbers.items()
    ]


def totals_lines(record: Record) -> list[str]:
    lines = _sum_lines(record)
    if len(record["models"]) > 1:
        lines += ["", *draw_table(_MODEL_COLUMNS, record["models"])]
    more = record["agent_progress"]["responses"]
    if not more:
        return lines
    head = f"{more:,} of them are agents' answers that only progress lines record; without them:"
    if more == 1:
        head = "1 of them is an agent's answer that only a progress line records; without it:"
    return [*lines, "", head, *_sum_lines(record["without_agent_progress"])]


def _input_tokens(record: Record) -> int:
    return int(sum(record[f"{kind}_tokens"] for kind in ("input", "cache_creation", "cache_read")))


_MODEL_COLUMNS: Final[tuple[TextColumn[Record], ...]] = (
    Column("model", lambda each: each["model"] + (" (fast mode)" if each["fast"] else "")),
    Column("responses", lambda each: f"{each['responses']:,}", right=True),
    Column("tokens sent", lambda each: tokens(_input_tokens(each)), right=True),
    Column("tokens answered", lambda each: tokens(each["output_tokens"]), right=True),
    Column(
        "at list prices",
        lambda each: NOTHING if each["cost_usd"] is None else f"≈ ${each['cost_usd']:,.2f}",
        right=True,
    ),
)


def _sum_lines(record: Record) -> list[str]:
    lines, usd = _count_lines(record), record["cost_usd"]
    if usd is None:
        return lines
    more = ", not counting models without a price" if record["cost_partial"] else ""
    return [*lines, f"≈ ${usd:,.2f} at list prices{more}"]


def checks_list(checks: Sequence[DoctorCheck]) -> list[str]:
    signs = {"ok": paint("✓", "ok"), "note": paint("!", "warning"), "failed": paint("✗", "bad")}
    names = max(len(check.name) for check in checks)
    lines = []
    for check in checks:
        fix = f" — {check.fix}" if check.fix else ""
        lines.append(f"{signs[check.state]} {check.name:<{names}}  {one_line(check.detail + fix)}")
    return lines
