"""The beginning and the end of a transcript, read alone: for what cannot wait for the whole."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import msgspec

from ...core.conversation import PieceKind, Role
from ...core.last_line import whole_length
from ..regular import open_regular
from .conversation import read_entry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from ...core.conversation import Entry
    from .pieces import Call

HEAD_BYTES: Final = 64 * 1024
"""The first prompt of an agent stands in its first line."""

TAIL_BYTES: Final = 512 * 1024
"""After an agent's last words the client (2.1.329) writes up to 100 kB about the request."""


def head_lines(path: Path) -> list[bytes]:
    """Read the whole lines of a file's beginning; raises OSError."""
    with open_regular(path) as file:
        return _whole_lines(file.read(HEAD_BYTES))


def tail_lines(path: Path, size: int = TAIL_BYTES) -> list[bytes]:
    """Read the whole lines of a file's end; raises OSError."""
    with open_regular(path) as file:
        start = max(0, os.fstat(file.fileno()).st_size - size)
        file.seek(start)
        lines = _whole_lines(file.read(size))
    # The first one may be half a line.
    return lines[1 if start else 0 :]


def _whole_lines(data: bytes) -> list[bytes]:
    """Leave out a last line that is half written, or half read."""
    *lines, last = data.split(b"\n")
    return [*lines, last] if whole_length(last) else lines


class _Versioned(msgspec.Struct):
    version: str | None = None


_versioned: Final = msgspec.json.Decoder(_Versioned)


def last_version(path: Path) -> str | None:
    """Name the client's version in the last line that has one; None where no line of the end has.

    Raises OSError.
    """
    for line in reversed(tail_lines(path)):
        try:
            version = _versioned.decode(line).version
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        if version:
            return version
    return None


def entries_in(lines: Iterable[bytes]) -> list[Entry]:
    """Read the entries of some lines; they do not know where they stand."""
    calls: dict[str, Call] = {}
    read = (read_entry(0, line, calls, number) for number, line in enumerate(lines, 1))
    return [entry for entry in read if entry is not None]


def last_words(lines: Iterable[bytes]) -> tuple[str, int | None]:
    """Give the text of the last answer that has one, and when it was said (R000-06)."""
    answers = [
        entry
        for entry in entries_in(line for line in lines if b'"assistant"' in line)
        if entry.role is Role.ASSISTANT and not entry.hidden and _said(entry)
    ]
    if not answers:
        return "", None
    last = answers[-1]
    same = [each for each in answers if each.message_id == last.message_id]
    if last.message_id is None:
        same = [last]
    return "\n".join(_said(each) for each in same), last.at


def first_prompt(lines: Iterable[bytes]) -> str:
    """Give the text with which a conversation began."""
    return next(_prompts(entries_in(line for line in lines if b'"user"' in line)), "")


def last_prompt(lines: Iterable[bytes]) -> str:
    """Give the newest of a person's prompts among some lines of a session."""
    entries = entries_in(line for line in lines if b'"user"' in line)
    return next(_prompts(each for each in reversed(entries) if not each.sidechain), "")


def _prompts(entries: Iterable[Entry]) -> Iterator[str]:
    for entry in entries:
        if prompt := _texts(entry, PieceKind.PROMPT):
            yield prompt


def _said(entry: Entry) -> str:
    return _texts(entry, PieceKind.TEXT)


def _texts(entry: Entry, kind: PieceKind) -> str:
    texts = [piece.text for piece in entry.parts if piece.kind is kind]
    return "\n".join(text for text in texts if text.strip())
