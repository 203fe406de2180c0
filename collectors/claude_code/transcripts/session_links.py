"""Where a session started, and which session it was forked from."""

from __future__ import annotations

import unicodedata
from pathlib import PurePosixPath
from typing import Final

from ....core.transcript.line_decoder import (
    SourceSession,
    TranscriptLine,
    decode_list,
)
from ....core.transcript.sanitize import sanitize_title

MAX_PROJECT_NAME_CHARS: Final = 200
"""Characters; of a longer path the client keeps a hash, which says nothing of folders above it."""


def starts_session(line: TranscriptLine) -> bool:
    """Whether a file's first line stands where the person started the client.

    A file can also begin at a compaction or with a hand-off: such a line names what it
    continues, and its folder is wherever that session had walked to.
    """
    fork = line.forked_from
    is_handed_off = fork is not None and fork.message_uuid not in {None, line.uuid}
    return line.parent_uuid is None and line.logical_parent_uuid is None and not is_handed_off


def find_launch_folder(cwd: str, project: str) -> str | None:
    """Return `cwd` or the nearest folder above it that the client named `project` after.

    None where the client named it after another folder, or nobody can tell.
    """
    path = PurePosixPath(cwd)
    if not path.is_absolute() or len(project) > MAX_PROJECT_NAME_CHARS:
        return None
    for folder in (path, *path.parents):
        # Unicode's composed form is at most three times shorter.
        if len(str(folder)) <= 3 * MAX_PROJECT_NAME_CHARS and _project_name(str(folder)) == project:
            return str(folder)
    return None


def _project_name(folder: str) -> str:
    """Return the client's name for a project's folder (claude-code-formats 1.2)."""
    units = unicodedata.normalize("NFC", folder).encode("utf-16-le", "surrogatepass")
    return "".join(
        chr(low) if high == 0 and chr(low).isascii() and chr(low).isalnum() else "-"
        for low, high in zip(units[::2], units[1::2], strict=True)
    )


_FORK_KINDS: Final = frozenset({"branch", "fork", "background"})
"""How client 2.1.329 names a copy of a session in `derived-from`; the other is an import."""


def fork_parent(line: TranscriptLine) -> str | None:
    """Return the id of the session that this one copied its history from, where a line names it."""
    if line.forked_from and line.forked_from.session_id:
        return sanitize_title(line.forked_from.session_id).lower()
    if line.type != "derived-from":
        return None
    sources = decode_list(line.sessions, SourceSession)
    parents = (each.id for each in sources if each.id and each.via in _FORK_KINDS)
    return next((sanitize_title(each).lower() for each in parents), None)
