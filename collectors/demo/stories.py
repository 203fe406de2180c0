"""The demo's sessions as demo.toml lists them, and what each of their steps writes."""

from datetime import datetime, timedelta
from pathlib import Path
from random import Random

import msgspec

from .conversation_writer import AnswerUsage, CacheLoss, filler_text
from .demo_conversation import (
    FIRST_TOKENS,
    AgentConversation,
    LaunchedAgent,
    MainConversation,
)
from .demo_data import MODELS, RAW, TASKS, DemoJson, DemoToolCall, client_text
from .demo_transcript import (
    DemoClock,
    DemoSession,
    DemoStory,
    FileBuffer,
    IdGenerator,
    SessionBuilder,
    TranscriptChain,
)
from .older_clients import OLDER_STORIES, rising_steps

AGENT_PACE = timedelta(seconds=19)  # between two answers
SERVER_TEXT_CHARS = 240  # of a tool server's instructions
PLAN_TOKENS = 640  # by which a shown plan, and its approval, make the context longer
NICKNAMES = ("amber-drifting-otter", "quiet-humming-fjord", "brisk-folding-lantern")


class AgentLaunch(msgspec.Struct, frozen=True):
    """The next prompt of the session that keeps launching agents, and the agents."""

    prompt: str
    tasks: tuple[str, ...]
    say: str


LAUNCHES = msgspec.convert(RAW["launches"], tuple[AgentLaunch, ...])


STORIES = msgspec.convert(RAW["sessions"], tuple[DemoStory, ...])


def open_session(story: DemoStory, root: Path, now: datetime, rng: Random) -> SessionBuilder:
    """Return the builder of a session, its clock set to when the session began."""
    ids = IdGenerator(rng)
    origin = story.origin(ids.uuid(), rng.choice(NICKNAMES))
    end, pace = now - timedelta(**story.ended), timedelta(seconds=story.pace_s)
    clock = DemoClock(end - pace * story.answers, pace, end)
    sink = FileBuffer(origin.transcript(root))
    return SessionBuilder(story, TranscriptChain(origin, ids, clock, sink))


def write_story(
    story: DemoStory, builder: SessionBuilder, earlier: dict[str, SessionBuilder]
) -> DemoSession:
    """Write a whole session and return the truth about it; `earlier` sessions are by title."""
    if story.older is not None:
        arguments = dict(story.older)
        return OLDER_STORIES[arguments.pop("do")](builder, **arguments)
    talk = StoryConversation(builder, earlier)
    talk.write_steps(story.steps)
    tokens = None if talk.state == "unknown" else talk.tokens
    return builder.to_session(tokens, talk.state, talk.compactions, talk.agents)


class StoryConversation(MainConversation):
    """A main conversation that is written step by step; demo.toml names the methods."""

    def __init__(self, builder: SessionBuilder, earlier: dict[str, SessionBuilder]) -> None:
        super().__init__(builder)
        self._earlier = earlier

    def write_steps(self, steps: tuple[DemoJson, ...] | list[DemoJson]) -> None:
        for step in steps:
            arguments = dict(step)
            getattr(self, arguments.pop("do"))(**arguments)

    def write_turn(self, prompt: str, until: int, calls: int) -> None:
        """Write a prompt, `calls` tool calls, and an answer at `until` tokens."""
        self.prompt(prompt)
        if self.tokens:
            steps = rising_steps(self.tokens, until, calls + 1)[:-1]
        else:
            steps = [FIRST_TOKENS, *rising_steps(FIRST_TOKENS, until, calls)[:-1]]
        for tokens in steps:
            self.use_tool(tokens)
        self.reply(self.builder.closing(), until, 240)

    def prompt_first_launch(self) -> None:
        """Write the first of the prompts that the session continues with while the demo runs."""
        self.prompt(LAUNCHES[0].prompt)

    def use_tools(self, until: int, calls: int) -> None:
        for tokens in (FIRST_TOKENS, *rising_steps(FIRST_TOKENS, until, calls)):
            self.use_tool(tokens)

    def run_agents(self, tasks: tuple[str, ...], say: str) -> None:
        started = self.launch_agents(tasks, say, self.tokens + 5_400)
        for launched in started:
            self.acknowledge(launched)
        runs = [self._run_agent(launched) for launched in started]
        self.reply("Both are running.", self.tokens + 1_900, 12, 31.5)
        for run in runs:
            self.chain.clock.at = max(self.chain.clock.at, run.chain.clock.at)
            self.notify(run)
            self.reply(run.reply(), self.tokens + 2_600, 64, 8.2)

    def _run_agent(
        self, launched: LaunchedAgent, parent: AgentConversation | None = None
    ) -> AgentConversation:
        builder = self.builder
        sink = FileBuffer(builder.agent_transcript(launched.agent_id))
        began = (parent or self).chain.clock.at
        clock = DemoClock(began, AGENT_PACE, self.chain.clock.end)
        run = AgentConversation(self, launched, sink, clock, parent)
        run.begin(self.prompt_id)
        for _ in range(run.task.calls):
            run.use_tool(builder.next_remark(), builder.next_call(2_000))
        for name in run.task.helpers:
            helper = TASKS[name]
            tool_use_id = run.use_tool(f"{helper.description}.", helper.call())
            self._run_agent(LaunchedAgent(helper, self.chain.ids.agent(), tool_use_id), run)
            self.agents += 1
        if run.task.rejected_result is not None:
            run.write_blocked_result(run.task.rejected_result, client_text("no_marker"))
        run.finish()
        sidecar = FileBuffer(run.sidecar, [run.meta() | {"finished": True}], sink.last, b"")
        builder.agent_files += [sink, sidecar]
        return run

    def show_plan(self, text: str) -> None:
        path = f"~/.claude/plans/{self.chain.origin.nickname}.md"
        output = client_text("plan_approved", path=path, plan=text)
        result: DemoJson = {"plan": text, "isAgent": False, "filePath": path}
        call = DemoToolCall("ExitPlanMode", {"plan": text, "planFilePath": path}, output, result)
        say = "Here is how I would do it."
        self.tool_result(self.call_tool(say, call, self.tokens + PLAN_TOKENS, 420))
        self.reply("I begin with the schema.", self.tokens + PLAN_TOKENS, 30)

    def run_tests(self, tokens: int) -> None:
        """Use three tools; the last one has not finished."""
        *before, last = rising_steps(self.tokens, tokens, 3)
        for size in before:
            self.use_tool(size)
        self.start_tests(last)

    def copy_session(self, session: str) -> None:
        """Copy another session's history, as a fork does."""
        session_id = self.chain.origin.session_id
        self.chain.add_note("mode", mode="normal")
        self.chain.add_note("atis-latch", atis="")
        lines = self._earlier[session].chain.sink.lines
        copied = [line for line in lines if "uuid" in line]
        for line in copied:
            ids = {key: session_id for key in ("sessionId", "session_id") if key in line}
            self.chain.sink.add(line | ids)
        usage = [line["message"]["usage"] for line in copied if line["type"] == "assistant"][-1]
        self.tokens = AnswerUsage.of_fields(usage).context
        self.state = "measured"
        self.chain.parent = copied[-1]["uuid"]
        self.is_opened = self.has_tool_snapshot = True

    def pause(self, minutes: int) -> None:
        """Pass time until the cache has expired."""
        self.chain.clock.tick(timedelta(minutes=minutes))
        # The API remembers an answer for an hour, and finds no difference before.
        reason = "previous_message_not_found" if minutes >= 60 else None
        self.next_loss = CacheLoss(reason)

    def switch_model(self, model: str) -> None:
        self.model = self.requests.model = MODELS[model]
        self.next_loss = CacheLoss("model_changed") if self.tokens else None

    def add_server(self, server: str, tools: list[str]) -> None:
        """Add a tool server whose tools stand in front of every prompt."""
        block = f"## {server}\n{filler_text(SERVER_TEXT_CHARS)}"
        self._attach("server", self.lineage, server=server, block=block)
        self.requests.server_tools = tuple(f"mcp__{server}__{tool}" for tool in tools)
        self.requests.shape_hash = ""  # the next request writes its new shape
        self.next_loss = CacheLoss("tools_changed")

    def write_aside(self, steps: list[DemoJson]) -> None:
        """Write steps with random numbers of their own, so that no later session changes."""
        rng = self.builder.rng
        state = rng.getstate()
        rng.seed(self.builder.story.title)
        self.write_steps(steps)
        rng.setstate(state)
