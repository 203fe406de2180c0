"""The client's own summaries: each compaction in a recorded session is a test item (4.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from ctxtop.core.model.conversation import Entry, MessagePart, PartKind, Role
from ctxtop.core.transcript.entry_decoder import read_entries
from ctxtop.core.transcript.visible_messages import visible_entries

from .ledgers import context_tokens
from .regret import next_requests

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from ctxtop.core.measure.tokens import CachedPartCounter


class Compaction(msgspec.Struct, frozen=True):
    """One compaction of the client's: what stood before it, what after, and what came next."""

    name: str
    path: Path
    offset: int
    """Of the boundary's line: what stands before it was compacted."""
    before: list[Entry]
    after: list[Entry]
    later: Sequence[Entry]
    """The next ten requests."""
    summary: str

    def written_before(self, folder: Path) -> Path:
        """Write the transcript as it stood before the compaction."""
        path = folder / f"{self.path.stem}.before-{self.offset}.jsonl"
        path.write_bytes(self.path.read_bytes()[: self.offset])
        return path


def compactions_of(path: Path) -> Iterator[Compaction]:
    """Find the compactions of a transcript that have a summary and something before it."""
    entries = read_entries(path)
    for number, entry in enumerate(entries):
        if entry.boundary is None:
            continue
        before = visible_entries(entries[:number])
        rest = entries[number:]
        answer = next(
            (n for n, each in enumerate(rest) if each.role is Role.ASSISTANT and each.message_id),
            len(rest),
        )
        after = visible_entries([*entries[:number], *rest[:answer]])
        summary = "\n".join(
            piece.text for each in after for piece in each.parts if piece.kind is PartKind.SUMMARY
        )
        if before and summary:
            later = next_requests(_until_boundary(rest[answer:]))
            name = f"{path.stem[:8]} at {entry.line}"
            yield Compaction(name, path, entry.offset, before, after, later, summary)


def newest_within(before: Sequence[Entry], budget: int, tokens: CachedPartCounter) -> list[Entry]:
    """Keep the newest entries that fit a budget: what any better way has to beat."""
    kept: list[Entry] = []
    left = budget
    for entry in reversed(before):
        left -= context_tokens([entry], tokens.tokens)
        if left < 0:
            break
        kept.append(entry)
    return kept[::-1]


def with_summary(text: str, tail: Sequence[Entry]) -> list[Entry]:
    """Put a summary in front of what is kept."""
    piece = MessagePart(PartKind.SUMMARY, text)
    first = Entry(offset=0, length=0, line=0, type="user", role=Role.USER, parts=(piece,))
    return [first, *tail]


def _until_boundary(entries: Sequence[Entry]) -> Sequence[Entry]:
    end = next((n for n, each in enumerate(entries) if each.boundary), len(entries))
    return entries[:end]
