"""The tool calls of a session that have no result yet."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from ...core.model.conversation import RESULT_KINDS, Entry, PartKind, decode_tool_input
from ..claude_code.transcripts.transcript_ends import read_recent_entries


class PendingCall(msgspec.Struct, frozen=True):
    tool_use_id: str
    tool: str
    input: Mapping[str, Any]

    def text(self, name: str) -> str:
        value = self.input.get(name)
        return value if isinstance(value, str) else ""

    @property
    def request(self) -> tuple[tuple[str, str], ...]:
        """Return all that is asked for: each part of the call with its name, in full."""
        return tuple((name, _input_text(value)) for name, value in self.input.items())


def _input_text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def read_pending_calls(path: Path) -> list[PendingCall]:
    """List the calls after the last prompt that have no result; raises OSError."""
    pending: dict[str, PendingCall] = {}
    for entry in read_recent_entries(path):
        _apply(entry, pending)
    return list(pending.values())


def _apply(entry: Entry, pending: dict[str, PendingCall]) -> None:
    for part in entry.parts:
        if part.kind is PartKind.PROMPT:
            # Calls before it were never answered: their client was stopped.
            pending.clear()
        elif part.kind in RESULT_KINDS:
            pending.pop(part.tool_use_id or "", None)
        elif part.kind is PartKind.TOOL_INPUT and part.tool_use_id:
            given = decode_tool_input(part.text)
            if given is not None:
                pending[part.tool_use_id] = PendingCall(part.tool_use_id, part.name, given)
