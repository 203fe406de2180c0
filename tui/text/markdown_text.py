"""Markdown as lines of text: no link can be followed, and no markup but Markdown's is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len
from textual.content import Content

from .cycle_enum import CycleEnum
from .formats import fit_left
from .text_lines import MIN_WRAP_CELLS, expand_tabs, wrap_spans

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_INLINE_STYLES: Final = {"strong": "bold", "em": "italic", "s": "strike", "link": "underline"}
CODE_STYLE: Final = "$foreground on $panel"
INLINE_CODE_STYLE: Final = "$accent"
HEADING_STYLE: Final = "bold $accent"
BULLET: Final = "• "
QUOTE_PREFIX: Final = "▎ "
COLUMN_GAP: Final = " │ "
MIN_COLUMN_CELLS: Final = 6  # of a table's column; with more columns the source is clearer


class TextForm(CycleEnum):
    """How a text is shown that is written in Markdown; a key goes from one to the other."""

    RENDERED = "as Markdown"
    WRITTEN = "as written"


def markdown_lines(text: str, width: int) -> tuple[Content, ...]:
    """Render a sanitized text; HTML in it is shown as it is written."""
    source = expand_tabs(text)
    writer = _MarkdownWriter(source.split("\n"), max(MIN_WRAP_CELLS, width))
    writer.write(_parser().parse(source))
    return tuple(writer.lines)


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt  # Textual needs it too, but not before the first paint

    parser = MarkdownIt("commonmark", {"html": False})
    return parser.disable(["html_block", "html_inline"]).enable(["table", "strikethrough"])


class _MarkdownWriter:
    """Writes tokens as lines; quotes and lists indent what they contain."""

    def __init__(self, source: Sequence[str], width: int) -> None:
        self.lines: Final[list[Content]] = []
        self._source: Final = source
        self._width: Final = width
        self._indents: Final[list[str]] = []
        self._marker = ""  # of a list item whose first line is still to come
        self._numbers: Final[list[int | None]] = []  # of each open list; None for bullets
        self._is_fresh = True  # nothing is written yet in what was opened last

    def write(self, tokens: Sequence[Token]) -> None:
        place = 0
        while place < len(tokens):
            token = tokens[place]
            if token.type == "table_open":
                end = next(n for n in range(place, len(tokens)) if tokens[n].type == _TABLE_END)
                self._write_table(tokens[place:end], token)
                place = end
            else:
                self._write_token(token)
            place += 1

    def _write_token(self, token: Token) -> None:
        kind = token.type
        if kind in {"bullet_list_open", "ordered_list_open"}:
            self._begin_block()
            start = token.attrs.get("start", 1) if kind == "ordered_list_open" else None
            self._numbers.append(None if start is None else int(start))
        elif kind in {"bullet_list_close", "ordered_list_close"}:
            self._numbers.pop()
        elif kind == "list_item_open":
            self._open_item()
        elif kind in {"list_item_close", "blockquote_close"}:
            self._indents.pop()
            self._marker = ""
        elif kind == "blockquote_open":
            self._begin_block()
            self._indents.append(QUOTE_PREFIX)
            self._is_fresh = True
        elif kind in {"fence", "code_block"}:
            self._begin_block()
            self._write_code(token.content.removesuffix("\n"))
        elif kind == "hr":
            self._begin_block()
            self._emit(Content.styled("─" * self._room, "$quiet"))
        elif kind == "paragraph_open":
            if not token.hidden:
                self._begin_block()
        elif kind == "heading_open":
            self._begin_block()
        elif kind == "inline":
            self._write_inline(token)

    def _open_item(self) -> None:
        number = self._numbers[-1]
        marker = BULLET
        if number is not None:
            marker = f"{number}. "
            self._numbers[-1] = number + 1
        self._marker = marker
        self._indents.append(" " * len(marker))

    @property
    def _room(self) -> int:
        return max(MIN_WRAP_CELLS, self._width - sum(map(cell_len, self._indents)))

    def _begin_block(self) -> None:
        """Leave a line free before a block, except at the start of a list or an item."""
        if not (self._is_fresh or self._marker or self._numbers):
            self._emit(Content(""))

    def _emit(self, line: Content) -> None:
        self._is_fresh = False
        indent = "".join(self._indents)
        if self._marker:
            indent = indent[: len(indent) - len(self._marker)] + self._marker
            self._marker = ""
        self.lines.append(Content.assemble((indent, "$quiet"), line) if indent else line)

    def _write_inline(self, token: Token) -> None:
        style = HEADING_STYLE if token.level == 1 and self._is_heading(token) else "$foreground"
        for line in inline_content(token, style).wrap(self._room):
            self._emit(line)

    def _is_heading(self, token: Token) -> bool:
        first = token.map[0] if token.map else 0
        line = self._source[first].lstrip()
        under = self._source[first + 1] if first + 1 < len(self._source) else ""
        is_underlined = bool(under.strip()) and not under.strip().strip("=-")
        return line.startswith("#") or is_underlined

    def _write_code(self, code: str) -> None:
        room = self._room
        lines = [code[start:end] for start, end in wrap_spans(code, room - 2)]
        cells = min(room, 2 + max(map(cell_len, lines)))
        for line in lines:
            self._emit(Content.styled(f" {fit_left(line, cells - 1)}", CODE_STYLE))

    def _write_table(self, tokens: Sequence[Token], opening: Token) -> None:
        """Align the cells, or show the source if it has too many columns to fit."""
        self._begin_block()
        first, last = opening.map or (0, 0)
        rows = list(_table_rows(tokens))
        natural = [max(each.cell_length for each in column) for column in zip(*rows, strict=False)]
        room = self._room - len(COLUMN_GAP) * (len(natural) - 1)
        if room < MIN_COLUMN_CELLS * len(natural):
            self._write_code("\n".join(self._source[first:last]))
            return
        widths = column_widths(natural, room)
        for row in rows:
            for line in _table_lines(row, widths):
                self._emit(line)


_TABLE_END: Final = "table_close"


def column_widths(natural: Sequence[int], room: int) -> list[int]:
    """Divide `room` among columns: narrow ones keep their width, wide ones share the rest."""
    widths, left = [0] * len(natural), room
    by_width = sorted(range(len(natural)), key=natural.__getitem__)
    for number, place in enumerate(by_width):
        widths[place] = min(natural[place], left // (len(natural) - number))
        left -= widths[place]
    return widths


def _table_lines(row: Sequence[Content], widths: Sequence[int]) -> Iterator[Content]:
    wrapped = [cell.wrap(max(1, width)) for cell, width in zip(row, widths, strict=False)]
    gap = Content.styled(COLUMN_GAP, "$pane")
    for parts in zip_longest(*wrapped, fillvalue=Content("")):
        cells = (
            part.pad_right(max(0, width - part.cell_length))
            for part, width in zip(parts, widths, strict=False)
        )
        yield gap.join(cells)


def _table_rows(tokens: Sequence[Token]) -> Iterator[list[Content]]:
    row: list[Content] = []
    style = "$foreground"
    for token in tokens:
        if token.type == "th_open":
            style = "bold $foreground"
        elif token.type == "td_open":
            style = "$foreground"
        elif token.type == "inline":
            row.append(inline_content(token, style))
        elif token.type == "tr_close":
            yield row
            row = []


def inline_content(token: Token, style: str) -> Content:
    """Draw the text of a block; the address of a link follows its text."""
    pieces: list[tuple[str, str]] = []
    styles = [style] if style else []
    links: list[tuple[str, int]] = []
    for child in token.children or ():
        name, _, edge = child.type.rpartition("_")
        if edge == "open":
            styles.append(_INLINE_STYLES.get(name, ""))
            links += [(str(child.attrs.get("href", "")), len(pieces))] if name == "link" else []
        elif edge == "close":
            styles.pop()
            if name == "link" and links:
                pieces += _link_address(*links.pop(), pieces)
        elif child.type in {"softbreak", "hardbreak"}:
            pieces.append(("\n", ""))
        elif child.type == "code_inline":
            pieces.append((child.content, " ".join([*styles, INLINE_CODE_STYLE])))
        elif child.type == "image":
            address = str(child.attrs.get("src", ""))
            pieces.append((f"[image: {child.content}] ({address})", "$quiet"))
        else:
            pieces.append((child.content, " ".join(filter(None, styles))))
    return Content.assemble(*pieces)


def _link_address(
    address: str, start: int, pieces: Sequence[tuple[str, str]]
) -> list[tuple[str, str]]:
    text = "".join(piece for piece, _ in pieces[start:])
    return [] if address in {text, f"mailto:{text}"} else [(f" ({address})", "$quiet")]
