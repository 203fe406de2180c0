"""What fills a context, as rows: its categories, then its largest items."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from textual.content import Content

from .category_words import MEANINGS
from .composition_words import in_all, share_tokens, shown_parts
from .formats import bar, fit, fit_right, middle, one_line, percent, tokens
from .sections import Listing, heading, lines, quiet
from .widgets.row_list import Row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..core.composition import Composition, ContextItem, Share

NAME_CELLS: Final = 26
PERCENT_CELLS: Final = 6
TOKEN_CELLS: Final = 9
LONGEST_BAR: Final = 100
SHORTEST_BAR: Final = 8
ITEM_BAR: Final = 8
KIND_CELLS: Final = 14
LINE_CELLS: Final = 11
WIDE: Final = 76
"""Cells from which an item's category stands beside it."""

OF_ONE: Final = 12
"""The largest items of a category that are named beside it."""

OVERTAKEN: Final = "✂"
"""Something later says the same: it can go without loss."""


def fills_listing(found: Composition, width: int) -> Listing:
    """List the categories, each with its larger parts."""
    rows = []
    for share in found.categories:
        rows.append(Row(share.name, _share(share, share.name, "$foreground", "$accent", width)))
        for part in shown_parts(share):
            drawn = _share(part, f"  {part.name}", "$quiet", "$bar-mark", width)
            rows.append(Row(f"{share.name}\n{part.name}", drawn))
    return Listing(tuple(rows), quiet(middle(in_all(found), width)), "nothing is in context yet")


def category_of(key: str) -> str:
    """Name the category that a row is of."""
    return key.partition("\n")[0]


def fills_detail(found: Composition, key: str, width: int) -> Content:
    """Say what a category is, and what of it is largest."""
    name = category_of(key)
    share = next((each for each in found.categories if each.name == name), None)
    if share is None:
        return Content("")
    largest = [item for item in found.largest if item.kind == name][:OF_ONE]
    parts = [
        heading(name),
        Content(f"{share_tokens(share)} tokens, {percent(share.share)} of the context"),
        quiet(MEANINGS.get(name, "")),
    ]
    if largest:
        parts += [
            Content(""),
            heading("The largest of it"),
            *(_short(item, width) for item in largest),
        ]
        overtaken = [item for item in found.largest if item.kind == name and item.superseded]
        if overtaken:
            size = tokens(sum(item.tokens for item in overtaken))
            parts += [
                Content(""),
                quiet(f"{OVERTAKEN} {len(overtaken)} overtaken by something later: ≈{size} tokens"),
            ]
    return lines(*parts)


def items_listing(found: Composition, width: int) -> Listing:
    """List the largest items by name."""
    rows = tuple(
        Row(key, _item(item, found.largest[0].tokens, width)) for key, item in _keyed(found)
    )
    size = tokens(sum(item.tokens for item in found.largest if item.superseded))
    overtaken = sum(1 for item in found.largest if item.superseded)
    words = f"the {len(rows)} largest"
    if overtaken:
        words += f"; {OVERTAKEN} {overtaken} overtaken by something later: ≈{size} tokens"
    return Listing(rows, quiet(middle(words, width)), "nothing is in context yet")


def item_of(found: Composition, key: str) -> ContextItem | None:
    """Find the item that a row is of."""
    return next((item for known, item in _keyed(found) if known == key), None)


def first_item_of(found: Composition, category: str) -> str | None:
    """Name the row of a category's largest item; None where none is among the largest."""
    return next((key for key, item in _keyed(found) if item.kind == category), None)


def _keyed(found: Composition) -> Iterator[tuple[str, ContextItem]]:
    """Give each item a name that it keeps when others come; some have the same words."""
    met: Counter[str] = Counter()
    for item in found.largest:
        name = f"{item.line} {item.name}"
        yield f"{name} {met[name]}", item
        met[name] += 1


def item_detail(item: ContextItem, text: str) -> Content:
    """Say what an item is, and how it begins; `text` is empty while that is looked up."""
    where = "stands in no line of the transcript" if item.line is None else f"line {item.line}"
    parts = [
        heading(one_line(item.name)),
        Content(f"≈{tokens(item.tokens)} tokens · {item.kind} · {where}"),
    ]
    if item.superseded:
        parts.append(Content.styled(f"{OVERTAKEN} {one_line(item.superseded)}", "$level-notice"))
    return lines(*parts, Content(""), Content(text))


def _share(share: Share, name: str, style: str, bar_style: str, width: int) -> Content:
    names = min(NAME_CELLS, max(12, width - SHORTEST_BAR - PERCENT_CELLS - TOKEN_CELLS - 1))
    room = min(LONGEST_BAR, max(1, width - names - PERCENT_CELLS - TOKEN_CELLS - 1))
    drawn = bar(share.share, room)
    return Content.assemble(
        (fit(name, names - 1), style),
        " ",
        (drawn, bar_style),
        ("▁" * (room - len(drawn)), "$bar-track"),
        (fit_right(percent(share.share), PERCENT_CELLS), style),
        (fit_right(share_tokens(share), TOKEN_CELLS), style),
    )


def _item(item: ContextItem, largest: int, width: int) -> Content:
    size = fit_right(f"≈{tokens(item.tokens)}", TOKEN_CELLS - 1)
    drawn = bar(item.tokens / largest if largest else 0.0, ITEM_BAR)
    kind = f" {fit(item.kind, KIND_CELLS)}" if width >= WIDE else ""
    line = fit_right("" if item.line is None else f"line {item.line}", LINE_CELLS)
    sign = f"{OVERTAKEN} " if item.superseded else "  "
    room = max(1, width - len(size) - ITEM_BAR - len(kind) - len(line) - 4)
    return Content.assemble(
        (size, "$foreground"),
        " ",
        (drawn, "$accent"),
        ("▁" * (ITEM_BAR - len(drawn)), "$bar-track"),
        (kind, "$quiet"),
        " ",
        (sign, "$level-notice"),
        (fit(item.name, room), "$quiet" if item.superseded else "$foreground"),
        (line, "$quiet"),
    )


def _short(item: ContextItem, width: int) -> Content:
    size = fit_right(f"≈{tokens(item.tokens)}", TOKEN_CELLS - 1)
    sign = f" {OVERTAKEN} " if item.superseded else "   "
    return Content.assemble(
        (size, "$quiet"),
        (sign, "$level-notice"),
        middle(item.name, max(1, width - TOKEN_CELLS - 2)),
    )
