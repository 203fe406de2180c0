"""Writes the conversations of a 2.1.329 session: the main one and those of its agents."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from . import demo_transcript
from .conversation_writer import (
    SYSTEM_PART_CHARS,
    ConversationWriter,
    CostTotals,
    PendingToolCall,
    filler_text,
    text_block,
    thinking_block,
    tool_result_block,
)
from .demo_data import (
    CLIENT,
    FILES,
    SUMMARIES,
    TASKS,
    TEXTS,
    AgentTask,
    DemoJson,
    DemoToolCall,
    bash_call,
    client_text,
    shape,
)

FIRST_TOKENS = 18_200  # system prompt, tools and memory: what the first request of a session has
LAST_PROMPT_CHARS = 200  # the client cuts the prompt that it remembers after this many
KEPT_LINES = 3  # the lines of the last exchange that a compaction keeps word for word
PERMISSION_CALL = bash_call(
    "scripts/rotate.sh staging --apply",
    "Rotate the password",
    "rotated: staging-main\n2 replicas follow\n0 connections dropped",
)
"""A command that nobody has allowed yet."""


@dataclass(frozen=True)
class LaunchedAgent:
    task: AgentTask
    agent_id: str
    tool_use_id: str
    line_id: str = ""  # of the call in the main conversation


class MainConversation(ConversationWriter):
    def __init__(
        self, builder: demo_transcript.SessionBuilder, totals: CostTotals | None = None
    ) -> None:
        chain, story = builder.chain, builder.story
        source = "repl_main_thread" if story.entrypoint == "cli" else "sdk"
        system = tuple(filler_text(size) for size in SYSTEM_PART_CHARS)
        totals = totals or CostTotals(demo_transcript.to_millis(chain.clock.at))
        super().__init__(chain, story.model, source, system, totals)
        self.builder = builder
        self.state: demo_transcript.ExpectedState = "unknown"
        self.compactions = 0
        self.agents = 0
        self.turns = 0
        self.dropped_tokens = 0
        self.last_prompt = ""
        self.is_opened = False
        self.turn_began = chain.clock.at

    def prompt(self, text: str) -> None:
        """Write a person's prompt and everything that the client adds to it."""
        chain = self.chain
        if self.is_typed:
            line_id = chain.ids.uuid()
            if self.turns == 0:
                self._write_modes()
            chain.add_file_history(line_id)
            fields = shape("turn of a person")
        else:
            chain.queue(text)
            line_id = chain.ids.uuid()
            fields = shape("turn of a program")
        self.turns += 1
        self.prompt_id = chain.ids.uuid()
        chain.lines_since_prompt.clear()
        self.add_user(text, fields | {"turnPosition": self._position()}, line_id)
        self.last_prompt = text.replace("\n", " ")
        self.requests.add_message("user", [text_block(text)])
        if not self.is_opened:
            self._open()
        self.turn_began = chain.clock.at

    def _position(self) -> DemoJson:
        return {"promptIndex": self.turns, "turnIndex": self.turns}

    def _open(self) -> None:
        # After a compaction its own lines have opened the conversation already.
        if self.compactions == 0:
            self.add_opening()
        self.add_tokens_left({})
        self.add_session()
        self._settle()

    def _settle(self) -> None:
        self.add_system()
        self.requests.add_message("system", [text_block(filler_text(900))])
        if self.model.effort is not None:
            self.requests.pending[-1]["output_config"] = {"effort": self.model.effort}
        self.is_opened = True

    def answer(self, blocks: list[DemoJson], tokens: int, output: int) -> list[str]:
        ids = super().answer(blocks, tokens, output)
        self.state = "measured"
        return ids

    def reply(self, text: str, tokens: int, output: int, seconds: float | None = None) -> None:
        """Write a turn's last answer; without `seconds` the turn lasted since its prompt."""
        self.answer([text_block(text)], tokens, output)
        if seconds is None:
            seconds = (self.chain.clock.at - self.turn_began).total_seconds()
        self.chain.add(shape("stop hook"), {"toolUseID": self.chain.ids.uuid()} | self.lineage)
        if self.is_typed:
            lines = len(self.chain.lines_since_prompt)
            duration = shape("turn duration", ms=int(seconds * 1000), lines=lines)
            self.chain.add(duration, {"isMeta": False})
        self.write_titles()

    def write_titles(self) -> None:
        """Write the lines by which a session is found again; the last ones win."""
        prompt = self.last_prompt
        cut = prompt if len(prompt) <= LAST_PROMPT_CHARS else prompt[:LAST_PROMPT_CHARS] + "…"
        self.chain.add_note("ai-title", aiTitle=self.builder.story.title)
        self.chain.add_note("last-prompt", lastPrompt=cut, leafUuid=self.chain.parent)
        self._write_modes()

    def _write_modes(self) -> None:
        self.chain.add_note("mode", mode="normal")
        if self.is_typed:
            self.chain.add_note("permission-mode", permissionMode="auto")
        self.chain.add_note("atis-latch", atis="")

    def write_cost(self) -> None:
        self.chain.sink.add(self.totals.line(self.chain.origin.session_id, self.chain.clock))

    def request_tool(self, tokens: int) -> PendingToolCall:
        return self._call_next(tokens, self.builder.next_call(tokens - self.tokens))

    def use_tool(self, tokens: int) -> None:
        self.tool_result(self.request_tool(tokens))

    def start_tests(self, tokens: int) -> None:
        """Write an answer that runs the tests, which have not finished."""
        call = self.builder.next_call(tokens - self.tokens)
        tests = {"command": self.builder.story.project.test, "description": "Run the tests"}
        pending = self._call_next(tokens, replace(call, name="Bash", input=tests))
        lines = self.chain.sink.lines
        count = len(lines)
        # The result is written and removed, so that the random numbers after it stay the same.
        self.tool_result(pending)
        del lines[count:]

    def _call_next(self, tokens: int, call: DemoToolCall) -> PendingToolCall:
        thinks = self.builder.calls % 3 == 1 and self.model.effort is not None
        before = [thinking_block(300)] if thinks else []
        output = 240 + 40 * len(before)
        return self.call_tool(self.builder.next_remark(), call, tokens, output, *before)

    def ask_permission(self, tokens: int) -> PendingToolCall:
        say = "The old and the new password are both valid for ten minutes. Rotating staging now."
        pending = self.call_tool(say, PERMISSION_CALL, tokens, 190)
        self.write_titles()
        return pending

    def launch_agents(self, tasks: tuple[str, ...], say: str, tokens: int) -> list[LaunchedAgent]:
        ids = self.chain.ids
        calls = [(TASKS[name], ids.agent(), ids.tool_use()) for name in tasks]
        blocks = [thinking_block(240), text_block(say)]
        blocks += [task.call().block(tool_use_id) for task, _, tool_use_id in calls]
        lines = self.answer(blocks, tokens, 260 * len(tasks))
        self.write_titles()
        self.agents += len(tasks)
        return [
            LaunchedAgent(*call, line)
            for call, line in zip(calls, lines[-len(tasks) :], strict=True)
        ]

    def acknowledge(self, started: LaunchedAgent) -> None:
        """Write the tool result of a launch: the agent works, its answer comes later."""
        agent_id, path = started.agent_id, self.agent_output_path(started.agent_id)
        text = client_text("agent_launched", agent_id=agent_id, path=path)
        self.chain.parent = started.line_id
        result = shape("launched agent", agent_id=agent_id, task=started.task, path=path)
        content = [tool_result_block(started.tool_use_id, [text_block(text)])]
        self._user_result(content, {"toolUseResult": result}, started.line_id)

    def agent_output_path(self, agent_id: str) -> str:
        """Return the file that the client links to an agent's transcript."""
        origin = self.chain.origin
        folder = f"/tmp/claude-1000/{demo_transcript.project_slug(origin.cwd)}/{origin.session_id}"  # noqa: S108 - only named
        return f"{folder}/tasks/{agent_id}.output"

    def notify(self, run: AgentConversation) -> None:
        """Write that an agent has finished: once in the queue, once as a user line."""
        text = client_text(
            "agent_notification",
            run=run,
            path=self.agent_output_path(run.started.agent_id),
            duration_ms=(run.chain.clock.at - run.began) // timedelta(milliseconds=1),
        )
        self.chain.queue(text)
        self.prompt_id = self.chain.ids.uuid()
        reminder = client_text("tools_reminder", tools=", ".join(run.tools_used))
        self.add_user(reminder, self.lineage, isMeta=True, turnCompanion=True)
        self.turns += 1
        fields = shape("notification", run=self.chain.ids.run(), position=self._position())
        self.add_user(text, fields | self.lineage)
        self.requests.add_message("user", [text_block(text)])

    def compact(self, trigger: str, summary: str, tokens: int, instructions: str = "") -> None:
        """Write a boundary and a summary; `tokens` are left in the context after it."""
        self.chain.clock.advance()
        before, kept = self.chain.parent, self.chain.lines_since_prompt[-KEPT_LINES:]
        summary_id = self.chain.ids.uuid()
        self.dropped_tokens += max(0, self.tokens - tokens)
        boundary = shape(
            "boundary",
            last_line=before,
            trigger=trigger,
            pre_tokens=self.tokens,
            post_tokens=tokens,
            dropped=self.dropped_tokens,
            head=kept[0] if kept else before,
            summary_id=summary_id,
            kept=kept,
        )
        is_auto = trigger == "auto"
        if is_auto:
            boundary["compactMetadata"]["runningTurnPrompt"] = {}
        self.chain.has_nickname = True
        self.chain.parent = None
        self.chain.add(boundary)
        if is_auto:
            self._summarize_auto(SUMMARIES[summary], summary_id)
        else:
            self._summarize_manual(SUMMARIES[summary], summary_id, instructions)
        self.compactions += 1
        self.tokens = tokens
        self.state = "estimated"
        self.has_tool_snapshot = False
        self.write_titles()
        self.write_cost()

    def _summarize_auto(self, summary: str, summary_id: str) -> None:
        self.add_session()
        origin = "human" if self.is_typed else "sdk"
        self._add_summary(
            summary, summary_id, {"turnOrigin": origin, "summarizedTurnPromptUuids": []}
        )
        self.add_reopening()
        self._settle()

    def _summarize_manual(self, summary: str, summary_id: str, instructions: str) -> None:
        self.prompt_id = self.chain.ids.uuid()
        self._add_summary(summary, summary_id, {})
        self.add_user(client_text("command_caveat"), self.lineage, isMeta=True)
        self.add_user(client_text("compact_command", instructions=instructions), self.lineage)
        self.add_user(client_text("compacted"), self.lineage, repeatsCompactSummary=True)
        self.add_reopening()
        self.is_opened = False  # the next prompt brings its own context

    def _add_summary(self, summary: str, summary_id: str, extra: DemoJson) -> None:
        path = self.builder.transcript
        # The path as people know it: the same wherever the demo's folder is.
        transcript = f"~/.claude/projects/{path.parent.name}/{path.name}"
        tools = ", ".join(self.tools_used)
        content = client_text("summary", tools=tools, summary=summary, transcript=transcript)
        line = shape("compact summary", prompt_id=self.prompt_id, content=content)
        position: DemoJson = {"turnPosition": self._position()}
        self.chain.add(line, position | extra | self.lineage, summary_id)
        self.requests.reset()
        self.requests.add_message("user", content)

    def send_refused_request(self) -> None:
        """Write a request that the API refuses: nothing of it is recorded but that it was sent."""
        self.requests.send()

    def write_prompt_too_long(self, tokens: int) -> None:
        """Write the answer that the client makes up when a request does not fit."""
        self.send_refused_request()
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


AGENT_FIRST_TOKENS = 9_400  # an agent's first request: its prompt, its tools, its skill
AGENT_CALL_TOKENS = 3_150  # what one more call adds to an agent's context


class AgentConversation(ConversationWriter):
    """An agent's own transcript; `parent` is the agent that started it, if any."""

    def __init__(
        self,
        talk: MainConversation,
        started: LaunchedAgent,
        sink: demo_transcript.FileBuffer,
        clock: demo_transcript.DemoClock,
        parent: AgentConversation | None = None,
    ) -> None:
        task = started.task
        self._is_built_in = task.kind in CLIENT.built_in_agents
        source = f"agent:{'builtin' if self._is_built_in else 'custom'}:{task.kind}"
        system = (f"You are the {task.kind} agent.", filler_text(300))
        chain = talk.chain.for_agent(started.agent_id, sink, clock)
        super().__init__(chain, task.model, source, system, talk.totals)
        self.attribution = {"attributionAgent": task.kind}
        self.task = task
        self.started = started
        self.calls = 0
        self.began = clock.at
        self._leader = talk.model.id
        self._parent = parent

    @property
    def sidecar(self) -> Path:
        return self.chain.sink.path.with_suffix(".meta.json")

    def begin(self, prompt_id: str) -> None:
        """Write the prompt that the agent got and what the client added."""
        self.prompt_id = prompt_id
        self.add_user(self.task.prompt, {})
        self.add_hook_context(self.task.kind, TEXTS.sibling_note)
        if self.task.skill is not None:
            self._preload(self.task.skill)
        self.add_tools()
        self.add_environment()
        self.add_skills()
        self.add_session()
        self.add_system()
        self.requests.add_message("user", [text_block(self.task.prompt)])
        self.requests.add_message("system", [text_block(filler_text(500))])

    def _preload(self, skill: str) -> None:
        # Without its front matter, as the client preloads it.
        body = FILES[f"skills/{skill}/SKILL.md"].partition("\n---\n")[2]
        texts = (
            client_text("skill_marker", skill=skill),
            client_text("skill", skill=skill, body=body),
        )
        self.add_user([text_block(text) for text in texts], {}, isMeta=True)

    def _next_tokens(self) -> int:
        return self.tokens + AGENT_CALL_TOKENS if self.tokens else AGENT_FIRST_TOKENS

    def use_tool(self, say: str, call: DemoToolCall) -> str:
        """Write one answer that calls a tool, and the tool's result; return the call's id."""
        pending = self.call_tool(say, call, self._next_tokens(), 180)
        self.tool_result(pending)
        self.calls += 1
        return pending.tool_use_id

    def write_blocked_result(self, result: str, feedback: str) -> None:
        """Write a result that a hook did not accept, and what the hook said."""
        self.answer([text_block(result)], self._next_tokens(), 140)
        self.snapshot_once()
        self.add_user(feedback, {}, isMeta=True)
        self.requests.add_message("user", [text_block(feedback)])

    def finish(self) -> None:
        """Write the agent's result, and before it one that it replaces."""
        result, replaced = self.task.result, self.task.replaced_result
        if replaced is not None:
            self.write_blocked_result(replaced, client_text("tests_fail"))
        if result:
            self.answer([text_block(result)], self._next_tokens(), max(40, len(result) // 4))

    def meta(self) -> DemoJson:
        """Return the content of the agent's sidecar."""
        parent = self._parent
        below: DemoJson = {} if parent is None else {"parentAgentId": parent.started.agent_id}
        return below | shape(
            "sidecar",
            task=self.task,
            built_in=self._is_built_in,
            tool_use_id=self.started.tool_use_id,
            depth=1 if parent is None else 2,
            leader=self._leader,
        )

    def reply(self) -> str:
        """Return what the main conversation answers to the agent's result."""
        comment = "Accepted as it is."
        if "FAIL" in self.task.result:
            comment = (
                "The critical finding is real: DELETE must take the customer from the session."
            )
        elif "[COMPRESSED]" not in self.task.result:
            comment = "Long, but the gist is clear: three events, and names in snake case."
        return f"{self.task.description}: back. {comment}"
