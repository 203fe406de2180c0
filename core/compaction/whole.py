"""A whole conversation that a summary or a cut is planned for, as its reader handed it in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from uuid import UUID, uuid5

import msgspec

from .announced import announced_again
from .append_boundary import Envelope, Kept, summary_lines
from .plan import Harm, Operation
from .project import project

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ..conversation import Entry, Piece


_OURS: Final = UUID("5e0b4a0e-6a0f-5d0c-9f4e-2f7e1c1b7a55")


class Whole(msgspec.Struct, frozen=True):
    """What is planned for; the transcript itself is not touched."""

    entries: tuple[Entry, ...]
    """Of the whole file, as its reader gives them."""
    envelope: Envelope
    """Of the newest line of the conversation (`newest`)."""
    count: Callable[[Piece], int]
    """Estimates the tokens of a piece."""
    transcript: str = ""
    """Path of the file."""
    overhead: int = 0
    """Tokens of the system prompt and the tools."""
    sent_tokens: int | None = None
    """Of all that the model sees now, where more is known than `count` can tell: of thoughts
    no text says how long they are."""

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
    whole: Whole,
    summary: Piece,
    kept: Sequence[Entry],
    harm: Harm,
    named: tuple[str, str, str],
) -> Operation:
    """Make one operation of a boundary and its summary; `named` is strategy, what and why.

    Tokens saved are those that are sent now less the summary, what is kept, and what the
    client will announce again. The boundary says what the client's own says: all that a
    request held before, and what is left without the system prompt and the tools.
    """
    sent = whole.sent
    before = whole.tokens(sent) if whole.sent_tokens is None else whole.sent_tokens
    staying = {entry.offset for entry in kept}
    away = [entry for entry in sent if entry.offset not in staying]
    after = whole.count(summary) + whole.tokens(kept) + whole.tokens(announced_again(away, kept))
    uuids = tuple(entry.uuid for entry in kept if entry.uuid)
    lines = summary_lines(
        whole.envelope,
        Kept(summary.text, uuids, whole.overhead + before, after),
        *_ids(whole, summary.text, uuids),
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
        bytes_saved=-sum(len(line.text.encode()) + 1 for line in lines),
        edits=lines,
    )


def envelope_of(last: Mapping[str, Any]) -> Envelope:
    """Take from a decoded line what all lines of its session repeat.

    The time is the line's own: nothing has happened in the session since, and a plan that is
    made again is the same plan.
    """
    return Envelope(
        session_id=str(last.get("sessionId") or ""),
        last_uuid=str(last.get("uuid") or ""),
        timestamp=str(last.get("timestamp") or ""),
        cwd=last.get("cwd"),
        version=last.get("version"),
        git_branch=last.get("gitBranch"),
    )


def _ids(whole: Whole, summary: str, uuids: Sequence[str]) -> tuple[str, str]:
    said = "\n".join([*uuids, summary])
    return id_of(whole, "boundary", said), id_of(whole, "summary", said)


def id_of(whole: Whole, kind: str, said: str) -> str:
    """Name a line of ours by what it says: the same plan has the same ids."""
    return str(uuid5(_OURS, f"{kind} {whole.envelope.last_uuid}\n{said}"))
