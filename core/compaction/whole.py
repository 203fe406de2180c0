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
    common_fields: Envelope
    """Of the newest line of the conversation (`newest`)."""
    count_tokens: Callable[[Piece], int]
    """Estimates the tokens of a piece."""
    transcript_path: str = ""
    """Path of the file."""
    overhead_tokens: int = 0
    """Tokens of the system prompt and the tools."""
    visible_tokens: int | None = None
    """Of all that the model sees now, where more is known than `count` can tell: of thoughts
    no text says how long they are."""

    @property
    def visible_entries(self) -> list[Entry]:
        """What the model sees now."""
        return project(self.entries)

    def tokens(self, entries: Iterable[Entry]) -> int:
        """Estimate the tokens of entries."""
        return sum(self.count_tokens(piece) for entry in entries for piece in entry.parts)


def newest(entries: Sequence[Entry]) -> Entry | None:
    """Give the newest line that others can follow: the last with a uuid, of no agent's."""
    return next((each for each in reversed(entries) if each.uuid and not each.sidechain), None)


def appended_operation(
    conversation: Whole,
    summary: Piece,
    retained: Sequence[Entry],
    severity: Harm,
    strategy_what_why: tuple[str, str, str],
) -> Operation:
    """Make one operation of a boundary and its summary; `named` is strategy, what and why.

    Tokens saved are those that are sent now less the summary, what is kept, and what the
    client will announce again. The boundary says what the client's own says: all that a
    request held before, and what is left without the system prompt and the tools.
    """
    sent = conversation.visible_entries
    before = (
        conversation.tokens(sent)
        if conversation.visible_tokens is None
        else conversation.visible_tokens
    )
    staying = {entry.offset for entry in retained}
    away = [entry for entry in sent if entry.offset not in staying]
    after = (
        conversation.count_tokens(summary)
        + conversation.tokens(retained)
        + conversation.tokens(announced_again(away, retained))
    )
    uuids = tuple(entry.uuid for entry in retained if entry.uuid)
    lines = summary_lines(
        conversation.common_fields,
        Kept(summary.text, uuids, conversation.overhead_tokens + before, after),
        *_ids(conversation, summary.text, uuids),
    )
    strategy, what, why = strategy_what_why
    return Operation(
        strategy=strategy,
        level=severity,
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


def _ids(conversation: Whole, summary: str, uuids: Sequence[str]) -> tuple[str, str]:
    said = "\n".join([*uuids, summary])
    return id_of(conversation, "boundary", said), id_of(conversation, "summary", said)


def id_of(conversation: Whole, kind: str, content: str) -> str:
    """Name a line of ours by what it says: the same plan has the same ids."""
    return str(uuid5(_OURS, f"{kind} {conversation.common_fields.last_uuid}\n{content}"))
