"""What fills a context, as a text to read: its categories, then its largest items."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.content import Content

from .composition_words import SHARE_CELLS, in_all, share_tokens, shown_parts
from .formats import bar, fit, fit_right, middle, percent, tokens

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..core.composition import Composition, Item, Share

SHOWN_ITEMS: Final = 10
"""Of the largest; `ctxtop context` has more."""

_NAME_CELLS: Final = 26
_PERCENT_CELLS: Final = 6
_TOKEN_CELLS: Final = 8
_LINE_CELLS: Final = 10


def composition_report(found: Composition, width: int) -> Content:
    """Write the report; an item's name is shortened to lines of `width` cells."""
    lines = [Content.styled(f"  {in_all(found)}", "$quiet"), *_shares(found)]
    if found.largest:
        lines += [Content(""), Content.styled("  the largest", "$quiet")]
        lines += [_item(item, width) for item in found.largest[:SHOWN_ITEMS]]
    return Content("\n").join(lines)


def _shares(found: Composition) -> Iterator[Content]:
    for share in found.categories:
        yield _share(share, f"  {share.name}", "$foreground", "$accent")
        for part in shown_parts(share):
            yield _share(part, f"    {part.name}", "$quiet", "$bar-mark")


def _share(share: Share, name: str, style: str, bar_style: str) -> Content:
    drawn = bar(share.share, SHARE_CELLS)
    return Content.assemble(
        (fit(name, _NAME_CELLS), style),
        (drawn, bar_style),
        ("▁" * (SHARE_CELLS - len(drawn)), "$bar-track"),
        (fit_right(percent(share.share), _PERCENT_CELLS), style),
        (fit_right(share_tokens(share), _TOKEN_CELLS), style),
    )


def _item(item: Item, width: int) -> Content:
    size = fit_right(f"≈{tokens(item.tokens)}", _TOKEN_CELLS)
    line = fit("" if item.line is None else f"line {item.line}", _LINE_CELLS)
    overtaken = f"  {item.superseded}" if item.superseded else ""
    room = max(1, width - len(size) - len(line) - len(overtaken) - 2)
    return Content.assemble(
        (f"{size}  {line}", "$quiet"),
        middle(item.what, room),
        (overtaken, "$level-notice"),
    )
