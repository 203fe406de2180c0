"""What is said of a context that is taken apart; the dashboard and the tables share it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..core.material import Source
from .formats import tokens

if TYPE_CHECKING:
    from ..core.composition import Composition, Share

SMALLEST_SHARE: Final = 0.01
"""Of the whole: a smaller part of a category gets no line; `--json` has all."""

SHOWN_PARTS: Final = 5
"""Lines below a category."""

SHARE_CELLS: Final = 24
"""A share's bar: a cell is four of a hundred."""


def in_all(found: Composition) -> str:
    """Say how much there is in all, and how it was taken apart."""
    sure = "estimated: nothing was measured yet" if found.estimated else "measured"
    how = "as its requests were sent" if found.source is Source.REQUESTS else "by its transcript"
    later = f", then ≈{tokens(found.later_tokens)} more" if found.later_tokens else ""
    sign = "≈" if found.estimated else ""
    cut = ""
    if found.read_bytes is not None:
        cut = f"; of the large transcript only the last {found.read_bytes / 1e6:,.0f} MB were read"
    return f"{sign}{tokens(found.total_tokens)} tokens in context ({sure}), {how}{later}{cut}"


def shown_parts(share: Share) -> list[Share]:
    """Choose the parts of a category that are worth a line."""
    return [part for part in share.parts if part.share >= SMALLEST_SHARE][:SHOWN_PARTS]


def share_tokens(share: Share) -> str:
    """Write its tokens, with ≈ before an estimate."""
    return f"{'≈' if share.estimated else ''}{tokens(share.tokens)}"
