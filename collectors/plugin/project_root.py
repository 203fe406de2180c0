"""Where the session of a hook's call began; its `cwd` may be any folder that it walked into."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from .fields import transcript_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

    from ..transcripts.lines import Line

VARIABLE = "CLAUDE_PROJECT_DIR"
"""Set for every hook: where the client was started; it does not follow worktrees (2.1.329)."""


def project_root(fields: Mapping[str, Any]) -> str | None:
    """Return the client's own word, else what the transcript says; None where nobody knows."""
    named = os.environ.get(VARIABLE, "")
    if os.path.isabs(named):
        return named
    transcript = transcript_of(fields)
    return None if transcript is None else _first_folder(transcript)


def _first_folder(transcript: Path) -> str | None:
    from ..transcripts.ends import head_lines  # with msgspec, where the client is an old one
    from ..transcripts.lines import NotJsonError, ShapeError, decode_line
    from ..transcripts.project_root import begins_session, find_launch_folder

    def decoded(data: bytes) -> Line | None:
        try:
            return decode_line(data)
        except (NotJsonError, ShapeError):
            return None

    try:
        lines = head_lines(transcript)
    except OSError:
        return None
    chain = (line for data in lines if (line := decoded(data)) and line.cwd)
    first = next((line for line in chain if not line.is_sidechain), None)
    if first is None or first.cwd is None:
        return None
    if begins_session(first):
        return first.cwd
    return find_launch_folder(first.cwd, transcript.parent.name)
