"""What people read: the same facts as `--json`, as columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from ...collectors.clean import clean_text
from ...core.policy.kinds import words
from ...core.policy.policy import Origin
from ...core.tokens import count_of
from ..compliance_words import agent_count
from ..composition_words import SHARE_CELLS, in_all, share_tokens, shown_parts
from ..formats import NOTHING, after_tokens, age, model, moment, percent, plural, tokens
from ..trust_words import ignored_table
from .cells import bar, fill, gauge, level, returned, session_id, shorten, since, verdict
from .columns import Cell, Column, draw, one_line, paint, terminal_width

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...core.agents import Agent
    from ...core.composition import Composition, Share
    from ...core.policy.policy import Policy, PolicyNotice, Resolved
    from ...core.sessions import Session
    from ...core.store.rows import CompactionRow, SummaryRow
    from ...core.warning_log import ContextWarning
    from .as_json import Record
    from .checks import Check

TEXT_LINES: Final = 12
"""Of each summary; `--json` has the whole."""

NARROWEST: Final = 20
"""Columns of a text; a terminal that has fewer wraps for itself."""

BEGINNING: Final = 300
"""Characters of a text that a row may show; no terminal has more room."""

Rows = Iterable[Sequence[Cell | str]]

_CONTEXT: Final = Column("context")
_FILL: Final = Column("tokens", right=True)


def sessions(found: Sequence[Session], now_ms: int) -> list[str]:
    """Lay out `ctxtop sessions`."""
    if not found:
        return []
    short = shorten([each.session_id for each in found])
    columns = [
        Column("id", priority=1),
        Column("title", flexible=True),
        Column("project", flexible=True, priority=6),
        Column("model", priority=5),
        Column("status", priority=2),
        _CONTEXT,
        _FILL,
        Column("level", priority=4),
        Column("agents", right=True, priority=7),
        Column("compactions", right=True, priority=8),
        Column("age", right=True, priority=3),
    ]
    rows: Rows = (
        [
            session_id(each.session_id, short),
            _titled(each),
            each.project,
            model(each.model),
            each.status.value.replace("_", " "),
            gauge(each.context),
            fill(each.context),
            Cell("refused", "emergency") if each.too_long else level(each.context),
            agent_count(each.agents, each.agents_noncompliant),
            str(each.compactions or ""),
            since(each.last_activity_at, now_ms),
        ]
        for each in found
    )
    return draw(columns, rows, terminal_width())


def _titled(found: Session) -> str:
    """Say of a fork what it is one of: it has the same title."""
    return f"fork of {found.forked_from[:8]}: {found.title}" if found.forked_from else found.title


def agents(found: Sequence[Agent], short: Mapping[str, str], now_ms: int) -> list[str]:
    """Lay out `ctxtop agents`."""
    if not found:
        return []
    columns = [
        Column("session", priority=4),
        Column("type", flexible=True),
        Column("description", flexible=True, priority=3),
        Column("model", priority=5),
        Column("status"),
        _CONTEXT,
        _FILL,
        Column("tools", right=True, priority=6),
        Column("result", right=True, priority=1),
        Column("verdict"),
        Column("age", right=True, priority=2),
    ]
    rows: Rows = (
        [
            session_id(each.session_id, short),
            each.agent_type,
            each.description,
            model(each.model),
            each.status.value,
            gauge(each.context),
            fill(each.context),
            NOTHING if each.tool_uses is None else str(each.tool_uses),
            returned(each),
            verdict(each.compliance),
            since(each.ended_at or each.started_at, now_ms),
        ]
        for each in found
    )
    return draw(columns, rows, terminal_width())


def compactions(found: Sequence[CompactionRow], short: Mapping[str, str]) -> list[str]:
    """Lay out `ctxtop compactions`."""
    from ...core.told import unpack  # with all the rules: for this command alone
    from . import told_cells

    if not found:
        return []
    columns = [
        Column("at"),
        Column("session"),
        Column("agent", flexible=True, priority=5),
        Column("trigger"),
        Column("before", right=True),
        Column("after", right=True),
        Column("took", right=True, priority=4),
        Column("kept", right=True, priority=6),
        Column("thrash", priority=1),
        Column("forgot", flexible=True, priority=2),
        Column("summary", flexible=True, priority=3),
    ]
    rows: Rows = (
        [
            moment(each.at),
            session_id(each.session_id, short),
            each.agent_id or "",
            each.trigger or NOTHING,
            tokens(each.pre_tokens),
            after_tokens(each.next_tokens, each.estimated_next_tokens, each.post_tokens),
            age(each.duration_ms),
            NOTHING if each.kept_messages is None else str(each.kept_messages),
            told_cells.too_soon(told),
            told_cells.forgot(told),
            (each.summary or NOTHING)[:BEGINNING],
        ]
        for each, told in ((row, unpack(row.report)) for row in found)
    )
    return draw(columns, rows, terminal_width())


def compactions_in_detail(found: Sequence[CompactionRow], short: Mapping[str, str]) -> list[str]:
    """Lay out `ctxtop compactions --session`: below each row what is told of it."""
    from ...core.told import unpack
    from . import told_cells

    head, *rows = compactions(found, short) or [""]
    if not rows:
        return []
    lines = [head]
    for row, drawn in zip(found, rows, strict=True):
        lines += [drawn, *told_cells.details(unpack(row.report), terminal_width())]
    return lines


def warnings(found: Sequence[ContextWarning], short: Mapping[str, str]) -> list[str]:
    """Lay out `ctxtop warnings`."""
    if not found:
        return []
    columns = [
        Column("at"),
        Column("session"),
        Column("agent", flexible=True),
        Column("level"),
        Column("threshold", right=True, priority=1),
        Column("reached", right=True),
        Column("cleared"),
    ]
    rows: Rows = (
        [
            moment(each.warning.at),
            session_id(each.session_id, short),
            each.agent_id or "",
            Cell(each.warning.level.value, each.warning.level.severity.value),
            percent(each.warning.threshold),
            percent(each.warning.ratio),
            moment(each.warning.cleared_at),
        ]
        for each in found
    )
    return draw(columns, rows, terminal_width())


def policy(found: Policy, notices: Iterable[PolicyNotice]) -> list[str]:
    """Lay out `ctxtop policy`: what somebody chose stands out."""
    columns = [
        Column("key"),
        Column("value", flexible=True),
        Column("unit", priority=3),
        Column("origin", flexible=True, priority=1),
        Column("description", flexible=True, priority=2),
    ]
    rows: Rows = (
        [
            Cell(each.key.name, "" if each.origin is Origin.BUILT_IN else "ok"),
            words(each.value) or "none",
            each.key.unit,
            _origin(each),
            each.key.description,
        ]
        for each in found.values.values()
    )
    lines = draw(columns, rows, terminal_width())
    said = (*map(str, notices), *ignored_table(found))
    return [*lines, *(paint(one_line(line), "bad") for line in said)]


def _origin(resolved: Resolved) -> str:
    named = resolved.origin.value.replace("_", " ")
    return f"{named} {resolved.where}" if resolved.where else named


def summaries(found: Iterable[SummaryRow]) -> list[str]:
    """Lay out `ctxtop summaries`: a head line, and how each text begins."""
    lines: list[str] = []
    for each in found:
        who = each.agent_type or "agent" if each.kind == "agent" else each.kind
        size = tokens(count_of(each.estimated_tokens, each.text))
        head = f"{moment(each.at)}  {who}  {each.session_id}  ≈{size} tokens"
        said = each.text.strip("\n").split("\n")
        lines.append(paint(one_line(head), "ok"))
        rows, whole = _beginning(said)
        lines += [f"  {row}".rstrip() for row in rows]
        if more := len(said) - whole:
            lines.append(paint(f"  … {more} more line{'s' if more > 1 else ''}", "quiet"))
        lines.append("")
    return lines[:-1]


def _beginning(said: Sequence[str]) -> tuple[list[str], int]:
    """Wrap the first lines of a text into `TEXT_LINES` rows, and count those that are there whole.

    The last row of a line that does not fit ends in a sign.
    """
    width = max(NARROWEST, terminal_width() - 2)
    rows: list[str] = []
    for number, line in enumerate(said):
        left = TEXT_LINES - len(rows)
        # What cannot be shown is not looked at: a line may have megabytes.
        wrapped = textwrap.wrap(_harmless(line[: TEXT_LINES * width]), width) or [""]
        if len(wrapped) > left or len(line) > TEXT_LINES * width:
            cut = wrapped[:left]
            return [*rows, *cut[:-1], *(f"{row[: width - 1]}…" for row in cut[-1:])], number
        rows += wrapped
    return rows, len(said)


def composition(found: Composition) -> list[str]:
    """Lay out `ctxtop context`: the categories with their largest parts, then the items."""
    columns = [
        Column("what fills it", flexible=True),
        Column("tokens", right=True),
        Column("share", right=True),
        Column("", priority=1),
    ]
    rows: list[Sequence[Cell | str]] = []
    for each in found.categories:
        rows.append(_share_row(each, Cell(each.name)))
        rows += [_share_row(part, Cell(f"  {part.name}", "quiet")) for part in shown_parts(each)]
    lines = [in_all(found), "", *draw(columns, rows, terminal_width())]
    if not found.largest:
        return lines
    items: Rows = (
        [
            f"≈{tokens(item.tokens)}",
            "" if item.line is None else str(item.line),
            item.kind,
            item.name,
            Cell(item.superseded or "", "notice"),
        ]
        for item in found.largest
    )
    heads = [
        Column("tokens", right=True),
        Column("line", right=True, priority=2),
        Column("kind", priority=3),
        Column("largest items", flexible=True),
        Column("superseded", priority=1),
    ]
    return [*lines, "", *draw(heads, items, terminal_width())]


def _share_row(found: Share, name: Cell) -> Sequence[Cell | str]:
    drawn = Cell(bar(found.share, SHARE_CELLS), name.colour)
    return [name, share_tokens(found), percent(found.share), drawn]


def scanned(record: Record) -> list[str]:
    """Lay out `ctxtop scan`."""
    lines = counted({name: value for name, value in record.items() if isinstance(value, int)})
    lines += [
        f"unknown type  {one_line(name)}  {count:,}"
        for name, count in record["unknown_types"].items()
    ]
    lines += [
        one_line(f"{bad['file']} at {bad['offset']}, {bad['length']} bytes: {bad['reason']}")
        for bad in record.get("bad", ())
    ]
    more = record["bad_lines"] - len(record.get("bad", ())) if "bad" in record else 0
    lines += [f"{plural(more, 'bad line')} more: counted, not listed"] if more else []
    lines += [
        one_line(f"{trouble['place']}: {trouble['what']}; {trouble['remedy']}")
        for trouble in record.get("troubles", ())
    ]
    return [*lines, f"in {record['seconds']:.1f} s"]


def counted(record: Record) -> list[str]:
    """Lay out an object of counts: names and whole numbers, right-aligned."""
    names = max(len(name) for name in record)
    numbers = {name: f"{value:,}" for name, value in record.items()}
    width = max(len(number) for number in numbers.values())
    return [
        f"{name.replace('_', ' '):<{names}}  {number:>{width}}" for name, number in numbers.items()
    ]


def totals(record: Record) -> list[str]:
    """Lay out `ctxtop totals`: the sums, then those with what only progress lines hold."""
    lines = _sums(record)
    more = record["agent_progress"]["responses"]
    if not more:
        return lines
    told = f"{more:,} more answers of agents are recorded only in progress lines; with them:"
    if more == 1:
        told = "1 more answer of agents is recorded only in progress lines; with it:"
    return [*lines, "", told, *_sums(record["with_agent_progress"])]


def _sums(record: Record) -> list[str]:
    lines = counted({name: value for name, value in record.items() if type(value) is int})
    usd = record["cost_usd"]
    if usd is None:
        return lines
    more = ", without models that have no price" if record["cost_partial"] else ""
    return [*lines, f"≈ ${usd:,.2f} by list prices{more}"]


def checks(found: Iterable[Check]) -> list[str]:
    """Lay out `ctxtop doctor`."""
    listed = list(found)
    names = max(len(check.name) for check in listed)
    lines = []
    for check in listed:
        sign = paint("✓", "ok") if check.ok else paint("✗", "bad")
        fix = f" — {check.fix}" if check.fix else ""
        lines.append(f"{sign} {check.name:<{names}}  {one_line(check.detail + fix)}")
    return lines


def _harmless(line: str) -> str:
    return clean_text(line).expandtabs(4)
