"""The base of the demo's sessions: ids, the clock, files, chained lines, and who is in it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import string
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Literal

import msgspec

from ...core.files.file_operations import FILE_MODE, make_private_folder
from .demo_data import (
    CURRENT_VERSION,
    TEXTS,
    DemoJson,
    DemoModel,
    DemoProject,
    DemoToolCall,
    make_tool_call,
    shape,
)

LINE_GAP = timedelta(milliseconds=2)  # two lines of one answer never have the same time
MAX_SLUG_CHARS = 200  # the client hashes longer paths; the demo has none


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
        return shape("origin", origin=self)

    def transcript(self, root: Path) -> Path:
        """Return the session's file in the client's folder."""
        return root / "projects" / project_slug(self.cwd) / f"{self.session_id}.jsonl"


def encode_json(content: object) -> bytes:
    """Return JSON as the client writes it: compact, with no newline at its end."""
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


def content_digest(value: object) -> str:
    """Return the address of some content, as the client's request lines use it."""
    return hashlib.sha256(encode_json(value)).hexdigest()


def format_time(moment: datetime) -> str:
    """Return a moment as the client writes it: UTC, milliseconds, a Z."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def to_millis(moment: datetime) -> int:
    """Return a moment as the registry writes it: whole milliseconds since 1970."""
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def project_slug(cwd: str) -> str:
    return re.sub("[^A-Za-z0-9]", "-", cwd)[:MAX_SLUG_CHARS]


class IdGenerator:
    """Makes every id of the demo from one seeded source, so that the same seed repeats them."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng

    def uuid(self) -> str:
        return str(uuid.UUID(int=self.rng.getrandbits(128), version=4))

    def message(self) -> str:
        return f"msg_01{self._letters(22)}"

    def tool_use(self) -> str:
        return f"toolu_01{self._letters(22)}"

    def request(self) -> str:
        """Return a request's id, as eras before api-request lines have it."""
        return f"req_011C{self._letters(20)}"

    def agent(self) -> str:
        return f"a{self.rng.getrandbits(64):016x}"

    def short_agent(self) -> str:
        """Return an agent's id as the oldest era has it: 7 characters."""
        return f"a{self.rng.getrandbits(24):06x}"

    def run(self) -> str:
        return f"0{self._letters(8).lower()}-{self.rng.getrandbits(32):08x}"

    def _letters(self, count: int) -> str:
        return "".join(self.rng.choices(string.ascii_letters + string.digits, k=count))


@dataclass
class DemoClock:
    """The time in a session: it moves only when asked to, and never past its end."""

    at: datetime
    pace: timedelta  # between two answers
    end: datetime

    def tick(self, step: timedelta = LINE_GAP) -> datetime:
        self.at = max(self.at, min(self.at + step, self.end))
        return self.at

    def advance(self) -> datetime:
        return self.tick(self.pace)


def write_file(path: Path, content: bytes) -> None:
    make_private_folder(path.parent)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE), "wb") as file:
        file.write(content)


def set_time(path: Path, moment: datetime) -> None:
    nanos = to_millis(moment) * 1_000_000
    os.utime(path, ns=(nanos, nanos))


@dataclass
class FileBuffer:
    """Keeps the lines of one file until all are written at once."""

    path: Path
    lines: list[DemoJson] = field(default_factory=list)
    last: datetime | None = None  # the time that the file gets
    line_end: bytes = b"\n"

    def add(self, line: DemoJson) -> None:
        self.lines.append(line)
        if isinstance(written := line.get("timestamp"), str):
            self.last = datetime.fromisoformat(written)

    def save(self) -> None:
        write_file(self.path, b"".join(encode_json(line) + self.line_end for line in self.lines))
        if self.last is not None:
            set_time(self.path, self.last)


class LineAppender(FileBuffer):
    """Appends to a file that must exist: one write a line, so that readers see whole lines."""

    def add(self, line: DemoJson) -> None:
        # The mode "ab" would make the file again once the folder was removed.
        with os.fdopen(os.open(self.path, os.O_WRONLY | os.O_APPEND), "wb", buffering=0) as file:
            file.write(encode_json(line) + self.line_end)


# The kinds of lines that have their time in front of their id.
CURRENT_TIME_FIRST = frozenset({"stop_hook_summary", "turn_duration"})
OLDER_TIME_FIRST = CURRENT_TIME_FIRST | {"compact_boundary", "hook_progress"}


@dataclass
class TranscriptChain:
    """Adds lines to a transcript and remembers the last one."""

    origin: LineOrigin
    ids: IdGenerator
    clock: DemoClock
    sink: FileBuffer
    is_older: bool = False  # lines as until 2.1.5x
    agent_id: str | None = None
    parent: str | None = None
    has_nickname: bool = False  # the client gives a session its nickname at the first compaction
    lines_since_prompt: list[str] = field(default_factory=list)  # ids, oldest first

    def for_agent(self, agent_id: str, sink: FileBuffer, clock: DemoClock) -> TranscriptChain:
        return TranscriptChain(
            self.origin, self.ids, clock, sink, is_older=self.is_older, agent_id=agent_id
        )

    def add(self, head: DemoJson, after: DemoJson | None = None, uuid: str | None = None) -> str:
        """Write a line between what every line has: `head` in front, `after` near the end."""
        line_id = uuid or self.ids.uuid()
        line = self._older_line if self.is_older else self._current_line
        self.sink.add(line(head, line_id, after or {}))
        self.parent = line_id
        self.lines_since_prompt.append(line_id)
        return line_id

    def _current_line(self, head: DemoJson, uuid: str, after: DemoJson) -> DemoJson:
        """Return a line as since 2.1.2xx: parent first, origin last."""
        line = self._opening(head)
        if "promptId" in head:
            line["promptId"] = head["promptId"]
        line |= self._agent() | head | self._stamp(head, uuid, CURRENT_TIME_FIRST)
        line |= after | {"userType": "external", "entrypoint": self.origin.entrypoint}
        line |= self.origin.fields()
        return line | {"slug": self.origin.nickname} if self.has_nickname else line

    def _older_line(self, head: DemoJson, uuid: str, after: DemoJson) -> DemoJson:
        """Return a line as until 2.1.5x: origin first, no entrypoint, no prompt id."""
        line = self._opening(head) | {"userType": "external"} | self.origin.fields()
        line |= self._agent() | {"slug": self.origin.nickname} | head
        return line | self._stamp(head, uuid, OLDER_TIME_FIRST) | after

    def _opening(self, head: DemoJson) -> DemoJson:
        line: DemoJson = {"parentUuid": self.parent}
        if "logicalParentUuid" in head:
            line["logicalParentUuid"] = head["logicalParentUuid"]
        return line | {"isSidechain": self.agent_id is not None}

    def _agent(self) -> DemoJson:
        return {} if self.agent_id is None else {"agentId": self.agent_id}

    def _stamp(self, head: DemoJson, uuid: str, time_first: frozenset[str]) -> DemoJson:
        moment = format_time(self.clock.tick())
        if (head.get("subtype") or head.get("data", {}).get("type")) in time_first:
            return {"timestamp": moment, "uuid": uuid}
        return {"uuid": uuid, "timestamp": moment}

    def add_note(self, kind: str, **values: object) -> None:
        """Write a line beside the chain, with the session's id at its end."""
        self.sink.add({"type": kind, **values, "sessionId": self.origin.session_id})

    def add_file_history(self, line_id: str) -> None:
        self.sink.add(shape("file history", id=line_id, moment=format_time(self.clock.tick())))

    def queue(self, content: str) -> None:
        """Write that a text waited for the model and was taken."""
        for operation, fields in (("enqueue", {"content": content}), ("dequeue", {})):
            line = {"type": "queue-operation", "operation": operation}
            line["timestamp"] = format_time(self.clock.tick())
            self.sink.add(line | {"sessionId": self.origin.session_id} | fields)


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


class DemoStory(msgspec.Struct, frozen=True, kw_only=True):
    title: str
    project: DemoProject
    model: DemoModel
    era: str = CURRENT_VERSION
    entrypoint: str = "cli"
    ended: dict[str, int]  # how long ago, as timedelta's arguments
    pace_s: int  # between two answers
    answers: int  # about how many there will be: determines when the session began
    status: str | None = None  # of the registry; none when no process has the session open
    grows: bool = False
    steps: tuple[DemoJson, ...] = ()
    older: DemoJson | None = None  # of an older client: its whole story

    def origin(self, session_id: str, nickname: str) -> LineOrigin:
        cwd, branch = self.project.cwd, self.project.branch
        return LineOrigin(session_id, cwd, self.era, self.entrypoint, branch, nickname)


CHARS_PER_TOKEN = 2.6  # of what the demo's tools put out, as `ctxtop context` counts it
MIN_OUTPUT_CHARS = 400
MAX_OUTPUT_CHARS = 60_000  # about what the client lets one read bring


@dataclass
class SessionBuilder:
    story: DemoStory
    chain: TranscriptChain
    agent_files: list[FileBuffer] = field(default_factory=list)
    calls: int = 0
    owed_chars: int = 0  # characters of the answers' tokens that no tool's output has yet

    @property
    def rng(self) -> Random:
        return self.chain.ids.rng

    @property
    def transcript(self) -> Path:
        return self.chain.sink.path

    def agent_transcript(self, agent_id: str) -> Path:
        return self.transcript.with_suffix("") / "subagents" / f"agent-{agent_id}.jsonl"

    def next_call(self, growth: int) -> DemoToolCall:
        """Return the next tool call, sized by the tokens that it brings."""
        self.calls += 1
        self.owed_chars += int(growth * CHARS_PER_TOKEN)
        size = min(MAX_OUTPUT_CHARS, max(MIN_OUTPUT_CHARS, self.owed_chars))
        call = make_tool_call(self.rng, self.story.project, self.calls, size)
        self.owed_chars = max(0, self.owed_chars - len(call.output))
        return call

    def next_remark(self) -> str:
        return TEXTS.remarks[(self.calls * 5 + len(self.story.title)) % len(TEXTS.remarks)]

    def closing(self) -> str:
        return TEXTS.closings[(self.calls + len(self.story.title)) % len(TEXTS.closings)]

    def to_session(
        self, tokens: int | None, state: ExpectedState, compactions: int, agents: int
    ) -> DemoSession:
        """Return the truth about the session; `tokens` is its context at its end."""
        return DemoSession(
            session_id=self.chain.origin.session_id,
            title=self.story.title,
            transcript=self.transcript,
            era=self.story.era,
            model=self.story.model.id,
            context_tokens=tokens,
            context_state=state,
            window_tokens=self.story.model.window,
            compactions=compactions,
            agents=agents,
            grows=self.story.grows,
        )
