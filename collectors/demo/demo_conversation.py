"""Writes the conversations of a 2.1.329 session: the main one and those of its agents."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from . import client_attachments
from .conversation_writer import (
    ACCEPTED_PERMISSION,
    ConversationWriter,
    CostTotals,
    PendingToolCall,
    RequestLog,
    text_block,
    thinking_block,
    tool_result_block,
    tool_use_block,
)
from .demo_data import (
    CLIENT,
    TEXTS,
    AgentTask,
    DemoModel,
    DemoToolCall,
    client_text,
    shape,
    skill_body,
)
from .demo_transcript import (
    DemoClock,
    DemoJson,
    ExpectedState,
    LineSink,
    TranscriptChain,
    format_time,
    project_slug,
)


@dataclass(frozen=True)
class DemoCompaction:
    """How a conversation is compacted: who asked, what is left of it."""

    trigger: str
    summary: str
    post_tokens: int
    instructions: str = ""


LAST_PROMPT_CHARS = 200  # the client cuts the prompt that it remembers after so many characters
KEPT_LINES = 3  # the lines of the last exchange that a compaction keeps word for word


class MainConversation(ConversationWriter):
    def __init__(
        self, chain: TranscriptChain, model: DemoModel, totals: CostTotals, title: str | None
    ) -> None:
        source = "repl_main_thread" if chain.origin.entrypoint == "cli" else "sdk"
        requests = RequestLog(chain, model, source, client_attachments.system_prompt())
        super().__init__(chain, model, requests, totals, {})
        self.title = title
        self.state: ExpectedState = "unknown"
        self.compactions = 0
        self.agents = 0
        self.turns = 0
        self.dropped_tokens = 0
        self.last_prompt = ""
        self.is_opened = False

    def prompt(self, text: str) -> None:
        """Write a person's prompt and everything that the client adds to it."""
        if self.chain.origin.entrypoint == "cli":
            self._typed(text)
        else:
            self._queued(text)
        self.last_prompt = text.replace("\n", " ")
        self.requests.add_message({"role": "user", "content": [{"type": "text", "text": text}]})
        if not self.is_opened:
            self._open()

    def _typed(self, text: str) -> None:
        line_id = self.chain.ids.uuid()
        if self.turns == 0:
            self._latches()
        moment = format_time(self.chain.clock.tick())
        self.chain.add_unchained(shape("file history", id=line_id, moment=moment))
        fields = {"origin": {"kind": "human"}, "promptSource": "typed", "turnOrigin": "human"}
        self._prompt_line(text, line_id, {"permissionMode": "auto"} | fields)

    def _queued(self, text: str) -> None:
        self.chain.enqueue(text)
        self.chain.dequeue()
        fields = {"promptSource": "sdk", "turnOrigin": "sdk"}
        self._prompt_line(
            text, self.chain.ids.uuid(), {"permissionMode": "bypassPermissions"} | fields
        )

    def _prompt_line(self, text: str, line_id: str, fields: DemoJson) -> None:
        self.turns += 1
        self.prompt_id = self.chain.ids.uuid()
        self.chain.lines_since_prompt.clear()
        head = shape("turn prompt", prompt_id=self.prompt_id, content=text)
        self.chain.add(head, fields | {"turnPosition": self._position()}, line_id)

    def _position(self) -> DemoJson:
        return {"promptIndex": self.turns, "turnIndex": self.turns}

    def _open(self) -> None:
        # After a compaction its own lines have opened the conversation already.
        if self.compactions == 0:
            self.attachments.opening()
        self.attachments.tokens_left(self.spent_tokens, {})
        self.attachments.session()
        self._settle()

    def _settle(self) -> None:
        self.attachments.signature()
        self.attachments.snapshot(self.requests.system)
        setup: DemoJson = {
            "role": "system",
            "content": [{"type": "text", "text": client_attachments.filler_text(900)}],
        }
        if self.model.effort is not None:
            setup["output_config"] = {"effort": self.model.effort}
        self.requests.add_message(setup)
        self.is_opened = True

    def answer(self, blocks: list[DemoJson], tokens: int, output: int) -> list[str]:
        """Write one answer; from now on the context is measured."""
        ids = super().answer(blocks, tokens, output)
        self.state = "measured"
        return ids

    def write_titles(self) -> None:
        """Write the lines that let a session be found again; the last ones win."""
        prompt = self.last_prompt
        cut = prompt if len(prompt) <= LAST_PROMPT_CHARS else prompt[:LAST_PROMPT_CHARS] + "…"
        if self.title is not None:
            self.chain.add_note("ai-title", aiTitle=self.title)
        self.chain.add_note("last-prompt", lastPrompt=cut, leafUuid=self.chain.parent)
        self._latches()

    def _latches(self) -> None:
        self.chain.add_note("mode", mode="normal")
        if self.chain.origin.entrypoint == "cli":
            self.chain.add_note("permission-mode", permissionMode="auto")
        self.chain.add_note("atis-latch", atis="")

    def finish_turn(self, seconds: float) -> None:
        self.chain.add(shape("stop hook"), {"toolUseID": self.chain.ids.uuid()} | self.lineage)
        if self.chain.origin.entrypoint == "cli":
            duration: DemoJson = {
                "type": "system",
                "subtype": "turn_duration",
                "durationMs": int(seconds * 1000),
                "messageCount": len(self.chain.lines_since_prompt),
            }
            self.chain.add(duration, {"isMeta": False})
        self.write_titles()

    def write_cost(self) -> None:
        self.chain.add_unchained(self.totals.line(self.chain.origin.session_id, self.chain.clock))

    def write_launch_result(self, content: list[DemoJson], result: DemoJson, asked_by: str) -> None:
        fields: DemoJson = {
            "toolUseResult": result,
            "sourceToolAssistantUUID": asked_by,
            "permissionDecision": ACCEPTED_PERMISSION,
        }
        self._user(content, fields | self.lineage)
        self.requests.add_message({"role": "user", "content": content})
        self.snapshot_once()

    def write_notification(self, text: str, tools: str) -> None:
        """Write that an agent has come back: once in the queue, once as a user line."""
        self.chain.enqueue(text)
        self.chain.dequeue()
        self.prompt_id = self.chain.ids.uuid()
        reminder = client_text("tools_reminder", tools=tools)
        self._local(reminder, {"isMeta": True, "turnCompanion": True})
        self.turns += 1
        run, position = self.chain.ids.run(), self._position()
        fields = shape("notification", run=run, position=position)
        self._user(text, fields | self.lineage)
        self.requests.add_message({"role": "user", "content": [{"type": "text", "text": text}]})

    def compact(self, how: DemoCompaction, transcript: str) -> None:
        """Write a boundary and its summary: what came before is out of the context."""
        self.chain.clock.advance()
        before, kept = self.chain.parent, self.chain.lines_since_prompt[-KEPT_LINES:]
        summary_id = self.chain.ids.uuid()
        self.dropped_tokens += max(0, self.tokens - how.post_tokens)
        self.chain.has_nickname = True
        self.chain.parent = None
        self.chain.add(self._boundary(how, before, kept, summary_id))
        if how.trigger == "auto":
            self._auto_summary(how, transcript, summary_id)
        else:
            self._manual_summary(how, transcript, summary_id)
        self._after_compaction(how)

    def _boundary(
        self, how: DemoCompaction, last_line: str | None, kept: list[str], summary_id: str
    ) -> DemoJson:
        line = shape(
            "boundary",
            last_line=last_line,
            trigger=how.trigger,
            pre_tokens=self.tokens,
            post_tokens=how.post_tokens,
            dropped=self.dropped_tokens,
            head=kept[0] if kept else last_line,
            summary_id=summary_id,
            kept=kept,
        )
        if how.trigger == "auto":
            line["compactMetadata"]["runningTurnPrompt"] = {}
        return line

    def _summary_line(
        self, how: DemoCompaction, transcript: str, summary_id: str, extra: DemoJson
    ) -> None:
        tools = ", ".join(self.tools_used)
        content = client_text("summary", tools=tools, summary=how.summary, transcript=transcript)
        line = shape("compact summary", prompt_id=self.prompt_id, content=content)
        position: DemoJson = {"turnPosition": self._position()}
        self.chain.add(line, position | extra | self.lineage, summary_id)
        self.requests.reset()
        self.requests.add_message({"role": "user", "content": content})

    def _auto_summary(self, how: DemoCompaction, transcript: str, summary_id: str) -> None:
        self.attachments.session()
        typed = self.chain.origin.entrypoint == "cli"
        extra: DemoJson = {
            "turnOrigin": "human" if typed else "sdk",
            "summarizedTurnPromptUuids": [],
        }
        self._summary_line(how, transcript, summary_id, extra)
        self.attachments.reopening()
        self._settle()

    def _manual_summary(self, how: DemoCompaction, transcript: str, summary_id: str) -> None:
        self.prompt_id = self.chain.ids.uuid()
        self._summary_line(how, transcript, summary_id, {})
        self._local(client_text("command_caveat"), {"isMeta": True})
        self._local(client_text("compact_command", instructions=how.instructions), {})
        self._local(client_text("compacted"), {"repeatsCompactSummary": True})
        self.attachments.reopening()
        self.is_opened = False  # the next prompt brings its own context

    def _local(self, text: str, fields: DemoJson) -> None:
        head = shape("turn prompt", prompt_id=self.prompt_id, content=text)
        self.chain.add(head | fields, self.lineage)

    def _after_compaction(self, how: DemoCompaction) -> None:
        self.compactions += 1
        self.tokens = how.post_tokens
        self.state = "estimated"
        self.has_tool_snapshot = False
        self.write_titles()
        self.write_cost()

    def write_prompt_too_long(self, tokens: int) -> None:
        """Write the answer that the client makes up when a request does not fit."""
        self.requests.send()
        # The API's own arithmetic.
        text = f"prompt is too long: {tokens} tokens > {self.model.window} maximum"
        error = f'{{"type":"error","error":{{"type":"invalid_request_error","message":"{text}"}}}}'
        fields = shape(
            "too long",
            id=self.chain.ids.uuid(),
            usage=shape("no usage"),
            details=f"400 {error}",
        )
        self.chain.add({"type": "assistant"}, fields)
        self.write_titles()
        self.write_cost()


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
