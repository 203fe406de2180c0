"""What the growing sessions do, one event at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING

from . import texts
from .agents import (
    AgentFile,
    AgentRun,
    Launched,
    acknowledge,
    agent_chain,
    agent_file,
    launch,
    meta_bytes,
    notification,
)
from .compaction import Compaction
from .plumbing import Appender, replace_file, write_file
from .registry import set_status
from .speaker import text_block
from .stage import FIRST_TOKENS, Stage, ask_tool
from .stories import LAUNCHES, Asked, Launch, ask_permission, verdict

if TYPE_CHECKING:
    from pathlib import Path

    from .current import Talk

CLIMB = 3_100  # tokens an exchange: from 64 % of 200k to the trigger in a minute and a half
COMPACT_AT = 0.835  # of the window: as the client does, where 200k are the window
AFTER_COMPACTION = 8_240  # tokens that are left of a long conversation
CALLS_A_TURN = 6
PROMPTS = (
    "Compare 500 old orders with the sandbox and list every cent of difference.",
    "Good. Now remove the table for the countries that no longer need it.",
    "What happens when the API is down on a Saturday night?",
    "Write the rollout plan for the support team, one page.",
)
PERMISSIONS = (
    "Same for the read replicas, please.",
    "And now the reporting user.",
    "Check that nobody still uses the old password, then rotate the last one.",
)


@dataclass(frozen=True)
class Part:
    """One growing session: its stage, its conversation, its entry in the registry."""

    builder: Stage
    conversation: Talk
    entry: Path | None
    pending: Asked

    def update_status(self, status: str) -> None:
        """Say in the registry what the session is doing."""
        if self.entry is not None:
            set_status(self.entry, status, self.builder.clock.at)


Track = Callable[[Part], Iterator[None]]


def climb(part: Part) -> Iterator[None]:
    """Fill the window step by step, compact at its end, go on."""
    talk = part.conversation
    if part.pending.tool_use_id:
        talk.tool_result(part.pending.tool_use_id, part.pending.call, part.pending.line_id)
        yield
    for prompt in cycle(PROMPTS):
        for _ in range(CALLS_A_TURN):
            if talk.tokens >= COMPACT_AT * talk.model.window:
                how = Compaction("auto", texts.TAX_SUMMARY, AFTER_COMPACTION)
                talk.compact(how, part.builder.display_path)
                yield
            yield from _exchange(part)
        talk.answer([text_block(part.builder.closing())], talk.tokens + CLIMB, 220)
        talk.finish_turn(24.0)
        talk.write_cost()
        part.update_status("idle")
        yield
        talk.prompt(prompt)
        part.update_status("busy")
        yield


def _exchange(part: Part) -> Iterator[None]:
    talk = part.conversation
    # The first request after a compaction carries the system prompt again.
    base = max(talk.tokens, FIRST_TOKENS)
    asked_by, tool_use_id, call = ask_tool(part.builder, talk, base + CLIMB)
    yield
    talk.tool_result(tool_use_id, call, asked_by)
    yield


def lead(part: Part) -> Iterator[None]:
    """Launch agents, let them work, take their results, launch the next ones."""
    for number in cycle(range(len(LAUNCHES))):
        yield from _round(part, LAUNCHES[number])
        part.conversation.prompt(LAUNCHES[(number + 1) % len(LAUNCHES)].prompt)
        part.update_status("busy")
        yield


def _round(part: Part, what: Launch) -> Iterator[None]:
    talk = part.conversation
    started = launch(talk, what.tasks, what.announcement, talk.tokens + 1_700)
    yield
    runs: list[Working] = []
    for one in started:
        acknowledge(talk, one)
        runs.append(begin(part, one))
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
        yield from _return(part, work)


def _return(part: Part, work: Working) -> Iterator[None]:
    talk, run = part.conversation, work.conversation
    if run.task.rejected_result is not None:
        run.write_rejected_result(run.task.rejected_result)
        yield
    run.finish()
    replace_file(work.paths.meta, meta_bytes(run.meta(talk.model.id), {"finished": True}))
    yield
    talk.write_notification(notification(talk, run), ", ".join(run.tools_used))
    part.update_status("busy")
    yield
    reply = f"{run.task.description}: back. {verdict(run.task)}"
    talk.answer([text_block(reply)], talk.tokens + 1_500, 60)
    talk.finish_turn(5.0)
    part.update_status("idle")
    yield


@dataclass(frozen=True)
class Working:
    """An agent at work and where its files are."""

    conversation: AgentRun
    paths: AgentFile


def begin(part: Part, one: Launched) -> Working:
    """Make an agent's files and write its first lines."""
    talk = part.conversation
    place = agent_file(part.builder.transcript, one.agent_id)
    part.builder.transcript.stat()  # a folder that somebody removed must not come back
    write_file(place.transcript, b"")
    chain = agent_chain(talk, one.agent_id, Appender(place.transcript), part.builder.clock)
    run = AgentRun(one.task, chain, one.tool_use_id, talk.totals)
    write_file(place.meta, meta_bytes(run.meta(talk.model.id), {}))
    run.begin(talk.prompt_id)
    return Working(run, place)


def wait(part: Part) -> Iterator[None]:
    """Get a permission, use it, and ask for the next one."""
    talk, stage = part.conversation, part.builder
    asked = part.pending
    for prompt in cycle(PERMISSIONS):
        part.update_status("busy")
        talk.tool_result(asked.tool_use_id, asked.call, asked.line_id)
        yield
        talk.answer([text_block("Rotated, nothing was dropped.")], talk.tokens + 1_300, 40)
        talk.finish_turn(12.0)
        part.update_status("idle")
        yield
        talk.prompt(prompt)
        part.update_status("busy")
        yield
        asked = ask_permission(stage, talk, talk.tokens + 2_200)
        part.update_status("waiting")
        yield
