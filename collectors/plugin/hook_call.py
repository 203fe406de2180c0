"""A hook's call and reply, and what its fields say: the transcript, and the project it is about."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ...core.transcript.line_decoder import TranscriptLine


@dataclass(frozen=True, slots=True)
class HookCall:
    event: str
    fields: Mapping[str, Any]  # the client's fields as they came: no type can be relied on
    store: Path  # may be missing, out of date or locked: read it, never write it
    now_ms: int


@dataclass(frozen=True, slots=True)
class HookReply:
    """A hook's answer; most events have none."""

    context: str = ""  # additional context for the model; for a compaction plain text
    block_reason: str = ""  # why the agent may not stop yet


def text_field(fields: Mapping[str, Any], name: str) -> str:
    """Return a text field; empty if the field is missing or not text."""
    value = fields.get(name)
    return value if isinstance(value, str) else ""


def transcript_path(fields: Mapping[str, Any]) -> Path | None:
    """Return the session's transcript; None if the client named no usable path."""
    path = text_field(fields, "transcript_path")
    return Path(path) if path.endswith(".jsonl") and "\0" not in path else None


PROJECT_VARIABLE = "CLAUDE_PROJECT_DIR"
"""Set for every hook: where the client was started; it does not follow worktrees (2.1.329)."""


def find_hook_project(fields: Mapping[str, Any]) -> str | None:
    """Return the project's folder that the client names, else the one of the transcript."""
    named = os.environ.get(PROJECT_VARIABLE, "")
    if os.path.isabs(named):
        return named
    transcript = transcript_path(fields)
    return None if transcript is None else _first_folder(transcript)


def _first_folder(transcript: Path) -> str | None:
    from ...core.transcript.line_decoder import NotJsonError, UnexpectedShapeError, decode_line
    from ..claude_code.transcripts.transcript_ends import (
        find_launch_folder,
        read_head_lines,  # with msgspec, where the client is an old one
        starts_session,
    )

    def decoded(data: bytes) -> TranscriptLine | None:
        try:
            return decode_line(data)
        except (NotJsonError, UnexpectedShapeError):
            return None

    try:
        lines = read_head_lines(transcript)
    except OSError:
        return None
    chain = (line for data in lines if (line := decoded(data)) and line.cwd)
    first = next((line for line in chain if not line.is_sidechain), None)
    if first is None or first.cwd is None:
        return None
    if starts_session(first):
        return first.cwd
    return find_launch_folder(first.cwd, transcript.parent.name)
