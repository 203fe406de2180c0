"""Records as CSV (RFC 4180), harmless to a spreadsheet that opens it."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SIGNS: Final = "=+\\-@\uff1d\uff0b\uff0d\uff20\u207a\u207b\u2212\ufe62\ufe63\ufe66\ufe6b"
"""Of a formula; those of full width and like ones are signs to some spreadsheets."""

_SEPARATORS: Final = ";,|\t\r\n\u061b\u3001\uff0c\uff1b"

_FORMULA: Final = re.compile(
    f"^(?=[ \u3000\"']*[{_SIGNS}\t\r\n])|(?<=[{_SEPARATORS}])(?=[ \u3000\"']*[{_SIGNS}])"
)
"""Where a spreadsheet takes what follows for a formula (OWASP, "CSV injection"): at the start of
a cell, and after what separates cells in a country where that is not the comma."""

_NEUTRAL: Final = "'"
"""Makes it a text; spreadsheets do not show it."""


def table(records: Sequence[Mapping[str, Any]]) -> str:
    """Write records as a table whose head names their keys; empty where there are none.

    Where a text could begin a formula it gets an apostrophe before it; what is no text is
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
        return _harmless(value)
    return json.dumps(_each_text(value), ensure_ascii=False, separators=(",", ":"))


def _harmless(text: str) -> str:
    return _FORMULA.sub(_NEUTRAL, text)


def _each_text(value: Any) -> Any:  # noqa: ANN401 -- any JSON
    if isinstance(value, str):
        return _harmless(value)
    if isinstance(value, dict):
        return {name: _each_text(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_each_text(each) for each in value]
    return value
