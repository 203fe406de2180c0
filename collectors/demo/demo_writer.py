"""Keep some sessions of the demo growing, one event at a time, as if people were at work."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import cycle, takewhile
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from .conversation_writer import AnswerUsage, CostTotals, PendingToolCall, text_block
from .demo_conversation import (
    AgentConversation,
    DemoCompaction,
    LaunchedAgent,
    MainConversation,
    acknowledge_launch,
    agent_chain,
    agent_sidecar,
    agent_transcript,
    launch_agents,
    notification_text,
)
from .demo_data import MODEL_OF_ID, SUMMARIES, TASKS, TEXTS, permission_call
from .demo_transcript import (
    LINE_GAP,
    DemoClock,
    DemoFolder,
    DemoJson,
    DemoSession,
    FileBuffer,
    IdGenerator,
    LineAppender,
    LineOrigin,
    TranscriptChain,
    content_digest,
    encode_json,
    replace_file,
    to_millis,
    write_file,
)
from .session_builder import (
    FIRST_TOKENS,
    SessionBuilder,
    SessionSpec,
    find_entry,
    set_status,
    write_tool_request,
)
from .stories import (
    LAUNCHES,
    STORIES,
    AgentLaunch,
    comment_on_result,
    write_permission_prompt,
)

if TYPE_CHECKING:
    import threading


@dataclass(frozen=True)
class GrowingSession:
    """One growing session: its stage, its conversation, its entry in the registry."""

    builder: SessionBuilder
    conversation: MainConversation
    entry: Path | None
    pending: PendingToolCall

    def update_status(self, status: str) -> None:
        """Set the session's status in the registry, if it has an entry there."""
        if self.entry is not None:
            set_status(self.entry, status, self.builder.clock.at)


def resume_session(
    session: DemoSession, cast: SessionSpec, rng: Random, entry: Path | None
) -> GrowingSession:
    """Return what appends to a session's file; `entry` is of the registry."""
    lines: list[DemoJson] = [
        json.loads(row) for row in session.transcript.read_bytes().splitlines()
    ]
    chained = [line for line in lines if "uuid" in line]
    last = chained[-1]
    origin = LineOrigin(
        session_id=session.session_id,
        cwd=last["cwd"],
        version=last["version"],
        entrypoint=last["entrypoint"],
        branch=last["gitBranch"],
        nickname="amber-drifting-otter",
    )
    at = datetime.fromisoformat(last["timestamp"])
    clock = DemoClock(at, LINE_GAP, datetime.max.replace(tzinfo=UTC))
    ids = IdGenerator(rng)
    stage = SessionBuilder(
        cast, origin, session.transcript.parents[2], rng, ids, clock, FileBuffer(session.transcript)
    )
    chain = TranscriptChain(
        origin, ids, clock, LineAppender(session.transcript), parent=last["uuid"]
    )
    chain.lines_since_prompt = [line["uuid"] for line in chained[-8:]]
    talk = MainConversation(chain, MODEL_OF_ID[session.model], _read_totals(lines), session.title)
    _restore_conversation(talk, session, lines)
    calls = [block["id"] for block in _blocks(chained[-1:]) if block["type"] == "tool_use"]
    asked = PendingToolCall(last["uuid"], calls[0] if calls else "", permission_call())
    return GrowingSession(stage, talk, entry, asked)


def _restore_conversation(
    talk: MainConversation, session: DemoSession, lines: list[DemoJson]
) -> None:
    talk.tokens = session.context_tokens or 0
    talk.state = session.context_state
    talk.compactions = session.compactions
    talk.agents = session.agents
    talk.is_opened = talk.has_tool_snapshot = True
    talk.tools_used = _last(lines, "tools-used").get("tools", [])
    talk.last_prompt = _last(lines, "last-prompt").get("lastPrompt", "")
    prompts = [line for line in lines if "turnPosition" in line]
    talk.turns = len(prompts)
    talk.prompt_id = prompts[-1]["promptId"]
    request = _last(lines, "api-request")
    requests = talk.requests
    requests.base, requests.shape_hash = request["id"], request["shapeHash"]
    requests.keep = request["keep"] + len(request["tail"])
    since = list(takewhile(lambda line: line["type"] != "api-request", reversed(lines)))[::-1]
    blocks = _blocks(since)
    if blocks:
        requests.unstored = [content_digest({"role": "assistant", "content": blocks})]
    requests.pending = [
        {"role": "user", "content": line["message"]["content"]}
        for line in since
        if line["type"] == "user"
    ]


def _blocks(lines: list[DemoJson]) -> list[DemoJson]:
    return [
        block
        for line in lines
        if line["type"] == "assistant"
        for block in line["message"]["content"]
    ]


def _last(lines: list[DemoJson], kind: str) -> DemoJson:
    return next((line for line in reversed(lines) if line["type"] == kind), {})


def _read_totals(lines: list[DemoJson]) -> CostTotals:
    first = next(line["timestamp"] for line in lines if "timestamp" in line)
    totals = CostTotals(to_millis(datetime.fromisoformat(first)))
    answers = {
        line["message"]["id"]: line["message"] for line in lines if line["type"] == "assistant"
    }
    for message in answers.values():
        usage = AnswerUsage.of_fields(message["usage"])
        totals.count(MODEL_OF_ID[message["model"]], usage)
    return totals


TOKENS_PER_EXCHANGE = (
    3_100  # tokens an exchange: from 64 % of 200k to the trigger in a minute and a half
)
COMPACT_AT = 0.835  # of the window: as the client does, where 200k are the window
TOKENS_AFTER_COMPACTION = 8_240  # tokens that are left of a long conversation
CALLS_PER_TURN = 6


Track = Callable[[GrowingSession], Iterator[None]]


def fill_window(part: GrowingSession) -> Iterator[None]:
    """Fill the window step by step, compact at its end, go on."""
    talk = part.conversation
    if part.pending.tool_use_id:
        talk.tool_result(part.pending)
        yield
    for prompt in cycle(TEXTS.tax_prompts):
        for _ in range(CALLS_PER_TURN):
            if talk.tokens >= COMPACT_AT * talk.model.window:
                how = DemoCompaction("auto", SUMMARIES["tax"], TOKENS_AFTER_COMPACTION)
                talk.compact(how, part.builder.display_path)
                yield
            yield from _exchange(part)
        talk.answer([text_block(part.builder.closing())], talk.tokens + TOKENS_PER_EXCHANGE, 220)
        talk.finish_turn(24.0)
        talk.write_cost()
        part.update_status("idle")
        yield
        talk.prompt(prompt)
        part.update_status("busy")
        yield


def _exchange(part: GrowingSession) -> Iterator[None]:
    talk = part.conversation
    # The first request after a compaction carries the system prompt again.
    base = max(talk.tokens, FIRST_TOKENS)
    pending = write_tool_request(part.builder, talk, base + TOKENS_PER_EXCHANGE)
    yield
    talk.tool_result(pending)
    yield


def run_agents(part: GrowingSession) -> Iterator[None]:
    """Launch agents, let them work, take their results, launch the next ones."""
    for number in cycle(range(len(LAUNCHES))):
        yield from _agent_round(part, LAUNCHES[number])
        part.conversation.prompt(LAUNCHES[(number + 1) % len(LAUNCHES)].prompt)
        part.update_status("busy")
        yield


def _agent_round(part: GrowingSession, what: AgentLaunch) -> Iterator[None]:
    talk = part.conversation
    started = launch_agents(
        talk, tuple(TASKS[name] for name in what.tasks), what.say, talk.tokens + 1_700
    )
    yield
    runs: list[WorkingAgent] = []
    for one in started:
        acknowledge_launch(talk, one)
        runs.append(begin_agent(part, one))
    yield
    text = "Both are at work." if len(runs) > 1 else "It is at work."
    talk.answer([text_block(text)], talk.tokens + 900, 12)
    talk.finish_turn(6.0)
    part.update_status("idle")
    yield
    for _ in range(max(work.conversation.task.calls for work in runs)):
        for work in runs:
            if work.conversation.calls < work.conversation.task.calls:
                work.conversation.write_tool_use(
                    part.builder.next_remark(), part.builder.next_call(1_800)
                )
                yield
    for work in runs:
        yield from _return_agent(part, work)


def _return_agent(part: GrowingSession, work: WorkingAgent) -> Iterator[None]:
    talk, run = part.conversation, work.conversation
    if run.task.rejected_result is not None:
        run.write_rejected_result(run.task.rejected_result)
        yield
    run.finish()
    replace_file(work.sidecar, encode_json(run.meta(talk.model.id) | {"finished": True}))
    yield
    talk.write_notification(notification_text(talk, run), ", ".join(run.tools_used))
    part.update_status("busy")
    yield
    reply = f"{run.task.description}: back. {comment_on_result(run.task)}"
    talk.answer([text_block(reply)], talk.tokens + 1_500, 60)
    talk.finish_turn(5.0)
    part.update_status("idle")
    yield


@dataclass(frozen=True)
class WorkingAgent:
    """An agent at work, and its file of facts."""

    conversation: AgentConversation
    sidecar: Path


def begin_agent(part: GrowingSession, one: LaunchedAgent) -> WorkingAgent:
    talk = part.conversation
    path = agent_transcript(part.builder.transcript, one.agent_id)
    part.builder.transcript.stat()  # a folder that somebody removed must not come back
    write_file(path, b"")
    chain = agent_chain(talk, one.agent_id, LineAppender(path), part.builder.clock)
    run = AgentConversation(one.task, chain, one.tool_use_id, talk.totals)
    write_file(agent_sidecar(path), encode_json(run.meta(talk.model.id)))
    run.begin(talk.prompt_id)
    return WorkingAgent(run, agent_sidecar(path))


def ask_permissions(part: GrowingSession) -> Iterator[None]:
    """Get a permission, use it, and ask for the next one."""
    talk, stage = part.conversation, part.builder
    asked = part.pending
    for prompt in cycle(TEXTS.password_prompts):
        part.update_status("busy")
        talk.tool_result(asked)
        yield
        talk.answer([text_block("Rotated, nothing was dropped.")], talk.tokens + 1_300, 40)
        talk.finish_turn(12.0)
        part.update_status("idle")
        yield
        talk.prompt(prompt)
        part.update_status("busy")
        yield
        asked = write_permission_prompt(stage, talk, talk.tokens + 2_200)
        part.update_status("waiting")
        yield


EVENT_SPAN = timedelta(
    milliseconds=120
)  # one event's lines are stamped within so much before its end
WAIT_TURNS = (41, 45, 49, 53)  # the steps of a round in which the waiting session moves
ROUND_STEPS = 60  # steps; the waiting session waits for most of them
TRACKS: dict[str, Track] = {
    "Move checkout to the new tax API": fill_window,
    "Search p95 below 120 ms": run_agents,
    "Rotate the database password": ask_permissions,
}
"""What happens in each of the growing sessions, by title."""


@dataclass(frozen=True)
class PlayedSession:
    """A session in play: its clock and what comes next."""

    clock: DemoClock
    events: Iterator[None]


class DemoWriter:
    """Appends to the growing sessions of a demo folder, one event a step."""

    def __init__(self, folder: DemoFolder, seed: int = 7, interval_s: float = 1.5) -> None:
        self._folder = folder
        self._rng = Random(f"writer {seed}")  # noqa: S311 - repeatable on purpose
        self._interval = interval_s
        self._playing: list[PlayedSession] = []
        self._steps = 0
        self._gone = False

    def step(self, now: datetime) -> None:
        """Append the next event, as of `now`; do nothing once the folder is gone."""
        if self._gone:
            return
        try:
            self._advance(now)
        except OSError:
            # The folder was removed under us: the demo is over, and that is no error.
            self._gone = True

    def run(self, stop: threading.Event) -> None:
        """Append an event every interval until told to stop or the folder is gone."""
        while not self._gone and not stop.wait(self._interval):
            self.step(datetime.now(UTC))

    def _advance(self, now: datetime) -> None:
        if not self._playing:
            growing = {session.title: session for session in self._folder.sessions if session.grows}
            self._playing = [self._open(growing[title]) for title in TRACKS]
        playing = self._playing[self._whose_turn()]
        self._steps += 1
        playing.clock.at = max(playing.clock.at, now - EVENT_SPAN)
        playing.clock.end = now
        next(playing.events)

    def _whose_turn(self) -> int:
        place = self._steps % ROUND_STEPS
        if place in WAIT_TURNS:
            return 2
        return place % 2

    def _open(self, session: DemoSession) -> PlayedSession:
        spec = next(story for story in STORIES if story.title == session.title)
        entry = find_entry(self._folder.root / "sessions", session.session_id)
        part = resume_session(session, spec, self._rng, entry)
        return PlayedSession(part.builder.clock, TRACKS[session.title](part))
