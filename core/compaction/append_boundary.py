"""The lines that end a conversation in a summary of ours: a boundary, and the summary behind it.

Client 2.1.329 takes them at the end of a transcript as its own: of what stands before them it
sends only what they keep (tests/client: `BOUNDARIES`).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

from .plan import Append

if TYPE_CHECKING:
    from collections.abc import Sequence


class Envelope(msgspec.Struct, frozen=True):
    """What every line of the session says of itself; as its last chained line says it."""

    session_id: str
    last_uuid: str
    """Of the line that the boundary follows."""
    timestamp: str
    """ISO 8601, UTC, milliseconds."""
    cwd: str | None = None
    version: str | None = None
    git_branch: str | None = None


class Kept(msgspec.Struct, frozen=True):
    """What is summarised and what stays."""

    summary: str
    uuids: Sequence[str]
    """Of the lines that stay as they are, in their order."""
    pre_tokens: int
    post_tokens: int


def summary_lines(
    envelope: Envelope, kept: Kept, boundary_uuid: str, summary_uuid: str
) -> tuple[Append, Append]:
    """Write the boundary and the summary; `trigger` is manual, for a person asked for it."""
    metadata: dict[str, Any] = {
        "trigger": "manual",
        "preTokens": kept.pre_tokens,
        "postTokens": kept.post_tokens,
    }
    if kept.uuids:
        uuids = list(kept.uuids)
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
    boundary = {"parentUuid": None, "logicalParentUuid": envelope.last_uuid} | _shared(
        envelope, boundary_uuid
    )
    boundary |= {
        "type": "system",
        "subtype": "compact_boundary",
        "content": "Conversation compacted",
        "isMeta": False,
        "level": "info",
        "compactMetadata": metadata,
    }
    summary = {"parentUuid": boundary_uuid} | _shared(envelope, summary_uuid)
    summary |= {
        "type": "user",
        "message": {"role": "user", "content": kept.summary},
        "isVisibleInTranscriptOnly": True,
        "isCompactSummary": True,
    }
    return _line(boundary), _line(summary)


def prompt_line(envelope: Envelope, text: str, uuid: str) -> Append:
    """Write a person's message that begins a conversation, and name the line it goes on from."""
    fields = {"parentUuid": None} | _shared(envelope, uuid)
    fields |= {
        "type": "user",
        "message": {"role": "user", "content": text},
        "forkedFrom": {"sessionId": envelope.session_id, "messageUuid": envelope.last_uuid},
    }
    return _line(fields)


def _shared(envelope: Envelope, uuid: str) -> dict[str, Any]:
    said = {
        "isSidechain": False,
        "userType": "external",
        "cwd": envelope.cwd,
        "sessionId": envelope.session_id,
        "version": envelope.version,
        "gitBranch": envelope.git_branch,
        "uuid": uuid,
        "timestamp": envelope.timestamp,
    }
    return {name: value for name, value in said.items() if value is not None}


def _line(fields: dict[str, Any]) -> Append:
    return Append(json.dumps(fields, ensure_ascii=False, separators=(",", ":")))
