"""The breakdown of a context as rows: its categories, and its largest items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from textual.content import Content

from ....core.measure.composition import CategoryShare, Composition, ContextCategory, ContextItem
from ....core.transcript.sanitize import one_line
from ...text.formats import fit_left, fit_right, half_cell_bar, percent, shorten_middle, tokens
from ...text.session_text import composition_total_text, largest_parts, share_tokens_text
from ...text.text_lines import heading, join_lines, quiet
from ...widgets.row_list import Listing, Row

CATEGORY_MEANINGS: Final[dict[str, str]] = {
    ContextCategory.SYSTEM_PROMPT: "What the client tells the model before anything else.",
    ContextCategory.SYSTEM_TOOLS: "The descriptions of the client's own tools.",
    ContextCategory.MCP_TOOLS: (
        "The descriptions of MCP servers' tools: a server that is not needed"
        " costs"
        " its tokens with every request."
    ),
    ContextCategory.OVERHEAD: (
        "What stands before the conversation; the transcript tells no more of it than its size."
    ),
    ContextCategory.MCP_INSTRUCTIONS: "What MCP servers say of themselves.",
    ContextCategory.MEMORY: "CLAUDE.md and what it includes: read again after each compaction.",
    ContextCategory.SKILLS: "The list of skills, and those that were called.",
    ContextCategory.AGENT_LISTINGS: "The list of agents that can be started.",
    ContextCategory.ATTACHMENTS: "What the client put in by itself: files, diagnostics, reminders.",
    ContextCategory.HOOKS: "What hooks added.",
    ContextCategory.SUMMARIES: "What compactions kept.",
    ContextCategory.USER_TEXT: "Your words, and what the client said in your place.",
    ContextCategory.ASSISTANT_TEXT: "The model's words.",
    ContextCategory.THINKING: "The model's thinking, as far as it is sent again.",
    ContextCategory.TOOL_INPUTS: (
        "What the model asked of its tools: commands, edits, whole files that it wrote."
    ),
    ContextCategory.TOOL_RESULTS: (
        "What the tools gave back. The old ones can mostly go: c compacts."
    ),
    ContextCategory.AGENT_RETURNS: (
        "What agents gave back: small where they compress their results."
    ),
    ContextCategory.UNEXPLAINED: "Measured by the API, and of nothing that the transcript holds.",
}
"""By the category's name."""


NAME_CELLS: Final = 26
PERCENT_CELLS: Final = 6
TOKEN_CELLS: Final = 9
MAX_BAR_CELLS: Final = 100
MIN_BAR_CELLS: Final = 8
ITEM_BAR_CELLS: Final = 8
KIND_CELLS: Final = 14
LINE_CELLS: Final = 11
WIDE_CELLS: Final = 76
"""Cells from which an item's category stands beside it."""

ITEMS_PER_CATEGORY: Final = 12
"""The largest items of a category that are named beside it."""

SUPERSEDED_SIGN: Final = "✂"
"""Something later says the same: it can go without loss."""


def categories_listing(found: Composition, width: int) -> Listing:
    """List the categories, each with its larger parts."""
    rows = []
    for share in found.categories:
        rows.append(Row(share.name, _share(share, share.name, "$foreground", "$accent", width)))
        for part in largest_parts(share):
            drawn = _share(part, f"  {part.name}", "$quiet", "$bar-mark", width)
            rows.append(Row(f"{share.name}\n{part.name}", drawn))
    return Listing(
        tuple(rows),
        quiet(shorten_middle(composition_total_text(found), width)),
        "nothing is in context yet",
    )


def row_category(key: str) -> str:
    """Name the category that a row is of."""
    return key.partition("\n")[0]


def category_detail(found: Composition, key: str, width: int) -> Content:
    """Describe a category and its largest items; empty if `key` is unknown."""
    name = row_category(key)
    share = next((each for each in found.categories if each.name == name), None)
    if share is None:
        return Content("")
    largest = [item for item in found.largest if item.kind == name][:ITEMS_PER_CATEGORY]
    parts = [
        heading(name),
        Content(f"{share_tokens_text(share)} tokens, {percent(share.share)} of the context"),
        quiet(CATEGORY_MEANINGS.get(name, "")),
    ]
    if largest:
        parts += [
            Content(""),
            heading("The largest of it"),
            *(_short_item(item, width) for item in largest),
        ]
        overtaken = [item for item in found.largest if item.kind == name and item.superseded]
        if overtaken:
            size = tokens(sum(item.tokens for item in overtaken))
            parts += [
                Content(""),
                quiet(
                    f"{SUPERSEDED_SIGN} {len(overtaken)} overtaken by something later: ≈{size}"
                    " tokens"
                ),
            ]
    return join_lines(*parts)


def items_listing(found: Composition, width: int) -> Listing:
    """List the largest items by name."""
    rows = tuple(
        Row(key, _item(item, found.largest[0].tokens, width)) for key, item in _keyed(found)
    )
    size = tokens(sum(item.tokens for item in found.largest if item.superseded))
    overtaken = sum(1 for item in found.largest if item.superseded)
    words = f"the {len(rows)} largest"
    if overtaken:
        words += f"; {SUPERSEDED_SIGN} {overtaken} overtaken by something later: ≈{size} tokens"
    return Listing(rows, quiet(shorten_middle(words, width)), "nothing is in context yet")


def find_item(found: Composition, key: str) -> ContextItem | None:
    """Find the item that a row is of."""
    return next((item for known, item in _keyed(found) if known == key), None)


def first_item_key(found: Composition, category: str) -> str | None:
    """Name the row of a category's largest item; None where none is among the largest."""
    return next((key for key, item in _keyed(found) if item.kind == category), None)


def _keyed(found: Composition) -> Iterator[tuple[str, ContextItem]]:
    """Pair each item with a key that is stable when items are added; names may repeat."""
    met: Counter[str] = Counter()
    for item in found.largest:
        name = f"{item.line} {item.name}"
        yield f"{name} {met[name]}", item
        met[name] += 1


def item_detail(item: ContextItem, text: str) -> Content:
    """Describe an item and show its beginning; `text` is empty while it is looked up."""
    where = "stands in no line of the transcript" if item.line is None else f"line {item.line}"
    parts = [
        heading(one_line(item.name)),
        Content(f"≈{tokens(item.tokens)} tokens · {item.kind} · {where}"),
    ]
    if item.superseded:
        parts.append(
            Content.styled(f"{SUPERSEDED_SIGN} {one_line(item.superseded)}", "$level-notice")
        )
    return join_lines(*parts, Content(""), Content(text))


def _share(share: CategoryShare, name: str, style: str, bar_style: str, width: int) -> Content:
    names = min(NAME_CELLS, max(12, width - MIN_BAR_CELLS - PERCENT_CELLS - TOKEN_CELLS - 1))
    room = min(MAX_BAR_CELLS, max(1, width - names - PERCENT_CELLS - TOKEN_CELLS - 1))
    drawn = half_cell_bar(share.share, room)
    return Content.assemble(
        (fit_left(name, names - 1), style),
        " ",
        (drawn, bar_style),
        ("▁" * (room - len(drawn)), "$bar-track"),
        (fit_right(percent(share.share), PERCENT_CELLS), style),
        (fit_right(share_tokens_text(share), TOKEN_CELLS), style),
    )


def _item(item: ContextItem, largest: int, width: int) -> Content:
    size = fit_right(f"≈{tokens(item.tokens)}", TOKEN_CELLS - 1)
    drawn = half_cell_bar(item.tokens / largest if largest else 0.0, ITEM_BAR_CELLS)
    kind = f" {fit_left(item.kind, KIND_CELLS)}" if width >= WIDE_CELLS else ""
    line = fit_right("" if item.line is None else f"line {item.line}", LINE_CELLS)
    sign = f"{SUPERSEDED_SIGN} " if item.superseded else "  "
    room = max(1, width - len(size) - ITEM_BAR_CELLS - len(kind) - len(line) - 4)
    return Content.assemble(
        (size, "$foreground"),
        " ",
        (drawn, "$accent"),
        ("▁" * (ITEM_BAR_CELLS - len(drawn)), "$bar-track"),
        (kind, "$quiet"),
        " ",
        (sign, "$level-notice"),
        (fit_left(item.name, room), "$quiet" if item.superseded else "$foreground"),
        (line, "$quiet"),
    )


def _short_item(item: ContextItem, width: int) -> Content:
    size = fit_right(f"≈{tokens(item.tokens)}", TOKEN_CELLS - 1)
    sign = f" {SUPERSEDED_SIGN} " if item.superseded else "   "
    return Content.assemble(
        (size, "$quiet"),
        (sign, "$level-notice"),
        shorten_middle(item.name, max(1, width - TOKEN_CELLS - 2)),
    )
