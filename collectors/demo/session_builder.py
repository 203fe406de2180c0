"""Build one session of the demo: files, ids, clock, turns, and its entry in the registry."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

import msgspec

from ..claude_code.registry import linux_stat_field
from .conversation_writer import (
    CostTotals,
    PendingToolCall,
    text_block,
    thinking_block,
    tool_use_block,
)
from .demo_conversation import MainConversation
from .demo_data import (
    CURRENT_VERSION,
    MODELS,
    PROJECTS,
    TEXTS,
    DemoModel,
    DemoProject,
    DemoToolCall,
    make_tool_call,
    shape,
)
from .demo_transcript import (
    DemoClock,
    DemoJson,
    DemoSession,
    ExpectedState,
    FileBuffer,
    IdGenerator,
    LineOrigin,
    TranscriptChain,
    encode_json,
    project_slug,
    replace_file,
    set_time,
    to_millis,
    write_file,
)

FIRST_TOKENS = 18_200  # system prompt, tools and memory: what the first request of a session has
CHARS_PER_TOKEN = 2.6  # of what the demo's tools put out, as `ctxtop context` counts it
MIN_OUTPUT_CHARS = 400
MAX_OUTPUT_CHARS = 60_000  # characters: about what the client lets one read bring


class SessionSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What makes one session: its project, its model, its title, its place in time."""

    title: str
    project_name: str = msgspec.field(name="project")
    model_name: str = msgspec.field(name="model")
    era: str = CURRENT_VERSION
    entrypoint: str = "cli"
    ended: dict[str, int]  # how long ago, in the words of timedelta
    pace_s: int  # between two answers
    answers: int  # about how many there will be: says when the session began
    status: str | None = None  # of the registry; none when no process has the session open
    grows: bool = False

    @property
    def project(self) -> DemoProject:
        return PROJECTS[self.project_name]

    @property
    def model(self) -> DemoModel:
        return MODELS[self.model_name]


@dataclass
class SessionBuilder:
    """One session while it is told."""

    spec: SessionSpec
    origin: LineOrigin
    root: Path
    rng: Random
    ids: IdGenerator
    clock: DemoClock
    buffer: FileBuffer
    agent_buffers: list[FileBuffer] = field(default_factory=list)
    calls: int = 0
    owed_chars: int = 0  # characters that the answers' tokens stand for and no tool has put out

    @property
    def transcript(self) -> Path:
        return self.buffer.path

    @property
    def display_path(self) -> str:
        """Return the main file as people know it: the same wherever the demo's folder is."""
        return f"~/.claude/projects/{self.transcript.parent.name}/{self.transcript.name}"

    def started_at(self) -> datetime:
        return datetime.fromisoformat(
            next(line["timestamp"] for line in self.buffer.lines if "timestamp" in line)
        )

    def new_chain(self) -> TranscriptChain:
        return TranscriptChain(self.origin, self.ids, self.clock, self.buffer)

    def new_conversation(self) -> MainConversation:
        totals = CostTotals(to_millis(self.clock.at))
        return MainConversation(self.new_chain(), self.spec.model, totals, self.spec.title)

    def next_call(self, growth: int) -> DemoToolCall:
        """Return the next tool call, sized by the tokens that it brings."""
        self.calls += 1
        self.owed_chars += int(growth * CHARS_PER_TOKEN)
        size = min(MAX_OUTPUT_CHARS, max(MIN_OUTPUT_CHARS, self.owed_chars))
        call = make_tool_call(self.rng, self.spec.project, self.calls, size)
        self.owed_chars = max(0, self.owed_chars - len(call.output))
        return call

    def next_remark(self) -> str:
        return TEXTS.remarks[(self.calls * 5 + len(self.spec.title)) % len(TEXTS.remarks)]

    def closing(self) -> str:
        return TEXTS.closings[(self.calls + len(self.spec.title)) % len(TEXTS.closings)]

    def to_session(
        self, tokens: int | None, state: ExpectedState, compactions: int, agents: int
    ) -> DemoSession:
        """Return the truth about the session; `tokens` is its context at its end."""
        return DemoSession(
            session_id=self.origin.session_id,
            title=self.spec.title,
            transcript=self.transcript,
            era=self.spec.era,
            model=self.spec.model.id,
            context_tokens=tokens,
            context_state=state,
            window_tokens=self.spec.model.window,
            compactions=compactions,
            agents=agents,
            grows=self.spec.grows,
        )


NICKNAMES = ("amber-drifting-otter", "quiet-humming-fjord", "brisk-folding-lantern")


def open_session(cast: SessionSpec, root: Path, now: datetime, rng: Random) -> SessionBuilder:
    """Return the stage of one session, its clock set to when it began."""
    ids = IdGenerator(rng)
    origin = LineOrigin(
        session_id=ids.uuid(),
        cwd=cast.project.cwd,
        version=cast.era,
        entrypoint=cast.entrypoint,
        branch=cast.project.branch,
        nickname=rng.choice(NICKNAMES),
    )
    end, pace = now - timedelta(**cast.ended), timedelta(seconds=cast.pace_s)
    clock = DemoClock(end - pace * cast.answers, pace, end)
    path = root / "projects" / project_slug(cast.project.cwd) / f"{origin.session_id}.jsonl"
    return SessionBuilder(cast, origin, root, rng, ids, clock, FileBuffer(path))


def rising_steps(start: int, until: int, count: int) -> list[int]:
    """Return `count` rising values that end at `until`."""
    return [start + (until - start) * (number + 1) // count for number in range(count)]


def _turn_steps(tokens: int, until: int, calls: int) -> list[int]:
    """Return what each call's answer has; the first of all has what every session begins with."""
    if not tokens:
        return [FIRST_TOKENS, *rising_steps(FIRST_TOKENS, until, calls)[:-1]]
    return rising_steps(tokens, until, calls + 1)[:-1]


def write_tool_use(stage: SessionBuilder, talk: MainConversation, tokens: int) -> None:
    """Write one exchange: a remark, a tool call and its result."""
    talk.tool_result(write_tool_request(stage, talk, tokens))


def write_running_tests(stage: SessionBuilder, talk: MainConversation, tokens: int) -> None:
    """Write an answer that runs the tests, which have not finished."""
    wanted = stage.next_call(tokens - talk.tokens)
    tests = {"command": stage.spec.project.test, "description": "Run the tests"}
    pending = _write_tool_call(stage, talk, tokens, replace(wanted, name="Bash", input=tests))
    lines = len(stage.buffer.lines)
    # The end is told and taken back: so all that is told after it stays the same.
    talk.tool_result(pending)
    stage.buffer.cut(lines)


def write_tool_request(
    stage: SessionBuilder, talk: MainConversation, tokens: int
) -> PendingToolCall:
    """Write an answer that calls a tool."""
    return _write_tool_call(stage, talk, tokens, stage.next_call(tokens - talk.tokens))


def _write_tool_call(
    stage: SessionBuilder, talk: MainConversation, tokens: int, call: DemoToolCall
) -> PendingToolCall:
    tool_use_id = stage.ids.tool_use()
    blocks: list[DemoJson] = [text_block(stage.next_remark()), tool_use_block(tool_use_id, call)]
    if stage.calls % 3 == 1 and talk.model.effort is not None:
        blocks.insert(0, thinking_block(300))
    asked_by = talk.answer(blocks, tokens, 160 + 40 * len(blocks))[-1]
    return PendingToolCall(asked_by, tool_use_id, call)


def write_turn(
    stage: SessionBuilder, talk: MainConversation, prompt: str, until: int, calls: int
) -> None:
    """Write a whole turn: a prompt, `calls` tool calls, and an answer at `until` tokens."""
    talk.prompt(prompt)
    began = stage.clock.at
    for tokens in _turn_steps(talk.tokens, until, calls):
        write_tool_use(stage, talk, tokens)
    talk.answer([text_block(stage.closing())], until, 240)
    talk.finish_turn((stage.clock.at - began).total_seconds())


WAITING_FOR = "permission prompt"

_START_TIME_FIELD = 22  # of /proc/PID/stat: in the kernel's ticks


def registry_entry(
    stage: SessionBuilder, number: int, pid: int, proc_start: str | None
) -> DemoJson:
    origin = stage.origin
    line = shape(
        "registry entry",
        pid=pid,
        session=origin.session_id,
        cwd=origin.cwd,
        started=to_millis(stage.started_at()),
        proc_start=proc_start,
        version=origin.version,
        entrypoint=origin.entrypoint,
        tmux=f"work:@{number}.%{number}",
        name=f"{origin.cwd.rpartition('/')[2]}-{origin.session_id[:2]}",
    )
    if proc_start is None:
        del line["procStart"]
    return line | _status_fields(stage.spec.status, to_millis(stage.clock.at))


def _status_fields(status: str | None, moment: int) -> DemoJson:
    said: DemoJson = {"status": status, "updatedAt": moment, "statusUpdatedAt": moment}
    return said | {"waitingFor": WAITING_FOR} if status == "waiting" else said


def write_registry(
    folder: Path, stages: list[SessionBuilder], pid: int | None, proc_start: str | None
) -> None:
    number_of_process = os.getpid() if pid is None else pid
    start = linux_stat_field(number_of_process, _START_TIME_FIELD) if pid is None else proc_start
    live = [stage for stage in stages if stage.spec.status is not None]
    for number, stage in enumerate(live, start=1):
        path = folder / f"{number_of_process}-{number}.json"
        content = encode_json(registry_entry(stage, number, number_of_process, start))
        write_file(path, content)
        set_time(path, stage.clock.at)


def find_entry(folder: Path, session_id: str) -> Path | None:
    for path in sorted(folder.glob("*.json")):
        if json.loads(path.read_bytes()).get("sessionId") == session_id:
            return path
    return None


def set_status(path: Path, status: str, now: datetime) -> None:
    """Set a live session's status in its registry file, unless it is already set."""
    content: DemoJson = json.loads(path.read_bytes())
    if content["status"] == status:
        return
    moment = to_millis(now)
    content.pop("waitingFor", None)
    replace_file(path, encode_json(content | _status_fields(status, moment)))
