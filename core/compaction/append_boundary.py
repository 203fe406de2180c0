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

    summary_text: str
    retained_uuids: Sequence[str]
    """Of the lines that stay as they are, in their order."""
    pre_tokens: int
    post_tokens: int


def summary_lines(
    fields: Envelope, content: Kept, boundary_uuid: str, summary_uuid: str
) -> tuple[Append, Append]:
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
    boundary = {"parentUuid": None, "logicalParentUuid": fields.last_uuid} | _shared(
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
    summary = {"parentUuid": boundary_uuid} | _shared(fields, summary_uuid)
    summary |= {
        "type": "user",
        "message": {"role": "user", "content": content.summary_text},
        "isVisibleInTranscriptOnly": True,
        "isCompactSummary": True,
    }
    return _line(boundary), _line(summary)


def prompt_line(common_fields: Envelope, text: str, uuid: str) -> Append:
    """Write a person's message that begins a conversation, and name the line it goes on from."""
    fields = {"parentUuid": None} | _shared(common_fields, uuid)
    fields |= {
        "type": "user",
        "message": {"role": "user", "content": text},
        "forkedFrom": {
            "sessionId": common_fields.session_id,
            "messageUuid": common_fields.last_uuid,
        },
    }
    return _line(fields)


def _shared(fields: Envelope, uuid: str) -> dict[str, Any]:
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


def _line(fields: dict[str, Any]) -> Append:
    return Append(json.dumps(fields, ensure_ascii=False, separators=(",", ":")))
