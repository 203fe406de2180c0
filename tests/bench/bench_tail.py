"""How far back the next answers of recorded sessions reach: what a compaction's tail must keep.

At every answer of the shared corpus the next ten are asked where their references come from:
names that only results and the inputs of calls hold (what levels 2 to 4 may remove), and the
old texts of their Edits. Each distance is that to the nearest source, in tokens and in
answers with calls. Names survive in the stubs of what is removed; an Edit's old text does not.
Usage: python -m tests.bench.bench_tail, with CTXTOP_SHARED naming the shared folder.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ctxtop.core.model.conversation import Role
from ctxtop.core.transcript.visible_messages import is_call

from .bench_compaction import SMALLEST, transcripts
from .evaluation.boundaries import compactions_of
from .evaluation.edited_texts import REMOVABLE, file_text, old_texts
from .evaluation.entities import entities_in
from .evaluation.figures import counter_of, sent_from
from .evaluation.regret import NEXT_REQUESTS
from .evaluation.texts import AUTHORED, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctxtop.core.model.conversation import Entry, MessagePart

TOKENS: Final = (0, 2_000, 5_000, 10_000, 15_000, 20_000, 30_000, 40_000, 80_000)
TURNS: Final = (0, 1, 2, 3, 5, 8, 10, 15, 20, 40)


class Place(NamedTuple):
    """Where something stands in a conversation."""

    tokens: int  # before it
    turns: int  # answers with calls before it


class Cut(NamedTuple):
    """A moment before an answer."""

    entry: int  # the number of the answer's first entry
    place: Place


class Reach(NamedTuple):
    """Distances of what the next answers used; None for what nothing could remove."""

    names: list[Place | None]
    edits: list[Place | None]


class Sources:
    """A conversation's places that name a thing or hold a file's text, oldest first."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.cuts: Final[list[Cut]] = []
        self.names: Final[dict[str, list[tuple[int, Place]]]] = defaultdict(list)
        self.kept: Final[dict[str, int]] = {}
        """The first entry that keeps a name, in a text that stays."""
        self.texts: Final[dict[str, list[tuple[int, Place, str]]]] = defaultdict(list)
        count = counter_of(entries).tokens
        tokens = 0
        answers: set[str | None] = set()
        with_calls: set[str | None] = set()
        for number, entry in enumerate(entries):
            if entry.role is Role.ASSISTANT and entry.message_id not in answers:
                answers.add(entry.message_id)
                self.cuts.append(Cut(number, Place(tokens, len(with_calls))))
            if any(map(is_call, entry.parts)):
                with_calls.add(entry.message_id)
            for part in entry.parts:
                tokens += count(part)
                self._add(number, Place(tokens, len(with_calls)), part)

    def _add(self, number: int, place: Place, part: MessagePart) -> None:
        for name in entities_in(text_of(part)):
            if part.kind in REMOVABLE:
                self.names[name].append((number, place))
            else:
                self.kept.setdefault(name, number)
        if (text := file_text(part)) is not None:
            self.texts[part.path or ""].append((number, place, text))


def reach_of(entries: Sequence[Entry]) -> Iterator[Reach]:
    """Yield what the next answers reached back to, at each answer."""
    sources = Sources(entries)
    for at, cut in enumerate(sources.cuts):
        later = sources.cuts[at + NEXT_REQUESTS : at + NEXT_REQUESTS + 1]
        end = later[0].entry if later else len(entries)
        yield Reach(
            list(_reached_names(entries, sources, cut, end)),
            list(_reached_texts(entries, sources, cut, end)),
        )


def _reached_names(
    entries: Sequence[Entry], sources: Sources, cut: Cut, end: int
) -> Iterator[Place | None]:
    known: set[str] = set()
    for entry in entries[cut.entry : end]:
        met = {name for part in entry.parts for name in entities_in(text_of(part))}
        said = {
            name
            for part in entry.parts
            if entry.role is Role.ASSISTANT and part.kind in AUTHORED
            for name in entities_in(text_of(part))
        }
        for name in said:
            before = [place for number, place in sources.names[name] if number < cut.entry]
            is_kept = name in known or sources.kept.get(name, end) < cut.entry
            if before and not is_kept:
                yield _distance(cut.place, before[-1])
            elif before or is_kept:
                yield None
        known |= met


def _reached_texts(
    entries: Sequence[Entry], sources: Sources, cut: Cut, end: int
) -> Iterator[Place | None]:
    for number, entry in enumerate(entries[cut.entry : end], cut.entry):
        for part in entry.parts:
            for text in old_texts(part):
                held = [
                    (at, place)
                    for at, place, source in sources.texts[part.path or ""]
                    if at < number and text in source
                ]
                if held:
                    at, place = held[-1]
                    yield _distance(cut.place, place) if at < cut.entry else None


def _distance(end: Place, start: Place) -> Place:
    return Place(end.tokens - start.tokens, end.turns - start.turns)


def main() -> None:
    """Print the figures."""
    print(__doc__)
    found: list[Reach] = []
    with tempfile.TemporaryDirectory(prefix="ctxtop-bench-") as name:
        for path in transcripts():
            for file in [path, *(each.written_before(Path(name)) for each in compactions_of(path))]:
                entries = sent_from(file)
                count = counter_of(entries).tokens
                if sum(count(part) for entry in entries for part in entry.parts) >= SMALLEST:
                    found += reach_of(entries)
    names = [each for reach in found for each in reach.names]
    edits = [each for reach in found for each in reach.edits]
    print(f"{len(found):,} moments, {len(names):,} names and {len(edits):,} edits used next\n")
    print_beyond("tokens", TOKENS, names, edits)
    print_beyond("turns", TURNS, names, edits)


def print_beyond(
    unit: str,
    distances: Sequence[int],
    names: Sequence[Place | None],
    edits: Sequence[Place | None],
) -> None:
    """Print which share of all that was used stood only beyond a distance."""
    print(f"only source beyond, {unit:8}" + "".join(f"{each:>9,}" for each in distances))
    for what, places in (("names", names), ("old texts of Edits", edits)):
        shares = [
            sum(place is not None and getattr(place, unit) >= distance for place in places)
            / max(1, len(places))
            for distance in distances
        ]
        print(f"  {what:26}" + "".join(f"{each:>9.2%}" for each in shares))


if __name__ == "__main__":
    main()
