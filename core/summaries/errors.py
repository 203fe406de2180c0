"""What failed, and what was done until it went well."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from ..conversation import PieceKind
from .artifacts import EDITED, WRITTEN, input_of
from .fact import as_data, one_line
from .file_index import SHELLS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..conversation import Entry, Piece

SIGNATURE_CHARS: Final = 160
"""Of the line that says what failed: two lines of a terminal."""

CALL_CHARS: Final = 80
"""Of what was called."""

LOOKED_AT: Final = 20_000
"""Characters of a result's end: what failed is summed up there."""

FIXED_BY: Final = 3
"""Files that are named as changed in between: the newest."""

_SAYS_SO: Final = re.compile(
    r"\b\w*(?:Error|Exception|Panic)\b|\b(?:error|failed|fatal|cannot|not found|denied)\b"
    r"|오류|실패",
    re.IGNORECASE,
)


class Mishap(msgspec.Struct, frozen=True):
    """A call that failed, and how it ended."""

    call: str
    """The tool and what it was called with, one line."""
    error_line: str
    """The line of its result that says what failed."""
    line: int
    """Of the result, from 1."""
    resolved_line: int | None = None
    """Where the same went well; None where it did not since."""
    changed_files: tuple[str, ...] = ()
    """Files that were changed in between."""


def mishaps(entries: Iterable[Entry]) -> tuple[Mishap, ...]:
    """List what failed, each signature once (its last time), in the order of the lines.

    It is fixed when the same call, or a call of the same tool on the same file or with the
    same command's beginning, went well later.
    """
    asked: dict[str | None, Piece] = {}
    found: dict[tuple[str, str], Mishap] = {}
    subjects: dict[tuple[str, str], set[str]] = {}
    changes: list[tuple[int, str]] = []
    for entry in entries:
        for piece in entry.parts:
            if piece.kind is PieceKind.TOOL_INPUT:
                asked[piece.tool_use_id] = piece
            elif piece.kind is PieceKind.TOOL_RESULT:
                call = asked.get(piece.tool_use_id, piece)
                about = _subjects(call)
                if piece.failed:
                    what = one_line(as_data(_called(call)), CALL_CHARS)
                    key = what, signature_of(piece.text)
                    found.pop(key, None)
                    found[key] = Mishap(*key, entry.line)
                    subjects[key] = about
                    continue
                if call.name in EDITED | WRITTEN and call.path:
                    changes.append((entry.line, call.path))
                for key in [key for key, own in subjects.items() if own & about]:
                    failed = found[key]
                    since = {path: None for at, path in changes if at > failed.line}
                    last = tuple(since)[-FIXED_BY:]
                    found[key] = msgspec.structs.replace(
                        failed, resolved_line=entry.line, changed_files=last
                    )
                    del subjects[key]
    return tuple(found.values())


def signature_of(text: str) -> str:
    """Give the line that says what failed: the last that has such a word, else the last."""
    lines = [line.strip() for line in text[-LOOKED_AT:].splitlines() if line.strip()]
    said = next((line for line in reversed(lines) if _SAYS_SO.search(line)), None)
    return one_line(as_data(said or (lines[-1] if lines else "failed")), SIGNATURE_CHARS)


def say(mishap: Mishap) -> str:
    """Say what failed, and how it ended."""
    said = f"{mishap.call}: {mishap.error_line}"
    if mishap.resolved_line is None:
        return f"{said} → still open"
    by = f" after changes to {', '.join(mishap.changed_files)}" if mishap.changed_files else ""
    return f"{said} → went well at line {mishap.resolved_line}{by}"


def _called(call: Piece) -> str:
    return f"{call.name} {call.path or input_of(call).get('command') or call.text}"


def _subjects(call: Piece) -> set[str]:
    """Name what a call is about: the whole call, its file, the first words of its command."""
    about = {f"{call.name} = {call.text}"}
    if call.path:
        about.add(f"{call.name} on {call.path}")
    if call.name in SHELLS:
        about.add(f"{call.name} of {' '.join(str(input_of(call).get('command')).split()[:3])}")
    return about
