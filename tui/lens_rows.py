"""The lens on a compaction: what was kept and what was forgotten, kind by kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from textual.content import Content

from ..core import thrash
from .compaction_rows import cut_words, when_words
from .formats import bar, fit, fit_right, middle, one_line, percent, plural, tokens
from .sections import Listing, heading, lines, quiet
from .told_lines import refilled, steering_cost, use_words
from .widgets.row_list import Row

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ..core.kept_at import Halves
    from ..core.steered import Steered
    from ..core.store.rows import CompactionRow
    from ..core.summaries.artifacts import Artifacts, FileUse
    from ..core.summaries.forgotten import Counts, Forgotten
    from ..core.told import Told

SHOWN: Final = 200
"""Of each kind and half: more than a person looks through."""

LINE_CELLS: Final = 11
BAR_LABEL: Final = 8
NUMBERS: Final = 18

KEPT: Final = ("✓", "$level-calm")
FORGOTTEN: Final = ("✗", "$level-emergency")


@dataclass(frozen=True, slots=True)
class Thing:
    """Something that stood before the compaction."""

    text: str
    line: int | None
    is_retained: bool | None
    """None where that is not told."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Things of one kind, and how many of them there are in all."""

    name: str
    items: tuple[Thing, ...]
    retained: int | None
    """None while what was kept is looked up."""
    lost: int
    note: str = ""


def kinds_of(
    report: Told | None, retained_and_lost: Halves | None, steering: Sequence[Steered]
) -> list[Kind]:
    """Sort what stood before a compaction by kind, what was forgotten first."""
    found = []
    if steering:
        things = tuple(Thing(one_line(item.text), None, item.kept) for item in steering)
        lost = sum(1 for item in steering if item.kept is False)
        kept = len(steering) - lost
        found.append(Kind("asked to keep", things, kept, lost, steering_cost(steering)))
    if retained_and_lost is not None:
        found += [
            Kind(
                name,
                (
                    *_things(_named(retained_and_lost.lost, name), kept=False),
                    *_things(_named(retained_and_lost.retained, name)),
                ),
                len(_named(retained_and_lost.retained, name)),
                len(_named(retained_and_lost.lost, name)),
            )
            for name in _NAMES
        ]
    elif report is not None:
        lost_of, counts = report.forgotten, report.forgotten.counts
        found += [
            Kind(
                name, tuple(_things(_named(lost_of, name), kept=False)), None, _count(counts, name)
            )
            for name in _NAMES
        ]
    return [kind for kind in found if kind.items]


def is_known(report: Told | None, retained_and_lost: Halves | None) -> bool:
    """Return whether the transcript holds what stood before the compaction."""
    return all(each is None or each.is_known for each in (report, retained_and_lost))


_NAMES: Final = ("rules", "decisions", "todos", "files", "names")


def _named(found: Artifacts | Forgotten, name: str) -> list[tuple[str, int]]:
    from ..core.summaries.artifacts import Artifacts

    if name == "files":
        return [(_file(use), use.line) for use in found.files]
    if name == "names":
        names = found.names if isinstance(found, Artifacts) else found.identifiers
        return [(each.text, each.line) for each in names]
    if name == "todos":
        return [(each.text, each.line) for each in found.todos]
    quotes = found.constraints if name == "rules" else found.decisions
    return [(each.text, each.line) for each in quotes]


def _things(named: Iterable[tuple[str, int]], *, kept: bool = True) -> Iterator[Thing]:
    for text, line in list(named)[:SHOWN]:
        yield Thing(one_line(text), line, kept)


def _count(counts: Counts, name: str) -> int:
    return {
        "rules": counts.constraints,
        "decisions": counts.decisions,
        "todos": counts.todos,
        "files": counts.files,
        "names": counts.identifiers,
    }[name]


def _file(use: FileUse) -> str:
    said = use_words(use)
    return f"{use.path} ({said})" if said else use.path


def lens_listing(kinds: Sequence[Kind], width: int, empty: str) -> Listing:
    """List them as a difference: what was forgotten, then what was kept."""
    rows: list[Row] = []
    for kind in kinds:
        rows.append(Row(kind.name, _kind(kind)))
        rows += [
            Row(f"{kind.name} {place} {thing.text}", _thing(thing, width))
            for place, thing in enumerate(kind.items)
        ]
    head = quiet("✗ forgotten: neither in the summary nor in what was kept   ✓ kept")
    return Listing(tuple(rows), head, empty)


def thing_of(kinds: Sequence[Kind], key: str) -> Thing | None:
    """Find the thing that a row is of; None for the line above a kind."""
    for kind in kinds:
        for place, thing in enumerate(kind.items):
            if f"{kind.name} {place} {thing.text}" == key:
                return thing
    return None


def sizes(row: CompactionRow, window: int, width: int) -> Content:
    """Draw the context before and after, against the window."""
    room = max(1, width - BAR_LABEL - NUMBERS)
    return lines(
        _size("before", row.pre_tokens, "", window, room, "$level-high"),
        _after(row, window, room),
    )


def lens_words(row: CompactionRow, report: Told | None, now_ms: int) -> Content:
    """Say when and how it came about, and whether too soon."""
    parts = [heading(cut_words(row)), quiet(f"  {when_words(row, now_ms)}")]
    said = Content("").join(parts)
    more: list[Content] = []
    found = thrash.thrash(report.refill) if report else None
    if found:
        turns = plural(found.turns_since_last, "turn")
        words = f"⚠ too soon: {turns} after the last one{refilled(found.culprit)}"
        more.append(Content.styled(words, "$level-high"))
    if report and report.cleared_results:
        results = plural(report.cleared_results, "tool result")
        more.append(quiet(f"{results} had been cleared before it, silently"))
    return lines(said, *more)


def _after(row: CompactionRow, window: int, room: int) -> Content:
    if row.next_tokens is not None:
        return _size("after", row.next_tokens, "", window, room, "$level-calm")
    estimate = row.post_tokens if row.estimated_next_tokens is None else row.estimated_next_tokens
    return _size("after", estimate, "≈", window, room, "$level-calm")


def _size(label: str, size: int | None, sign: str, window: int, room: int, style: str) -> Content:
    ratio = None if size is None else size / window
    drawn = bar(ratio, room)
    number = f"{sign}{tokens(size)}  {percent(ratio)}"
    return Content.assemble(
        (fit(label, BAR_LABEL), "$quiet"),
        (drawn, style),
        ("▁" * (room - len(drawn)), "$bar-track"),
        (fit_right(number, NUMBERS), "bold"),
    )


def _kind(kind: Kind) -> Content:
    kept = "" if kind.retained is None else f", {kind.retained:,} kept"
    return heading(kind.name) + quiet(f"  {kind.lost:,} forgotten{kept}{kind.note}")


def _thing(thing: Thing, width: int) -> Content:
    sign, style = (
        ("·", "$quiet") if thing.is_retained is None else KEPT if thing.is_retained else FORGOTTEN
    )
    line = fit_right("" if thing.line is None else f"line {thing.line}", LINE_CELLS)
    room = max(1, width - 4 - len(line))
    return Content.assemble(
        (f"  {sign} ", style),
        (fit(middle(thing.text, room), room), "$quiet" if thing.is_retained else "$foreground"),
        (line, "$quiet"),
    )
