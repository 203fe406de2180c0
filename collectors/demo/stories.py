"""The demo's sessions as demo.toml lists them, and what each of their steps writes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import msgspec

from .conversation_writer import (
    AnswerUsage,
    PendingToolCall,
    split_usage,
    text_block,
    tool_use_block,
)
from .demo_conversation import (
    AgentConversation,
    DemoCompaction,
    LaunchedAgent,
    MainConversation,
    acknowledge_launch,
    agent_call,
    agent_chain,
    agent_sidecar,
    agent_transcript,
    launch_agents,
    notification_text,
)
from .demo_data import RAW, SUMMARIES, TASKS, AgentTask, DemoToolCall, client_text, permission_call
from .demo_transcript import DemoClock, DemoJson, DemoSession, FileBuffer, encode_json
from .older_clients import (
    NewerConversation,
    OlderConversation,
    write_foreground_agent,
    write_inlined_agent,
    write_sibling_agent,
)
from .session_builder import (
    FIRST_TOKENS,
    SessionBuilder,
    SessionSpec,
    rising_steps,
    write_running_tests,
    write_tool_use,
    write_turn,
)


@dataclass(frozen=True)
class StoryContext:
    """The session that is written, and those that were written before it, by title."""

    stage: SessionBuilder
    talk: MainConversation
    earlier: dict[str, SessionBuilder] = field(default_factory=dict)


class TurnStep(msgspec.Struct, frozen=True, tag_field="do", tag="turn"):
    prompt: str
    until: int
    calls: int

    def write(self, at: StoryContext) -> None:
        write_turn(at.stage, at.talk, self.prompt, self.until, self.calls)


class PromptStep(msgspec.Struct, frozen=True, tag_field="do", tag="prompt"):
    text: str

    def write(self, at: StoryContext) -> None:
        at.talk.prompt(self.text)


class ToolUsesStep(msgspec.Struct, frozen=True, tag_field="do", tag="tool_uses"):
    until: int
    calls: int

    def write(self, at: StoryContext) -> None:
        for tokens in (FIRST_TOKENS, *rising_steps(FIRST_TOKENS, self.until, self.calls)):
            write_tool_use(at.stage, at.talk, tokens)


class AgentsStep(msgspec.Struct, frozen=True, tag_field="do", tag="agents"):
    tasks: tuple[str, ...]
    say: str

    def write(self, at: StoryContext) -> None:
        tasks = tuple(TASKS[name] for name in self.tasks)
        write_agents(at.stage, at.talk, tasks, self.say)


class FirstLaunchStep(msgspec.Struct, frozen=True, tag_field="do", tag="first_launch"):
    """Ask for the first of the launches that the session goes on with while the demo runs."""

    def write(self, at: StoryContext) -> None:
        at.talk.prompt(LAUNCHES[0].prompt)


PLAN_TOKENS = 640  # tokens by which a shown plan, and its approval, make the context longer


class PlanStep(msgspec.Struct, frozen=True, tag_field="do", tag="plan"):
    """Show a plan, which is approved."""

    text: str

    def write(self, at: StoryContext) -> None:
        stage, talk, plan = at.stage, at.talk, self.text
        began = stage.clock.at
        place = f"~/.claude/plans/{stage.origin.nickname}.md"
        said = client_text("plan_approved", path=place, plan=plan)
        result: DemoJson = {"plan": plan, "isAgent": False, "filePath": place}
        call = DemoToolCall("ExitPlanMode", {"plan": plan, "planFilePath": place}, said, result)
        tool_use_id = stage.ids.tool_use()
        blocks = [text_block("Here is how I would do it."), tool_use_block(tool_use_id, call)]
        asked_by = talk.answer(blocks, talk.tokens + PLAN_TOKENS, 420)[-1]
        talk.tool_result(PendingToolCall(asked_by, tool_use_id, call))
        talk.answer([text_block("I begin with the schema.")], talk.tokens + PLAN_TOKENS, 30)
        talk.finish_turn((stage.clock.at - began).total_seconds())


class CompactStep(msgspec.Struct, frozen=True, tag_field="do", tag="compact"):
    trigger: str
    summary: str
    tokens: int
    instructions: str = ""

    def write(self, at: StoryContext) -> None:
        how = DemoCompaction(self.trigger, SUMMARIES[self.summary], self.tokens, self.instructions)
        at.talk.compact(how, at.stage.display_path)


class RunningTestsStep(msgspec.Struct, frozen=True, tag_field="do", tag="running_tests"):
    """Use three tools; the last one has not finished."""

    tokens: int

    def write(self, at: StoryContext) -> None:
        *before, last = rising_steps(at.talk.tokens, self.tokens, 3)
        for tokens in before:
            write_tool_use(at.stage, at.talk, tokens)
        write_running_tests(at.stage, at.talk, last)


class PermissionStep(msgspec.Struct, frozen=True, tag_field="do", tag="permission_prompt"):
    tokens: int

    def write(self, at: StoryContext) -> None:
        write_permission_prompt(at.stage, at.talk, self.tokens)


class TooLongStep(msgspec.Struct, frozen=True, tag_field="do", tag="too_long"):
    tokens: int

    def write(self, at: StoryContext) -> None:
        at.talk.write_prompt_too_long(self.tokens)


class CostStep(msgspec.Struct, frozen=True, tag_field="do", tag="cost"):
    def write(self, at: StoryContext) -> None:
        at.talk.write_cost()


class CopyStep(msgspec.Struct, frozen=True, tag_field="do", tag="copy"):
    """Copy another session's history, as a fork does."""

    session: str

    def write(self, at: StoryContext) -> None:
        talk, session_id = at.talk, at.stage.origin.session_id
        talk.chain.add_note("mode", mode="normal")
        talk.chain.add_note("atis-latch", atis="")
        copied = [line for line in at.earlier[self.session].buffer.lines if "uuid" in line]
        for line in copied:
            own = line | {"sessionId": session_id}
            if "session_id" in own:
                own["session_id"] = session_id
            at.stage.buffer.line(own)
        usage = [line["message"]["usage"] for line in copied if line["type"] == "assistant"][-1]
        talk.tokens = AnswerUsage.of_fields(usage).context
        talk.state = "measured"
        talk.chain.parent = copied[-1]["uuid"]
        talk.is_opened = talk.has_tool_snapshot = True


class AsideStep(msgspec.Struct, frozen=True, tag_field="do", tag="aside"):
    """Draw from a source of its own: the sessions that are told after this stay as they are."""

    steps: tuple[PromptStep | AgentsStep | PlanStep, ...]

    def write(self, at: StoryContext) -> None:
        with _separate_randomness(at.stage):
            for step in self.steps:
                step.write(at)


@contextmanager
def _separate_randomness(stage: SessionBuilder) -> Iterator[None]:
    state = stage.rng.getstate()
    stage.rng.seed(stage.spec.title)
    try:
        yield
    finally:
        stage.rng.setstate(state)


AGENT_PACE = timedelta(seconds=19)  # between two answers


def write_agents(
    stage: SessionBuilder, talk: MainConversation, tasks: tuple[AgentTask, ...], say: str
) -> None:
    """Write agents from their launch to the answer after their return."""
    started = launch_agents(talk, tasks, say, talk.tokens + 5_400)
    for one in started:
        acknowledge_launch(talk, one)
    runs = [write_agent(stage, talk, one) for one in started]
    talk.answer([text_block("Both are running.")], talk.tokens + 1_900, 12)
    talk.finish_turn(31.5)
    for run in runs:
        stage.clock.at = max(stage.clock.at, run.chain.clock.at)
        talk.write_notification(notification_text(talk, run), ", ".join(run.tools_used))
        reply = f"{run.task.description}: back. {comment_on_result(run.task)}"
        talk.answer([text_block(reply)], talk.tokens + 2_600, 64)
        talk.finish_turn(8.2)


def comment_on_result(task: AgentTask) -> str:
    if "FAIL" in task.result:
        return "The critical finding is real: DELETE must take the customer from the session."
    if "[COMPRESSED]" not in task.result:
        return "Long, but the gist is clear: three events, and names in snake case."
    return "Taken over as it is."


def write_agent(
    stage: SessionBuilder,
    talk: MainConversation,
    one: LaunchedAgent,
    parent: AgentConversation | None = None,
) -> AgentConversation:
    """Write an agent's whole work to its own file; `parent` is the agent that started it."""
    sheet = FileBuffer(agent_transcript(stage.transcript, one.agent_id))
    sidecar = FileBuffer(agent_sidecar(sheet.path))
    began = stage.clock.at if parent is None else parent.chain.clock.at
    clock = DemoClock(began, AGENT_PACE, stage.clock.end)
    chain = agent_chain(talk, one.agent_id, sheet, clock)
    run = AgentConversation(one.task, chain, one.tool_use_id, talk.totals)
    run.begin(talk.prompt_id)
    for _ in range(one.task.calls):
        run.write_tool_use(stage.next_remark(), stage.next_call(2_000))
    for helper in one.task.helpers:
        tool_use_id = run.write_tool_use(f"{helper.description}.", agent_call(helper))
        below = LaunchedAgent(helper, stage.ids.agent(), tool_use_id, "")
        write_agent(stage, talk, below, run)
        talk.agents += 1
    if one.task.rejected_result is not None:
        run.write_rejected_result(one.task.rejected_result)
    run.finish()
    above = None if parent is None else parent.agent_id
    sidecar.chunks.append(encode_json(run.meta(talk.model.id, above) | {"finished": True}))
    sidecar.last = sheet.last
    stage.agent_buffers += [sheet, sidecar]
    return run


def write_permission_prompt(
    stage: SessionBuilder, talk: MainConversation, tokens: int
) -> PendingToolCall:
    call, tool_use_id = permission_call(), stage.ids.tool_use()
    say = "The old and the new password are both valid for ten minutes. Rotating staging now."
    blocks = [text_block(say), tool_use_block(tool_use_id, call)]
    asked_by = talk.answer(blocks, tokens, 190)[-1]
    talk.write_titles()
    return PendingToolCall(asked_by, tool_use_id, call)


NEWER_FIRST_TOKENS = 24_300  # what the first request of a session held then
OLDER_FIRST_TOKENS = 21_600
SEARCH_TOKENS = 11_400  # what a search on the API's side added between the two rounds of one answer

Conversation = NewerConversation | OlderConversation


def _use_tools(
    stage: SessionBuilder, talk: Conversation, start: int, until: int, calls: int
) -> None:
    for tokens in rising_steps(start, until, calls):
        talk.use(stage.next_remark(), stage.next_call(tokens - talk.tokens), tokens)


class ForegroundAgentStory(msgspec.Struct, frozen=True, tag_field="do", tag="foreground_agent"):
    """A 2.1.217 session: an agent, then an answer in two rounds.

    `until` is the context before the agent and at the end. With a `generated_title`, the
    session's own title is one that a person gave.
    """

    task: str
    until: tuple[int, int]
    generated_title: str | None = None

    def write(self, stage: SessionBuilder) -> DemoSession:
        talk = NewerConversation(stage.new_chain(), stage.spec.model)
        task = TASKS[self.task]
        middle, last = self.until
        talk.prompt(task.prompt)
        _use_tools(stage, talk, NEWER_FIRST_TOKENS, middle, 6)
        write_foreground_agent(stage, talk, task, middle + 4_200)
        _use_tools(stage, talk, talk.tokens, last - SEARCH_TOKENS - 300, 8)
        # The answer searched once: its second round is its window.
        first = split_usage(last - SEARCH_TOKENS, talk.tokens, 90)
        talk.say(stage.closing(), (first, split_usage(last, first.context, 410)))
        title = stage.spec.title
        talk.title(self.generated_title and title, self.generated_title or title)
        return stage.to_session(talk.tokens, "measured", 0, 1)


def _begin_older(stage: SessionBuilder, until: int, calls: int) -> OlderConversation:
    talk = OlderConversation(stage.new_chain(), stage.spec.model.id)
    talk.start()
    talk.prompt(stage.spec.title)
    _use_tools(stage, talk, OLDER_FIRST_TOKENS, until, calls)
    return talk


class InlinedAgentStory(msgspec.Struct, frozen=True, tag_field="do", tag="inlined_agent"):
    """A 2.1.45 session whose agent left only progress lines."""

    task: str

    def write(self, stage: SessionBuilder) -> DemoSession:
        talk = _begin_older(stage, 61_000, 3)
        write_inlined_agent(stage, talk, TASKS[self.task], 64_300)
        talk.say(
            "Four routes, one of them probably used by the load balancer. I removed three.", 71_900
        )
        return stage.to_session(talk.tokens, "measured", 0, 1)


class SiblingAgentStory(msgspec.Struct, frozen=True, tag_field="do", tag="sibling_agent"):
    """A 2.1.45 session with an agent's file beside it and a bare boundary."""

    task: str

    def write(self, stage: SessionBuilder) -> DemoSession:
        talk = _begin_older(stage, 148_000, 5)
        write_sibling_agent(stage, talk, TASKS[self.task], 158_200)
        talk.compact(SUMMARIES["cobol"], 167_081)
        talk.prompt("So is it the bank's calendar?")
        talk.use(stage.next_remark(), stage.next_call(4_000), 44_700)
        talk.say("Yes: the last banking day of March was a Friday, the job took the 31st.", 49_350)
        return stage.to_session(talk.tokens, "measured", 1, 1)


class AgentLaunch(msgspec.Struct, frozen=True):
    """What the launching session is asked next, and whom it sends."""

    prompt: str
    tasks: tuple[str, ...]
    say: str


Step = (
    TurnStep
    | PromptStep
    | ToolUsesStep
    | AgentsStep
    | FirstLaunchStep
    | PlanStep
    | CompactStep
    | RunningTestsStep
    | PermissionStep
    | TooLongStep
    | CostStep
    | CopyStep
    | AsideStep
)


class DemoStory(SessionSpec, frozen=True):
    """One session: who plays, and what happens."""

    steps: tuple[Step, ...] = ()
    older: ForegroundAgentStory | InlinedAgentStory | SiblingAgentStory | None = None

    def write(self, stage: SessionBuilder, earlier: dict[str, SessionBuilder]) -> DemoSession:
        """Write the whole session and return the truth about it."""
        if self.older is not None:
            return self.older.write(stage)
        at = StoryContext(stage, stage.new_conversation(), earlier)
        for step in self.steps:
            step.write(at)
        talk = at.talk
        tokens = None if talk.state == "unknown" else talk.tokens
        return stage.to_session(tokens, talk.state, talk.compactions, talk.agents)


LAUNCHES = msgspec.convert(RAW["launches"], tuple[AgentLaunch, ...])
STORIES = msgspec.convert(RAW["sessions"], tuple[DemoStory, ...])
