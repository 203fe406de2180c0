"""An operation's text and what stands in its place, to be read beside each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.content import Content

from .formats import one_line
from .operation_changes import shortened

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..core.compaction.plan import Operation
    from .operation_changes import Change

EDITS: Final = 10
"""Changes of one operation that are shown; a way back removes hundreds of lines."""

SHORT: Final = 3
"""Lines of a text beside the list."""

LONG: Final = 400
"""Lines of a text that is read whole."""

_HEADS: Final = {"replace": "changed", "remove": "removed", "append": "added"}


def change_lines(operation: Operation, found: Sequence[Change], width: int, lines: int) -> Content:
    """Show what an operation changes; of each text so many lines."""
    parts = [
        Content.styled(one_line(operation.what), "bold $foreground"),
        Content.styled(
            f"{operation.strategy}, level {int(operation.level)}: {one_line(operation.why)}"
            f" · frees {operation.tokens_saved:,} tokens, {operation.bytes_saved:,} bytes",
            "$quiet",
        ),
    ]
    for each in found[:EDITS]:
        parts += _change(each, width, lines)
    count = len(operation.edits)
    left = count - min(len(found), EDITS)
    if left > 0:
        parts.append(Content.styled(f"… {left:,} more changes of this kind", "$quiet"))
    return Content("\n").join(parts)


def _change(change: Change, width: int, lines: int) -> Iterator[Content]:
    where = "at the end" if change.line is None else f"line {change.line:,}"
    place = f"{where} {change.pointer}" if change.pointer else where
    yield Content.styled(f"{_HEADS[change.do]} {one_line(place)}", "$accent")
    if change.before is not None:
        yield from _text("-", change.before, "$level-high", width, lines)
    if change.after is not None:
        yield from _text("+", change.after, "$level-calm", width, lines)


def _text(sign: str, text: str, style: str, width: int, lines: int) -> Iterator[Content]:
    for each in shortened(text, lines, width - 4):
        yield Content.styled(f"  {sign} {each}".rstrip(), style)
