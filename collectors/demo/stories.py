"""What happens in each session of the demo, one function per kind of session."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import agent_tasks, demo_texts
from .agent_conversation import (
    AgentConversation,
    LaunchedAgent,
    acknowledge_launch,
    agent_call,
    agent_chain,
    agent_clock,
    agent_paths,
    encode_sidecar,
    launch_agents,
    notification_text,
)
from .conversation_writer import AnswerUsage, split_usage, text_block, tool_use_block
from .demo_transcript import DemoJson, DemoToolCall, FileBuffer
from .main_conversation import DemoCompaction
from .older_clients import (
    NewerConversation,
    OlderConversation,
    use_older_envelope,
    write_foreground_agent,
    write_inlined_agent,
    write_sibling_agent,
)
from .session_builder import (
    FIRST_TOKENS,
    SessionBuilder,
    SessionTruth,
    conversation_truth,
    rising_steps,
    write_running_tests,
    write_tool_use,
    write_turn,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .agent_tasks import AgentTask
    from .main_conversation import MainConversation


SessionStory = Callable[[SessionBuilder], SessionTruth]
PromptTurn = tuple[str, int, int]  # the prompt, the tokens at the end, the tool calls

PLAN_TOKENS = 640
"""Tokens by which a shown plan, and its approval, make the context longer."""


@dataclass(frozen=True)
class AgentLaunch:
    """What the launching session is asked next, and whom it sends."""

    prompt: str
    tasks: tuple[AgentTask, ...]
    announcement: str


LAUNCHES = (
    AgentLaunch(
        "Run the facet query beside the main one, and let the page show the hits first.",
        (agent_tasks.SEARCH_PANEL, agent_tasks.SEARCH_REVIEW),
        "The page and the review touch different files. Both can start.",
    ),
    AgentLaunch(
        "Write down what the endpoint promises now.",
        (agent_tasks.SEARCH_DOCS,),
        "One page, with examples that were run.",
    ),
    AgentLaunch(
        "Measure it again with yesterday's traffic, and look over the whole branch.",
        (agent_tasks.SEARCH_PROFILE, agent_tasks.SEARCH_REVIEW),
        "Numbers from one, judgement from the other.",
    ),
)


def first_prompt(stage: SessionBuilder) -> SessionTruth:
    """Write a session that is waiting for its first answer."""
    talk = stage.new_conversation()
    talk.title = None
    talk.prompt(stage.spec.title)
    return conversation_truth(talk)


def finished_turns(*script: PromptTurn) -> SessionStory:
    """Return the story of some finished turns."""

    def story(stage: SessionBuilder) -> SessionTruth:
        talk = stage.new_conversation()
        for prompt, until, calls in script:
            write_turn(stage, talk, prompt, until, calls)
        talk.write_cost()
        return conversation_truth(talk)

    return story


def turns_with_agents(script: tuple[PromptTurn, ...], *launches: AgentLaunch) -> SessionStory:
    """Return the story of some finished turns, and of agents that are sent out after them."""

    def story(stage: SessionBuilder) -> SessionTruth:
        talk = stage.new_conversation()
        for prompt, until, calls in script:
            write_turn(stage, talk, prompt, until, calls)
        with separate_randomness(stage):
            for each in launches:
                talk.prompt(each.prompt)
                write_agents(stage, talk, each.tasks, each.announcement)
        talk.write_cost()
        return conversation_truth(talk)

    return story


def approved_plan(before: PromptTurn, prompt: str, plan: str, after: PromptTurn) -> SessionStory:
    """Return the story of a session that shows a plan between two turns; it is approved."""

    def story(stage: SessionBuilder) -> SessionTruth:
        talk = stage.new_conversation()
        write_turn(stage, talk, *before)
        with separate_randomness(stage):
            talk.prompt(prompt)
            write_plan(stage, talk, plan)
        write_turn(stage, talk, *after)
        talk.write_cost()
        return conversation_truth(talk)

    return story


def write_plan(stage: SessionBuilder, talk: MainConversation, plan: str) -> None:
    """Write a plan that is shown and approved, as 2.1.329 writes it."""
    began = stage.clock.at
    place = f"~/.claude/plans/{stage.origin.nickname}.md"
    said = (
        "User has approved your plan. You can now start coding. Start with updating your todo list"
        f" if applicable\n\nYour plan has been saved to: {place}\n\n## Approved Plan:\n{plan}"
    )
    result: DemoJson = {"plan": plan, "isAgent": False, "filePath": place}
    call = DemoToolCall("ExitPlanMode", {"plan": plan, "planFilePath": place}, said, result)
    tool_use_id = stage.ids.tool_use()
    blocks = [text_block("Here is how I would do it."), tool_use_block(tool_use_id, call)]
    asked_by = talk.answer(blocks, talk.tokens + PLAN_TOKENS, 420)[-1]
    talk.tool_result(tool_use_id, call, asked_by)
    talk.answer([text_block("I begin with the schema.")], talk.tokens + PLAN_TOKENS, 30)
    talk.finish_turn((stage.clock.at - began).total_seconds())


@contextmanager
def separate_randomness(stage: SessionBuilder) -> Iterator[None]:
    """Draw from a source of its own: the stories that are told after this stay as they are."""
    state = stage.rng.getstate()
    stage.rng.seed(stage.spec.title)
    try:
        yield
    finally:
        stage.rng.setstate(state)


def running_tests(first: PromptTurn, prompt: str, until: int) -> SessionStory:
    """Return the story of a session whose second turn runs a tool right now."""

    def story(stage: SessionBuilder) -> SessionTruth:
        talk = stage.new_conversation()
        write_turn(stage, talk, *first)
        talk.prompt(prompt)
        *before, last = rising_steps(talk.tokens, until, 3)
        for tokens in before:
            write_tool_use(stage, talk, tokens)
        write_running_tests(stage, talk, last)
        return conversation_truth(talk)

    return story


def agents_returned(stage: SessionBuilder) -> SessionTruth:
    """Write a session that started four agents and has all of their results."""
    talk = stage.new_conversation()
    api, page, review, survey = agent_tasks.WISHLIST
    talk.prompt(
        "Build the wishlist: the API and the page can go in parallel. Keep the cart's session "
        "check, at most 200 items."
    )
    for tokens in (FIRST_TOKENS, *rising_steps(FIRST_TOKENS, 112_800, 5)):
        write_tool_use(stage, talk, tokens)
    write_agents(stage, talk, (api, page), "Both halves are independent. I'll start them together.")
    talk.prompt("Now have it reviewed, and find out what a wishlist event should look like.")
    write_agents(
        stage, talk, (review, survey), "A review and a survey; neither of them writes code."
    )
    talk.write_cost()
    return conversation_truth(talk)


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
    """Return what the main conversation says about an agent's result."""
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
    place = agent_paths(stage.transcript, one.agent_id)
    sheet, sidecar = FileBuffer(place.transcript), FileBuffer(place.meta)
    began = stage.clock.at if parent is None else parent.chain.clock.at
    clock = agent_clock(began, stage.clock.end)
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
    sidecar.chunks.append(encode_sidecar(run.meta(talk.model.id, above), {"finished": True}))
    sidecar.last = sheet.last
    stage.agent_buffers += [sheet, sidecar]
    return run


def agents_launching(stage: SessionBuilder) -> SessionTruth:
    """Write a session with one finished agent that goes on to launch more."""
    talk = stage.new_conversation()
    talk.prompt("p95 of /search is 410 ms. Get it below 120 ms. Same results, same order.")
    for tokens in (FIRST_TOKENS, *rising_steps(FIRST_TOKENS, 187_500, 8)):
        write_tool_use(stage, talk, tokens)
    write_agents(stage, talk, agent_tasks.SEARCH_FIRST, "I want numbers before I touch anything.")
    talk.prompt(LAUNCHES[0].prompt)
    return conversation_truth(talk)


def compacted_twice(stage: SessionBuilder) -> SessionTruth:
    """Write a session that was compacted manually, then automatically, and continues."""
    talk, path = stage.new_conversation(), stage.display_path
    write_turn(
        stage, talk, "What does the staging cluster consist of? List every resource.", 47_400, 6
    )
    write_turn(stage, talk, "Import them into Terraform, one by one.", 118_200, 9)
    write_turn(stage, talk, "The load balancers too.", 151_000, 2)
    by_hand = DemoCompaction(
        "manual", demo_texts.TERRAFORM_SUMMARY, 6_180, "keep the list of resources"
    )
    talk.compact(by_hand, path)
    write_turn(stage, talk, "Go on with the subnets.", 66_900, 6)
    write_turn(stage, talk, "Now the node pools. `terraform plan` must stay empty.", 141_800, 8)
    write_turn(stage, talk, "Why does the second pool want to be made anew?", 172_300, 4)
    talk.compact(DemoCompaction("auto", demo_texts.TERRAFORM_SUMMARY, 7_420), path)
    write_turn(stage, talk, "Now the route tables. Show me the plan first.", 26_140, 4)
    talk.write_cost()
    return conversation_truth(talk)


def compacted(stage: SessionBuilder) -> SessionTruth:
    """Write a session that was compacted and has not answered since."""
    talk = stage.new_conversation()
    write_turn(stage, talk, "Two devices, one note, both offline. Never lose a word.", 214_000, 4)
    write_turn(
        stage, talk, "What happens when a paragraph is deleted while it is edited?", 388_500, 4
    )
    by_hand = DemoCompaction("manual", demo_texts.SYNC_SUMMARY, 14_870, "keep the merge rules")
    talk.compact(by_hand, stage.display_path)
    return conversation_truth(talk)


def prompt_too_long(stage: SessionBuilder) -> SessionTruth:
    """Write a session that was compacted twice, then read too much at once and gave up."""
    talk, path = stage.new_conversation(), stage.display_path
    write_turn(stage, talk, "Read the whole invoice run and explain every rule in it.", 196_040, 7)
    talk.write_cost()
    talk.prompt("Now read the 1997 export as well, all of it.")
    talk.compact(DemoCompaction("auto", demo_texts.COBOL_SUMMARY, 41_300), path)
    talk.compact(DemoCompaction("auto", demo_texts.COBOL_SUMMARY, 9_260), path)
    for tokens in (FIRST_TOKENS, *rising_steps(FIRST_TOKENS, 164_300, 4)):
        write_tool_use(stage, talk, tokens)
    talk.write_prompt_too_long(210_000)
    return conversation_truth(talk)


def permission_prompt(stage: SessionBuilder) -> SessionTruth:
    """Write a session that is waiting at a permission prompt."""
    talk = stage.new_conversation()
    write_turn(
        stage,
        talk,
        "Rotate the staging database password without dropping a connection.",
        58_400,
        4,
    )
    talk.prompt("Looks right. Do it on staging now.")
    write_permission_prompt(stage, talk, 71_250)
    return conversation_truth(talk)


@dataclass(frozen=True)
class PendingToolCall:
    """A tool call that has no result yet: who asked, under which id, for what."""

    line_id: str
    tool_use_id: str
    call: DemoToolCall


def permission_call() -> DemoToolCall:
    """Return a command that nobody has allowed yet."""
    output = "rotated: staging-main\n2 replicas follow\n0 connections dropped"
    result: DemoJson = {
        "stdout": output,
        "stderr": "",
        "interrupted": False,
        "isImage": False,
        "noOutputExpected": False,
    }
    command = {
        "command": "scripts/rotate.sh staging --apply",
        "description": "Rotate the password",
    }
    return DemoToolCall("Bash", command, output, result)


def write_permission_prompt(
    stage: SessionBuilder, talk: MainConversation, tokens: int
) -> PendingToolCall:
    """Write an answer that asks for permission."""
    call, tool_use_id = permission_call(), stage.ids.tool_use()
    say = "The old and the new password are both valid for ten minutes. Rotating staging now."
    blocks = [text_block(say), tool_use_block(tool_use_id, call)]
    asked_by = talk.answer(blocks, tokens, 190)[-1]
    talk.write_titles()
    return PendingToolCall(asked_by, tool_use_id, call)


def forked_session(parent: SessionBuilder, prompt: str, until: int) -> SessionStory:
    """Return the story of a session that copied another one's history and went its own way."""

    def story(stage: SessionBuilder) -> SessionTruth:
        talk = stage.new_conversation()
        talk.chain.add_note("mode", mode="normal")
        talk.chain.add_note("atis-latch", atis="")
        copied = [line for line in parent.buffer.lines if "uuid" in line]
        for line in copied:
            own = line | {"sessionId": stage.origin.session_id}
            if "session_id" in own:
                own["session_id"] = stage.origin.session_id
            stage.buffer.line(own)
        answers = [line["message"]["usage"] for line in copied if line["type"] == "assistant"]
        last = answers[-1]
        talk.tokens = (
            last["input_tokens"]
            + last["cache_creation_input_tokens"]
            + last["cache_read_input_tokens"]
        )
        talk.state = "measured"
        talk.chain.parent = copied[-1]["uuid"]
        talk.is_opened = talk.has_tool_snapshot = True
        write_turn(stage, talk, prompt, until, 2)
        return conversation_truth(talk)

    return story


NEWER_FIRST_TOKENS = 24_300  # what the first request of a session held then
OLDER_FIRST_TOKENS = 21_600
SEARCH_TOKENS = 11_400  # what a search on the API's side added between the two rounds of one answer


def newer_session(by_hand: str | None, task: AgentTask, targets: tuple[int, int]) -> SessionStory:
    """Return the story of a 2.1.217 session: an agent, then an answer in two rounds."""

    def story(stage: SessionBuilder) -> SessionTruth:
        talk = NewerConversation(stage.new_chain(), stage.spec.model)
        middle, last = targets
        talk.prompt(task.prompt)
        for tokens in rising_steps(NEWER_FIRST_TOKENS, middle, 6):
            talk.use(stage.next_remark(), stage.next_call(tokens - talk.tokens), tokens)
        folder = stage.transcript.with_suffix("") / "subagents"
        stage.agent_buffers += write_foreground_agent(
            talk, task, folder, stage.spec.project, stage.rng, middle + 4_200
        )
        for tokens in rising_steps(talk.tokens, last - SEARCH_TOKENS - 300, 8):
            talk.use(stage.next_remark(), stage.next_call(tokens - talk.tokens), tokens)
        talk.say(stage.closing(), two_round_usage(talk.tokens, last))
        title = stage.spec.title
        talk.title(by_hand and title, by_hand or title)
        return SessionTruth(talk.tokens, "measured", 0, 1)

    return story


def two_round_usage(before: int, last: int) -> tuple[AnswerUsage, AnswerUsage]:
    """Return the counts of an answer that searched once: the second round is its window."""
    first = split_usage(last - SEARCH_TOKENS, before, 90)
    return first, split_usage(last, first.context, 410)


def older_inlined_agent(stage: SessionBuilder) -> SessionTruth:
    """Write a 2.1.45 session whose agent left only progress lines."""
    talk = OlderConversation(use_older_envelope(stage.new_chain()), stage.spec.model.id)
    talk.start()
    talk.prompt(stage.spec.title)
    for tokens in rising_steps(OLDER_FIRST_TOKENS, 61_000, 3):
        talk.use(stage.next_remark(), stage.next_call(tokens - talk.tokens), tokens)
    write_inlined_agent(talk, agent_tasks.INVENTORY, stage.spec.project, stage.rng, 64_300)
    talk.say(
        "Four routes, one of them probably used by the load balancer. I removed three.", 71_900
    )
    return SessionTruth(talk.tokens, "measured", 0, 1)


def older_sibling_agent(stage: SessionBuilder) -> SessionTruth:
    """Write a 2.1.45 session with an agent's file beside it and a bare boundary."""
    talk = OlderConversation(use_older_envelope(stage.new_chain()), stage.spec.model.id)
    talk.start()
    talk.prompt(stage.spec.title)
    for tokens in rising_steps(OLDER_FIRST_TOKENS, 148_000, 5):
        talk.use(stage.next_remark(), stage.next_call(tokens - talk.tokens), tokens)
    sheet = write_sibling_agent(
        talk,
        agent_tasks.LEDGER_AUDIT,
        stage.transcript.parent,
        stage.spec.project,
        stage.rng,
        158_200,
    )
    stage.agent_buffers.append(sheet)
    talk.compact(demo_texts.COBOL_SUMMARY, 167_081)
    talk.prompt("So is it the bank's calendar?")
    talk.use(stage.next_remark(), stage.next_call(4_000), 44_700)
    talk.say("Yes: the last banking day of March was a Friday, the job took the 31st.", 49_350)
    return SessionTruth(talk.tokens, "measured", 1, 1)
