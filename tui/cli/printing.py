"""Prints what commands return: tables, colors where a terminal shows them, JSON."""

import os
import shlex
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

import click
from click.core import ParameterSource

from ...core.store.bulkhead import NOT_SHOWN, place_of, work_apart
from ...core.transcript.sanitize import MAX_TEXT_CHARS, has_usual_signs, one_line, sanitize_text
from ..base.command_errors import DONE, print_error
from ..base.output import output_encoding, wants_colors
from ..text.ascii_signs import to_ascii
from ..text.formats import fit_left, fit_right, shorten_middle, text_cells
from ..text.tables import Cell, Column, Item, TextColumn, fitting_columns, total_cells
from .command_options import options_of
from .json_records import Record, dump_json

COLUMN_GAP: Final = "  "
MIN_TEXT_CELLS: Final = 16  # cells of a text that may be cut; below that other columns leave first
MAX_WHOLE_CELLS: Final = 48
"""Cells of a text that is not to be cut: a model's whole name has 30, a checked format's fault
45. Only a field that no client writes is longer, and the rows of others stay as they are."""

PIPE_WIDTH: Final = 160  # columns where no terminal says how many it has
ANSI_COLORS: Final = {
    "notice": "36",
    "warning": "33",
    "high": "33;1",
    "emergency": "31",
    "overflow": "31;1",
    "quiet": "2",
    "ok": "32",
    "bad": "31",
    "bold": "1",
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
    drawn = [
        _fitted_cells(column, cells, len(items) + 1)
        for column, cells in zip(shown, widths, strict=True)
    ]
    return [COLUMN_GAP.join(line).rstrip() for line in zip(*drawn, strict=True)]


def terminal_width() -> int:
    """Return its columns as `shutil` does, which takes as long to load as half of our tables."""
    with suppress(ValueError):
        if (chosen := int(os.environ.get("COLUMNS", ""))) > 0:
            return chosen
    with suppress(ValueError, OSError):  # it is closed, or no terminal
        if sys.__stdout__ and (columns := os.get_terminal_size(sys.__stdout__.fileno()).columns):
            return columns
    return 80 if sys.stdout.isatty() else PIPE_WIDTH


def paint(text: str, color: str) -> str:
    """Color a text where the output is a terminal that wants colors."""
    return f"\x1b[{ANSI_COLORS[color]}m{text}\x1b[0m" if color and wants_colors() else text


def print_lines(lines: Iterable[str], *, ascii_only: bool = False) -> None:
    """Print lines, in ASCII on request or where the output is not UTF-8."""
    encoding = output_encoding()
    shown = [to_ascii(line) if ascii_only or encoding != "utf-8" else line for line in lines]
    if shown:
        # At once: an unbuffered output would take a system call for each line.
        text = "\n".join(shown)
        print(text if encoding == "utf-8" else text.encode(encoding, "replace").decode(encoding))


def _measured_column(column: TextColumn[Item], items: Sequence[Item]) -> Column[int, Cell]:
    """Draw a column's cells once; the result's values are by line, and line 0 is the header."""
    cells = [Cell(column.header.upper(), "quiet")]
    cells += work_apart(
        items,
        lambda some: _clean_cells([column.value(item) for item in some]),
        lambda item: f"the column {column.header} of {place_of(item)}",
        NOT_SHOWN,
        None,
        lambda *_: Cell(NOT_SHOWN, "bad"),
    )
    width = _plain_cells(cells)
    if not column.flexible and (width is None or width > MAX_WHOLE_CELLS):
        cells = [Cell(shorten_middle(cell.text, MAX_WHOLE_CELLS), cell.style) for cell in cells]
        width = None
    return Column(
        column.header,
        cells.__getitem__,
        right=column.right,
        flexible=column.flexible,
        priority=column.priority,
        cells=max(text_cells(cell.text) for cell in cells) if width is None else width,
    )


def _plain_cells(cells: Sequence[Cell]) -> int | None:
    """Return the width of cells of usual signs, which need no look at each; None for others."""
    texts = [cell.text for cell in cells]
    return max(map(len, texts)) if has_usual_signs("".join(texts)) else None


def _clean_cells(cells: Sequence[Cell | str]) -> list[Cell]:
    """Sanitize cells; a text becomes one line, and a drawn cell keeps its spaces."""
    texts = [cell if isinstance(cell, str) else cell.text for cell in cells]
    is_long = max(map(len, texts), default=0) > MAX_TEXT_CHARS
    if not is_long and has_usual_signs("".join(texts)):
        return [Cell(" ".join(cell.split())) if isinstance(cell, str) else cell for cell in cells]
    return [
        Cell(one_line(cell))
        if isinstance(cell, str)
        else Cell(sanitize_text(cell.text).translate(_LINE_BREAKS), cell.style)
        for cell in cells
    ]


def _min_cells(columns: Sequence[Column[int, Cell]]) -> int:
    least = (min(each.cells, MIN_TEXT_CELLS) if each.flexible else each.cells for each in columns)
    return sum(least) + len(COLUMN_GAP) * (len(columns) - 1)


def _shrunk_widths(columns: Sequence[Column[int, Cell]], width: int) -> list[int]:
    widths = [column.cells for column in columns]
    flexible = [place for place, column in enumerate(columns) if column.flexible]
    for _ in range(total_cells(columns, len(COLUMN_GAP)) - width):
        # The longest text is cut first: a short project name stays whole beside a long title.
        longest = max(flexible, key=widths.__getitem__, default=None)
        if longest is None or widths[longest] <= MIN_TEXT_CELLS:
            break
        widths[longest] -= 1
    return widths


def _fitted_cells(column: Column[int, Cell], width: int, lines: int) -> list[str]:
    cells = [column.value(line) for line in range(lines)]
    fit: Callable[[str, int], str] = fit_right if column.right else fit_left
    if column.cells <= width and _plain_cells(cells) is not None:
        fit = str.rjust if column.right else str.ljust
    return [paint(fit(cell.text, width), cell.style) for cell in cells]


LABEL_CELLS: Final = 10


def labeled_lines(label: str, text: str) -> list[str]:
    first, *rest = textwrap.wrap(
        one_line(text),
        max(terminal_width(), LABEL_CELLS * 3) - LABEL_CELLS,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [""]
    return [label_beside(label, first), *(label_beside("", line) for line in rest)]


def label_beside(label: str, drawn: str) -> str:
    """Put a text beside its label without wrapping it."""
    return f"{paint(label, 'quiet') if label else ''}{' ' * (LABEL_CELLS - len(label))}{drawn}"


def session_id_cell(session_id: str, short_ids: Mapping[str, str]) -> Cell:
    """Write an id as `ctxtop sessions` does; that of a session without a file stays whole."""
    return Cell(short_ids.get(session_id, session_id), "quiet")


_NOT_REPEATED: Final = frozenset(
    {"explain", "is_applied", "in_place", "as_json", "no_scan", "session", "config_dir", "db"}
)
"""Parameters that the next command sets itself, or that also come before its name."""


def repeat_command(context: click.Context, *arguments: str) -> str:
    """Write the command with its options as they were given, and other arguments."""
    options, words = options_of(context), ["ctxtop"]
    if options.config_dir is not None:
        words += ["--config-dir", str(options.config_dir)]
    if options.db is not None:
        words += ["--db", str(options.db)]
    words += [context.info_name or "", *arguments]
    for parameter in context.command.params:
        name = parameter.name or ""
        is_given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if is_given and name in context.params and name not in _NOT_REPEATED:
            value = context.params[name]
            for each in value if isinstance(value, tuple) else (value,):
                words += [parameter.opts[0], str(each)]
    for key, value in options.policy:
        words += ["--set", f"{key}={value}"]
    return shlex.join(words)


def print_result(
    context: click.Context,
    record: object | Callable[[], object],
    lines: Callable[[], list[str]],
    empty: str = "",
) -> int:
    """Print a record as JSON with --json, else the lines, or `empty` instead of none.

    A record that takes long to make may be a function, like the lines.
    """
    options = options_of(context)
    if options.as_json:
        print(dump_json(record() if callable(record) else record, output_encoding()))
    else:
        print_lines(lines() or ([empty] if empty else []), ascii_only=options.ascii_only)
    return DONE


def confirm(
    context: click.Context, question: str, *, refused: str, hint: str, preface: str = ""
) -> bool:
    """Ask the user; prints `refused` after a no, and with the hint if nobody can be asked."""
    if options_of(context).as_json or not is_interactive():
        print_error(f"{refused}: {hint}")
        return False
    if preface:
        print_error(preface)
    if click.confirm(question, err=True):
        return True
    print_error(refused)
    return False


def is_interactive() -> bool:
    """Whether somebody sees a question and can answer it."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def print_result_parts(
    context: click.Context,
    parts: Iterable[list[Record]],
    lines: Callable[[], list[str]],
    empty: str,
) -> int:
    """Print the same as `print_result`, with the records of one part at a time in memory."""
    if not options_of(context).as_json:
        return print_result(context, None, lines, empty)
    before = "["
    for part in parts:
        if part:
            text = dump_json(part, output_encoding()).removeprefix("[").removesuffix("\n]")
            sys.stdout.write(f"{before}{text}")
            before = ","
    print("[]" if before == "[" else "\n]")
    return DONE
