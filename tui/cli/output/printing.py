"""What commands print: tables in cells, colours where a terminal shows them, JSON."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING, Final

import click
from click.core import ParameterSource
from rich.cells import cell_len

from ....core.measure.tokens import tokens_or_estimate
from ....core.model.context import Context
from ....core.transcript.sanitize import sanitize_text
from ...tables import Cell, Column, Item, TextColumn, fitting_columns, total_cells
from ...text.ascii_signs import to_ascii
from ...text.compliance_text import VERDICT_SIGNS, short_verdict
from ...text.formats import (
    NOTHING,
    fit_left,
    fit_right,
    plural,
    shorten_middle,
    tokens,
    used_percent,
)
from ..command_errors import DONE
from ..command_options import options_of, wants_ascii
from . import json_records
from .json_records import Record

if TYPE_CHECKING:
    from ....core.compliance.run_verdict import RunVerdict
    from ....core.model.agent import Agent


COLUMN_GAP: Final = "  "
MIN_TEXT_CELLS: Final = 16  # cells of a text that may be cut; below that other columns leave first
MAX_WHOLE_CELLS: Final = 48
"""Cells of a text that is not to be cut: a model's whole name has 30, a checked format's fault
45. Only a field that no client writes is longer, and the rows of others stay as they are."""

PIPE_WIDTH: Final = 160  # columns where no terminal says how many it has
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


def draw_table(columns: Iterable[TextColumn[Item]], items: Sequence[Item]) -> list[str]:
    """Lay out a header and a line for each item in the terminal's width.

    A terminal that is too narrow for the columns of priority 0 wraps the lines by itself.
    """
    width = terminal_width()
    shown = fitting_columns(
        [_measured_column(column, items) for column in columns], width, _min_cells
    )
    widths = _shrunk_widths(shown, width)
    return [_table_line(shown, widths, line) for line in range(len(items) + 1)]


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


def _measured_column(column: TextColumn[Item], items: Sequence[Item]) -> Column[int, Cell]:
    """Draw a column's cells once: the values of the result are by line, the header is line 0."""
    cells = [Cell(column.header.upper(), "quiet")]
    cells += [_clean_cell(column.value(item)) for item in items]
    if not column.flexible:
        cells = [Cell(shorten_middle(cell.text, MAX_WHOLE_CELLS), cell.style) for cell in cells]
    return Column(
        column.header,
        cells.__getitem__,
        right=column.right,
        flexible=column.flexible,
        priority=column.priority,
        cells=max(cell_len(cell.text) for cell in cells),
    )


def _clean_cell(cell: Cell | str) -> Cell:
    if isinstance(cell, str):
        return Cell(clean_line(cell))
    # A drawn cell keeps its spaces.
    return Cell(sanitize_text(cell.text).translate(_LINE_BREAKS), cell.style)


def _min_cells(columns: Sequence[Column[int, Cell]]) -> int:
    least = (min(each.cells, MIN_TEXT_CELLS) if each.flexible else each.cells for each in columns)
    return sum(least) + len(COLUMN_GAP) * (len(columns) - 1)


def _shrunk_widths(columns: Sequence[Column[int, Cell]], width: int) -> list[int]:
    widths = [column.cells for column in columns]
    flexible = [place for place, column in enumerate(columns) if column.flexible]
    for _ in range(total_cells(columns, len(COLUMN_GAP)) - width):
        # The longest text gives first: a short project name need not suffer for a long title.
        longest = max(flexible, key=widths.__getitem__, default=None)
        if longest is None or widths[longest] <= MIN_TEXT_CELLS:
            break
        widths[longest] -= 1
    return widths


def _table_line(columns: Sequence[Column[int, Cell]], widths: Sequence[int], line: int) -> str:
    parts = []
    for column, width in zip(columns, widths, strict=True):
        cell = column.value(line)
        aligned = (fit_right if column.right else fit_left)(cell.text, width)
        parts.append(paint(aligned, cell.style))
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
_ROUNDING_ERROR: Final = 1e-9  # 0.29 × 100 is 28.999…: products this close are the same


def gauge_cell(context: Context) -> Cell:
    """Draw the bar and, beside it, its number."""
    drawn = text_bar(context.ratio, BAR_CELLS)
    return Cell(
        f"{drawn} {used_percent(context):>6}", context.level.severity.value if context.level else ""
    )


def text_bar(ratio: float | None, cells: int) -> str:
    """Draw a ratio of 1 in `cells` cells, to the eighth below: only what is full looks full."""
    eighths = int(min(max(ratio or 0.0, 0.0), 1.0) * cells * 8 + _ROUNDING_ERROR)
    full, rest = divmod(max(eighths, 1) if ratio else 0, 8)
    drawn = "█" * full + (_EIGHTHS[rest] if rest else "")
    return drawn.ljust(cells, "░")


def result_size(found: Agent) -> str:
    """Format how much an agent added to its parent's context."""
    if found.result is None:
        return NOTHING
    lines = plural(found.result.lines, "line")
    return (
        f"{lines} ≈{tokens(tokens_or_estimate(found.result.estimated_tokens, found.result.text))}"
    )


def verdict_cell(found: RunVerdict | None) -> Cell:
    """Return the cell for an agent's compliance; empty if no rule applies to it."""
    if found is None or not VERDICT_SIGNS[found.verdict].strip():
        return Cell("")
    words = f"{VERDICT_SIGNS[found.verdict]} {short_verdict(found)}".rstrip()
    return Cell(words, "bad" if found.failed else "")


def session_id_cell(whole: str, short: Mapping[str, str]) -> Cell:
    """Write an id as `ctxtop sessions` does; that of a session without a file stays whole."""
    return Cell(short.get(whole, whole), "quiet")


def shorten_ids(session_ids: Iterable[str]) -> dict[str, str]:
    """Cut ids to the same length, as short as still tells them apart."""
    ordered = sorted(set(session_ids))
    shared = (_shared_length(*pair) for pair in pairwise(ordered))
    length = max([MIN_ID_CHARS - 1, *shared]) + 1
    return {each: each[:length] for each in ordered}


def _shared_length(one: str, other: str) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


_NOT_REPEATED: Final = frozenset(
    {"explain", "is_applied", "in_place", "as_json", "no_scan", "session", "config_dir", "db"}
)
"""Parameters that the next command has otherwise, or that stand before its name too."""


def repeat_command(context: click.Context, *arguments: str) -> str:
    """Write the command with its options as they were given, and other arguments."""
    words = [
        *_place_options(context),
        context.info_name or "",
        *arguments,
        *_given_options(context),
    ]
    return shlex.join(["ctxtop", *words])


def _place_options(context: click.Context) -> Iterator[str]:
    options = options_of(context)
    if options.config_dir is not None:
        yield from ("--config-dir", str(options.config_dir))
    if options.db is not None:
        yield from ("--db", str(options.db))


def _given_options(context: click.Context) -> Iterator[str]:
    for parameter in context.command.params:
        name = parameter.name or ""
        given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if given and name in context.params and name not in _NOT_REPEATED:
            value = context.params[name]
            for each in value if isinstance(value, tuple) else (value,):
                yield from (parameter.opts[0], str(each))
    for key, value in options_of(context).policy:
        yield from ("--set", f"{key}={value}")


def print_result(context: click.Context, record: object, lines: Callable[[], list[str]]) -> int:
    """Print a record as JSON where that was asked for, else the lines."""
    if options_of(context).as_json:
        print(json_records.dump_json(record, output_encoding()))
    else:
        print_lines(lines(), ascii_only=wants_ascii(options_of(context)))
    return DONE


def print_result_parts(
    context: click.Context, parts: Iterable[list[Record]], lines: Callable[[], list[str]]
) -> int:
    """Print the records of all parts as one JSON list where that was asked for, else the lines.

    Only one part at a time is held, and what was printed is the same as from `print_result`.
    """
    if not options_of(context).as_json:
        print_lines(lines(), ascii_only=wants_ascii(options_of(context)))
        return DONE
    before = "["
    for part in parts:
        if part:
            inner = (
                json_records.dump_json(part, output_encoding())
                .removeprefix("[")
                .removesuffix("\n]")
            )
            sys.stdout.write(f"{before}{inner}")
            before = ","
    print("[]" if before == "[" else "\n]")
    return DONE
