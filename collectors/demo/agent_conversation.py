"""Write the agents of a 2.1.329 session: launch, own transcript, and return by notification."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from . import client_attachments
from .conversation_writer import (
    ConversationWriter,
    CostTotals,
    PendingToolCall,
    RequestLog,
    text_block,
    thinking_block,
    tool_result_block,
    tool_use_block,
)
from .demo_data import CLIENT, TEXTS, AgentTask, DemoToolCall, client_text, shape, skill_body
from .demo_transcript import (
    DemoClock,
    DemoJson,
    LineSink,
    TranscriptChain,
    project_slug,
)
from .main_conversation import MainConversation

FIRST_TOKENS = 9_400  # an agent's first request: its prompt, its tools, its skill
CALL_TOKENS = 3_150  # what one more call adds to an agent's context


def agent_transcript(transcript: Path, agent_id: str) -> Path:
    """Return an agent's file, given its session's transcript."""
    return transcript.with_suffix("") / "subagents" / f"agent-{agent_id}.jsonl"


def agent_sidecar(transcript: Path) -> Path:
    return transcript.with_suffix(".meta.json")


class AgentConversation(ConversationWriter):
    def __init__(
        self, task: AgentTask, chain: TranscriptChain, tool_use_id: str, totals: CostTotals
    ) -> None:
        built_in = task.kind in CLIENT.built_in_agents
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
        self.attachments.hook_context(self.task.kind, TEXTS.sibling_note)
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
        self.tool_result(PendingToolCall(ids[-1], tool_use_id, call))
        self.calls += 1
        return tool_use_id

    def write_rejected_result(self, result: str) -> None:
        """Write a result that a hook did not accept, and what the hook said."""
        self._held_up(result, client_text("no_marker"))

    def _held_up(self, result: str, feedback: str) -> None:
        self._say([text_block(result)], 140)
        self.snapshot_once()
        head = shape("turn prompt", prompt_id=self.prompt_id, content=feedback)
        self.chain.add(head | {"isMeta": True})
        self.requests.add_message({"role": "user", "content": [text_block(feedback)]})

    def finish(self) -> None:
        """Write the agent's result, and before it one that it replaces."""
        if self.task.replaced_result is not None:
            self._held_up(self.task.replaced_result, client_text("tests_fail"))
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
        return below | shape(
            "sidecar",
            kind=self.task.kind,
            built_in=self._built_in,
            description=self.task.description,
            tool_use_id=self.tool_use_id,
            depth=1 if parent is None else 2,
            model=self.model.id,
            leader=leader,
        )

    def _say(self, blocks: list[DemoJson], output: int) -> list[str]:
        tokens = FIRST_TOKENS if not self.tokens else self.tokens + CALL_TOKENS
        return self.answer(blocks, tokens, output)

    def _preload(self, skill: str) -> None:
        marker = client_text("skill_marker", skill=skill)
        body = client_text("skill", skill=skill, body=skill_body(skill))
        content = [text_block(marker), text_block(body)]
        head = shape("turn prompt", prompt_id=self.prompt_id, content=content)
        self.chain.add(head | {"isMeta": True})


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
    text = client_text("agent_launched", agent_id=started.agent_id, path=path)
    talk.chain.parent = started.line_id
    result = shape(
        "launched agent",
        agent_id=started.agent_id,
        description=started.task.description,
        model=started.task.model.id,
        prompt=started.task.prompt,
        path=path,
    )
    content = [tool_result_block(started.tool_use_id, [text_block(text)])]
    talk.write_launch_result(content, result, started.line_id)


def notification_text(talk: MainConversation, run: AgentConversation) -> str:
    """Return the text by which an agent's answer reaches the main conversation."""
    return client_text(
        "agent_notification",
        agent_id=run.agent_id,
        tool_use_id=run.tool_use_id,
        path=agent_output_path(talk, run.agent_id),
        status=run.task.status,
        description=run.task.description,
        result=run.task.result,
        tokens=run.tokens,
        calls=run.calls,
        duration_ms=run.duration(),
    )


def agent_chain(
    talk: MainConversation, agent_id: str, sink: LineSink, clock: DemoClock
) -> TranscriptChain:
    return TranscriptChain(talk.chain.origin, talk.chain.ids, clock, sink, agent_id=agent_id)
