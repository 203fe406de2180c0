"""Keep some sessions of the demo growing, one event at a time, as if people were at work."""

import json
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import cycle, takewhile
from pathlib import Path
from random import Random

from ...core.files.file_operations import write_file_atomically
from .conversation_writer import AnswerUsage, CostTotals, PendingToolCall
from .demo_conversation import (
    FIRST_TOKENS,
    PERMISSION_CALL,
    AgentConversation,
    LaunchedAgent,
    MainConversation,
)
from .demo_data import TEXTS, DemoJson, client_text
from .demo_folder import DemoFolder, find_entry, set_status
from .demo_transcript import (
    LINE_GAP,
    DemoClock,
    DemoSession,
    IdGenerator,
    LineAppender,
    SessionBuilder,
    TranscriptChain,
    encode_json,
    to_millis,
    write_file,
)
from .stories import LAUNCHES, STORIES, AgentLaunch


def resume_conversation(
    session: DemoSession, rng: Random
) -> tuple[MainConversation, PendingToolCall]:
    """Return what appends to a session's file, and the call whose result is missing.

    The call has no id where the last line is no tool call.
    """
    lines = [json.loads(row) for row in session.transcript.read_bytes().splitlines()]
    chained = [line for line in lines if "uuid" in line]
    last = chained[-1]
    story = next(story for story in STORIES if story.title == session.title)
    origin = story.origin(session.session_id, "amber-drifting-otter")
    at = datetime.fromisoformat(last["timestamp"])
    clock = DemoClock(at, LINE_GAP, datetime.max.replace(tzinfo=UTC))
    chain = TranscriptChain(
        origin, IdGenerator(rng), clock, LineAppender(session.transcript), parent=last["uuid"]
    )
    chain.lines_since_prompt = [line["uuid"] for line in chained[-8:]]
    talk = MainConversation(SessionBuilder(story, chain), _read_totals(lines))
    _restore_conversation(talk, session, lines)
    calls = [block["id"] for block in _answer_blocks([last]) if block["type"] == "tool_use"]
    return talk, PendingToolCall(last["uuid"], calls[0] if calls else "", PERMISSION_CALL)


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
    blocks = _answer_blocks(since)
    if blocks:
        requests.add_answer(blocks)
    for line in since:
        if line["type"] == "user":
            requests.add_message("user", line["message"]["content"])


def _answer_blocks(lines: list[DemoJson]) -> list[DemoJson]:
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
        totals.count(message["model"], AnswerUsage.of_fields(message["usage"]))
    return totals


TOKENS_PER_EXCHANGE = 3_100  # from 64 % of 200k to the trigger in a minute and a half
COMPACT_AT = 0.835  # of the window: as the client does, where 200k are the window
TOKENS_AFTER_COMPACTION = 8_240
CALLS_PER_TURN = 6


class GrowingSession:
    def __init__(self, session: DemoSession, rng: Random, entry: Path | None) -> None:
        self.talk, self._pending = resume_conversation(session, rng)
        self._entry = entry

    def fill_window(self) -> Iterator[None]:
        """Fill the window step by step, compact at its end, continue."""
        talk = self.talk
        if self._pending.tool_use_id:
            talk.tool_result(self._pending)
            yield
        for prompt in cycle(TEXTS.tax_prompts):
            for _ in range(CALLS_PER_TURN):
                if talk.tokens >= COMPACT_AT * talk.model.window:
                    talk.compact("auto", "tax", TOKENS_AFTER_COMPACTION)
                    yield
                # The first request after a compaction carries the system prompt again.
                pending = talk.request_tool(max(talk.tokens, FIRST_TOKENS) + TOKENS_PER_EXCHANGE)
                yield
                talk.tool_result(pending)
                yield
            talk.reply(talk.builder.closing(), talk.tokens + TOKENS_PER_EXCHANGE, 220, 24.0)
            talk.write_cost()
            self._set_status("idle")
            yield
            self._prompt(prompt)
            yield

    def run_agents(self) -> Iterator[None]:
        """Launch agents, let them work, take their results, launch the next ones."""
        for launch, following in cycle(zip(LAUNCHES, (*LAUNCHES[1:], LAUNCHES[0]), strict=True)):
            yield from self._launch(launch)
            self._prompt(following.prompt)
            yield

    def _launch(self, launch: AgentLaunch) -> Iterator[None]:
        talk, builder = self.talk, self.talk.builder
        started = talk.launch_agents(launch.tasks, launch.say, talk.tokens + 1_700)
        yield
        runs: list[AgentConversation] = []
        for agent in started:
            talk.acknowledge(agent)
            runs.append(self._begin_agent(agent))
        yield
        self._end_turn("Both are at work." if len(runs) > 1 else "It is at work.", 900, 12, 6.0)
        yield
        for _ in range(max(run.task.calls for run in runs)):
            for run in runs:
                if run.calls < run.task.calls:
                    run.use_tool(builder.next_remark(), builder.next_call(1_800))
                    yield
        for run in runs:
            yield from self._return_agent(run)

    def _begin_agent(self, agent: LaunchedAgent) -> AgentConversation:
        talk = self.talk
        path = talk.builder.agent_transcript(agent.agent_id)
        talk.builder.transcript.stat()  # a folder that somebody removed must not come back
        write_file(path, b"")
        run = AgentConversation(talk, agent, LineAppender(path), talk.chain.clock)
        write_file(run.sidecar, encode_json(run.meta()))
        run.begin(talk.prompt_id)
        return run

    def _return_agent(self, run: AgentConversation) -> Iterator[None]:
        if run.task.rejected_result is not None:
            run.write_blocked_result(run.task.rejected_result, client_text("no_marker"))
            yield
        run.finish()
        write_file_atomically(run.sidecar, encode_json(run.meta() | {"finished": True}))
        yield
        self.talk.notify(run)
        self._set_status("busy")
        yield
        self._end_turn(run.reply(), 1_500, 60, 5.0)
        yield

    def ask_permissions(self) -> Iterator[None]:
        """Get a permission, use it, and ask for the next one."""
        talk, pending = self.talk, self._pending
        for prompt in cycle(TEXTS.password_prompts):
            self._set_status("busy")
            talk.tool_result(pending)
            yield
            self._end_turn("Rotated, nothing was dropped.", 1_300, 40, 12.0)
            yield
            self._prompt(prompt)
            yield
            pending = talk.ask_permission(talk.tokens + 2_200)
            self._set_status("waiting")
            yield

    def _prompt(self, text: str) -> None:
        self.talk.prompt(text)
        self._set_status("busy")

    def _end_turn(self, text: str, added_tokens: int, output: int, seconds: float) -> None:
        self.talk.reply(text, self.talk.tokens + added_tokens, output, seconds)
        self._set_status("idle")

    def _set_status(self, status: str) -> None:
        if self._entry is not None:
            set_status(self._entry, status, self.talk.chain.clock.at)


EVENT_SPAN = timedelta(milliseconds=120)  # one event's lines have times up to this long ago
WAIT_TURNS = (41, 45, 49, 53)  # the steps of a round in which the waiting session moves
ROUND_STEPS = 60  # the waiting session waits for most of them
TRACKS: dict[str, Callable[[GrowingSession], Iterator[None]]] = {
    "Move checkout to the new tax API": GrowingSession.fill_window,
    "Search p95 below 120 ms": GrowingSession.run_agents,
    "Rotate the database password": GrowingSession.ask_permissions,
}
"""What happens in each of the growing sessions, by title."""


class DemoWriter:
    """Appends to the growing sessions of a demo folder, one event a step."""

    def __init__(self, folder: DemoFolder, interval_s: float = 1.5) -> None:
        self._folder = folder
        self._rng = Random("writer 7")  # noqa: S311 - repeatable on purpose
        self._interval = interval_s
        self._playing: list[tuple[DemoClock, Iterator[None]]] = []
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
        place = self._steps % ROUND_STEPS
        clock, events = self._playing[2 if place in WAIT_TURNS else place % 2]
        self._steps += 1
        clock.at = max(clock.at, now - EVENT_SPAN)
        clock.end = now
        next(events)

    def _open(self, session: DemoSession) -> tuple[DemoClock, Iterator[None]]:
        entry = find_entry(self._folder.root, session.session_id)
        growing = GrowingSession(session, self._rng, entry)
        return growing.talk.chain.clock, TRACKS[session.title](growing)
