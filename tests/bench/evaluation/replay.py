"""Q5 and Q6 over a session's history: compact it as it stood, and look at what came next."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec
from ctxtop.core.model.conversation import Entry, Role
from ctxtop.core.transcript.entry_decoder import read_entries

from .edited_texts import edited_texts
from .figures import sent_from
from .ledgers import context_tokens
from .regret import next_requests, refetched, regret
from .share import Share

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from .figures import Case

    Compact = Callable[[Path], bytes]
    """A way to compact: the file's new bytes. Raises RefusedError."""

MOMENTS: Final = 4
"""Of a session, evenly over its requests; each moment is judged by the ten that follow."""

SMALLEST: Final = 50_000
"""Tokens of a conversation before which nobody compacts: half of the least threshold."""


class RefusedError(Exception):
    """Nothing was done; the message says why."""


class Replayed(msgspec.Struct, frozen=True):
    """What the model would have missed."""

    regret: Share = Share()
    refetched: Share = Share()
    """Tokens of results to fetch again, of the tokens saved."""
    edits: Share = Share()
    """Old texts of the next Edits that are gone, of those that the context held."""
    unnamed: Share = Share()
    """Of those the ones in files that nothing says to read again before editing."""
    moments: int = 0

    def __add__(self, other: Replayed) -> Replayed:
        return Replayed(
            self.regret + other.regret,
            self.refetched + other.refetched,
            self.edits + other.edits,
            self.unnamed + other.unnamed,
            self.moments + other.moments,
        )


class Moment(msgspec.Struct, frozen=True):
    """A session as it stood once, and what really came next; it is the same for every way."""

    path: Path
    before: list[Entry]
    later: Sequence[Entry]


def replay(case: Case, compact: Compact, folder: Path, moments: int = MOMENTS) -> Replayed:
    """Compact a session as it stood at several moments; those at which nothing is done are none."""
    found = Replayed()
    for moment in _worked_moments(case.path, folder, moments):
        if context_tokens(moment.before, case.tokens.tokens) < SMALLEST:
            continue
        try:
            data = compact(moment.path)
        except RefusedError:
            continue
        path = folder / case.path.name
        path.write_bytes(data)
        found += judge_moment(moment.before, sent_from(path), moment.later, case)
    return found


@lru_cache(maxsize=1_000)
def _worked_moments(path: Path, folder: Path, count: int) -> tuple[Moment, ...]:
    """Write a session as it stood at several moments, each to a file of its own."""
    entries = read_entries(path)
    data = path.read_bytes()
    found = []
    for at in moments_of(entries, count):
        cut = folder / f"at-{at}" / path.name
        cut.parent.mkdir(exist_ok=True)
        cut.write_bytes(data[:at])
        later = next_requests([each for each in entries if each.offset >= at])
        found.append(Moment(cut, sent_from(cut), later))
    return tuple(found)


def judge_moment(
    before: Sequence[Entry], after: Sequence[Entry], later: Sequence[Entry], case: Case
) -> Replayed:
    """Measure what the next requests would have missed; empty if no tokens were saved."""
    count = case.tokens.tokens
    saved = context_tokens(before, count) - context_tokens(after, count)
    if saved <= 0:
        return Replayed()
    again = refetched(before, after, later, count)
    edited = edited_texts(before, after, later)
    return Replayed(
        regret(before, after, later).share,
        Share(again, saved),
        Share(len(edited.gone), len(edited.needed)),
        Share(len(edited.unnamed), len(edited.needed)),
        1,
    )


def moments_of(entries: Sequence[Entry], count: int) -> list[int]:
    """Return the byte offsets at which to cut a session, spread evenly over its requests.

    Each is the start of an answer.
    """
    offsets: dict[str, int] = {}
    for entry in entries:
        if entry.role is Role.ASSISTANT and entry.message_id and not entry.hidden:
            offsets.setdefault(entry.message_id, entry.offset)
    places = list(offsets.values())
    step = len(places) / (count + 1)
    return list(dict.fromkeys(places[int(step * (n + 1))] for n in range(count))) if places else []
