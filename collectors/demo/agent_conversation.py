"""Write the agents of a 2.1.329 session: launch, own transcript, and return by notification."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from . import client_attachments, demo_texts
from .conversation_writer import (
    ConversationWriter,
    RequestLog,
    text_block,
    thinking_block,
    tool_use_block,
)
from .demo_transcript import (
    DemoClock,
    DemoJson,
    DemoToolCall,
    LineSink,
    TranscriptChain,
    encode_line,
    project_slug,
)

if TYPE_CHECKING:
    from pathlib import Path

    from .agent_tasks import AgentTask
    from .conversation_writer import CostTotals
    from .main_conversation import MainConversation


FIRST_TOKENS = 9_400  # an agent's first request: its prompt, its tools, its skill
CALL_TOKENS = 3_150  # what one more call adds to an agent's context
AGENT_PACE = timedelta(seconds=19)  # between two answers of an agent that is told in one go
SIBLING_NOTE = "The cart already checks the session; look at src/cart before you add a check."


@dataclass(frozen=True)
class AgentPaths:
    """Where an agent's transcript and its sidecar are."""

    transcript: Path
    meta: Path


def agent_paths(transcript: Path, agent_id: str) -> AgentPaths:
    """Return an agent's files, given its session's transcript."""
    folder = transcript.with_suffix("") / "subagents"
    return AgentPaths(folder / f"agent-{agent_id}.jsonl", folder / f"agent-{agent_id}.meta.json")


class AgentConversation(ConversationWriter):
    """Writes one agent's own transcript."""

    def __init__(
        self, task: AgentTask, chain: TranscriptChain, tool_use_id: str, totals: CostTotals
    ) -> None:
        built_in = task.kind in client_attachments.BUILT_IN_AGENTS
        source = f"agent:{'builtin' if built_in else 'custom'}:{task.kind}"
        system = (f"You are the {task.kind} agent.", client_attachments.filler_text(300))
        requests = RequestLog(chain, task.model, source, system)
        attribution: DemoJson = {"attributionAgent": task.kind}
        super().__init__(chain, task.model, requests, totals, attribution)
        self.task = task
        self.agent_id = chain.agent_id or ""
        self.tool_use_id = tool_use_id
        self.calls = 0
        self.began = chain.clock.at
        self._built_in = built_in

    def begin(self, prompt_id: str) -> None:
        """Write the prompt that the agent got and what the client added."""
        self.prompt_id = prompt_id
        self._user(self.task.prompt, {})
        self.attachments.hook_context(self.task.kind, SIBLING_NOTE)
        if self.task.skill is not None:
            self._preload(self.task.skill)
        self.attachments.tools({})
        self.attachments.environment()
        self.attachments.model()
        self.attachments.skills()
        self.attachments.session()
        self.attachments.signature()
        self.attachments.snapshot(self.requests.system)
        prompt = {"role": "user", "content": [text_block(self.task.prompt)]}
        self.requests.add_message(prompt)
        self.requests.add_message(
            {"role": "system", "content": [text_block(client_attachments.filler_text(500))]}
        )

    def write_tool_use(self, say: str, call: DemoToolCall) -> str:
        """Write one answer that uses a tool, and what the tool gave back; return its id."""
        tool_use_id = self.chain.ids.tool_use()
        ids = self._say([text_block(say), tool_use_block(tool_use_id, call)], 180)
        self.tool_result(tool_use_id, call, ids[-1])
        self.calls += 1
        return tool_use_id

    def write_rejected_result(self, result: str) -> None:
        """Write a result that a hook did not accept, and what the hook said."""
        self._held_up(
            result,
            f"[{demo_texts.STOP_HOOK}]: The result has no [COMPRESSED] marker. Return it again"
            " in the format of the skill.",
        )

    def _held_up(self, result: str, said: str) -> None:
        self._say([text_block(result)], 140)
        self.snapshot_once()
        feedback = f"Stop hook feedback:\n{said}\n"
        head: DemoJson = {
            "promptId": self.prompt_id,
            "type": "user",
            "message": {"role": "user", "content": feedback},
            "isMeta": True,
        }
        self.chain.add(head)
        self.requests.add_message({"role": "user", "content": [text_block(feedback)]})

    def finish(self) -> None:
        """Write the agent's result, and before it one that it replaces."""
        if self.task.replaced_result is not None:
            said = f"[{demo_texts.TEST_HOOK}]: 2 tests fail. Mend them."
            self._held_up(self.task.replaced_result, said)
        if self.task.result:
            self._say([text_block(self.task.result)], max(40, len(self.task.result) // 4))

    def result_fields(self, call: DemoToolCall) -> DemoJson:
        """Return nothing: agents' files keep what the model saw and no more."""
        del call
        return {}

    def duration(self) -> int:
        """Return how long the agent has worked, in milliseconds."""
        return (self.chain.clock.at - self.began) // timedelta(milliseconds=1)

    def meta(self, leader: str, parent: str | None = None) -> DemoJson:
        """Return the sidecar of an agent at work; `parent` is the agent that started it."""
        below: DemoJson = {} if parent is None else {"parentAgentId": parent}
        return below | {
            "agentType": self.task.kind,
            "isBuiltIn": self._built_in,
            "launchedWithDefaults": True,
            "description": self.task.description,
            "toolUseId": self.tool_use_id,
            "spawnDepth": 1 if parent is None else 2,
            "requestShape": "background",
            "requestNonInteractive": True,
            "model": self.model.id,
            "pickedEffortModel": leader,
        }

    def _say(self, blocks: list[DemoJson], output: int) -> list[str]:
        tokens = FIRST_TOKENS if not self.tokens else self.tokens + CALL_TOKENS
        return self.answer(blocks, tokens, output)

    def _preload(self, skill: str) -> None:
        marker = (
            f"<command-message>{skill}</command-message>\n<command-name>{skill}</command-name>\n"
            "<skill-format>true</skill-format>"
        )
        body = (
            f"Base directory for this skill: ~/.claude/skills/{skill}\n\n"
            f"{demo_texts.SKILL_BODIES[skill]}\n"
        )
        head: DemoJson = {
            "promptId": self.prompt_id,
            "type": "user",
            "message": {"role": "user", "content": [text_block(marker), text_block(body)]},
            "isMeta": True,
        }
        self.chain.add(head)


@dataclass(frozen=True)
class LaunchedAgent:
    """An agent that the main conversation has just started."""

    task: AgentTask
    agent_id: str
    tool_use_id: str
    line_id: str


def launch_agents(
    talk: MainConversation, tasks: tuple[AgentTask, ...], say: str, tokens: int
) -> list[LaunchedAgent]:
    """Write the answer that starts agents, one call each."""
    ids = talk.chain.ids
    calls = [(task, ids.agent(), ids.tool_use()) for task in tasks]
    blocks = [thinking_block(240), text_block(say)]
    blocks += [tool_use_block(tool_use_id, agent_call(task)) for task, _, tool_use_id in calls]
    lines = talk.answer(blocks, tokens, 260 * len(tasks))
    talk.write_titles()
    talk.agents += len(tasks)
    asked = lines[-len(tasks) :]
    return [
        LaunchedAgent(task, agent_id, tool_use_id, line)
        for (task, agent_id, tool_use_id), line in zip(calls, asked, strict=True)
    ]


def agent_call(task: AgentTask) -> DemoToolCall:
    """Return the tool call that starts an agent."""
    arguments = {
        "description": task.description,
        "subagent_type": task.kind,
        "prompt": task.prompt,
    }
    return DemoToolCall("Agent", arguments, task.result, {})


def agent_output_path(talk: MainConversation, agent_id: str) -> str:
    """Return the file that the client links to an agent's transcript."""
    origin = talk.chain.origin
    folder = f"/tmp/claude-1000/{project_slug(origin.cwd)}/{origin.session_id}"  # noqa: S108 - only named
    return f"{folder}/tasks/{agent_id}.output"


def acknowledge_launch(talk: MainConversation, started: LaunchedAgent) -> None:
    """Write the tool result of a launch: the agent works, its answer comes later."""
    path = agent_output_path(talk, started.agent_id)
    text = (
        "Async agent launched successfully. (Internal metadata, not for the user.)\n"
        f"agentId: {started.agent_id}\nThe agent works in the background; a notification comes "
        f"when it is done.\noutput_file: {path}\nDo not read this file."
    )
    talk.chain.parent = started.line_id
    content: list[DemoJson] = [
        {
            "tool_use_id": started.tool_use_id,
            "type": "tool_result",
            "content": [{"type": "text", "text": text}],
        }
    ]
    result: DemoJson = {
        "isAsync": True,
        "status": "async_launched",
        "agentId": started.agent_id,
        "description": started.task.description,
        "resolvedModel": started.task.model.id,
        "prompt": started.task.prompt,
        "outputFile": path,
        "canReadOutputFile": True,
        "canContinueAgent": True,
    }
    talk.write_launch_result(content, result, started.line_id)


def notification_text(talk: MainConversation, run: AgentConversation) -> str:
    """Return the text by which an agent's answer reaches the main conversation."""
    return (
        f"<task-notification>\n<task-id>{run.agent_id}</task-id>\n"
        f"<tool-use-id>{run.tool_use_id}</tool-use-id>\n"
        f"<output-file>{agent_output_path(talk, run.agent_id)}</output-file>\n"
        f"<status>{run.task.status}</status>\n"
        f'<summary>Agent "{run.task.description}" finished</summary>\n'
        "<note>The agent stopped and has no live background children of its own. It can be sent "
        "another message, so the same task-id may notify more than once.</note>\n"
        f"<result>{run.task.result}</result>\n"
        f"<usage><subagent_tokens>{run.tokens}</subagent_tokens>"
        f"<tool_uses>{run.calls}</tool_uses><duration_ms>{run.duration()}</duration_ms></usage>\n"
        "</task-notification>"
    )


def agent_chain(
    talk: MainConversation, agent_id: str, sink: LineSink, clock: DemoClock
) -> TranscriptChain:
    """Return the chain of an agent's own file."""
    return TranscriptChain(talk.chain.origin, talk.chain.ids, clock, sink, agent_id=agent_id)


def agent_clock(at: datetime, end: datetime) -> DemoClock:
    """Return the clock of an agent that is told in one go."""
    return DemoClock(at, AGENT_PACE, end)


def encode_sidecar(meta: DemoJson, state: DemoJson) -> bytes:
    """Return the content of a sidecar."""
    return encode_line(meta | state).rstrip(b"\n")
