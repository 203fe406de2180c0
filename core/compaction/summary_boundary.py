"""The boundary and summary that are appended to a transcript, and their conversation."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID, uuid5

import msgspec

from ..transcript.visible_messages import reannounced_attachments, visible_entries
from .plan import AppendLine, Operation, Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ..transcript.conversation import Entry, MessagePart


class CommonLineFields(msgspec.Struct, frozen=True):
    """What every line of the session says of itself; as its last chained line says it."""

    session_id: str
    last_uuid: str
    """Of the line that the boundary follows."""
    timestamp: str
    """ISO 8601, UTC, milliseconds."""
    cwd: str | None = None
    version: str | None = None
    git_branch: str | None = None


class BoundaryContent(msgspec.Struct, frozen=True):
    """What is summarised and what stays."""

    summary_text: str
    retained_uuids: Sequence[str]
    """Of the lines that stay as they are, in their order."""
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

    entries: tuple[Entry, ...]
    """Of the whole file, as its reader gives them."""
    common_fields: CommonLineFields
    """Of the newest line of the conversation (`newest`)."""
    count_tokens: Callable[[MessagePart], int]
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
        return visible_entries(self.entries)

    def tokens(self, entries: Iterable[Entry]) -> int:
        """Estimate the tokens of entries."""
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
    """Name a line of ours by what it says: the same plan has the same ids."""
    return str(uuid5(_UUID_NAMESPACE, f"{kind} {conversation.common_fields.last_uuid}\n{content}"))
