"""Write sessions as older clients did: 2.1.217, and 2.1.45 with its progress lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import client_attachments
from .conversation_writer import (
    AnswerUsage,
    newer_usage_fields,
    older_usage_fields,
    split_usage,
    text_block,
    thinking_block,
    tool_use_block,
)
from .demo_texts import OLD_SUMMARY_HEAD, REMARKS, DemoProject, make_tool_call
from .demo_transcript import (
    DemoClock,
    DemoJson,
    DemoModel,
    DemoToolCall,
    FileBuffer,
    OlderLineEnvelope,
    TranscriptChain,
    format_time,
)

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

    from .agent_tasks import AgentTask


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
            self._queue({"operation": "enqueue"}, {"content": text})
            self._queue({"operation": "dequeue"}, {})
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
        asks = any(block["type"] == "tool_use" for block in blocks)
        message: DemoJson = {
            "model": self.model.id,
            "id": self.chain.ids.message(),
            "type": "message",
            "role": "assistant",
            "content": [],
            "stop_reason": "tool_use" if asks else "end_turn",
            "stop_sequence": None,
            "stop_details": None,
            "usage": newer_usage_fields(rounds),
            "diagnostics": None,
        }
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
        """Write an answer that uses a tool, and what the tool gave back."""
        tool_use_id = self.chain.ids.tool_use()
        block = tool_use_block(tool_use_id, call) | {"caller": {"type": "direct"}}
        blocks = [thinking_block(120), text_block(say), block]
        asked_by = self.answer(blocks, (split_usage(tokens, self.tokens, 240),))[-1]
        content: list[DemoJson] = [
            {"tool_use_id": tool_use_id, "type": "tool_result", "content": call.output}
        ]
        # Agents' files keep what the model saw and no more.
        result: DemoJson = {} if self.chain.agent_id is not None else {"toolUseResult": call.result}
        self._user(content, result | {"sourceToolAssistantUUID": asked_by})

    def say(self, text: str, rounds: tuple[AnswerUsage, ...]) -> None:
        """Write an answer that ends a turn, and the summary of the stop hook."""
        self.answer([text_block(text)], rounds)
        summary: DemoJson = {
            "type": "system",
            "subtype": "stop_hook_summary",
            "hookCount": 1,
            "hookInfos": [{"command": "/home/dev/bin/ctx-hook", "durationMs": 9}],
            "hookErrors": [],
            "hookAdditionalContext": [],
            "preventedContinuation": False,
            "stopReason": "",
            "hasOutput": False,
            "level": "suggestion",
        }
        self.chain.add(summary, {"toolUseID": self.chain.ids.uuid()})

    def _user(self, content: str | list[DemoJson], after: DemoJson) -> None:
        head: DemoJson = {
            "promptId": self.prompt_id,
            "type": "user",
            "message": {"role": "user", "content": content},
        }
        self.chain.add(head, after)

    def _queue(self, operation: DemoJson, content: DemoJson) -> None:
        moment = format_time(self.chain.clock.tick())
        line: DemoJson = {"type": "queue-operation"} | operation
        session = {"timestamp": moment, "sessionId": self.chain.origin.session_id}
        self.chain.add_unchained(line | session | content)

    def _listings(self) -> None:
        names = list(client_attachments.DEFERRED_TOOLS)
        tools = {
            "type": "deferred_tools_delta",
            "addedNames": names,
            "addedLines": names,
            "removedNames": [],
            "readdedNames": [],
            "pendingMcpServers": [],
            "needsAuthMcpServers": [],
        }
        agents = {
            "type": "agent_listing_delta",
            "addedTypes": list(client_attachments.AGENT_TYPES),
            "addedLines": [
                f"- {kind}: {client_attachments.filler_text(80)}"
                for kind in client_attachments.AGENT_TYPES
            ],
            "removedTypes": [],
            "isInitial": True,
            "showConcurrencyNote": True,
        }
        skills = {
            "type": "skill_listing",
            "content": "\n".join(f"- {name}" for name in client_attachments.SKILLS),
            "skillCount": len(client_attachments.SKILLS),
            "isInitial": True,
            "names": list(client_attachments.SKILLS),
        }
        for attachment in (tools, agents, skills):
            self.chain.add({"attachment": attachment, "type": "attachment"})


def write_foreground_agent(
    talk: NewerConversation,
    task: AgentTask,
    folder: Path,
    project: DemoProject,
    rng: Random,
    tokens: int,
) -> list[FileBuffer]:
    """Write an agent that the main conversation waits for; return its files."""
    ids, agent_id = talk.chain.ids, talk.chain.ids.agent()
    tool_use_id = ids.tool_use()
    arguments = {
        "description": task.description,
        "subagent_type": task.kind,
        "prompt": task.prompt,
    }
    block = tool_use_block(tool_use_id, DemoToolCall("Agent", arguments, "", {}))
    blocks = [block | {"caller": {"type": "direct"}}]
    asked_by = talk.answer(blocks, (split_usage(tokens, talk.tokens, 310),))[-1]
    sheet = FileBuffer(folder / f"agent-{agent_id}.jsonl")
    clock = DemoClock(talk.chain.clock.at, talk.chain.clock.pace / 6, talk.chain.clock.end)
    inner = NewerConversation(
        TranscriptChain(talk.chain.origin, ids, clock, sheet, agent_id=agent_id), task.model
    )
    inner.prompt(task.prompt)
    for number in range(task.calls):
        call = make_tool_call(rng, project, number, 900)
        inner.use(REMARKS[number], call, NEWER_FIRST_TOKENS + number * NEWER_CALL_TOKENS)
    last = split_usage(inner.tokens + NEWER_CALL_TOKENS, inner.tokens, 420)
    inner.answer([text_block(task.result)], (last,))
    talk.chain.clock.at = clock.at
    result: DemoJson = {
        "status": "completed",
        "prompt": task.prompt,
        "agentId": agent_id,
        "agentType": task.kind,
        "content": [{"type": "text", "text": task.result}],
        "resolvedModel": task.model.id,
        "totalDurationMs": 96_400,
        "totalTokens": last.context + last.output,
        "totalToolUseCount": task.calls,
        "usage": newer_usage_fields((last,)),
        "toolStats": {
            "readCount": 1,
            "searchCount": 1,
            "bashCount": 1,
            "editFileCount": 1,
            "linesAdded": 1,
            "linesRemoved": 1,
            "otherToolCount": 0,
        },
    }
    text = (
        f"agentId: {agent_id} (use SendMessage to continue this agent)\n<usage>subagent_tokens: "
        f"{last.context}\ntool_uses: {task.calls}\nduration_ms: 96400</usage>"
    )
    content: list[DemoJson] = [
        {
            "tool_use_id": tool_use_id,
            "type": "tool_result",
            "content": [text_block(task.result), text_block(text)],
        }
    ]
    head: DemoJson = {
        "promptId": talk.prompt_id,
        "type": "user",
        "message": {"role": "user", "content": content},
    }
    talk.chain.add(head, {"toolUseResult": result, "sourceToolAssistantUUID": asked_by})
    meta = FileBuffer(folder / f"agent-{agent_id}.meta.json")
    meta.line(
        {
            "agentType": task.kind,
            "description": task.description,
            "toolUseId": tool_use_id,
            "spawnDepth": 1,
            "requestShape": "foreground",
            "model": task.model.id,
        }
    )
    meta.last = sheet.last
    return [sheet, meta]


OLDER_AGENT_MODEL = "claude-haiku-4-5-20251001"  # the oldest era still wrote dates into model names
OLDER_FIRST_TOKENS = 14_200
OLDER_CALL_TOKENS = 6_100
PLACEHOLDER_OUTPUTS = (1, 3, 8, 2)  # what an early fragment says instead of its output


class OlderConversation:
    """Writes a transcript as 2.1.45 did."""

    def __init__(self, chain: TranscriptChain, model: str) -> None:
        self.chain = chain
        self.model = model
        self.tokens = 0
        self._answers = 0

    def start(self) -> None:
        """Write what a session began with."""
        self._snapshot(self.chain.ids.uuid())
        self.hook("SessionStart", "SessionStart:startup", self.chain.ids.uuid())

    def prompt(self, text: str) -> None:
        """Write a person's prompt."""
        line_id = self.chain.ids.uuid()
        self._snapshot(line_id)
        self.chain.add(self._user_head(text), {"permissionMode": "default"}, line_id)

    def answer(self, blocks: list[DemoJson], tokens: int, output: int) -> list[str]:
        """Write one answer; only its last fragment knows its output."""
        self.chain.clock.advance()
        usage = split_usage(tokens, self.tokens, output)
        early = AnswerUsage(
            usage.uncached,
            usage.cache_written,
            usage.cache_read,
            PLACEHOLDER_OUTPUTS[self._answers % len(PLACEHOLDER_OUTPUTS)],
        )
        self._answers += 1
        self.tokens = usage.context
        base: DemoJson = {
            "model": self.model,
            "id": self.chain.ids.message(),
            "type": "message",
            "role": "assistant",
        }
        request = self.chain.ids.request()
        counts = [early] * (len(blocks) - 1) + [usage]
        return [
            self.chain.add(
                {
                    "message": base
                    | {
                        "content": [block],
                        "stop_reason": None,
                        "stop_sequence": None,
                        "usage": older_usage_fields(count),
                    },
                    "requestId": request,
                    "type": "assistant",
                }
            )
            for block, count in zip(blocks, counts, strict=True)
        ]

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
        """Write what a tool gave back."""
        content: list[DemoJson] = [
            {"tool_use_id": tool_use_id, "type": "tool_result", "content": output}
        ]
        after: DemoJson = {"toolUseResult": result, "sourceToolAssistantUUID": asked_by}
        self.chain.add(self._user_head(content), after)

    def say(self, text: str, tokens: int) -> None:
        """Write an answer that ends a turn, and how long the turn took."""
        self.answer([text_block(text)], tokens, 180)
        summary: DemoJson = {
            "type": "system",
            "subtype": "stop_hook_summary",
            "hookCount": 1,
            "hookInfos": [{"command": "callback", "durationMs": 12}],
            "hookErrors": [],
            "preventedContinuation": False,
            "stopReason": "",
            "hasOutput": False,
            "level": "suggestion",
        }
        self.chain.add(summary, {"toolUseID": self.chain.ids.uuid()})
        duration: DemoJson = {"type": "system", "subtype": "turn_duration", "durationMs": 61_200}
        self.chain.add(duration, {"isMeta": False})

    def hook(self, event: str, name: str, tool_use_id: str) -> None:
        """Write that a hook ran."""
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
        boundary: DemoJson = {
            "logicalParentUuid": before,
            "type": "system",
            "subtype": "compact_boundary",
            "content": "Conversation compacted",
            "isMeta": False,
        }
        metadata = {"trigger": "auto", "preTokens": pre_tokens}
        self.chain.add(boundary, {"level": "info", "compactMetadata": metadata})
        flags: DemoJson = {"isVisibleInTranscriptOnly": True, "isCompactSummary": True}
        self.chain.add(self._user_head(OLD_SUMMARY_HEAD + summary) | flags)
        self.tokens = 0

    def _user_head(self, content: str | list[DemoJson]) -> DemoJson:
        return {"type": "user", "message": {"role": "user", "content": content}}

    def _snapshot(self, line_id: str) -> None:
        moment = format_time(self.chain.clock.tick())
        self.chain.add_unchained(
            {
                "type": "file-history-snapshot",
                "messageId": line_id,
                "snapshot": {"messageId": line_id, "trackedFileBackups": {}, "timestamp": moment},
                "isSnapshotUpdate": False,
            }
        )


def start_task(talk: OlderConversation, task: AgentTask, tokens: int) -> tuple[str, str]:
    """Write the Task call; return its id and the line that made it."""
    tool_use_id = talk.chain.ids.tool_use()
    arguments = {
        "description": task.description,
        "subagent_type": task.kind,
        "prompt": task.prompt,
    }
    block = tool_use_block(tool_use_id, DemoToolCall("Task", arguments, "", {}))
    asked_by = talk.answer([block | {"caller": {"type": "direct"}}], tokens, 260)[-1]
    return tool_use_id, asked_by


def finish_task(
    talk: OlderConversation, task: AgentTask, agent_id: str, tool_use_id: str, asked_by: str
) -> None:
    """Write the result of a Task call."""
    tokens = OLDER_FIRST_TOKENS + task.calls * OLDER_CALL_TOKENS
    last = split_usage(tokens, tokens - OLDER_CALL_TOKENS, 380)
    talk.chain.parent = asked_by
    text = (
        f"agentId: {agent_id} (for resuming to continue this agent's work if needed)\n"
        f"<usage>total_tokens: {tokens}\ntool_uses: {task.calls}\nduration_ms: 48200</usage>"
    )
    result: DemoJson = {
        "status": "completed",
        "prompt": task.prompt,
        "agentId": agent_id,
        "content": [{"type": "text", "text": task.result}],
        "totalDurationMs": 48_200,
        "totalTokens": last.context + last.output,
        "totalToolUseCount": task.calls,
        "usage": older_usage_fields(last),
    }
    talk.result(tool_use_id, [text_block(task.result), text_block(text)], result, asked_by)


def write_inlined_agent(
    talk: OlderConversation, task: AgentTask, project: DemoProject, rng: Random, tokens: int
) -> None:
    """Write an agent whose whole work is in progress lines of the main file."""
    tool_use_id, asked_by = start_task(talk, task, tokens)
    agent_id = talk.chain.ids.short_agent()
    tag = f"agent_{talk.chain.ids.message()}"
    data: DemoJson = {"type": "agent_progress", "prompt": task.prompt, "agentId": agent_id}
    prompt: DemoJson = {"role": "user", "content": [text_block(task.prompt)]}
    talk.progress(
        _nested_message(talk, {"type": "user", "message": prompt}) | data, tag, tool_use_id
    )
    before = 0
    for number in range(task.calls):
        call = make_tool_call(rng, project, number, 500)
        seen = OLDER_FIRST_TOKENS + number * OLDER_CALL_TOKENS
        message: DemoJson = {
            "model": OLDER_AGENT_MODEL,
            "id": talk.chain.ids.message(),
            "type": "message",
            "role": "assistant",
            "content": [tool_use_block(talk.chain.ids.tool_use(), call)],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": older_usage_fields(split_usage(seen, before, PLACEHOLDER_OUTPUTS[1])),
        }
        request = {"requestId": talk.chain.ids.request()}
        line = _nested_message(talk, {"type": "assistant", "message": message} | request)
        talk.progress(line | data, tag, tool_use_id)
        before = seen
    finish_task(talk, task, agent_id, tool_use_id, asked_by)


def write_sibling_agent(
    talk: OlderConversation,
    task: AgentTask,
    folder: Path,
    project: DemoProject,
    rng: Random,
    tokens: int,
) -> FileBuffer:
    """Write an agent whose file lies beside its session's; return the file."""
    tool_use_id, asked_by = start_task(talk, task, tokens)
    agent_id = talk.chain.ids.short_agent()
    sheet = FileBuffer(folder / f"agent-{agent_id}.jsonl")
    clock = DemoClock(talk.chain.clock.at, talk.chain.clock.pace / 6, talk.chain.clock.end)
    chain = TranscriptChain(
        talk.chain.origin, talk.chain.ids, clock, sheet, OlderLineEnvelope(), agent_id
    )
    inner = OlderConversation(chain, OLDER_AGENT_MODEL)
    chain.add({"type": "user", "message": {"role": "user", "content": task.prompt}})
    for number in range(task.calls):
        call = make_tool_call(rng, project, number, 700)
        inner.use(REMARKS[number], call, OLDER_FIRST_TOKENS + number * OLDER_CALL_TOKENS)
    inner.answer([text_block(task.result)], inner.tokens + OLDER_CALL_TOKENS, 380)
    talk.chain.clock.at = clock.at
    finish_task(talk, task, agent_id, tool_use_id, asked_by)
    return sheet


def use_older_envelope(chain: TranscriptChain) -> TranscriptChain:
    """Return the chain with this era's envelope."""
    chain.envelope = OlderLineEnvelope()
    return chain


def _nested_message(talk: OlderConversation, message: DemoJson) -> DemoJson:
    moment = format_time(talk.chain.clock.tick())
    wrapped = message | {"uuid": talk.chain.ids.uuid(), "timestamp": moment}
    return {"message": wrapped, "normalizedMessages": []}
