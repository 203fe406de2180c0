"""The newest messages that stay verbatim: whole turns, and calls with their results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from ..summaries.key_messages import AnchorSettings, find_anchors
from ..transcript.conversation import (
    ConversationMessage,
    Entry,
    PartKind,
    drops_thinking,
    group_messages,
)
from ..transcript.visible_messages import is_result

if TYPE_CHECKING:
    from collections.abc import Sequence


class SplitSettings(msgspec.Struct, frozen=True):
    """How much stays."""

    recent_message_count: int = 10
    """Messages that stay whole, at least (003-26)."""
    summary_max_tokens: int = 500
    """Of the summary of all others (003-27)."""
    anchors: AnchorSettings = AnchorSettings()


class MessageSplit(msgspec.Struct, frozen=True):
    """A conversation's two parts, oldest first."""

    recent: tuple[ConversationMessage, ...]
    older: tuple[ConversationMessage, ...]
    """To be summarised, in `summary_max_tokens`."""
    anchors: tuple[ConversationMessage, ...]
    """Of the older ones: their words go into the summary's input as they stand."""
    summary_max_tokens: int
    note: str = ""
    """Said where more stays than was asked for."""


_DEFAULT_SPLIT: Final = SplitSettings()

_RESULT_KINDS: Final = frozenset({PartKind.TOOL_RESULT, PartKind.AGENT_RETURN})


def split_messages(
    messages: Sequence[ConversationMessage], settings: SplitSettings = _DEFAULT_SPLIT
) -> MessageSplit:
    """Split a conversation; a tool's call and its result always stay together (R001-01).

    The API refuses a result whose call is gone. Calls side by side, and steps that follow
    each other, are kept whole by going back to the first call that is needed.
    """
    wanted = max(0, settings.recent_message_count)
    start = _safe_start(messages, max(0, len(messages) - wanted))
    older, recent = tuple(messages[:start]), tuple(messages[start:])
    extended = len(recent) > wanted
    return MessageSplit(
        recent=recent,
        older=older,
        anchors=find_anchors(older, settings.anchors),
        summary_max_tokens=settings.summary_max_tokens,
        note=f"Extended preserve count to {len(recent)}" if extended else "",
    )


def _safe_start(messages: Sequence[ConversationMessage], start: int) -> int:
    """Move the first message that stays back, until no result is without its call."""
    calls: dict[str, int] = {}
    needs: list[int] = []
    for place, message in enumerate(messages):
        first = place
        for piece in message.parts:
            if piece.kind is PartKind.TOOL_INPUT and piece.tool_use_id:
                calls[piece.tool_use_id] = place
            elif _is_result(piece.kind, piece.tool_use_id):
                # Where the call is not known, it is the answer before.
                first = min(first, calls.get(piece.tool_use_id or "", max(0, place - 1)))
        needs.append(first)
    # A message that comes to stay may need others itself, all of them before it.
    place = len(messages)
    while place > start:
        place -= 1
        start = min(start, needs[place])
    return start


def _is_result(kind: PartKind, tool_use_id: str | None) -> bool:
    """Whether a part is a result that answers a call; an agent's notification answers none."""
    return kind in _RESULT_KINDS and tool_use_id is not None


class RetainedTail(msgspec.Struct, frozen=True):
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


def retain_last_messages(visible: Sequence[Entry], messages: int) -> RetainedTail:
    """Keep the last messages, and as many more as they need.

    No result is kept without its call (R001-01), no part of an answer without its others; the
    cut goes back to the prompt that began the turn where that is at most as many messages
    more, else it stands behind a whole group of calls and results.
    """
    found = group_messages(list(visible))
    start = len(found) - len(split_messages(found, SplitSettings(messages)).recent)
    return _split_at(found, _turn_start(found, _answer_start(found, start), messages))


def retain_last_turns(visible: Sequence[Entry], turns: int) -> RetainedTail:
    """Keep the last turns, each from its prompt on; all where there are not more."""
    found = group_messages(list(visible))
    begins = [place for place, each in enumerate(found) if has_prompt(each)]
    if not 0 < turns < len(begins):
        return _split_at(found, 0 if turns else len(found))
    return _split_at(found, begins[-turns])


def has_prompt(message: ConversationMessage) -> bool:
    """Whether a message holds a user's prompt, and so begins a turn."""
    return any(piece.kind is PartKind.PROMPT for piece in message.parts)


def _answer_start(found: Sequence[ConversationMessage], start: int) -> int:
    """Go back to where an answer begins whose later lines would stay."""
    ids = {entry.message_id for each in found[start:] for entry in each.entries} - {None}
    for place in range(start):
        if any(entry.message_id in ids for entry in found[place].entries):
            return place
    return start


def _turn_start(found: Sequence[ConversationMessage], start: int, most: int) -> int:
    if start == len(found):
        return start
    for place in range(start, max(-1, start - most - 1), -1):
        if has_prompt(found[place]):
            return place
    return start


def _split_at(found: Sequence[ConversationMessage], start: int) -> RetainedTail:
    behind = _count_leading_results(found[start].entries) if start < len(found) else 0
    entries = [entry for each in found[start:] for entry in each.entries]
    away = (*(entry for each in found[:start] for entry in each.entries), *entries[:behind])
    kept = tuple(entries[behind:])
    stay = (
        kept if _retains_thinking(kept) else tuple(each for each in kept if not _only_thinks(each))
    )
    return RetainedTail(away, stay, start, len(found) - start)


def _count_leading_results(entries: Sequence[Entry]) -> int:
    """Count what stands before a prompt in its message, where calls before it were answered.

    A prompt that follows a result, as after an interruption, is sent in one message with it.
    """
    answers = [n for n, each in enumerate(entries, 1) if any(map(is_result, each.parts))]
    is_asked = any(piece.kind is PartKind.PROMPT for each in entries for piece in each.parts)
    return answers[-1] if answers and is_asked else 0


def _retains_thinking(kept: Sequence[Entry]) -> bool:
    """Whether thinking is retained: if a call is open and the model does not bind thinking.

    Models that see earlier thinking bind it to everything before it; other models need the
    current turn's thinking while a call is open (compaction.md 2.5).
    """
    model = next((each.model for each in reversed(kept) if each.model), None)
    last = next((each for each in reversed(kept) if each.type != "attachment"), None)
    is_open = last is not None and any(is_result(piece) for piece in last.parts)
    return is_open and drops_thinking(model)


def _only_thinks(entry: Entry) -> bool:
    return all(piece.kind is PartKind.THINKING for piece in entry.parts)
