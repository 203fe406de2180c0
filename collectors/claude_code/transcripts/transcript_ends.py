"""Reads only the beginning or the end of a transcript, for callers that cannot wait."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from ....core.files.safe_open import open_regular
from ....core.transcript.conversation import Entry, PartKind, Role, without_sidechains
from ....core.transcript.entry_decoder import NamedToolCall, decode_entry, iter_entries
from ....core.transcript.line_decoder import NotJsonError, UnexpectedShapeError
from ....core.transcript.line_glance import glance
from ....core.transcript.raw_lines import complete_line_length

HEAD_BYTES: Final = 64 * 1024  # the first prompt of an agent stands in its first line
TAIL_BYTES: Final = 512 * 1024
"""After an agent's last words the client (2.1.329) writes up to 100 kB about the request."""


def read_head_lines(path: Path) -> list[bytes]:
    """Read the whole lines of a file's beginning; raises OSError."""
    with open_regular(path) as file:
        return _complete_lines(file.read(HEAD_BYTES))


def read_tail_lines(path: Path, size: int = TAIL_BYTES) -> list[bytes]:
    """Read the whole lines of a file's end; raises OSError."""
    with open_regular(path) as file:
        start = max(0, os.fstat(file.fileno()).st_size - size)
        file.seek(start)
        lines = _complete_lines(file.read(size))
    # The first one may be half a line.
    return lines[1 if start else 0 :]


def _complete_lines(data: bytes) -> list[bytes]:
    """Leave out a last line that is half written, or half read."""
    *lines, last = data.split(b"\n")
    return [*lines, last] if complete_line_length(last) else lines


def last_version(path: Path) -> str | None:
    """Name the client's version in the last line that has one; None where no line of the end has.

    Raises OSError.
    """
    for line in reversed(read_tail_lines(path)):
        try:
            version = glance(line).version
        except (NotJsonError, UnexpectedShapeError):
            continue
        if version:
            return version
    return None


def decode_entries(lines: Iterable[bytes]) -> list[Entry]:
    """Read the entries of some lines; they do not know where they stand."""
    calls: dict[str, NamedToolCall] = {}
    read = (decode_entry(0, line, calls, number) for number, line in enumerate(lines, 1))
    return [entry for entry in read if entry is not None]


def last_answer_text(lines: Iterable[bytes]) -> tuple[str, int | None]:
    """Return the text of the last answer that has any, and its time in ms (R000-06).

    An empty text and None if there is none.
    """
    answers = [
        entry
        for entry in decode_entries(line for line in lines if b'"assistant"' in line)
        if entry.role is Role.ASSISTANT and not entry.hidden and _answer_text(entry)
    ]
    if not answers:
        return "", None
    last = answers[-1]
    same = [each for each in answers if each.message_id == last.message_id]
    if last.message_id is None:
        same = [last]
    return "\n".join(_answer_text(each) for each in same), last.at


def first_prompt_text(lines: Iterable[bytes]) -> str:
    """Return the prompt that began a conversation; empty if there is none."""
    return next(_prompt_texts(decode_entries(line for line in lines if b'"user"' in line)), "")


def last_prompt_text(lines: Iterable[bytes]) -> str:
    """Return the newest prompt of the user in a session's lines; empty if there is none."""
    entries = decode_entries(line for line in lines if b'"user"' in line)
    return next(_prompt_texts(each for each in reversed(entries) if not each.sidechain), "")


def _prompt_texts(entries: Iterable[Entry]) -> Iterator[str]:
    for entry in entries:
        if prompt := _entry_text(entry, PartKind.PROMPT):
            yield prompt


def _answer_text(entry: Entry) -> str:
    return _entry_text(entry, PartKind.TEXT)


def _entry_text(entry: Entry, kind: PartKind) -> str:
    texts = [piece.text for piece in entry.parts if piece.kind is kind]
    return "\n".join(text for text in texts if text.strip())


RECENT_BYTES: Final = 6 * 1024 * 1024
"""Of a transcript's end: 0.2 s of reading and looking; a segment of the recorded sessions has
4 MB at the most."""


def read_recent_entries(path: Path, most: int = RECENT_BYTES) -> list[Entry]:
    """Read the entries of a context from the last `most` bytes of its file.

    Of a session's file those of agents are left out, of an agent's own none. Lines count from
    where the reading begins. Raises OSError where the file cannot be read.
    """
    entries = iter_entries(path, find_recent_start(path, most))
    return [*(entries if path.parent.name == "subagents" else without_sidechains(entries))]


def find_recent_start(path: Path, most: int, end: int | None = None) -> int:
    """Find the first line of the last `most` bytes before `end`, or before the file's end.

    Raises OSError where the file cannot be read.
    """
    with open_regular(path) as file:
        start = max(0, (file.seek(0, 2) if end is None else end) - most)
        file.seek(start)
        while start and (block := file.read(1 << 20)):
            place = block.find(b"\n")
            if place >= 0:
                return start + place + 1
            start += len(block)
        return start
