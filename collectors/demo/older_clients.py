"""Write sessions as older clients did: 2.1.217, and 2.1.45 with its progress lines."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import reduce

from . import client_attachments
from .conversation_writer import (
    AnswerUsage,
    split_usage,
    stop_reason,
    text_block,
    thinking_block,
    tool_result_block,
    tool_use_block,
)
from .demo_conversation import agent_call, agent_sidecar, agent_transcript
from .demo_data import (
    CLIENT,
    TEXTS,
    AgentTask,
    DemoModel,
    DemoToolCall,
    client_text,
    make_tool_call,
    shape,
)
from .demo_transcript import (
    DemoClock,
    DemoJson,
    FileBuffer,
    TranscriptChain,
    format_time,
    wrap_older_line,
)
from .session_builder import SessionBuilder

NEWER_FIRST_TOKENS = 12_600  # an agent's first request in this era
NEWER_CALL_TOKENS = 5_200


class NewerConversation:
    """Writes a transcript as 2.1.217 did."""

    def __init__(self, chain: TranscriptChain, model: DemoModel) -> None:
        self.chain = chain
        self.model = model
        self.tokens = 0
        self.prompt_id = chain.ids.uuid()
        self.last_prompt = ""
        self.turns = 0

    def prompt(self, text: str) -> None:
        """Write a person's prompt, with the listings before the first one's answer."""
        self.prompt_id = self.chain.ids.uuid()
        self.last_prompt = text
        self.turns += 1
        fields: DemoJson = {
            "permissionMode": "auto",
            "origin": {"kind": "human"},
            "promptSource": "sdk",
        }
        if self.chain.agent_id is None:
            self.chain.enqueue(text)
            self.chain.dequeue()
        else:
            fields = {}
        self._user(text, fields)
        if self.turns == 1:
            self._listings()

    def title(self, by_hand: str | None, made_up: str) -> None:
        """Write the session's titles; the one by hand wins."""
        self.chain.add_note("last-prompt", lastPrompt=self.last_prompt, leafUuid=self.chain.parent)
        self.chain.add_note("ai-title", aiTitle=made_up)
        if by_hand is not None:
            self.chain.add_note("custom-title", customTitle=by_hand)
        self.chain.add_note("mode", mode="normal")

    def answer(self, blocks: list[DemoJson], rounds: tuple[AnswerUsage, ...]) -> list[str]:
        """Write one answer; the context is what its last round saw."""
        self.chain.clock.advance()
        message = shape(
            "answer 2.1.217",
            model=self.model.id,
            id=self.chain.ids.message(),
            stop_reason=stop_reason(blocks),
            usage=rounds_usage(rounds),
        )
        request = {"requestId": self.chain.ids.request()}
        self.tokens = rounds[-1].context
        return [
            self.chain.add(
                {"message": message | {"content": [block]}} | request | {"type": "assistant"},
                {"effort": self.model.effort},
            )
            for block in blocks
        ]

    def use(self, say: str, call: DemoToolCall, tokens: int) -> None:
        tool_use_id = self.chain.ids.tool_use()
        block = tool_use_block(tool_use_id, call) | {"caller": {"type": "direct"}}
        blocks = [thinking_block(120), text_block(say), block]
        asked_by = self.answer(blocks, (split_usage(tokens, self.tokens, 240),))[-1]
        content = [tool_result_block(tool_use_id, call.output)]
        # Agents' files keep what the model saw and no more.
        result: DemoJson = {} if self.chain.agent_id is not None else {"toolUseResult": call.result}
        self._user(content, result | {"sourceToolAssistantUUID": asked_by})

    def say(self, text: str, rounds: tuple[AnswerUsage, ...]) -> None:
        """Write an answer that ends a turn, and the summary of the stop hook."""
        self.answer([text_block(text)], rounds)
        self.chain.add(shape("stop hook 2.1.217"), {"toolUseID": self.chain.ids.uuid()})

    def _user(self, content: str | list[DemoJson], after: DemoJson) -> None:
        self.chain.add(shape("turn prompt", prompt_id=self.prompt_id, content=content), after)

    def _listings(self) -> None:
        skills = CLIENT.skills
        content = "\n".join(f"- {name}" for name in skills)
        for attachment in (
            shape("attachment tools 2.1.217", names=CLIENT.deferred_tools),
            shape(
                "attachment agents 2.1.217",
                names=CLIENT.agent_types,
                lines=client_attachments.agent_lines(),
            ),
            shape("attachment skills 2.1.217", content=content, count=len(skills), names=skills),
        ):
            self.chain.add({"attachment": attachment, "type": "attachment"})


def rounds_usage(rounds: tuple[AnswerUsage, ...]) -> DemoJson:
    """Return the usage object as 2.1.217 writes it: the top level is the sum of its rounds."""
    total = reduce(AnswerUsage.plus, rounds)
    iterations = [usage.fields("iteration 2.1.217") for usage in rounds]
    return shape("usage 2.1.217", **asdict(total), searches=len(rounds) - 1, iterations=iterations)


def write_foreground_agent(
    stage: SessionBuilder, talk: NewerConversation, task: AgentTask, tokens: int
) -> None:
    """Write an agent that the main conversation waits for."""
    ids, agent_id = talk.chain.ids, talk.chain.ids.agent()
    tool_use_id = ids.tool_use()
    block = tool_use_block(tool_use_id, agent_call(task))
    blocks = [block | {"caller": {"type": "direct"}}]
    asked_by = talk.answer(blocks, (split_usage(tokens, talk.tokens, 310),))[-1]
    sheet = FileBuffer(agent_transcript(stage.transcript, agent_id))
    clock = agent_clock(stage)
    chain = TranscriptChain(stage.origin, ids, clock, sheet, agent_id=agent_id)
    inner = NewerConversation(chain, task.model)
    inner.prompt(task.prompt)
    for number in range(task.calls):
        call = make_tool_call(stage.rng, stage.spec.project, number, 900)
        inner.use(TEXTS.remarks[number], call, NEWER_FIRST_TOKENS + number * NEWER_CALL_TOKENS)
    last = split_usage(inner.tokens + NEWER_CALL_TOKENS, inner.tokens, 420)
    inner.answer([text_block(task.result)], (last,))
    talk.chain.clock.at = clock.at
    result = shape(
        "agent result 2.1.217",
        prompt=task.prompt,
        agent_id=agent_id,
        kind=task.kind,
        result=task.result,
        model=task.model.id,
        tokens=last.context + last.output,
        calls=task.calls,
        usage=rounds_usage((last,)),
    )
    text = client_text(
        "newer_agent_result", agent_id=agent_id, tokens=last.context, calls=task.calls
    )
    content = [tool_result_block(tool_use_id, [text_block(task.result), text_block(text)])]
    head = shape("turn prompt", prompt_id=talk.prompt_id, content=content)
    talk.chain.add(head, {"toolUseResult": result, "sourceToolAssistantUUID": asked_by})
    meta = FileBuffer(agent_sidecar(sheet.path))
    meta.line(
        shape(
            "sidecar 2.1.217",
            kind=task.kind,
            description=task.description,
            tool_use_id=tool_use_id,
            model=task.model.id,
        )
    )
    meta.last = sheet.last
    stage.agent_buffers += [sheet, meta]


def agent_clock(stage: SessionBuilder) -> DemoClock:
    return DemoClock(stage.clock.at, stage.clock.pace / 6, stage.clock.end)


OLDER_AGENT_MODEL = "claude-haiku-4-5-20251001"  # the oldest era still wrote dates into model names
OLDER_FIRST_TOKENS = 14_200
OLDER_CALL_TOKENS = 6_100
PLACEHOLDER_OUTPUTS = (1, 3, 8, 2)  # what an early fragment says instead of its output


class OlderConversation:
    """Writes a transcript as 2.1.45 did."""

    def __init__(self, chain: TranscriptChain, model: str) -> None:
        chain.wrap = wrap_older_line
        self.chain = chain
        self.model = model
        self.tokens = 0
        self._answers = 0

    def start(self) -> None:
        self._snapshot(self.chain.ids.uuid())
        self.hook("SessionStart", "SessionStart:startup", self.chain.ids.uuid())

    def prompt(self, text: str) -> None:
        line_id = self.chain.ids.uuid()
        self._snapshot(line_id)
        self.chain.add(shape("prompt", content=text), {"permissionMode": "default"}, line_id)

    def answer(self, blocks: list[DemoJson], tokens: int, output: int) -> list[str]:
        """Write one answer; only its last fragment knows its output."""
        self.chain.clock.advance()
        last = split_usage(tokens, self.tokens, output)
        placeholder = PLACEHOLDER_OUTPUTS[self._answers % len(PLACEHOLDER_OUTPUTS)]
        early = replace(last, output=placeholder)
        self._answers += 1
        self.tokens = last.context
        message_id, request = self.chain.ids.message(), self.chain.ids.request()
        ids = []
        for place, block in enumerate(blocks, 1):
            usage = last if place == len(blocks) else early
            message = older_answer(self.model, message_id, block, usage)
            line: DemoJson = {"message": message, "requestId": request, "type": "assistant"}
            ids.append(self.chain.add(line))
        return ids

    def use(self, say: str, call: DemoToolCall, tokens: int) -> None:
        """Write an answer that uses a tool, the hook beside it, and what came back."""
        tool_use_id = self.chain.ids.tool_use()
        block = tool_use_block(tool_use_id, call) | {"caller": {"type": "direct"}}
        asked_by = self.answer([text_block(say), block], tokens, 210)[-1]
        self.hook("PostToolUse", f"PostToolUse:{call.name}", tool_use_id)
        self.result(tool_use_id, call.output, call.result, asked_by)

    def result(
        self, tool_use_id: str, output: str | list[DemoJson], result: DemoJson, asked_by: str
    ) -> None:
        content = [tool_result_block(tool_use_id, output)]
        after: DemoJson = {"toolUseResult": result, "sourceToolAssistantUUID": asked_by}
        self.chain.add(shape("prompt", content=content), after)

    def say(self, text: str, tokens: int) -> None:
        """Write an answer that ends a turn, and how long the turn took."""
        self.answer([text_block(text)], tokens, 180)
        self.chain.add(shape("stop hook 2.1.45"), {"toolUseID": self.chain.ids.uuid()})
        duration: DemoJson = {"type": "system", "subtype": "turn_duration", "durationMs": 61_200}
        self.chain.add(duration, {"isMeta": False})

    def hook(self, event: str, name: str, tool_use_id: str) -> None:
        data = {
            "type": "hook_progress",
            "hookEvent": event,
            "hookName": name,
            "command": "callback",
        }
        self.progress(data, tool_use_id, tool_use_id)

    def progress(self, data: DemoJson, tool_use_id: str, parent_tool_use_id: str) -> None:
        """Write a progress line; it is part of the chain."""
        head: DemoJson = {"type": "progress", "data": data}
        ids = {"parentToolUseID": parent_tool_use_id, "toolUseID": tool_use_id}
        self.chain.add(head | ids)

    def compact(self, summary: str, pre_tokens: int) -> None:
        """Write a boundary that says only who asked and how much there was."""
        self.chain.clock.advance()
        before, self.chain.parent = self.chain.parent, None
        boundary = shape("boundary 2.1.45", last_line=before)
        metadata = {"trigger": "auto", "preTokens": pre_tokens}
        self.chain.add(boundary, {"level": "info", "compactMetadata": metadata})
        flags: DemoJson = {"isVisibleInTranscriptOnly": True, "isCompactSummary": True}
        self.chain.add(
            shape("prompt", content=client_text("older_summary", summary=summary)) | flags
        )
        self.tokens = 0

    def _snapshot(self, line_id: str) -> None:
        moment = format_time(self.chain.clock.tick())
        self.chain.add_unchained(shape("file history", id=line_id, moment=moment))


def older_answer(model: str, message_id: str, block: DemoJson, usage: AnswerUsage) -> DemoJson:
    fields = usage.fields("usage 2.1.45")
    return shape("answer 2.1.45", model=model, id=message_id, block=block, usage=fields)


def start_task(talk: OlderConversation, task: AgentTask, tokens: int) -> tuple[str, str]:
    """Write the Task call; return its id and the line that made it."""
    tool_use_id = talk.chain.ids.tool_use()
    block = tool_use_block(tool_use_id, replace(agent_call(task), name="Task"))
    asked_by = talk.answer([block | {"caller": {"type": "direct"}}], tokens, 260)[-1]
    return tool_use_id, asked_by


def finish_task(
    talk: OlderConversation, task: AgentTask, agent_id: str, tool_use_id: str, asked_by: str
) -> None:
    tokens = OLDER_FIRST_TOKENS + task.calls * OLDER_CALL_TOKENS
    last = split_usage(tokens, tokens - OLDER_CALL_TOKENS, 380)
    talk.chain.parent = asked_by
    text = client_text("older_agent_result", agent_id=agent_id, tokens=tokens, calls=task.calls)
    result = shape(
        "agent result 2.1.45",
        prompt=task.prompt,
        agent_id=agent_id,
        result=task.result,
        tokens=last.context + last.output,
        calls=task.calls,
        usage=last.fields("usage 2.1.45"),
    )
    talk.result(tool_use_id, [text_block(task.result), text_block(text)], result, asked_by)


def write_inlined_agent(
    stage: SessionBuilder, talk: OlderConversation, task: AgentTask, tokens: int
) -> None:
    """Write an agent whose whole work is in progress lines of the main file."""
    tool_use_id, asked_by = start_task(talk, task, tokens)
    agent_id = talk.chain.ids.short_agent()
    tag = f"agent_{talk.chain.ids.message()}"
    data: DemoJson = {"type": "agent_progress", "prompt": task.prompt, "agentId": agent_id}
    prompt = shape("prompt", content=[text_block(task.prompt)])
    talk.progress(_nested_message(talk, prompt) | data, tag, tool_use_id)
    before = 0
    for number in range(task.calls):
        call = make_tool_call(stage.rng, stage.spec.project, number, 500)
        seen = OLDER_FIRST_TOKENS + number * OLDER_CALL_TOKENS
        message_id = talk.chain.ids.message()
        block = tool_use_block(talk.chain.ids.tool_use(), call)
        usage = split_usage(seen, before, PLACEHOLDER_OUTPUTS[1])
        message = older_answer(OLDER_AGENT_MODEL, message_id, block, usage)
        request = {"requestId": talk.chain.ids.request()}
        line = _nested_message(talk, {"type": "assistant", "message": message} | request)
        talk.progress(line | data, tag, tool_use_id)
        before = seen
    finish_task(talk, task, agent_id, tool_use_id, asked_by)


def write_sibling_agent(
    stage: SessionBuilder, talk: OlderConversation, task: AgentTask, tokens: int
) -> None:
    """Write an agent whose file lies beside its session's."""
    tool_use_id, asked_by = start_task(talk, task, tokens)
    agent_id = talk.chain.ids.short_agent()
    sheet = FileBuffer(stage.transcript.with_name(f"agent-{agent_id}.jsonl"))
    clock = agent_clock(stage)
    chain = TranscriptChain(talk.chain.origin, talk.chain.ids, clock, sheet, agent_id=agent_id)
    inner = OlderConversation(chain, OLDER_AGENT_MODEL)
    chain.add(shape("prompt", content=task.prompt))
    for number in range(task.calls):
        call = make_tool_call(stage.rng, stage.spec.project, number, 700)
        inner.use(TEXTS.remarks[number], call, OLDER_FIRST_TOKENS + number * OLDER_CALL_TOKENS)
    inner.answer([text_block(task.result)], inner.tokens + OLDER_CALL_TOKENS, 380)
    talk.chain.clock.at = clock.at
    finish_task(talk, task, agent_id, tool_use_id, asked_by)
    stage.agent_buffers.append(sheet)


def _nested_message(talk: OlderConversation, message: DemoJson) -> DemoJson:
    moment = format_time(talk.chain.clock.tick())
    wrapped = message | {"uuid": talk.chain.ids.uuid(), "timestamp": moment}
    return {"message": wrapped, "normalizedMessages": []}
