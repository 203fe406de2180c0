"""What stays word for word when the rest is summed up: whole turns, whole pairs, by uuid."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ..conversation import Entry, Message, PieceKind, messages_of
from ..thinking import drops_thinking
from .buffer import BufferSettings, manage_buffer
from .project import is_result

if TYPE_CHECKING:
    from collections.abc import Sequence


class Tail(msgspec.Struct, frozen=True):
    """The newest part of a conversation, and what stands before it."""

    removed: tuple[Entry, ...]
    """What leaves the context, in its order."""
    retained: tuple[Entry, ...]
    """What stays, without thoughts that would be bound to what left."""
    removed_messages: int
    retained_messages: int

    @property
    def retained_uuids(self) -> tuple[str, ...]:
        """Of the lines that stay, in their order: what a boundary lists as preserved."""
        return tuple(entry.uuid for entry in self.retained if entry.uuid)


def keep_last(visible: Sequence[Entry], messages: int) -> Tail:
    """Keep the last messages, and as many more as they need.

    No result is kept without its call (R001-01), no part of an answer without its others; the
    cut goes back to the prompt that began the turn where that is at most as many messages
    more, else it stands behind a whole group of calls and results.
    """
    found = messages_of(list(visible))
    start = len(found) - len(manage_buffer(found, BufferSettings(messages)).recent)
    return _split(found, _turn_start(found, _whole_answer(found, start), messages))


def keep_turns(visible: Sequence[Entry], turns: int) -> Tail:
    """Keep the last turns, each from its prompt on; all where there are not more."""
    found = messages_of(list(visible))
    begins = [place for place, each in enumerate(found) if is_prompt(each)]
    if not 0 < turns < len(begins):
        return _split(found, 0 if turns else len(found))
    return _split(found, begins[-turns])


def is_prompt(message: Message) -> bool:
    """Say whether a message is a person's, and so begins a turn."""
    return any(piece.kind is PieceKind.PROMPT for piece in message.parts)


def _whole_answer(found: Sequence[Message], start: int) -> int:
    """Go back to where an answer begins whose later lines would stay."""
    ids = {entry.message_id for each in found[start:] for entry in each.entries} - {None}
    for place in range(start):
        if any(entry.message_id in ids for entry in found[place].entries):
            return place
    return start


def _turn_start(found: Sequence[Message], start: int, most: int) -> int:
    if start == len(found):
        return start
    for place in range(start, max(-1, start - most - 1), -1):
        if is_prompt(found[place]):
            return place
    return start


def _split(found: Sequence[Message], start: int) -> Tail:
    behind = _results_before(found[start].entries) if start < len(found) else 0
    entries = [entry for each in found[start:] for entry in each.entries]
    away = (*(entry for each in found[:start] for entry in each.entries), *entries[:behind])
    kept = tuple(entries[behind:])
    stay = kept if _thoughts_stay(kept) else tuple(each for each in kept if not _only_thinks(each))
    return Tail(away, stay, start, len(found) - start)


def _results_before(entries: Sequence[Entry]) -> int:
    """Count what stands before a prompt in its message, where calls before it were answered.

    A prompt that follows a result, as after an interruption, is sent in one message with it.
    """
    answers = [n for n, each in enumerate(entries, 1) if any(map(is_result, each.parts))]
    is_asked = any(piece.kind is PieceKind.PROMPT for each in entries for piece in each.parts)
    return answers[-1] if answers and is_asked else 0


def _thoughts_stay(kept: Sequence[Entry]) -> bool:
    """Say whether thoughts are kept: where calls are open, and no model binds them.

    A thought is bound to all that stands before it, by models that see earlier ones; other
    models want the one of the turn at hand while a call is open (compaction.md 2.5).
    """
    model = next((each.model for each in reversed(kept) if each.model), None)
    last = next((each for each in reversed(kept) if each.type != "attachment"), None)
    is_open = last is not None and any(is_result(piece) for piece in last.parts)
    return is_open and drops_thinking(model)


def _only_thinks(entry: Entry) -> bool:
    return all(piece.kind is PieceKind.THINKING for piece in entry.parts)
