"""The base of the demo's transcripts: sessions, ids, clock, files and chained lines."""

from __future__ import annotations

import hashlib
import json
import os
import string
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, Literal

DemoJson = dict[str, Any]
ExpectedState = Literal["measured", "estimated", "unknown"]


@dataclass(frozen=True)
class DemoSession:
    """One session as it was written: what ctxtop must find out by itself."""

    session_id: str
    title: str
    transcript: Path
    era: str
    model: str
    context_tokens: int | None
    context_state: ExpectedState
    window_tokens: int
    compactions: int
    agents: int
    grows: bool


@dataclass(frozen=True)
class DemoFolder:
    """A whole config folder and the truth about every session in it."""

    root: Path
    sessions: tuple[DemoSession, ...]


@dataclass(frozen=True)
class LineOrigin:
    """What every line of one session says about where it comes from."""

    session_id: str
    cwd: str
    version: str
    entrypoint: str
    branch: str
    nickname: str

    def fields(self) -> DemoJson:
        return {
            "cwd": self.cwd,
            "sessionId": self.session_id,
            "version": self.version,
            "gitBranch": self.branch,
        }


FOLDER_MODE = 0o700  # Claude Code keeps its folders to its user
FILE_MODE = 0o600  # and its transcripts too
LINE_GAP = timedelta(milliseconds=2)  # two lines of one answer are never stamped alike
ID_LETTERS = string.ascii_letters + string.digits
MAX_SLUG = 200  # longer paths get a hash in the real client; the demo has none


def encode_json(content: DemoJson) -> bytes:
    """Return JSON as the client writes it: compact, with no newline at its end."""
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


def encode_line(line: DemoJson) -> bytes:
    return encode_json(line) + b"\n"


def content_digest(value: object) -> str:
    """Return the address of some content, as the client's request lines use it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def format_time(moment: datetime) -> str:
    """Return a moment as the client writes it: UTC, milliseconds, a Z."""
    utc = moment.astimezone(UTC)
    return f"{utc:%Y-%m-%dT%H:%M:%S}.{utc.microsecond // 1000:03d}Z"


def to_millis(moment: datetime) -> int:
    """Return a moment as the registry writes it: whole milliseconds since 1970."""
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def project_slug(cwd: str) -> str:
    """Return the name of a project's folder; the demo's paths are short and plain."""
    return "".join(char if char.isascii() and char.isalnum() else "-" for char in cwd)[:MAX_SLUG]


class IdGenerator:
    """Makes every id of the demo from one seeded source, so that the same seed repeats them."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng

    def uuid(self) -> str:
        return str(uuid.UUID(int=self._rng.getrandbits(128), version=4))

    def message(self) -> str:
        return f"msg_01{self._letters(22)}"

    def tool_use(self) -> str:
        return f"toolu_01{self._letters(22)}"

    def request(self) -> str:
        """Return the id of a request, as eras before api-request lines have it."""
        return f"req_011C{self._letters(20)}"

    def agent(self) -> str:
        return f"a{self._rng.getrandbits(64):016x}"

    def short_agent(self) -> str:
        """Return the id of an agent as the oldest era has it: 7 characters."""
        return f"a{self._rng.getrandbits(24):06x}"

    def run(self) -> str:
        return f"0{self._letters(8).lower()}-{self._rng.getrandbits(32):08x}"

    def _letters(self, count: int) -> str:
        return "".join(self._rng.choices(ID_LETTERS, k=count))


@dataclass
class DemoClock:
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


@dataclass
class FileBuffer:
    """Keeps the lines of one file until they are written at once."""

    path: Path
    chunks: list[bytes] = field(default_factory=list)
    lines: list[DemoJson] = field(default_factory=list)
    last: datetime | None = None

    def line(self, content: DemoJson) -> None:
        self.lines.append(content)
        self.chunks.append(encode_line(content))
        if isinstance(written := content.get("timestamp"), str):
            self.last = datetime.fromisoformat(written)

    def cut(self, lines: int) -> None:
        del self.lines[lines:], self.chunks[lines:]

    def save(self) -> None:
        write_file(self.path, b"".join(self.chunks))
        if self.last is not None:
            set_time(self.path, self.last)


@dataclass(frozen=True)
class LineAppender:
    """Adds lines to a file that must be there: one write a line, so that readers see whole ones."""

    path: Path

    def line(self, content: DemoJson) -> None:
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(handle, encode_line(content))
        finally:
            os.close(handle)


LineSink = FileBuffer | LineAppender


def make_folder(path: Path) -> None:
    """Make a folder and what is missing above it, for its user alone."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
        folder.chmod(FOLDER_MODE)  # a umask may have taken more away


def write_file(path: Path, content: bytes) -> None:
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
    nanos = to_millis(moment) * 1_000_000
    os.utime(path, ns=(nanos, nanos))


# The lines that say when before they say who.
CURRENT_TIME_FIRST = frozenset({"stop_hook_summary", "turn_duration"})
OLDER_TIME_FIRST = CURRENT_TIME_FIRST | {"compact_boundary", "hook_progress"}


def id_and_time(head: DemoJson, uuid: str, moment: str, time_first: frozenset[str]) -> DemoJson:
    """Return a line's id and time in the order that its kind has."""
    kind = head.get("subtype") or head.get("data", {}).get("type")
    if kind in time_first:
        return {"timestamp": moment, "uuid": uuid}
    return {"uuid": uuid, "timestamp": moment}


LineWrapper = Callable[["TranscriptChain", DemoJson, str, DemoJson], DemoJson]
"""How an era puts its own fields around what a line says."""


def wrap_current_line(
    chain: TranscriptChain, head: DemoJson, uuid: str, after: DemoJson
) -> DemoJson:
    """Return a whole line as since 2.1.2xx: parent first, origin last."""
    origin = chain.origin
    line: DemoJson = {"parentUuid": chain.parent}
    if "logicalParentUuid" in head:
        line["logicalParentUuid"] = head["logicalParentUuid"]
    line["isSidechain"] = chain.agent_id is not None
    if "promptId" in head:
        line["promptId"] = head["promptId"]
    if chain.agent_id is not None:
        line["agentId"] = chain.agent_id
    line |= {key: value for key, value in head.items() if key not in line}
    line |= id_and_time(head, uuid, format_time(chain.clock.tick()), CURRENT_TIME_FIRST)
    line |= after | {"userType": "external", "entrypoint": origin.entrypoint}
    line |= origin.fields()
    if chain.has_nickname:
        line["slug"] = origin.nickname
    return line


def wrap_older_line(chain: TranscriptChain, head: DemoJson, uuid: str, after: DemoJson) -> DemoJson:
    """Return a whole line as until 2.1.5x: origin first, no entrypoint, no prompt id."""
    line: DemoJson = {"parentUuid": chain.parent}
    if "logicalParentUuid" in head:
        line["logicalParentUuid"] = head["logicalParentUuid"]
    line |= {"isSidechain": chain.agent_id is not None, "userType": "external"}
    line |= chain.origin.fields()
    if chain.agent_id is not None:
        line["agentId"] = chain.agent_id
    line["slug"] = chain.origin.nickname
    line |= {key: value for key, value in head.items() if key not in line}
    line |= id_and_time(head, uuid, format_time(chain.clock.tick()), OLDER_TIME_FIRST)
    return line | after


@dataclass
class TranscriptChain:
    """Adds lines to a transcript and remembers the last one."""

    origin: LineOrigin
    ids: IdGenerator
    clock: DemoClock
    sink: LineSink
    wrap: LineWrapper = wrap_current_line
    agent_id: str | None = None
    parent: str | None = None
    has_nickname: bool = False  # the client gives a session its nickname at the first compaction
    lines_since_prompt: list[str] = field(
        default_factory=list
    )  # the ids since the last prompt, oldest first

    def add(self, head: DemoJson, after: DemoJson | None = None, uuid: str | None = None) -> str:
        line_id = uuid or self.ids.uuid()
        self.sink.line(self.wrap(self, head, line_id, after or {}))
        self.parent = line_id
        self.lines_since_prompt.append(line_id)
        return line_id

    def add_note(self, kind: str, **values: object) -> None:
        """Write one line that stands beside the chain, with the session's id at its end."""
        self.sink.line({"type": kind, **values, "sessionId": self.origin.session_id})

    def add_unchained(self, line: DemoJson) -> None:
        """Write one line beside the chain that brings its own order of fields."""
        self.sink.line(line)

    def enqueue(self, content: str) -> None:
        """Write that something waits for the model."""
        self._add_queue_operation("enqueue", content=content)

    def dequeue(self) -> None:
        """Write that what waited is taken."""
        self._add_queue_operation("dequeue")

    def _add_queue_operation(self, operation: str, **content: str) -> None:
        line: DemoJson = {
            "type": "queue-operation",
            "operation": operation,
            "timestamp": format_time(self.clock.tick()),
            "sessionId": self.origin.session_id,
        }
        self.sink.line(line | content)
