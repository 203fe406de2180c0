"""What fills a context, in the lines of a pane: its categories as bars, then the largest items."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.content import Content

from .composition_words import SMALLEST_SHARE, in_all, share_tokens
from .formats import fit, fit_right, percent, tokens
from .gauge import EIGHTHS, FULL
from .session_words import fitting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..core.composition import Composition, ContextItem, Share

NAME_CELLS: Final = 18
PERCENT_CELLS: Final = 5
TOKEN_CELLS: Final = 8
SHORTEST_BAR: Final = 4
SHOWN_ITEMS: Final = 20
"""Of the largest; the session's page has more."""


def fill_lines(found: Composition, width: int) -> Iterator[Content]:
    """Write the lines, each `width` cells long."""
    short = f"{tokens(found.total_tokens)} tokens in context"
    yield Content.styled(fit(fitting((in_all(found), short), width), width), "$quiet")
    for share in found.categories:
        if share.share >= SMALLEST_SHARE:
            yield _share(share, width)
    for item in found.largest[:SHOWN_ITEMS]:
        yield _item(item, width)


def _share(share: Share, width: int) -> Content:
    room = width - NAME_CELLS - PERCENT_CELLS - TOKEN_CELLS - 1
    bar = max(room, 0) if room >= SHORTEST_BAR else 0
    name = max(0, width - bar - PERCENT_CELLS - TOKEN_CELLS - 1)
    return Content.assemble(
        (fit(share.name, name), "$foreground"),
        " ",
        (fit(_bar(share.share, bar), bar), "$accent"),
        (fit_right(percent(share.share), PERCENT_CELLS), "$foreground"),
        (fit_right(share_tokens(share), TOKEN_CELLS), "$quiet"),
    )


def _bar(share: float, cells: int) -> str:
    eighths = round(min(max(share, 0.0), 1.0) * cells * 8)
    full, rest = divmod(max(eighths, 1) if share > 0 and cells else eighths, 8)
    return FULL * full + (EIGHTHS[rest] if rest else "")


def _item(item: ContextItem, width: int) -> Content:
    size = fit_right(f"≈{tokens(item.tokens)}", TOKEN_CELLS)
    overtaken = f" {item.superseded}" if item.superseded else ""
    room = max(0, width - len(size) - 2)
    said = min(len(overtaken), room // 2)
    return Content.assemble(
        (f"  {fit(item.name, room - said)}", "$foreground"),
        (fit(overtaken, said), "$level-notice"),
        (size, "$quiet"),
    )
