"""A hook's call that asks for an answer, and the answer; what Claude Code expects of each event."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Call:
    """What the client told the hook, and where this ctxtop keeps what it read."""

    event: str
    fields: Mapping[str, Any]
    """The event's fields as they came, of no type that can be relied on."""
    store: Path
    """May not be there, be behind, or be held by another process: read it, never write it."""
    now_ms: int


@dataclass(frozen=True, slots=True)
class Reply:
    """What the hook says back; nothing at all is the most frequent answer."""

    context: str = ""
    """Handed to the model as additional context; to a compaction's summariser as plain text."""
    block_reason: str = ""
    """Why the agent may not stop yet."""
