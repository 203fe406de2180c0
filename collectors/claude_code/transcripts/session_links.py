"""Where a session started, and how it is linked to others: forks, continuations, /clear."""

from __future__ import annotations

import unicodedata
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from ....core.store.transcript_records import FileKind, SessionLinkKind, SessionLinkRecord
from ....core.transcript.line_decoder import (
    SourceSession,
    decode_blocks,
    decode_list,
    decode_string,
)
from ....core.transcript.sanitize import sanitize_title
from ....core.transcript.timestamps import timestamp_to_ms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ....core.store.transcript_records import SourceFile
    from ....core.transcript.line_decoder import TranscriptLine


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


_CLEAR_COMMAND: Final = "<command-name>/clear</command-name>"

_FORK_KINDS: Final = frozenset({"branch", "fork", "background"})
"""How client 2.1.329 names a copy of a session in `derived-from`; the other is an import."""


def read_session_links(
    offset: int, line: TranscriptLine, source: SourceFile
) -> list[SessionLinkRecord]:
    """Read what any line of a session's file says of other sessions."""
    return [
        SessionLinkRecord(
            offset, kind, sanitize_title(other).lower(), timestamp_to_ms(line.timestamp), detail
        )
        for kind, other, detail in (*_links_by_type(line), *_links_of_envelope(line, source))
    ]


def fork_parent(links: list[SessionLinkRecord]) -> str | None:
    """Name the session that this one copied its history from, where a line says it."""
    for link in links:
        if link.kind is SessionLinkKind.FORKED_FROM and link.session_id:
            return link.session_id
    return None


def _links_by_type(line: TranscriptLine) -> Iterator[tuple[SessionLinkKind, str, str]]:
    if line.type == "continued-in":
        yield SessionLinkKind.CONTINUED_IN, line.continued_in_session_id or "", ""
    elif line.type == "history-suppression":
        yield SessionLinkKind.HISTORY_SUPPRESSED, "", sanitize_title(decode_string(line.cause))
    elif line.type == "fork-context-ref":
        yield SessionLinkKind.FORK_CONTEXT, line.parent_session_id or "", ""
    elif line.type == "relocated":
        yield SessionLinkKind.RELOCATED, "", sanitize_title(line.relocated_cwd or "")
    elif line.type == "conversation_reset":
        yield (
            SessionLinkKind.RESET,
            line.new_conversation_id or "",
            sanitize_title(decode_string(line.trigger)),
        )
    elif line.type == "derived-from":
        for other in decode_list(line.sessions, SourceSession):
            via = sanitize_title(other.via or "")
            kind = (
                SessionLinkKind.FORKED_FROM if via in _FORK_KINDS else SessionLinkKind.IMPORTED_FROM
            )
            yield kind, other.id or "", via


def _links_of_envelope(
    line: TranscriptLine, source: SourceFile
) -> Iterator[tuple[SessionLinkKind, str, str]]:
    if line.forked_from and line.forked_from.session_id:
        yield SessionLinkKind.FORKED_FROM, line.forked_from.session_id, ""
    if source.kind is not FileKind.SESSION:
        return
    own = source.session_id
    if line.uuid and line.session_id and line.session_id.lower() != own:
        # Clients that made a new file at a resume copied the lines as they were.
        yield SessionLinkKind.COPIED_FROM, line.session_id, ""
    if line.session_lineage and line.session_lineage.lower() not in {
        own,
        (line.session_id or own).lower(),
    }:
        yield SessionLinkKind.LINEAGE, line.session_lineage, ""
    if line.type == "user" and _is_clear_command(line):
        yield SessionLinkKind.CLEARED, "", ""


def _is_clear_command(line: TranscriptLine) -> bool:
    blocks = decode_blocks(line.message.content) if line.message else []
    return any((block.text or "").lstrip().startswith(_CLEAR_COMMAND) for block in blocks)
