"""What a summary stands for, as lines: the things that it names or leaves out, and the turns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from textual.content import Content

from ..core.replaced import Sort, Where
from .formats import middle, one_line, plural, tokens
from .wrapping import plain, wrap

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..core.replaced import Replaced, Tally, Thing, Turn
    from ..core.store.rows import SummaryRow

SIGNS: Final = {Where.SUMMARY: "✓", Where.STAYS: "•", Where.LOST: "✗"}
STYLES: Final = {
    Where.SUMMARY: "$level-calm",
    Where.STAYS: "$level-notice",
    Where.LOST: "$level-warning",
}

QUOTED: Final = "$level-calm"
"""What the summary says word for word."""

TURN_LINES: Final = 12
"""Of one message; the rest of it stands in the transcript."""

_WHO: Final = {
    "you": "$primary",
    "model": "$accent",
    "tools": "$quiet",
    "agent": "$secondary",
    "summary": "$level-notice",
    "client": "$quiet",
}


@dataclass(frozen=True, slots=True)
class Shown:
    """Both sides as lines, and where a person goes with n."""

    item_lines: tuple[Content, ...]
    lost_starts: tuple[int, ...]
    """Lines of `things` with what is left out."""
    turn_lines: tuple[Content, ...]


def headline(row: SummaryRow, found: Replaced) -> list[str]:
    """Say in two lines what became of what."""
    before = f"{plural(found.messages, 'message')}, {plural(found.tool_uses, 'tool use')}"
    if found.context_tokens:
        before += f", {tokens(found.context_tokens)} tokens in context"
    size = f"{plural(row.lines, 'line')}"
    if row.estimated_tokens is not None:
        size += f", ≈{tokens(row.estimated_tokens)} tokens"
    kept = sum(each.summary for each in found.tallies)
    lost = sum(each.lost for each in found.tallies)
    stays = sum(each.stays for each in found.tallies)
    said = f"names {kept:,} of {kept + lost + stays:,} things"
    if stays:
        said += f" · {stays:,} more stand in the messages that stayed"
    return [f"{before} → {size}", f"{said} · leaves out {lost:,}{_last(row, found)}"]


def shown(found: Replaced, things_width: int, turns_width: int, *, only: Where | None) -> Shown:
    """Lay out both sides; `only` leaves out the things of another kind."""
    things: list[Content] = []
    lost: list[int] = []
    for tally in found.tallies:
        some = [
            each
            for each in found.things
            if each.sort is tally.sort and (only is None or each.where is only)
        ]
        if not some:
            continue
        if things:
            things.append(Content(""))
        things.append(_heading(tally))
        for thing in some:
            if thing.where is Where.LOST:
                lost.append(len(things))
            things += _thing(thing, things_width)
        missing = (tally.all if only is None else _count(tally, only)) - len(some)
        if missing > 0:
            things.append(Content.styled(f"  … {missing:,} more", "$quiet"))
    if not things:
        words = "No file, name, decision, todo or rule was found in it."
        things = [Content.styled(words if only is None else "Nothing is left out.", "$quiet")]
    return Shown(tuple(things), tuple(lost), tuple(_turns(found, turns_width)))


def _last(row: SummaryRow, found: Replaced) -> str:
    if row.kind != "agent" or not found.last_words:
        return ""
    return (
        " · the result is its last message, word for word"
        if found.last_words.strip() == row.text.strip()
        else " · the result is not its last message"
    )


def _count(tally: Tally, where: Where) -> int:
    return {
        Where.SUMMARY: tally.summary,
        Where.STAYS: tally.stays,
        Where.LOST: tally.lost,
    }[where]


def _heading(tally: Tally) -> Content:
    parts: list[tuple[str, str]] = [(f"{tally.sort.value} ", "bold $primary")]
    parts.append((f"✓ {tally.summary:,}", STYLES[Where.SUMMARY]))
    if tally.stays:
        parts.append((f"  • {tally.stays:,}", STYLES[Where.STAYS]))
    parts.append((f"  ✗ {tally.lost:,}", STYLES[Where.LOST] if tally.lost else "$quiet"))
    return Content.assemble(*parts)


def _thing(thing: Thing, width: int) -> Iterator[Content]:
    style = STYLES[thing.where]
    sign = f"{SIGNS[thing.where]} "
    base = "$quiet" if thing.where is Where.SUMMARY else "$foreground"
    line = f" {thing.line}" if thing.line else ""
    room = max(1, width - 3)
    if thing.sort in {Sort.FILE, Sort.NAME}:
        name = middle(one_line(thing.text), max(1, room - len(line)))
        yield Content.assemble((f" {sign}", style), (name, base), (line, "$quiet"))
        return
    for number, text in enumerate(wrap(plain(thing.text), room, (), "", base).lines):
        yield Content.assemble((f" {sign}" if number == 0 else "   ", style), text)


def _turns(found: Replaced, width: int) -> Iterator[Content]:
    before = found.messages - len(found.turns)
    if before > 0:
        yield Content.styled(f"… {before:,} messages before these", "$quiet")
    for turn in found.turns:
        yield from _turn(turn, max(1, width))


def _turn(turn: Turn, width: int) -> Iterator[Content]:
    stays = "  • stayed as it is" if turn.stays else ""
    quoted = "  ✓ quoted" if turn.quoted else ""
    yield Content.assemble(
        (turn.who, f"bold {_WHO.get(turn.who, '$foreground')}"),
        (f"  line {turn.line}", "$quiet"),
        (stays, STYLES[Where.STAYS]),
        (quoted, STYLES[Where.SUMMARY]),
    )
    text = plain(turn.text)
    same = len(text) == len(turn.text)
    spans: Sequence[tuple[int, int]] = turn.quoted if same else ()
    lines = wrap(text, width - 2, spans, QUOTED, "$quiet").lines
    for line in lines[:TURN_LINES]:
        yield Content("  ") + line
    if len(lines) > TURN_LINES:
        yield Content.styled(f"  … {len(lines) - TURN_LINES} more lines", "$quiet")
    yield Content("")
