"""Records as CSV (RFC 4180), harmless to a spreadsheet that opens it."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n")
"""What makes a spreadsheet take a cell for a formula (OWASP, "CSV injection")."""

_NEUTRAL: Final = "'"
"""Makes it a text; spreadsheets do not show it."""


def table(records: Sequence[Mapping[str, Any]]) -> str:
    """Write records as a table whose head names their keys; empty where there are none.

    A text that begins as a formula does gets an apostrophe before it; what is no text is
    written as JSON has it, and null as an empty cell.
    """
    if not records:
        return ""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(records[0])
    writer.writerows([_cell(value) for value in record.values()] for record in records)
    return out.getvalue()


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return _NEUTRAL + value if value.startswith(_FORMULA) else value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
