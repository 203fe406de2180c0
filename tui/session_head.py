"""The first line of a session's page: how full it is, or was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace
from rich.cells import cell_len
from textual.content import Content

from ..core.context import ContextState
from .about_rows import status_words
from .formats import model, one_line, percent, tokens, turns_left
from .gauge import fill, gauge

if TYPE_CHECKING:
    from ..core.sessions import Session
    from ..core.timeline import Turn

SHORTEST: Final = 20
"""Cells of the bar."""

WORDS: Final = 56
"""Cells beside it, about."""

LONGEST: Final = 60

BETWEEN: Final = "  ·  "


def session_head(session: Session, past: Turn | None, width: int) -> Content:
    """Draw the gauge as it is, or as it was at a turn, and say what lies ahead."""
    context = session.context
    if past is not None:
        context = replace(context, tokens=past.tokens, state=ContextState.MEASURED)
    cells = min(LONGEST, max(SHORTEST, width - WORDS))
    drawn = Content.assemble(" ", gauge(context, cells))
    if drawn.cell_length + 2 + cell_len(fill(context)) <= width:
        drawn = Content.assemble(drawn, "  ", (fill(context), "bold"))
    for said in _past(session) if past is not None else _now(session):
        if drawn.cell_length + len(BETWEEN) + cell_len(said) <= width:
            drawn = Content.assemble(drawn, (BETWEEN, "$bar-mark"), (said, "$quiet"))
    return drawn


def _past(session: Session) -> list[str]:
    return [f"as it was; now {percent(session.context.ratio)}", "end goes to now"]


def _now(session: Session) -> list[str]:
    end, trigger = session.outlook.end, session.context.trigger
    said = []
    if end:
        where = "compaction" if trigger and trigger.tokens else "the end"
        said.append(f"{turns_left(end)} turns to {where}")
    elif trigger and trigger.tokens:
        said.append(f"compacts at {tokens(trigger.tokens)}")
    return [*said, one_line(status_words(session)), one_line(model(session.model))]
