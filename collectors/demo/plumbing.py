"""The plumbing under the demo: ids from a seed, a clock that is told the time, files and lines."""

from __future__ import annotations

import hashlib
import json
import os
import string
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

    from .model import Json

FOLDER_MODE = 0o700  # Claude Code keeps its folders to its user
FILE_MODE = 0o600  # and its transcripts too
LINE_GAP = timedelta(milliseconds=2)  # two lines of one answer are never stamped alike
ID_LETTERS = string.ascii_letters + string.digits
MAX_SLUG = 200  # longer paths get a hash in the real client; the demo has none


def encode(line: Json) -> bytes:
    """Return a line as the client writes it: compact, with a newline at its end."""
    return json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def digest_of(value: object) -> str:
    """Return the address of some content, as the client's request lines use it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def stamp(moment: datetime) -> str:
    """Return a moment as the client writes it: UTC, milliseconds, a Z."""
    utc = moment.astimezone(UTC)
    return f"{utc:%Y-%m-%dT%H:%M:%S}.{utc.microsecond // 1000:03d}Z"


def millis(moment: datetime) -> int:
    """Return a moment as the registry writes it: whole milliseconds since 1970."""
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def slug(cwd: str) -> str:
    """Return the name of a project's folder; the demo's paths are short and plain."""
    return "".join(char if char.isascii() and char.isalnum() else "-" for char in cwd)[:MAX_SLUG]


class Ids:
    """Makes every id of the demo from one seeded source, so that the same seed repeats them."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng

    def uuid(self) -> str:
        """Return the id of a line, a session or a prompt."""
        return str(uuid.UUID(int=self._rng.getrandbits(128), version=4))

    def message(self) -> str:
        """Return the id of an answer."""
        return f"msg_01{self._letters(22)}"

    def tool_use(self) -> str:
        """Return the id of a tool call."""
        return f"toolu_01{self._letters(22)}"

    def request(self) -> str:
        """Return the id of a request, as eras before api-request lines have it."""
        return f"req_011C{self._letters(20)}"

    def agent(self) -> str:
        """Return the id of an agent: 17 characters."""
        return f"a{self._rng.getrandbits(64):016x}"

    def short_agent(self) -> str:
        """Return the id of an agent as the oldest era has it: 7 characters."""
        return f"a{self._rng.getrandbits(24):06x}"

    def run(self) -> str:
        """Return the id of a finished background task."""
        return f"0{self._letters(8).lower()}-{self._rng.getrandbits(32):08x}"

    def _letters(self, count: int) -> str:
        return "".join(self._rng.choices(ID_LETTERS, k=count))


@dataclass
class Clock:
    """The time of a story: it moves when it is told to, and never past its end."""

    at: datetime
    pace: timedelta
    end: datetime

    def tick(self) -> datetime:
        """Move by the gap between two lines."""
        self.at = max(self.at, min(self.at + LINE_GAP, self.end))
        return self.at

    def advance(self) -> datetime:
        """Move by the time between two answers."""
        self.at = max(self.at, min(self.at + self.pace, self.end))
        return self.at


class Sink(Protocol):
    """Where the lines of one transcript go."""

    def line(self, content: Json) -> None:
        """Take one line."""


@dataclass
class Sheet:
    """Keeps the lines of one file until they are written at once."""

    path: Path
    chunks: list[bytes] = field(default_factory=list)
    lines: list[Json] = field(default_factory=list)
    last: datetime | None = None

    def line(self, content: Json) -> None:
        """Take one line and remember the time on it."""
        self.lines.append(content)
        self.chunks.append(encode(content))
        if isinstance(written := content.get("timestamp"), str):
            self.last = datetime.fromisoformat(written)

    def cut(self, lines: int) -> None:
        """Keep so many lines."""
        del self.lines[lines:], self.chunks[lines:]

    def save(self) -> None:
        """Write the file with its last line's time."""
        write_file(self.path, b"".join(self.chunks))
        if self.last is not None:
            set_time(self.path, self.last)


@dataclass(frozen=True)
class Appender:
    """Adds lines to a file that must be there: one write a line, so that readers see whole ones."""

    path: Path

    def line(self, content: Json) -> None:
        """Append one line with one write."""
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(handle, encode(content))
        finally:
            os.close(handle)


def make_folder(path: Path) -> None:
    """Make a folder and what is missing above it, for its user alone."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
        folder.chmod(FOLDER_MODE)  # a umask may have taken more away


def write_file(path: Path, content: bytes) -> None:
    """Write a whole file for its user alone."""
    make_folder(path.parent)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE)
    with os.fdopen(handle, "wb") as file:
        os.fchmod(file.fileno(), FILE_MODE)
        file.write(content)


def replace_file(path: Path, content: bytes) -> None:
    """Put a new file in the place of an old one; a reader sees either, never a half."""
    temporary = path.with_name(f"{path.name}.tmp")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    temporary.replace(path)


def set_time(path: Path, moment: datetime) -> None:
    """Give a file the time of what it tells."""
    nanos = millis(moment) * 1_000_000
    os.utime(path, ns=(nanos, nanos))
