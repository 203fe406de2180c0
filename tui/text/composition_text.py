"""What fills a context: read for a pane, and in words that pages and commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...core.measure.context_parts import CompositionSource
from .formats import tokens

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

    from ...core.measure.composition import CategoryShare, Composition
    from ...core.model.problem import Problem


def read_context_composition(
    db: sqlite3.Connection, projects: Path, session_id: str
) -> Composition | Problem:
    """Break down a session's context into categories; reads the transcript."""
    from ...collectors.claude_code.transcript_details import (
        TranscriptUnavailableError,
        read_composition,
    )
    from ...core.model.problem import Problem

    try:
        return read_composition(db, projects, session_id)
    except TranscriptUnavailableError as error:
        return Problem(session_id, str(error), "")


MIN_SHARE: Final = 0.01
"""Of the whole: a smaller part of a category gets no line; `--json` has all."""

MAX_PARTS: Final = 5
"""Lines below a category."""

SHARE_CELLS: Final = 24
"""A share's bar: a cell is four of a hundred."""


def composition_total_text(found: Composition) -> str:
    """Format the total tokens, whether they were measured, and the breakdown's source."""
    sure = "estimated: nothing was measured yet" if found.estimated else "measured"
    how = (
        "as its requests were sent"
        if found.source is CompositionSource.REQUESTS
        else "by its transcript"
    )
    later = f", then ≈{tokens(found.later_tokens)} more" if found.later_tokens else ""
    sign = "≈" if found.estimated else ""
    cut = ""
    if found.read_bytes is not None:
        cut = f"; of the large transcript only the last {found.read_bytes / 1e6:,.0f} MB were read"
    return f"{sign}{tokens(found.total_tokens)} tokens in context ({sure}), {how}{later}{cut}"


def largest_parts(share: CategoryShare) -> list[CategoryShare]:
    """Choose the parts of a category that are worth a line."""
    return [part for part in share.parts if part.share >= MIN_SHARE][:MAX_PARTS]


def share_tokens_text(share: CategoryShare) -> str:
    """Write its tokens, with ≈ before an estimate."""
    return f"{'≈' if share.estimated else ''}{tokens(share.tokens)}"
