r"""Compare the difference that a permission prompt shows with what a call does to a file.

As 2.1.329 draws it (seen):

      9  l9                           unchanged, its number is that in the new text
     10 -l10                          removed, its number is that in the old text
     10 +a long line that is          added
        +wrapped                      a wrapped row has its line's sign and no number
    ...                               unchanged lines that are not shown; then numbers may be wider
     12 +last
        \ No newline at end of file
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from ...core.files.safe_open import open_regular

MAX_FILE_BYTES: Final = 4 << 20  # the client shows no difference of files near this size

_NUMBER: Final = re.compile(r" *\d+")
_UNSHOWN_LINES: Final = "..."
_NO_LINE_END: Final = "\\ No newline at end of file"
_UNSHOWN_PLACES: Final = "The diff doesn't show all of what this edit changes:"
_NOWHERE: Final = ("", 0)  # the place of a row that no difference has

_Rows = Mapping[tuple[str, int], str]  # the text by sign and number


def squeeze(text: str) -> str:
    """Remove spaces and the gutter's sign, which a wrapped row has more or fewer of."""
    return "".join(text.replace("│", " ").split())


def shows_change(body: str, before: str, after: str) -> bool:
    """Whether the rows are lines of both texts, and all that differs between them."""
    rows, old, new = _read_rows(body), _split_lines(before), _split_lines(after)
    return _are_lines(rows, old, new) and _rest(old, "-", rows) == _rest(new, "+", rows)


def shows_edit(body: str, before: str, after: str, places: int) -> bool:
    """Whether the rows are the change, or a part of it and its number of places."""
    shown, is_part, count = body.partition(_UNSHOWN_PLACES)
    if not is_part:
        return shows_change(body, before, after)
    rows = _read_rows(shown.removesuffix("\n"))
    is_counted = squeeze(count) == squeeze(f"{places} places in the file.")
    return bool(rows) and is_counted and _are_lines(rows, _split_lines(before), _split_lines(after))


def _split_lines(text: str) -> list[str]:
    return [squeeze(line) for line in text.split("\n")] if text else []


def _read_rows(body: str) -> _Rows:
    rows: dict[tuple[str, int], str] = {}
    place, width = _NOWHERE, 0
    for row in body.split("\n") if body else ():
        if row == _UNSHOWN_LINES:
            place, width = _NOWHERE, 0
            continue
        if not width:
            number = _NUMBER.match(row)
            width = number.end() if number else 0
        number_text, sign = row[:width].strip(), row[width + 1 : width + 2] or " "
        if not number_text and row[width + 1 :] == _NO_LINE_END:
            continue
        if number_text.isdecimal():
            place = (sign, int(number_text))
        elif number_text or sign != place[0]:
            place = _NOWHERE
        rows[place] = rows.get(place, "") + squeeze(row[width + 2 :])
    return rows


def _are_lines(rows: _Rows, old: Sequence[str], new: Sequence[str]) -> bool:
    texts = {"-": old, "+": new, " ": new}
    return all(
        0 < number <= len(texts.get(sign, ())) and texts[sign][number - 1] == text
        for (sign, number), text in rows.items()
    )


def _rest(lines: Sequence[str], sign: str, rows: _Rows) -> list[str]:
    return [line for number, line in enumerate(lines, 1) if (sign, number) not in rows]


def read_text(path: Path) -> str | None:
    """Read a file as the client compares it; None if it cannot be read, or is not text."""
    try:
        with open_regular(path) as file:
            data = file.read(MAX_FILE_BYTES + 1)
        text = data.decode("utf-8-sig") if len(data) <= MAX_FILE_BYTES else None
    except (OSError, ValueError):
        return None
    return text.replace("\r\n", "\n") if text is not None else None


class _Cell(msgspec.Struct):
    source: str | list[str]
    id: str = ""


class _Notebook(msgspec.Struct):
    cells: list[_Cell]


def read_cell(path: Path, cell_id: str) -> str | None:
    """Read the source of a notebook's cell; None if there is none of that id."""
    try:
        cells = msgspec.json.decode(read_text(path) or "", type=_Notebook).cells
    except msgspec.DecodeError:
        return None
    for place, cell in enumerate(cells):
        if cell_id in {cell.id, f"cell-{place}"}:
            return "".join(cell.source)
    return None
