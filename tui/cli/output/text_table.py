"""Plain text for terminals: columns that fit, labelled lines, bars, ids and colours."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING, Final

import msgspec
from rich.cells import cell_len

from ....core.measure.tokens import tokens_or_estimate
from ....core.model.context import Context, ContextState
from ....core.transcript.sanitize import sanitize_text
from ...text.ascii_signs import to_ascii
from ...text.compliance_text import VERDICT_SIGNS, short_verdict
from ...text.formats import (
    NOTHING,
    duration,
    fit_left,
    fit_right,
    percent,
    plural,
    shorten_middle,
    tokens,
)

if TYPE_CHECKING:
    from ....core.compliance.run_verdict import RunVerdict
    from ....core.model.agent import Agent


COLUMN_GAP: Final = "  "
MIN_TEXT_CELLS: Final = 16
"""Cells of a text that may be cut; below that other columns leave first."""

MAX_WHOLE_CELLS: Final = 48
"""Cells of a text that is not to be cut: a model's whole name has 30, a checked format's fault
45. Only a field that no client writes is longer, and the rows of others stay as they are."""

PIPE_WIDTH: Final = 160
"""Columns where no terminal says how many it has."""

ANSI_COLOURS: Final = {
    "notice": "36",
    "warning": "33",
    "high": "33;1",
    "emergency": "31",
    "overflow": "31;1",
    "quiet": "2",
    "ok": "32",
    "bad": "31",
}

_LINE_BREAKS: Final = {ord("\n"): " ", ord("\t"): " "}


class TextColumn(msgspec.Struct, frozen=True):
    """A column: its head, its side, and what happens to it where room is short."""

    header: str
    right: bool = False
    flexible: bool = False
    """A text that may be cut in its middle; numbers never are."""
    priority: int = 0
    """Columns of the highest rank leave first; rank 0 stays."""


class TextCell(msgspec.Struct, frozen=True):
    """What stands in a row, and how it is coloured where colours are wanted."""

    text: str
    colour: str = ""


def draw_table(
    columns: Sequence[TextColumn], rows: Iterable[Sequence[TextCell | str]], width: int
) -> list[str]:
    """Lay out a head and rows in at most `width` cells, as far as the numbers allow."""
    heads = [TextCell(column.header.upper(), "quiet") for column in columns]
    table = [heads, *(_cells(columns, row) for row in rows)]
    widths = [max(cell_len(row[place].text) for row in table) for place in range(len(columns))]
    shown = _visible_columns(columns, widths, width)
    _shrink_texts(columns, widths, shown, width)
    return [
        _table_line(
            [columns[n] for n in shown], [row[n] for n in shown], [widths[n] for n in shown]
        )
        for row in table
    ]


def clean_line(text: str) -> str:
    """Make one harmless line of any text: names on disk can hold escape sequences too."""
    return " ".join(sanitize_text(text).split())


def terminal_width() -> int:
    """Cells of a line of output."""
    fallback = (80 if sys.stdout.isatty() else PIPE_WIDTH, 24)
    return shutil.get_terminal_size(fallback).columns


def paint(text: str, colour: str) -> str:
    """Colour a text where the output is a terminal that wants colours."""
    return f"\x1b[{ANSI_COLOURS[colour]}m{text}\x1b[0m" if colour and wants_colours() else text


def wants_colours() -> bool:
    """Whether stdout is a terminal that should get colours (no-color.org)."""
    return (
        sys.stdout.isatty()
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM", "") not in {"", "dumb"}
    )


def print_lines(lines: Iterable[str], *, ascii_only: bool = False) -> None:
    """Print lines, with plain signs where that is asked for or the output is not UTF-8."""
    encoding = output_encoding()
    for line in lines:
        shown = to_ascii(line) if ascii_only or encoding != "utf-8" else line
        print(shown if encoding == "utf-8" else shown.encode(encoding, "replace").decode(encoding))


def output_encoding() -> str:
    """Name the output's encoding the way Python does."""
    import codecs

    return codecs.lookup(getattr(sys.stdout, "encoding", None) or "utf-8").name


def _clean_cell(cell: TextCell | str) -> TextCell:
    if isinstance(cell, str):
        return TextCell(clean_line(cell))
    # A drawn cell keeps its spaces.
    return TextCell(sanitize_text(cell.text).translate(_LINE_BREAKS), cell.colour)


def _cells(columns: Sequence[TextColumn], row: Sequence[TextCell | str]) -> list[TextCell]:
    cells = [_clean_cell(cell) for cell in row]
    return [
        cell
        if column.flexible
        else TextCell(shorten_middle(cell.text, MAX_WHOLE_CELLS), cell.colour)
        for column, cell in zip(columns, cells, strict=True)
    ]


def _visible_columns(columns: Sequence[TextColumn], widths: list[int], width: int) -> list[int]:
    shown = list(range(len(columns)))
    while _min_width(columns, widths, shown) > width:
        highest = max(columns[n].priority for n in shown)
        if highest == 0:
            break
        shown = [n for n in shown if columns[n].priority != highest]
    return shown


def _min_width(columns: Sequence[TextColumn], widths: list[int], shown: list[int]) -> int:
    cells = (min(widths[n], MIN_TEXT_CELLS) if columns[n].flexible else widths[n] for n in shown)
    return sum(cells) + len(COLUMN_GAP) * (len(shown) - 1)


def _shrink_texts(
    columns: Sequence[TextColumn], widths: list[int], shown: list[int], width: int
) -> None:
    over = sum(widths[n] for n in shown) + len(COLUMN_GAP) * (len(shown) - 1) - width
    while over > 0:
        # The longest text gives first: a short project name need not suffer for a long title.
        longest = max((n for n in shown if columns[n].flexible), key=widths.__getitem__)
        if widths[longest] <= MIN_TEXT_CELLS:
            break
        widths[longest] -= 1
        over -= 1


def _table_line(columns: list[TextColumn], cells: list[TextCell], widths: list[int]) -> str:
    parts = []
    for column, cell, width in zip(columns, cells, widths, strict=True):
        text = shorten_middle(cell.text, width)
        aligned = (fit_right if column.right else fit_left)(text, width)
        parts.append(paint(aligned, cell.colour))
    return COLUMN_GAP.join(parts).rstrip()


LABEL_CELLS: Final = 10


def labelled_lines(label: str, text: str, width: int) -> list[str]:
    """Write a text beside its label; what does not fit goes on below it."""
    first, *rest = textwrap.wrap(
        clean_line(text),
        max(width, LABEL_CELLS * 3) - LABEL_CELLS,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [""]
    return [label_beside(label, first), *(label_beside("", line) for line in rest)]


def label_beside(label: str, drawn: str) -> str:
    """Put what is drawn beside its label; it is not wrapped."""
    return f"{paint(label, 'quiet') if label else ''}{' ' * (LABEL_CELLS - len(label))}{drawn}"


BAR_CELLS: Final = 10
MIN_ID_CHARS: Final = 8

_EIGHTHS: Final = "░▏▎▍▌▋▊▉"
_ROUNDING_ERROR: Final = 1e-9
"""0.29 × 100 is 28.999…: products this close are the same."""


def gauge_cell(context: Context) -> TextCell:
    """Draw the bar and, beside it, its number."""
    drawn = text_bar(context.ratio, BAR_CELLS)
    number = f"{_estimate_sign(context)}{percent(context.ratio)}"
    return TextCell(f"{drawn} {number:>6}", context.level.severity.value if context.level else "")


def text_bar(ratio: float | None, cells: int) -> str:
    """Draw a ratio of 1 in `cells` cells, to the eighth below: only what is full looks full."""
    eighths = int(min(max(ratio or 0.0, 0.0), 1.0) * cells * 8 + _ROUNDING_ERROR)
    full, rest = divmod(max(eighths, 1) if ratio else 0, 8)
    drawn = "█" * full + (_EIGHTHS[rest] if rest else "")
    return drawn.ljust(cells, "░")


def tokens_of_window_text(context: Context) -> str:
    """Write tokens of window."""
    used = (
        f"{_estimate_sign(context)}{tokens(context.tokens)}"
        if context.tokens is not None
        else NOTHING
    )
    return f"{used} of {tokens(context.window.tokens)}"


def level_cell(context: Context) -> TextCell:
    """Name the level that the context reached."""
    found = context.level
    return TextCell(found.value, found.severity.value) if found else TextCell("")


def result_size(found: Agent) -> str:
    """Format how much an agent added to its parent's context."""
    if found.result is None:
        return NOTHING
    lines = plural(found.result.lines, "line")
    return (
        f"{lines} ≈{tokens(tokens_or_estimate(found.result.estimated_tokens, found.result.text))}"
    )


def verdict_cell(found: RunVerdict | None) -> TextCell:
    """Return the cell for an agent's compliance; empty if no rule applies to it."""
    if found is None or not VERDICT_SIGNS[found.verdict].strip():
        return TextCell("")
    words = f"{VERDICT_SIGNS[found.verdict]} {short_verdict(found)}".rstrip()
    return TextCell(words, "bad" if found.failed else "")


def session_id_cell(whole: str, short: Mapping[str, str]) -> TextCell:
    """Write an id as `ctxtop sessions` does; that of a session without a file stays whole."""
    return TextCell(short.get(whole, whole), "quiet")


def time_since(at_ms: int | None, now_ms: int) -> str:
    return duration(None if at_ms is None else now_ms - at_ms)


def shorten_ids(session_ids: Iterable[str]) -> dict[str, str]:
    """Cut ids to the same length, as short as still tells them apart."""
    ordered = sorted(set(session_ids))
    shared = (_shared_length(*pair) for pair in pairwise(ordered))
    length = max([MIN_ID_CHARS - 1, *shared]) + 1
    return {each: each[:length] for each in ordered}


def _estimate_sign(context: Context) -> str:
    return "≈" if context.state is ContextState.ESTIMATED else ""


def _shared_length(one: str, other: str) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
