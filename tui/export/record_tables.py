"""The records of an export as CSV (RFC 4180), and as a report in Markdown."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from ...core.transcript.sanitize import map_texts
from ..text.formats import percent

_SIGNS: Final = "=+\\-@\uff1d\uff0b\uff0d\uff20\u207a\u207b\u2212\ufe62\ufe63\ufe66\ufe6b"
"""Of a formula; those of full width and like ones are signs to some spreadsheets."""

_SEPARATORS: Final = ";,|\t\r\n\u061b\u3001\uff0c\uff1b"

_FORMULA: Final = re.compile(
    f"^(?=[ \u3000\"']*[{_SIGNS}\t\r\n])|(?<=[{_SEPARATORS}])(?=[ \u3000\"']*[{_SIGNS}])"
)
"""Where a spreadsheet takes what follows for a formula (OWASP, "CSV injection"): at the start of
a cell, and after what separates cells in a country where that is not the comma."""

_TEXT_PREFIX: Final = "'"
"""Makes it a text; spreadsheets do not show it."""


def csv_table(records: Sequence[Mapping[str, Any]]) -> str:
    """Write records as a table whose head names their keys; empty where there are none.

    Where a text could begin a formula it gets an apostrophe before it; what is no text is
    written as JSON has it, and null as an empty cell.
    """
    if not records:
        return ""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(records[0])
    writer.writerows([_csv_cell(value) for value in record.values()] for record in records)
    return out.getvalue()


def _csv_cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return _without_formula(value)
    return json.dumps(map_texts(_without_formula, value), ensure_ascii=False, separators=(",", ":"))


def _without_formula(text: str) -> str:
    return _FORMULA.sub(_TEXT_PREFIX, text)


MAX_REPORT_ROWS: Final = 100
"""Of one table: more is what CSV and JSON are for."""

Record = dict[str, Any]

_MARKUP: Final = re.compile(r"([\\`*_\[\]<>|~&$@#]|:(?=//))")
"""What is markup within a cell: of CommonMark, and of the tables, links and names of GitHub."""


def markdown_report(records: Mapping[str, Any]) -> str:
    """Write the records of an export as Markdown; their words are never taken for markup."""
    totals = records["totals"]
    agents, compactions = len(records["agents"]), len(records["compactions"])
    answers, taken = _count(totals["responses"]), _count(_input_tokens(totals))
    lines = [
        "# ctxtop",
        "",
        f"As of {records['exported_at']}, by ctxtop {records['ctxtop_version']}.",
        "",
        f"- {totals['sessions']:,} sessions, {agents:,} agents, {compactions:,} compactions",
        f"- {answers} answers: {taken} tokens in, {_count(totals['output_tokens'])} out",
        f"- cost {_money(totals)} by list prices",
        "",
    ]
    failed = [each for each in records["agents"] if each["verdict"] == "non_compliant"]
    standing = [each for each in records["warnings"] if each["cleared_at"] is None]
    for title, name, rows in (
        ("Sessions", "sessions", records["sessions"]),
        ("Agents that did not compress", "agents", failed),
        ("Warnings that stand", "warnings", standing),
        ("Compactions", "compactions", records["compactions"]),
    ):
        lines += [f"## {title}", "", *_markdown_table(_REPORT_COLUMNS[name], rows), ""]
    return "\n".join(lines)


def escape_markdown(text: str) -> str:
    """Write a text so that Markdown shows it as it is, in one cell of a table."""
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))


def _markdown_table(
    columns: Sequence[tuple[str, Callable[[Record], str]]], rows: Sequence[Record]
) -> Iterable[str]:
    if not rows:
        return ["None."]
    found = [
        _markdown_row(name for name, _ in columns),
        _markdown_row("---" for _ in columns),
        *(_markdown_row(cell(each) for _, cell in columns) for each in rows[:MAX_REPORT_ROWS]),
    ]
    left_out = len(rows) - MAX_REPORT_ROWS
    return [*found, "", f"{_count(left_out)} more are left out."] if left_out > 0 else found


def _markdown_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _count(number: int | None) -> str:
    return "–" if number is None else f"{number:,}"


def _input_tokens(record: Record) -> int:
    kinds = ("input_tokens", "cache_creation_tokens", "cache_read_tokens")
    return sum(int(record[kind]) for kind in kinds)


def _money(record: Record) -> str:
    usd = record["cost_usd"]
    if usd is None:
        return "–"
    return f"{'≈ ' if record['cost_estimated'] else ''}\\${usd:,.2f}"


def _text(name: str) -> Callable[[Record], str]:
    return lambda record: escape_markdown(str(record[name] or "–"))


def _number(name: str) -> Callable[[Record], str]:
    return lambda record: _count(record[name])


def _after(record: Record) -> str:
    if record["next_answer_tokens"] is not None:
        return _count(record["next_answer_tokens"])
    left = record["estimated_next_tokens"]
    estimate = record["post_tokens"] if left is None else left
    return "–" if estimate is None else f"≈ {estimate:,}"


def _share(name: str) -> Callable[[Record], str]:
    return lambda record: percent(record[name])


def _short(record: Record) -> str:
    return escape_markdown(str(record["session_id"])[:8])


def _doing(record: Record) -> str:
    doing = record["doing"]
    if doing is None:
        return "–"
    parts = (doing["what"] or doing["kind"], doing["detail"])
    return escape_markdown(": ".join(part for part in parts if part))


_REPORT_COLUMNS: Final[Mapping[str, Sequence[tuple[str, Callable[[Record], str]]]]] = {
    "sessions": (
        ("Session", _short),
        ("Project", _text("project")),
        ("Title", _text("title")),
        ("Status", _text("status")),
        ("Doing", _doing),
        ("Context", _number("context_tokens")),
        ("Used", _share("used_ratio")),
        ("Level", _text("level")),
        ("Agents", _number("agents")),
        ("Not compressed", _number("agents_noncompliant")),
        ("Compactions", _number("compactions")),
        ("Cost", _money),
        ("Last activity", _text("last_activity_at")),
    ),
    "agents": (
        ("Session", _short),
        ("Agent", _text("agent_type")),
        ("Task", _text("description")),
        ("Result lines", _number("result_lines")),
        ("Result tokens", _number("result_tokens")),
        ("Broken rules", lambda record: escape_markdown(", ".join(record["violations"]) or "–")),
    ),
    "warnings": (
        ("Session", _short),
        ("Agent", _text("agent_id")),
        ("Level", _text("level")),
        ("Used", _share("ratio")),
        ("At", _text("at")),
    ),
    "compactions": (
        ("Session", _short),
        ("At", _text("at")),
        ("Trigger", _text("trigger")),
        ("Before", _number("pre_tokens")),
        ("After", _after),
    ),
}
