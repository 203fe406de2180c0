"""The boundary and summary that are appended to a transcript, and the messages that stay."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID, uuid5

import msgspec

from ..transcript.conversation import (
    RESULT_KINDS,
    ConversationMessage,
    Entry,
    MessagePart,
    PartKind,
    drops_thinking,
    group_messages,
    has_prompt,
    only_thinks,
)
from ..transcript.visible_messages import is_result, reannounced_attachments, visible_entries
from .plan import AppendLine, Operation, Severity


class CommonLineFields(msgspec.Struct, frozen=True):
    """The fields that every line of a session repeats, from its last chained line."""

    session_id: str
    last_uuid: str  # of the line that the boundary follows
    timestamp: str  # ISO 8601, UTC, milliseconds
    cwd: str | None = None
    version: str | None = None
    git_branch: str | None = None


class BoundaryContent(msgspec.Struct, frozen=True):
    summary_text: str
    retained_uuids: Sequence[str]  # of the lines that stay as they are, in their order
    pre_tokens: int
    post_tokens: int


def make_boundary_lines(
    fields: CommonLineFields, content: BoundaryContent, boundary_uuid: str, summary_uuid: str
) -> tuple[AppendLine, AppendLine]:
    """Write the boundary and the summary; `trigger` is manual, for a person asked for it."""
    metadata: dict[str, Any] = {
        "trigger": "manual",
        "preTokens": content.pre_tokens,
        "postTokens": content.post_tokens,
    }
    if content.retained_uuids:
        uuids = list(content.retained_uuids)
        metadata["preservedSegment"] = {
            "headUuid": uuids[0],
            "anchorUuid": summary_uuid,
            "tailUuid": uuids[-1],
        }
        metadata["preservedMessages"] = {
            "anchorUuid": summary_uuid,
            "uuids": uuids,
            "allUuids": uuids,
        }
    boundary = {"parentUuid": None, "logicalParentUuid": fields.last_uuid} | _common_fields(
        fields, boundary_uuid
    )
    boundary |= {
        "type": "system",
        "subtype": "compact_boundary",
        "content": "Conversation compacted",
        "isMeta": False,
        "level": "info",
        "compactMetadata": metadata,
    }
    summary = {"parentUuid": boundary_uuid} | _common_fields(fields, summary_uuid)
    summary |= {
        "type": "user",
        "message": {"role": "user", "content": content.summary_text},
        "isVisibleInTranscriptOnly": True,
        "isCompactSummary": True,
    }
    return _to_append(boundary), _to_append(summary)


def make_prompt_line(common_fields: CommonLineFields, text: str, uuid: str) -> AppendLine:
    """Write a person's message that begins a conversation, and name the line it goes on from."""
    fields = {"parentUuid": None} | _common_fields(common_fields, uuid)
    fields |= {
        "type": "user",
        "message": {"role": "user", "content": text},
        "forkedFrom": {
            "sessionId": common_fields.session_id,
            "messageUuid": common_fields.last_uuid,
        },
    }
    return _to_append(fields)


def _common_fields(fields: CommonLineFields, uuid: str) -> dict[str, Any]:
    said = {
        "isSidechain": False,
        "userType": "external",
        "cwd": fields.cwd,
        "sessionId": fields.session_id,
        "version": fields.version,
        "gitBranch": fields.git_branch,
        "uuid": uuid,
        "timestamp": fields.timestamp,
    }
    return {name: value for name, value in said.items() if value is not None}


def _to_append(fields: dict[str, Any]) -> AppendLine:
    return AppendLine(json.dumps(fields, ensure_ascii=False, separators=(",", ":")))


_UUID_NAMESPACE: Final = UUID("5e0b4a0e-6a0f-5d0c-9f4e-2f7e1c1b7a55")


class Conversation(msgspec.Struct, frozen=True):
    """What is planned for; the transcript itself is not touched."""

    entries: tuple[Entry, ...]  # of the whole file, as its reader gives them
    common_fields: CommonLineFields  # of the newest line of the conversation (`newest`)
    count_tokens: Callable[[MessagePart], int]  # estimates the tokens of a piece
    transcript_path: str = ""  # path of the file
    overhead_tokens: int = 0  # tokens of the system prompt and the tools
    visible_tokens: int | None = None
    """Of all that the model sees now, where more is known than `count` can tell: of thoughts
    no text says how long they are."""

    @property
    def visible_entries(self) -> list[Entry]:
        return visible_entries(self.entries)

    def tokens(self, entries: Iterable[Entry]) -> int:
        return sum(self.count_tokens(piece) for entry in entries for piece in entry.parts)


def newest_entry(entries: Sequence[Entry]) -> Entry | None:
    """Return the last entry that has a uuid and is no agent's: new lines are attached to it."""
    return next((each for each in reversed(entries) if each.uuid and not each.sidechain), None)


def make_boundary_operation(
    conversation: Conversation,
    summary: MessagePart,
    retained: Sequence[Entry],
    severity: Severity,
    strategy_what_why: tuple[str, str, str],
) -> Operation:
    """Make one operation of a boundary and its summary.

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
        + conversation.tokens(reannounced_attachments(away, retained))
    )
    uuids = tuple(entry.uuid for entry in retained if entry.uuid)
    lines = make_boundary_lines(
        conversation.common_fields,
        BoundaryContent(summary.text, uuids, conversation.overhead_tokens + before, after),
        *_boundary_ids(conversation, summary.text, uuids),
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


def read_common_fields(last: Mapping[str, Any]) -> CommonLineFields:
    """Read the fields that all lines of a session repeat from a decoded line.

    The timestamp is the line's own: nothing has happened in the session since, and planning
    again gives the same plan.
    """
    return CommonLineFields(
        session_id=str(last.get("sessionId") or ""),
        last_uuid=str(last.get("uuid") or ""),
        timestamp=str(last.get("timestamp") or ""),
        cwd=last.get("cwd"),
        version=last.get("version"),
        git_branch=last.get("gitBranch"),
    )


def _boundary_ids(
    conversation: Conversation, summary: str, uuids: Sequence[str]
) -> tuple[str, str]:
    said = "\n".join([*uuids, summary])
    return derive_line_id(conversation, "boundary", said), derive_line_id(
        conversation, "summary", said
    )


def derive_line_id(conversation: Conversation, kind: str, content: str) -> str:
    """Return a uuid for a line of ours; the same plan has the same uuids."""
    return str(uuid5(_UUID_NAMESPACE, f"{kind} {conversation.common_fields.last_uuid}\n{content}"))


def start_of_recent(messages: Sequence[ConversationMessage], least: int) -> int:
    """Return where the newest messages begin, at least `least` of them.

    A tool's call and its result always stay together (R001-01): the API refuses a result whose
    call is gone. Calls side by side, and steps that follow each other, are kept whole by going
    back to the first call that is needed.
    """
    start = len(messages) - max(0, min(least, len(messages)))
    needs = _first_needed(messages)
    # A message that comes to stay may need others itself, all of them before it.
    place = len(messages)
    while place > start:
        place -= 1
        start = min(start, needs[place])
    return start


def _first_needed(messages: Sequence[ConversationMessage]) -> list[int]:
    """Return for each message the first one that it needs: itself, or that of a call."""
    calls: dict[str, int] = {}
    needs: list[int] = []
    for place, message in enumerate(messages):
        first = place
        for piece in message.parts:
            if piece.kind is PartKind.TOOL_INPUT and piece.tool_use_id:
                calls[piece.tool_use_id] = place
            elif piece.kind in RESULT_KINDS and piece.tool_use_id is not None:
                # Where the call is not known, it is the answer before. An agent's notification
                # answers none.
                first = min(first, calls.get(piece.tool_use_id, max(0, place - 1)))
        needs.append(first)
    return needs


class RetainedTail(msgspec.Struct, frozen=True):
    """The newest part of a conversation, and what stands before it."""

    removed: tuple[Entry, ...]  # what leaves the context, in its order
    retained: tuple[Entry, ...]  # what stays, without thoughts that would be bound to what left
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
    start = start_of_recent(found, messages)
    return _split_at(found, _turn_start(found, _answer_start(found, start), messages))


def retain_last_turns(visible: Sequence[Entry], turns: int) -> RetainedTail:
    """Keep the last turns, each from its prompt on; all where there are not more."""
    found = group_messages(list(visible))
    begins = [place for place, each in enumerate(found) if has_prompt(each)]
    if not 0 < turns < len(begins):
        return _split_at(found, 0 if turns else len(found))
    return _split_at(found, begins[-turns])


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
        kept if _retains_thinking(kept) else tuple(each for each in kept if not only_thinks(each))
    )
    return RetainedTail(away, stay, start, len(found) - start)


def _count_leading_results(entries: Sequence[Entry]) -> int:
    """Count what stands before a prompt in its message, where calls before it were answered.

    A prompt that follows a result, as after an interruption, is sent in one message with it.
    """
    answers = [n for n, each in enumerate(entries, 1) if any(map(is_result, each.parts))]
    is_asked = any(map(has_prompt, entries))
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
