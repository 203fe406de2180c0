"""The operations of a receipt as rows: what was done, and what of it is taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.content import Content

from .formats import fit, fit_right
from .plan_words import LEVELS

if TYPE_CHECKING:
    from ..core.compaction.plan import Operation

_STATE: Final = 8
_LINE: Final = 7
_TOKENS: Final = 9
_LEVEL: Final = 11
_WIDE: Final = 96


def head_line(width: int) -> Content:
    """Write the line above the rows."""
    return Content.styled(_laid_out("", "line", "level", "what", "tokens", width), "$quiet")


def operation_line(
    operation: Operation, width: int, *, is_undone: bool, is_marked: bool
) -> Content:
    """Write a row; what is undone says so."""
    state = "undone" if is_undone else ("▸ undo" if is_marked else "✓")
    line = "" if operation.line is None else f"{operation.line:,}"
    freed = f"{operation.tokens_saved:,}" if operation.tokens_saved else "–"
    said = _laid_out(state, line, LEVELS[operation.level], operation.what, freed, width)
    style = "$quiet" if is_undone else ("bold $accent" if is_marked else "$foreground")
    return Content.styled(said, style)


def _laid_out(state: str, line: str, level: str, what: str, freed: str, width: int) -> str:
    head = f"{fit(state, _STATE)} {fit_right(line, _LINE)} "
    if width >= _WIDE:
        head += f"{fit(level, _LEVEL)} "
    room = max(0, width - len(head) - _TOKENS - 1)
    return f"{head}{fit(what, room)} {fit_right(freed, _TOKENS)}"
