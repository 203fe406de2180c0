"""Records as CSV and Markdown, and the file that an export is written to."""

import csv
import io
import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from ...core.files.file_operations import remove_if_present, write_temporary
from ...core.measure.prompt_cache.cache_ledger import CacheCause, CauseSource, Change
from ...core.transcript.redaction import redact
from ...core.transcript.sanitize import map_texts
from ..text.amounts import list_price
from ..text.cache_text import cause_name, change_text
from ..text.formats import MESSAGES_ALONE, NOTHING, percent
from ..text.tables import Column, escape_markdown, markdown_table


class ExportError(Exception):
    """A file that cannot be written; the message says what, where and what to do."""


class FileThereError(ExportError):
    """Another file has that name."""


def parse_path(typed: str, base: Path) -> Path:
    """Parse a file's name as a user types it; raises ExportError."""
    if not typed.strip():
        raise ExportError("type the name of the file to write")
    if "\0" in typed:
        raise ExportError("a file name cannot contain NUL: type another one")
    return base / Path(typed.strip()).expanduser()


def write_export(
    path: Path, parts: Iterable[str], *, replacing: bool = False, redacting: bool = True
) -> int:
    """Write a file for the user alone and return its size; raises ExportError.

    Secrets are redacted unless `redacting` is False. Another file is replaced only if `replacing`,
    a link never.
    """
    try:
        _check_target(path, replacing=replacing)
        # As a whole: a private key has many lines.
        texts = [redact("".join(parts))] if redacting else parts
        return _write_parts(path, texts, replacing=replacing)
    except FileExistsError as error:
        raise FileThereError(f"{path} already exists: name another file") from error
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
        size = part.stat().st_size
        if replacing:
            part.replace(path)
        else:
            # Unlike a rename, a link never replaces a file that was created meanwhile.
            os.link(part, path, follow_symlinks=False)
    finally:
        remove_if_present(part)
    return size


_SIGNS: Final = "=+\\-@\uff1d\uff0b\uff0d\uff20\u207a\u207b\u2212\ufe62\ufe63\ufe66\ufe6b"
"""Signs of a formula; some spreadsheets accept those of full width and similar ones too."""

_SEPARATORS: Final = ";,|\t\r\n\u061b\u3001\uff0c\uff1b"

_FORMULA: Final = re.compile(
    f"^(?=[ \u3000\"']*[{_SIGNS}\t\r\n])|(?<=[{_SEPARATORS}])(?=[ \u3000\"']*[{_SIGNS}])"
)
"""Where a spreadsheet reads a formula (OWASP, "CSV injection"): at the start of a cell, and after
a separator of cells in a country where that is not the comma."""


def csv_table(records: Sequence[Mapping[str, Any]]) -> str:
    """Write records as a table with their keys in the first row; empty if there are none.

    A text that could begin a formula gets an apostrophe, which spreadsheets do not show. Other
    values are written as JSON, and null as an empty cell.
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
    return _FORMULA.sub("'", text)


MAX_REPORT_ROWS: Final = 100  # of one table: CSV and JSON have all
Record = dict[str, Any]
ReportColumn = Column[Record, str]


def markdown_report(records: Mapping[str, Any]) -> str:
    totals = records["totals"]
    own = [each for each in records["agents"] if each["counted_in"] in {"", each["session_id"]}]
    agents, compactions = len(own), len(records["compactions"])
    inputs = ("input_tokens", "cache_creation_tokens", "cache_read_tokens")
    read = sum(int(totals[kind]) for kind in inputs)
    lines = [
        "# ctxtop",
        "",
        f"As of {records['exported_at']}, by ctxtop {records['ctxtop_version']}.",
        "",
        f"- {totals['sessions']:,} sessions, {agents:,} agents, {compactions:,} compactions",
        f"- {totals['responses']:,} answers: {read:,} tokens in, {totals['output_tokens']:,} out",
        f"- cost {escape_markdown(_money(totals))} at list prices",
        f"- {_cache_line(records['cache_totals'])}",
        "",
    ]
    failed = [each for each in records["agents"] if each["verdict"] == "non_compliant"]
    active = [each for each in records["warnings"] if each["cleared_at"] is None]
    for title, name, rows in (
        ("Sessions", "sessions", records["sessions"]),
        ("Noncompliant agents", "agents", failed),
        ("Active warnings", "warnings", active),
        ("Compactions", "compactions", records["compactions"]),
        ("Why the cache was written again", "causes", records["cache_totals"]["causes"]),
        ("Dearest cache misses", "cache", sorted(records["cache"], key=_dearest_first)),
    ):
        lines += [f"## {title}", "", *_report_table(_REPORT_COLUMNS[name], rows), ""]
    return "\n".join(lines)


def _cache_line(totals: Record) -> str:
    usd = escape_markdown(f"≈ ${totals['cost_usd']:,.2f}")
    return (
        f"{percent(totals['read_ratio'])} of input read from the prompt cache,"
        f" {totals['rewritten_tokens']:,} tokens written again in {totals['misses']:,} misses:"
        f" {percent(totals['rewritten_ratio'])} of all cache writes, {usd}"
    )


def _dearest_first(miss: Record) -> float:
    return -(miss["cost_usd"] or 0.0)


def _report_table(columns: Sequence[ReportColumn], rows: Sequence[Record]) -> list[str]:
    if not rows:
        return ["None."]
    lines = markdown_table(columns, rows[:MAX_REPORT_ROWS], escape_markdown)
    left_out = len(rows) - MAX_REPORT_ROWS
    return [*lines, "", f"{left_out:,} more were left out."] if left_out > 0 else lines


def _text(name: str) -> Callable[[Record], str]:
    return lambda record: str(record[name] or NOTHING)


def _number(name: str) -> Callable[[Record], str]:
    return lambda record: NOTHING if record[name] is None else f"{record[name]:,}"


def _share(name: str) -> Callable[[Record], str]:
    return lambda record: percent(record[name])


def _money(record: Record) -> str:
    usd = record["cost_usd"]
    if usd is None:
        return NOTHING
    return f"{'≈ ' if record['cost_estimated'] else ''}${usd:,.2f}"


def _after(record: Record) -> str:
    if record["next_answer_tokens"] is not None:
        return f"{record['next_answer_tokens']:,}"
    if (left := record["estimated_next_tokens"]) is not None:
        return f"≈ {left:,}"
    messages = record["post_tokens"]
    return NOTHING if messages is None else f"≈ {messages:,}{MESSAGES_ALONE}"


def _short_id(record: Record) -> str:
    return str(record["session_id"])[:8]


def _doing(record: Record) -> str:
    doing = record["doing"]
    if doing is None:
        return NOTHING
    parts = (doing["what"] or doing["kind"], doing["detail"])
    return ": ".join(part for part in parts if part)


def _list_price(record: Record) -> str:
    return list_price(record["cost_usd"])


def _cause(record: Record) -> str:
    return cause_name(CacheCause(record["cause"]), CauseSource(record["cause_source"]))


def _changed(record: Record) -> str:
    changes = msgspec.convert(record["changed"], list[Change])
    return "; ".join(map(change_text, changes)) or NOTHING


def _limit_share(record: Record) -> str:
    """Write the share that is in use, and name the limit if it is not of the window."""
    limit = record["limit_tokens"]
    of_limit = f" of {limit:,} tokens" if limit else ""
    return f"{percent(record['limit_ratio'])}{of_limit}"


_REPORT_COLUMNS: Final[Mapping[str, Sequence[ReportColumn]]] = {
    "sessions": (
        Column("Session", _short_id),
        Column("Project", _text("project")),
        Column("Title", _text("title")),
        Column("Status", _text("status")),
        Column("Doing", _doing),
        Column("Context", _number("context_tokens")),
        Column("Used", _limit_share),
        Column("Level", _text("level")),
        Column("Agents", _number("agents")),
        Column("Noncompliant", _number("agents_noncompliant")),
        Column("Compactions", _number("compactions")),
        Column("Cost", _money),
        Column("Last activity", _text("last_activity_at")),
    ),
    "agents": (
        Column("Session", _short_id),
        Column("Agent", _text("agent_type")),
        Column("Task", _text("description")),
        Column("Result lines", _number("result_lines")),
        Column("Result tokens", _number("result_tokens")),
        Column("Noncompliant", lambda record: ", ".join(record["violations"]) or NOTHING),
    ),
    "warnings": (
        Column("Session", _short_id),
        Column("Agent", _text("agent_id")),
        Column("Level", _text("level")),
        Column("Used", _limit_share),
        Column("At", _text("at")),
    ),
    "compactions": (
        Column("Session", _short_id),
        Column("At", _text("at")),
        Column("Trigger", _text("trigger")),
        Column("Before", _number("pre_tokens")),
        Column("After", _after),
    ),
    "causes": (
        Column("Cause", _cause),
        Column("Rewritten", _number("rewritten_tokens")),
        Column("Of writes", _share("share_of_writes")),
        Column("Cost", _list_price),
        Column("Misses", _number("misses")),
    ),
    "cache": (
        Column("Session", _short_id),
        Column("Agent", _text("agent_id")),
        Column("At", _text("at")),
        Column("Cause", _cause),
        Column("Claude Code says", _text("client_reason")),
        Column("Rewritten", _number("rewritten_tokens")),
        Column("Cost", _list_price),
        Column("Changed before it", _changed),
    ),
}
