"""A boundary and its summary as lines that are appended: nothing that stands is rewritten.

The shape is the client's own, 2.1.329 (reference: claude-code-live, "Editing a transcript"):
it sends the summary, then the messages that the boundary lists, and nothing older.
"""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TAKEN: Final = ("sessionId", "cwd", "version", "gitBranch", "slug", "userType", "entrypoint")
"""Fields that each line of a session repeats."""

_OURS: Final = uuid.UUID("5e0b4a0e-6a0f-5d0c-9f4e-2f7e1c1b7a55")
"""Under it the lines' ids are made of what they say: a plan that is made again has the same."""


def boundary_lines(
    last: Mapping[str, Any],
    summary: str,
    kept: Sequence[str],
    *,
    before_tokens: int,
    after_tokens: int,
) -> tuple[str, str]:
    """Give the two lines, as JSON without a line end: the boundary, and the summary.

    `last` is the newest line of the conversation, `kept` are the uuids that stay, in their
    order. The time is the last line's own: nothing happened in the session since.
    """
    seed = f"{last.get('uuid')}\n{summary}\n{' '.join(kept)}"
    boundary_id, summary_id = (str(uuid.uuid5(_OURS, f"{what}\n{seed}")) for what in ("b", "s"))
    base = {name: last[name] for name in TAKEN if name in last}
    base |= {"isSidechain": False, "timestamp": last.get("timestamp")}
    metadata: dict[str, Any] = {
        "trigger": "manual",
        "preTokens": before_tokens,
        "postTokens": after_tokens,
        "durationMs": 0,
    }
    if kept:
        ends = {"headUuid": kept[0], "anchorUuid": summary_id, "tailUuid": kept[-1]}
        listed = {"anchorUuid": summary_id, "uuids": list(kept), "allUuids": list(kept)}
        metadata |= {"preservedSegment": ends, "preservedMessages": listed}
    boundary = {
        "parentUuid": None,
        "logicalParentUuid": last.get("uuid"),
        **base,
        "type": "system",
        "subtype": "compact_boundary",
        "content": "Conversation compacted",
        "isMeta": False,
        "level": "info",
        "compactMetadata": metadata,
        "uuid": boundary_id,
    }
    said = {
        "parentUuid": boundary_id,
        **base,
        "type": "user",
        "message": {"role": "user", "content": summary},
        "isVisibleInTranscriptOnly": True,
        "isCompactSummary": True,
        "uuid": summary_id,
    }
    return _line(boundary), _line(said)


def _line(record: Mapping[str, Any]) -> str:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":"))
