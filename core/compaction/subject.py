"""A session that a summary or a cut is planned for, as its reader handed it in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from .appended import boundary_lines
from .plan import Append, Harm, Operation
from .project import project

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ..conversation import Entry, Piece


class Subject(msgspec.Struct, frozen=True):
    """What is planned for; the transcript itself is not touched."""

    entries: tuple[Entry, ...]
    """Of the whole file, as its reader gives them."""
    last: dict[str, Any]
    """The newest line of the conversation (`newest`), decoded."""
    count: Callable[[Piece], int]
    """Estimates the tokens of a piece."""
    transcript: str = ""
    """Path of the file."""

    @property
    def sent(self) -> list[Entry]:
        """What the model sees now."""
        return project(self.entries)

    def tokens(self, entries: Iterable[Entry]) -> int:
        """Estimate the tokens of entries."""
        return sum(self.count(piece) for entry in entries for piece in entry.pieces)


def newest(entries: Sequence[Entry]) -> Entry | None:
    """Give the newest line that others can follow: the last with a uuid, of no agent's."""
    return next((each for each in reversed(entries) if each.uuid and not each.sidechain), None)


def appended_operation(
    subject: Subject,
    summary: Piece,
    kept: Sequence[Entry],
    harm: Harm,
    named: tuple[str, str, str],
) -> Operation:
    """Make one operation of a boundary and its summary; `named` is strategy, what and why.

    Tokens saved are those that are sent now less the summary and what is kept.
    """
    before = subject.tokens(subject.sent)
    after = subject.count(summary) + subject.tokens(kept)
    lines = boundary_lines(
        subject.last,
        summary.text,
        [entry.uuid for entry in kept if entry.uuid],
        before_tokens=before,
        after_tokens=after,
    )
    strategy, what, why = named
    return Operation(
        strategy=strategy,
        level=harm,
        line=None,
        kind=summary.kind.value,
        what=what,
        why=why,
        tokens_saved=before - after,
        bytes_saved=-sum(len(line.encode()) + 1 for line in lines),
        edits=tuple(Append(line) for line in lines),
    )
