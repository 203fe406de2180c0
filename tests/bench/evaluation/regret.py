"""Q5 and Q6: what the model really used next that a compaction would have taken away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from ctxtop.core.model.conversation import PartKind, Role
from ctxtop.core.summaries.artifacts import parse_tool_input
from ctxtop.core.transcript.visible_messages import is_result

from .edited_texts import edited_texts
from .entities import entities_in, named
from .share import Share
from .texts import AUTHORED, pieces_of, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ctxtop.core.model.conversation import Entry, MessagePart

NEXT_REQUESTS: Final = 10
"""What the model really did next is taken as what it needed (compaction.md 4.4)."""

_ASKED: Final = {
    "Read": ("file_path", "offset", "limit"),
    "Bash": ("command",),
    "Grep": ("pattern", "path"),
    "Glob": ("pattern", "path"),
    "WebFetch": ("url",),
    "WebSearch": ("query",),
}
"""Tools that fetch, and what makes two calls the same."""


class Regret(msgspec.Struct, frozen=True):
    """References of the next requests: how many there are, and which lost their only source."""

    lost: tuple[str, ...] = ()
    references: int = 0

    @property
    def share(self) -> Share:
        """Part of the references that lost their source."""
        return Share(len(self.lost), self.references)


def next_requests(after: Sequence[Entry], count: int = NEXT_REQUESTS) -> Sequence[Entry]:
    """Return the entries up to the end of the next `count` answers and their results."""
    met: list[str | None] = []
    for place, entry in enumerate(after):
        if entry.role is Role.ASSISTANT and entry.message_id not in met:
            met.append(entry.message_id)
            if len(met) > count:
                return after[:place]
    return after


def regret(original: Sequence[Entry], compacted: Sequence[Entry], after: Sequence[Entry]) -> Regret:
    """Find references in the next answers that only removed content could explain (Q5).

    A reference is an entity that the model names and that the original names too. It is lost if
    neither the compacted context nor anything before the reference names it. Each entity counts
    once per line. The old text of an Edit is a reference, too: it is lost if the context held it,
    does not any more, and says nowhere to read the file again before editing.
    """
    stood = named(original)
    known = named(compacted)
    lost: list[str] = []
    references = 0
    for entry in after:
        met: set[str] = set()
        for piece in entry.parts:
            names = entities_in(text_of(piece))
            if entry.role is Role.ASSISTANT and piece.kind in AUTHORED:
                referred = names & stood
                references += len(referred - met)
                lost.extend(sorted(referred - known - met))
            met |= names
        known |= met
    edited = edited_texts(original, compacted, after)
    lost += [f"old text in {path}" for path in edited.unnamed]
    return Regret(tuple(lost), references + len(edited.needed))


def refetched(
    original: Sequence[Entry],
    compacted: Sequence[Entry],
    after: Sequence[Entry],
    tokens: Callable[[MessagePart], int],
) -> int:
    """Count the tokens of results that were removed and are then asked for again (Q6)."""
    fetched = _results(original)
    still = {piece.text for piece in pieces_of(compacted) if is_result(piece)}
    newest = {key: piece for key, piece in fetched if key is not None}
    wanted = {key for piece in pieces_of(after) if (key := _key(piece)) is not None}
    return sum(
        tokens(piece) for key, piece in newest.items() if key in wanted and piece.text not in still
    )


def _results(entries: Sequence[Entry]) -> Iterator[tuple[tuple[str, ...] | None, MessagePart]]:
    keys: dict[str, tuple[str, ...] | None] = {}
    for piece in pieces_of(entries):
        if piece.tool_use_id is None:
            continue
        if piece.kind is PartKind.TOOL_INPUT:
            keys[piece.tool_use_id] = _key(piece)
        elif piece.tool_use_id in keys:
            yield keys[piece.tool_use_id], piece


def _key(piece: MessagePart) -> tuple[str, ...] | None:
    """Return what a call fetches, equal for equal calls; None if it fetches nothing."""
    if piece.kind is not PartKind.TOOL_INPUT or piece.name not in _ASKED:
        return None
    asked = parse_tool_input(piece)
    return piece.name, *(str(asked.get(field)) for field in _ASKED[piece.name])
