"""Exported documents: records as CSV and Markdown, and the file they are written to."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ...core.files.file_operations import remove_if_present, write_temporary
from ...core.transcript.redaction import redact
from ...core.transcript.sanitize import map_texts
from ..tables import Column, escape_markdown, markdown_table
from ..text.formats import NOTHING, percent


class ExportError(Exception):
    """It cannot be written; the message says what, where and what to do."""


class FileThereError(ExportError):
    """Another file has that name."""


def parse_path(typed: str, base: Path) -> Path:
    """Understand what a person typed as a file's name; raises ExportError."""
    if not typed.strip():
        raise ExportError("no name: type the file to write")
    path = Path(typed.strip()).expanduser()
    path = path if path.is_absolute() else base / path
    if "\0" in typed:
        raise ExportError("a file's name has no NUL: type another one")
    return path


def write_export(
    path: Path, parts: Iterable[str], *, replacing: bool = False, redacting: bool = True
) -> int:
    """Write a file for the user alone and give its bytes; raises ExportError.

    Secrets are replaced by what they are, unless `redacting` is False. Another file is
    replaced only where that was asked for, a link never.
    """
    try:
        _check_target(path, replacing=replacing)
        # Whole: a private key has many lines.
        texts = [redact("".join(parts))] if redacting else parts
        return _write_parts(path, texts, replacing=replacing)
    except FileExistsError as error:
        raise FileThereError(f"{path} is there already: name another file") from error
    except OSError as error:
        why = error.strerror or error
        raise ExportError(f"{path} cannot be written: {why}; name another file") from error


def _check_target(path: Path, *, replacing: bool) -> None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISREG(found.st_mode):
        raise ExportError(f"{path} is not a regular file: name another one")
    if not replacing:
        raise FileExistsError(str(path))


def _write_parts(path: Path, parts: Iterable[str], *, replacing: bool) -> int:
    part = write_temporary(path, (each.encode("utf-8", "replace") for each in parts))
    try:
        written = part.stat().st_size
        if replacing:
            part.replace(path)
        else:
            # Unlike a rename a link never takes the place of a file that came meanwhile.
            os.link(part, path, follow_symlinks=False)
    finally:
        remove_if_present(part)
    return written


_SIGNS: Final = "=+\\-@\uff1d\uff0b\uff0d\uff20\u207a\u207b\u2212\ufe62\ufe63\ufe66\ufe6b"
"""Of a formula; those of full width and like ones are signs to some spreadsheets."""

_SEPARATORS: Final = ";,|\t\r\n\u061b\u3001\uff0c\uff1b"

_FORMULA: Final = re.compile(
    f"^(?=[ \u3000\"']*[{_SIGNS}\t\r\n])|(?<=[{_SEPARATORS}])(?=[ \u3000\"']*[{_SIGNS}])"
)
"""Where a spreadsheet takes what follows for a formula (OWASP, "CSV injection"): at the start of
a cell, and after what separates cells in a country where that is not the comma."""

_TEXT_PREFIX: Final = "'"  # makes it a text; spreadsheets do not show it


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


MAX_REPORT_ROWS: Final = 100  # of one table: more is what CSV and JSON are for
Record = dict[str, Any]
ReportColumn = Column[Record, str]


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
        f"- cost {escape_markdown(_money(totals))} by list prices",
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
        lines += [f"## {title}", "", *_report_table(_REPORT_COLUMNS[name], rows), ""]
    return "\n".join(lines)


def _report_table(columns: Sequence[ReportColumn], rows: Sequence[Record]) -> list[str]:
    if not rows:
        return ["None."]
    lines = markdown_table(columns, rows[:MAX_REPORT_ROWS], escape_markdown)
    left_out = len(rows) - MAX_REPORT_ROWS
    return [*lines, "", f"{_count(left_out)} more are left out."] if left_out > 0 else lines


def _count(number: int | None) -> str:
    return NOTHING if number is None else f"{number:,}"


def _input_tokens(record: Record) -> int:
    kinds = ("input_tokens", "cache_creation_tokens", "cache_read_tokens")
    return sum(int(record[kind]) for kind in kinds)


def _money(record: Record) -> str:
    usd = record["cost_usd"]
    if usd is None:
        return NOTHING
    return f"{'≈ ' if record['cost_estimated'] else ''}${usd:,.2f}"


def _text(name: str) -> Callable[[Record], str]:
    return lambda record: str(record[name] or NOTHING)


def _number(name: str) -> Callable[[Record], str]:
    return lambda record: _count(record[name])


def _after(record: Record) -> str:
    if record["next_answer_tokens"] is not None:
        return _count(record["next_answer_tokens"])
    left = record["estimated_next_tokens"]
    estimate = record["post_tokens"] if left is None else left
    return NOTHING if estimate is None else f"≈ {estimate:,}"


def _share(name: str) -> Callable[[Record], str]:
    return lambda record: percent(record[name])


def _short(record: Record) -> str:
    return str(record["session_id"])[:8]


def _doing(record: Record) -> str:
    doing = record["doing"]
    if doing is None:
        return NOTHING
    parts = (doing["what"] or doing["kind"], doing["detail"])
    return ": ".join(part for part in parts if part)


_REPORT_COLUMNS: Final[Mapping[str, Sequence[ReportColumn]]] = {
    "sessions": (
        Column("Session", _short),
        Column("Project", _text("project")),
        Column("Title", _text("title")),
        Column("Status", _text("status")),
        Column("Doing", _doing),
        Column("Context", _number("context_tokens")),
        Column("Used", _share("used_ratio")),
        Column("Level", _text("level")),
        Column("Agents", _number("agents")),
        Column("Not compressed", _number("agents_noncompliant")),
        Column("Compactions", _number("compactions")),
        Column("Cost", _money),
        Column("Last activity", _text("last_activity_at")),
    ),
    "agents": (
        Column("Session", _short),
        Column("Agent", _text("agent_type")),
        Column("Task", _text("description")),
        Column("Result lines", _number("result_lines")),
        Column("Result tokens", _number("result_tokens")),
        Column("Broken rules", lambda record: ", ".join(record["violations"]) or NOTHING),
    ),
    "warnings": (
        Column("Session", _short),
        Column("Agent", _text("agent_id")),
        Column("Level", _text("level")),
        Column("Used", _share("ratio")),
        Column("At", _text("at")),
    ),
    "compactions": (
        Column("Session", _short),
        Column("At", _text("at")),
        Column("Trigger", _text("trigger")),
        Column("Before", _number("pre_tokens")),
        Column("After", _after),
    ),
}
