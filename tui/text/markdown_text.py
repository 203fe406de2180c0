"""Markdown as lines of text: no link can be followed, and no markup but Markdown's is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len
from textual.content import Content

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
        """Align the cells, or show the source if that would not fit."""
        self._begin_block()
        first, last = opening.map or (0, 0)
        rows = list(_table_rows(tokens))
        widths = [max(map(cell_len, column)) for column in zip(*rows, strict=False)]
        if not rows or sum(widths) + len(COLUMN_GAP) * (len(widths) - 1) > self._room:
            self._write_code("\n".join(self._source[first:last]))
            return
        for number, row in enumerate(rows):
            line = COLUMN_GAP.join(map(fit_left, row, widths))
            self._emit(Content.styled(line, "$foreground" if number else "bold $foreground"))


_TABLE_END: Final = "table_close"


def _table_rows(tokens: Sequence[Token]) -> Iterator[list[str]]:
    row: list[str] = []
    for token in tokens:
        if token.type == "inline":
            row.append(inline_content(token, "").plain)
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
