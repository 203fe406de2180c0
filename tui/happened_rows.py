"""What happened along a timeline, as rows of words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .formats import model, percent, tokens
from .moment_words import cut_words, mark_words
from .timeline_lines import CUT, MARK_SIGNS, day

if TYPE_CHECKING:
    from ..core.timeline import Timeline


def happened(timeline: Timeline) -> list[list[str]]:
    """List compactions and marks with their turns, and first and last: turn, time, size, what.

    The time is the event's own, which may be long after its turn began; empty where unknown.
    """
    turns = timeline.turns
    last = len(turns) - 1
    found = [(0, 0, turns[0].at, f"begins with {model(turns[0].model)}")]
    found += [
        (min(cut.turns_before, last), 1, cut.at, f"{CUT} {cut_words(cut)}")
        for cut in timeline.compactions
    ]
    found += [
        (mark.turn, 2, mark.at, f"{MARK_SIGNS[mark.kind][0]} {mark_words(mark)}")
        for mark in timeline.events
    ]
    found.append((last, 3, turns[last].at, "now"))
    return [
        [
            f"{turn + 1:,}",
            day(at),
            tokens(turns[turn].tokens),
            percent(timeline.ratio(turn)),
            words,
        ]
        for turn, _, at, words in sorted(found, key=lambda each: each[:2])
    ]
