"""The stories of the 2.1.329 sessions: one function a kind."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import agent_texts, texts
from .agents import (
    AgentRun,
    Launched,
    acknowledge,
    agent_call,
    agent_chain,
    agent_file,
    launch,
    meta_bytes,
    notification,
    own_clock,
)
from .compaction import Compaction
from .model import Json, ToolCall
from .plumbing import Sheet
from .speaker import text_block, tool_block
from .stage import (
    FIRST_TOKENS,
    Stage,
    Told,
    run_tests,
    steps_between,
    truth_of,
    turn,
    use_tool,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .agent_texts import AgentTask
    from .current import Talk

Story = Callable[[Stage], Told]
Turn = tuple[str, int, int]  # the prompt, the tokens at the end, the tool calls

PLAN_STEP = 640
"""Tokens by which a shown plan, and its approval, make the context longer."""


@dataclass(frozen=True)
class Launch:
    """What the launching session is asked next, and whom it sends."""

    prompt: str
    tasks: tuple[AgentTask, ...]
    announcement: str


LAUNCHES = (
    Launch(
        "Run the facet query beside the main one, and let the page show the hits first.",
        (agent_texts.SEARCH_PANEL, agent_texts.SEARCH_REVIEW),
        "The page and the review touch different files. Both can start.",
    ),
    Launch(
        "Write down what the endpoint promises now.",
        (agent_texts.SEARCH_DOCS,),
        "One page, with examples that were run.",
    ),
    Launch(
        "Measure it again with yesterday's traffic, and look over the whole branch.",
        (agent_texts.SEARCH_PROFILE, agent_texts.SEARCH_REVIEW),
        "Numbers from one, judgement from the other.",
    ),
)


def quiet(stage: Stage) -> Told:
    """Tell a session that waits for its first answer."""
    talk = stage.new_conversation()
    talk.title = None
    talk.prompt(stage.spec.title)
    return truth_of(talk)


def turns(*script: Turn) -> Story:
    """Return the story of some finished turns."""

    def story(stage: Stage) -> Told:
        talk = stage.new_conversation()
        for prompt, until, calls in script:
            turn(stage, talk, prompt, until, calls)
        talk.write_cost()
        return truth_of(talk)

    return story


def sending(script: tuple[Turn, ...], *launches: Launch) -> Story:
    """Return the story of some finished turns, and of agents that are sent out after them."""

    def story(stage: Stage) -> Told:
        talk = stage.new_conversation()
        for prompt, until, calls in script:
            turn(stage, talk, prompt, until, calls)
        with apart(stage):
            for each in launches:
                talk.prompt(each.prompt)
                send_out(stage, talk, each.tasks, each.announcement)
        talk.write_cost()
        return truth_of(talk)

    return story


def planned(before: Turn, prompt: str, plan: str, after: Turn) -> Story:
    """Return the story of a session that shows a plan between two turns; it is approved."""

    def story(stage: Stage) -> Told:
        talk = stage.new_conversation()
        turn(stage, talk, *before)
        with apart(stage):
            talk.prompt(prompt)
            show_plan(stage, talk, plan)
        turn(stage, talk, *after)
        talk.write_cost()
        return truth_of(talk)

    return story


def show_plan(stage: Stage, talk: Talk, plan: str) -> None:
    """Tell a plan that is shown and approved, as 2.1.329 writes it."""
    began = stage.clock.at
    place = f"~/.claude/plans/{stage.origin.nickname}.md"
    said = (
        "User has approved your plan. You can now start coding. Start with updating your todo list"
        f" if applicable\n\nYour plan has been saved to: {place}\n\n## Approved Plan:\n{plan}"
    )
    result: Json = {"plan": plan, "isAgent": False, "filePath": place}
    call = ToolCall("ExitPlanMode", {"plan": plan, "planFilePath": place}, said, result)
    tool_use_id = stage.ids.tool_use()
    blocks = [text_block("Here is how I would do it."), tool_block(tool_use_id, call)]
    asked_by = talk.answer(blocks, talk.tokens + PLAN_STEP, 420)[-1]
    talk.tool_result(tool_use_id, call, asked_by)
    talk.answer([text_block("I begin with the schema.")], talk.tokens + PLAN_STEP, 30)
    talk.finish_turn((stage.clock.at - began).total_seconds())


@contextmanager
def apart(stage: Stage) -> Iterator[None]:
    """Draw from a source of its own: the stories that are told after this stay as they are."""
    state = stage.rng.getstate()
    stage.rng.seed(stage.spec.title)
    try:
        yield
    finally:
        stage.rng.setstate(state)


def busy(first: Turn, prompt: str, until: int) -> Story:
    """Return the story of a session whose second turn runs a tool right now."""

    def story(stage: Stage) -> Told:
        talk = stage.new_conversation()
        turn(stage, talk, *first)
        talk.prompt(prompt)
        *before, last = steps_between(talk.tokens, until, 3)
        for tokens in before:
            use_tool(stage, talk, tokens)
        run_tests(stage, talk, last)
        return truth_of(talk)

    return story


def leader(stage: Stage) -> Told:
    """Tell a session that gave work to four agents and got all of it back."""
    talk = stage.new_conversation()
    api, page, review, survey = agent_texts.WISHLIST
    talk.prompt(
        "Build the wishlist: the API and the page can go in parallel. Keep the cart's session "
        "check, at most 200 items."
    )
    for tokens in (FIRST_TOKENS, *steps_between(FIRST_TOKENS, 112_800, 5)):
        use_tool(stage, talk, tokens)
    send_out(stage, talk, (api, page), "Both halves are independent. I'll start them together.")
    talk.prompt("Now have it reviewed, and find out what a wishlist event should look like.")
    send_out(stage, talk, (review, survey), "A review and a survey; neither of them writes code.")
    talk.write_cost()
    return truth_of(talk)


def send_out(stage: Stage, talk: Talk, tasks: tuple[AgentTask, ...], say: str) -> None:
    """Tell agents from their launch to the answer that follows their return."""
    started = launch(talk, tasks, say, talk.tokens + 5_400)
    for one in started:
        acknowledge(talk, one)
    runs = [run_agent(stage, talk, one) for one in started]
    talk.answer([text_block("Both are running.")], talk.tokens + 1_900, 12)
    talk.finish_turn(31.5)
    for run in runs:
        stage.clock.at = max(stage.clock.at, run.chain.clock.at)
        talk.write_notification(notification(talk, run), ", ".join(run.tools_used))
        reply = f"{run.task.description}: back. {verdict(run.task)}"
        talk.answer([text_block(reply)], talk.tokens + 2_600, 64)
        talk.finish_turn(8.2)


def verdict(task: AgentTask) -> str:
    """Return what the main conversation says about an agent's result."""
    if "FAIL" in task.result:
        return "The critical finding is real: DELETE must take the customer from the session."
    if "[COMPRESSED]" not in task.result:
        return "Long, but the gist is clear: three events, and names in snake case."
    return "Taken over as it is."


def run_agent(stage: Stage, talk: Talk, one: Launched, parent: AgentRun | None = None) -> AgentRun:
    """Tell an agent's whole work into its own file; `parent` is the agent that started it."""
    place = agent_file(stage.transcript, one.agent_id)
    sheet, sidecar = Sheet(place.transcript), Sheet(place.meta)
    began = stage.clock.at if parent is None else parent.chain.clock.at
    clock = own_clock(began, stage.clock.end)
    chain = agent_chain(talk, one.agent_id, sheet, clock)
    run = AgentRun(one.task, chain, one.tool_use_id, talk.totals)
    run.begin(talk.prompt_id)
    for _ in range(one.task.calls):
        run.write_tool_use(stage.next_remark(), stage.next_call(2_000))
    for helper in one.task.helpers:
        tool_use_id = run.write_tool_use(f"{helper.description}.", agent_call(helper))
        below = Launched(helper, stage.ids.agent(), tool_use_id, "")
        run_agent(stage, talk, below, run)
        talk.agents += 1
    if one.task.rejected_result is not None:
        run.write_rejected_result(one.task.rejected_result)
    run.finish()
    above = None if parent is None else parent.agent_id
    sidecar.chunks.append(meta_bytes(run.meta(talk.model.id, above), {"finished": True}))
    sidecar.last = sheet.last
    stage.agent_buffers += [sheet, sidecar]
    return run


def launcher(stage: Stage) -> Told:
    """Tell a session that has one agent behind it and goes on to launch more."""
    talk = stage.new_conversation()
    talk.prompt("p95 of /search is 410 ms. Get it below 120 ms. Same results, same order.")
    for tokens in (FIRST_TOKENS, *steps_between(FIRST_TOKENS, 187_500, 8)):
        use_tool(stage, talk, tokens)
    send_out(stage, talk, agent_texts.SEARCH_FIRST, "I want numbers before I touch anything.")
    talk.prompt(LAUNCHES[0].prompt)
    return truth_of(talk)


def compacted_twice(stage: Stage) -> Told:
    """Tell a session that was compacted by hand, then by itself, and goes on."""
    talk, path = stage.new_conversation(), stage.display_path
    turn(stage, talk, "What does the staging cluster consist of? List every resource.", 47_400, 6)
    turn(stage, talk, "Import them into Terraform, one by one.", 118_200, 9)
    turn(stage, talk, "The load balancers too.", 151_000, 2)
    by_hand = Compaction("manual", texts.TERRAFORM_SUMMARY, 6_180, "keep the list of resources")
    talk.compact(by_hand, path)
    turn(stage, talk, "Go on with the subnets.", 66_900, 6)
    turn(stage, talk, "Now the node pools. `terraform plan` must stay empty.", 141_800, 8)
    turn(stage, talk, "Why does the second pool want to be made anew?", 172_300, 4)
    talk.compact(Compaction("auto", texts.TERRAFORM_SUMMARY, 7_420), path)
    turn(stage, talk, "Now the route tables. Show me the plan first.", 26_140, 4)
    talk.write_cost()
    return truth_of(talk)


def compacted(stage: Stage) -> Told:
    """Tell a session that was compacted and has not answered since."""
    talk = stage.new_conversation()
    turn(stage, talk, "Two devices, one note, both offline. Never lose a word.", 214_000, 4)
    turn(stage, talk, "What happens when a paragraph is deleted while it is edited?", 388_500, 4)
    by_hand = Compaction("manual", texts.SYNC_SUMMARY, 14_870, "keep the merge rules")
    talk.compact(by_hand, stage.display_path)
    return truth_of(talk)


def too_long(stage: Stage) -> Told:
    """Tell a session that was compacted twice, read too much at once and gave up."""
    talk, path = stage.new_conversation(), stage.display_path
    turn(stage, talk, "Read the whole invoice run and explain every rule in it.", 196_040, 7)
    talk.write_cost()
    talk.prompt("Now read the 1997 export as well, all of it.")
    talk.compact(Compaction("auto", texts.COBOL_SUMMARY, 41_300), path)
    talk.compact(Compaction("auto", texts.COBOL_SUMMARY, 9_260), path)
    for tokens in (FIRST_TOKENS, *steps_between(FIRST_TOKENS, 164_300, 4)):
        use_tool(stage, talk, tokens)
    talk.write_prompt_too_long(210_000)
    return truth_of(talk)


def waiting(stage: Stage) -> Told:
    """Tell a session that asks for a permission and waits for the answer."""
    talk = stage.new_conversation()
    turn(
        stage,
        talk,
        "Rotate the staging database password without dropping a connection.",
        58_400,
        4,
    )
    talk.prompt("Looks right. Do it on staging now.")
    ask_permission(stage, talk, 71_250)
    return truth_of(talk)


@dataclass(frozen=True)
class Asked:
    """A tool call that has no result yet: who asked, under which id, for what."""

    line_id: str
    tool_use_id: str
    call: ToolCall


def permission_call() -> ToolCall:
    """Return a command that nobody has allowed yet."""
    output = "rotated: staging-main\n2 replicas follow\n0 connections dropped"
    result: Json = {
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
    return ToolCall("Bash", command, output, result)


def ask_permission(stage: Stage, talk: Talk, tokens: int) -> Asked:
    """Tell an answer that asks for a permission."""
    call, tool_use_id = permission_call(), stage.ids.tool_use()
    say = "The old and the new password are both valid for ten minutes. Rotating staging now."
    blocks = [text_block(say), tool_block(tool_use_id, call)]
    asked_by = talk.answer(blocks, tokens, 190)[-1]
    talk.write_titles()
    return Asked(asked_by, tool_use_id, call)


def fork_of(parent: Stage, prompt: str, until: int) -> Story:
    """Return the story of a session that copied another one's history and went its own way."""

    def story(stage: Stage) -> Told:
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
        turn(stage, talk, prompt, until, 2)
        return truth_of(talk)

    return story
