"""A compaction of 2.1.329: the boundary, what it says about the cut, the summary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import texts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .model import Json

DURATION_MS = 21_400  # what a summary takes; nobody compares it


@dataclass(frozen=True)
class Compaction:
    """How a conversation is compacted: who asked, what is left of it."""

    trigger: str
    summary: str
    post_tokens: int
    instructions: str = ""


@dataclass(frozen=True)
class Cut:
    """Where a conversation was cut: its last line, the kept ones, the summary, the counts."""

    last_line: str | None
    kept: tuple[str, ...]
    summary_id: str
    tokens: int
    dropped: int


def boundary(how: Compaction, cut: Cut) -> Json:
    """Return what a boundary says."""
    kept = list(cut.kept)
    metadata: Json = {
        "trigger": how.trigger,
        "preTokens": cut.tokens,
        "postTokens": how.post_tokens,
        "cumulativeDroppedTokens": cut.dropped,
        "durationMs": DURATION_MS,
        "preservedSegment": {
            "headUuid": kept[0] if kept else cut.last_line,
            "anchorUuid": cut.summary_id,
            "tailUuid": cut.last_line,
        },
        "preservedMessages": {"anchorUuid": cut.summary_id, "uuids": kept, "allUuids": kept},
        "preCompactOrganizationsCoverStart": False,
    }
    if how.trigger == "auto":
        metadata["runningTurnPrompt"] = {}
    return {
        "logicalParentUuid": cut.last_line,
        "type": "system",
        "subtype": "compact_boundary",
        "content": "Conversation compacted",
        "level": "info",
        "compactMetadata": metadata,
    }


def summary_text(how: Compaction, tools: Iterable[str], transcript: str) -> str:
    """Return the summary as the model reads it."""
    head = texts.SUMMARY_HEAD.format(tools=", ".join(tools))
    return head + how.summary + texts.SUMMARY_TAIL.format(transcript=transcript)
