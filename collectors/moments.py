"""What stands at one place of a transcript: an answer's calls, the text of a line."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Final

from ..core.composition_items import call_name
from ..core.conversation import PieceKind
from ..core.store import request_queries
from .clean import clean_text, clean_title
from .composing import NothingToComposeError
from .transcripts.conversation import entries_from, lines_of, read_entry

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator
    from pathlib import Path

    from ..core.conversation import Piece
    from ..core.store.timeline_queries import AnswerRow

TEXT_CHARS: Final = 20_000
"""Of a line: its start, as much as a person reads of it."""


def read_calls(
    db: sqlite3.Connection,
    projects: Path,
    session_id: str,
    answer: AnswerRow,
    agent_id: str | None = None,
) -> tuple[str, ...]:
    """Name the tools that an answer called, each by what it was about.

    Raises NothingToComposeError where the transcript is not there.
    """
    path = _path(db, projects, session_id, agent_id)
    try:
        lines = takewhile(
            lambda entry: entry.offset <= answer.last_offset, entries_from(path, answer.offset)
        )
        return tuple(
            clean_title(call_name(piece))
            for entry in lines
            if entry.message_id == answer.message_id
            for piece in entry.parts
            if piece.kind is PieceKind.TOOL_INPUT
        )
    except OSError as error:
        raise NothingToComposeError(f"{path} cannot be read: {error.strerror or error}") from error


def read_line(
    db: sqlite3.Connection,
    projects: Path,
    session_id: str,
    number: int,
    agent_id: str | None = None,
) -> str:
    """Read the start of what a line of a transcript, counted from 1, puts into the context.

    Raises NothingToComposeError where it is not there.
    """
    path = _path(db, projects, session_id, agent_id)
    try:
        found = next((line for line in lines_of(path) if line[1] == number), None)
    except OSError as error:
        raise NothingToComposeError(f"{path} cannot be read: {error.strerror or error}") from error
    entry = read_entry(found[0], found[2], {}, number) if found else None
    if entry is None:
        raise NothingToComposeError(f"line {number} of {path} holds nothing that is sent")
    text = "\n".join(_texts(entry.parts))
    return clean_text(text[:TEXT_CHARS])


def _texts(pieces: tuple[Piece, ...]) -> Iterator[str]:
    for piece in pieces:
        if piece.kind is PieceKind.TOOL_INPUT:
            yield f"{piece.name} {piece.text}"
        elif piece.text:
            yield piece.text
        elif piece.media:
            yield "an image or a document"


def _path(db: sqlite3.Connection, projects: Path, session_id: str, agent_id: str | None) -> Path:
    found = request_queries.transcript(db, session_id, agent_id)
    if found is None:
        raise NothingToComposeError(f"session {session_id} has no transcript")
    return projects / found[1]
