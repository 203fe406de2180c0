"""A session of 2.1.45: progress lines, the Task tool, placeholders for counts, bare boundaries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .chain import Chain, OlderEnvelope
from .model import Json, ToolCall
from .plumbing import Clock, Sheet, stamp
from .speaker import text_block, tool_block
from .texts import OLD_SUMMARY_HEAD, REMARKS, Project
from .toolwork import work
from .usage import Usage, older_usage, usage_for

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

    from .agent_texts import AgentTask

AGENT_MODEL = "claude-haiku-4-5-20251001"  # the oldest era still wrote dates into model names
FIRST_TOKENS = 14_200
CALL_TOKENS = 6_100
PLACEHOLDERS = (1, 3, 8, 2)  # what an early fragment says instead of its output


class OlderTalk:
    """Writes a transcript as 2.1.45 did."""

    def __init__(self, chain: Chain, model: str) -> None:
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

    def answer(self, blocks: list[Json], tokens: int, output: int) -> list[str]:
        """Write one answer; only its last fragment knows its output."""
        self.chain.clock.advance()
        usage = usage_for(tokens, self.tokens, output)
        early = Usage(
            usage.uncached,
            usage.cache_written,
            usage.cache_read,
            PLACEHOLDERS[self._answers % len(PLACEHOLDERS)],
        )
        self._answers += 1
        self.tokens = usage.context
        base: Json = {
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
                        "usage": older_usage(count),
                    },
                    "requestId": request,
                    "type": "assistant",
                }
            )
            for block, count in zip(blocks, counts, strict=True)
        ]

    def use(self, say: str, call: ToolCall, tokens: int) -> None:
        """Write an answer that uses a tool, the hook beside it, and what came back."""
        tool_use_id = self.chain.ids.tool_use()
        block = tool_block(tool_use_id, call) | {"caller": {"type": "direct"}}
        asked_by = self.answer([text_block(say), block], tokens, 210)[-1]
        self.hook("PostToolUse", f"PostToolUse:{call.name}", tool_use_id)
        self.result(tool_use_id, call.output, call.result, asked_by)

    def result(
        self, tool_use_id: str, output: str | list[Json], result: Json, asked_by: str
    ) -> None:
        """Write what a tool gave back."""
        content: list[Json] = [
            {"tool_use_id": tool_use_id, "type": "tool_result", "content": output}
        ]
        after: Json = {"toolUseResult": result, "sourceToolAssistantUUID": asked_by}
        self.chain.add(self._user_head(content), after)

    def say(self, text: str, tokens: int) -> None:
        """Write an answer that ends a turn, and how long the turn took."""
        self.answer([text_block(text)], tokens, 180)
        summary: Json = {
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
        duration: Json = {"type": "system", "subtype": "turn_duration", "durationMs": 61_200}
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

    def progress(self, data: Json, tool_use_id: str, parent_tool_use_id: str) -> None:
        """Write a progress line; it is part of the chain."""
        head: Json = {"type": "progress", "data": data}
        ids = {"parentToolUseID": parent_tool_use_id, "toolUseID": tool_use_id}
        self.chain.add(head | ids)

    def compact(self, summary: str, pre_tokens: int) -> None:
        """Write a boundary that says only who asked and how much there was."""
        self.chain.clock.advance()
        before, self.chain.parent = self.chain.parent, None
        boundary: Json = {
            "logicalParentUuid": before,
            "type": "system",
            "subtype": "compact_boundary",
            "content": "Conversation compacted",
            "isMeta": False,
        }
        metadata = {"trigger": "auto", "preTokens": pre_tokens}
        self.chain.add(boundary, {"level": "info", "compactMetadata": metadata})
        flags: Json = {"isVisibleInTranscriptOnly": True, "isCompactSummary": True}
        self.chain.add(self._user_head(OLD_SUMMARY_HEAD + summary) | flags)
        self.tokens = 0

    def _user_head(self, content: str | list[Json]) -> Json:
        return {"type": "user", "message": {"role": "user", "content": content}}

    def _snapshot(self, line_id: str) -> None:
        moment = stamp(self.chain.clock.tick())
        self.chain.add_unchained(
            {
                "type": "file-history-snapshot",
                "messageId": line_id,
                "snapshot": {"messageId": line_id, "trackedFileBackups": {}, "timestamp": moment},
                "isSnapshotUpdate": False,
            }
        )


def start_task(talk: OlderTalk, task: AgentTask, tokens: int) -> tuple[str, str]:
    """Write the Task call; return its id and the line that made it."""
    tool_use_id = talk.chain.ids.tool_use()
    arguments = {
        "description": task.description,
        "subagent_type": task.kind,
        "prompt": task.prompt,
    }
    block = tool_block(tool_use_id, ToolCall("Task", arguments, "", {}))
    asked_by = talk.answer([block | {"caller": {"type": "direct"}}], tokens, 260)[-1]
    return tool_use_id, asked_by


def finish_task(
    talk: OlderTalk, task: AgentTask, agent_id: str, tool_use_id: str, asked_by: str
) -> None:
    """Write the result of a Task call."""
    tokens = FIRST_TOKENS + task.calls * CALL_TOKENS
    last = usage_for(tokens, tokens - CALL_TOKENS, 380)
    talk.chain.parent = asked_by
    text = (
        f"agentId: {agent_id} (for resuming to continue this agent's work if needed)\n"
        f"<usage>total_tokens: {tokens}\ntool_uses: {task.calls}\nduration_ms: 48200</usage>"
    )
    result: Json = {
        "status": "completed",
        "prompt": task.prompt,
        "agentId": agent_id,
        "content": [{"type": "text", "text": task.result}],
        "totalDurationMs": 48_200,
        "totalTokens": last.context + last.output,
        "totalToolUseCount": task.calls,
        "usage": older_usage(last),
    }
    talk.result(tool_use_id, [text_block(task.result), text_block(text)], result, asked_by)


def inlined_task(
    talk: OlderTalk, task: AgentTask, project: Project, rng: Random, tokens: int
) -> None:
    """Write an agent whose whole work is in progress lines of the main file."""
    tool_use_id, asked_by = start_task(talk, task, tokens)
    agent_id = talk.chain.ids.short_agent()
    tag = f"agent_{talk.chain.ids.message()}"
    data: Json = {"type": "agent_progress", "prompt": task.prompt, "agentId": agent_id}
    prompt: Json = {"role": "user", "content": [text_block(task.prompt)]}
    talk.progress(_inner(talk, {"type": "user", "message": prompt}) | data, tag, tool_use_id)
    before = 0
    for number in range(task.calls):
        call = work(rng, project, number, 500)
        seen = FIRST_TOKENS + number * CALL_TOKENS
        message: Json = {
            "model": AGENT_MODEL,
            "id": talk.chain.ids.message(),
            "type": "message",
            "role": "assistant",
            "content": [tool_block(talk.chain.ids.tool_use(), call)],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": older_usage(usage_for(seen, before, PLACEHOLDERS[1])),
        }
        request = {"requestId": talk.chain.ids.request()}
        line = _inner(talk, {"type": "assistant", "message": message} | request)
        talk.progress(line | data, tag, tool_use_id)
        before = seen
    finish_task(talk, task, agent_id, tool_use_id, asked_by)


def sibling_task(
    talk: OlderTalk, task: AgentTask, folder: Path, project: Project, rng: Random, tokens: int
) -> Sheet:
    """Write an agent whose file lies beside its session's; return the file."""
    tool_use_id, asked_by = start_task(talk, task, tokens)
    agent_id = talk.chain.ids.short_agent()
    sheet = Sheet(folder / f"agent-{agent_id}.jsonl")
    clock = Clock(talk.chain.clock.at, talk.chain.clock.pace / 6, talk.chain.clock.end)
    chain = Chain(talk.chain.origin, talk.chain.ids, clock, sheet, OlderEnvelope(), agent_id)
    inner = OlderTalk(chain, AGENT_MODEL)
    chain.add({"type": "user", "message": {"role": "user", "content": task.prompt}})
    for number in range(task.calls):
        call = work(rng, project, number, 700)
        inner.use(REMARKS[number], call, FIRST_TOKENS + number * CALL_TOKENS)
    inner.answer([text_block(task.result)], inner.tokens + CALL_TOKENS, 380)
    talk.chain.clock.at = clock.at
    finish_task(talk, task, agent_id, tool_use_id, asked_by)
    return sheet


def older_chain(chain: Chain) -> Chain:
    """Return the chain with this era's envelope."""
    chain.envelope = OlderEnvelope()
    return chain


def _inner(talk: OlderTalk, message: Json) -> Json:
    moment = stamp(talk.chain.clock.tick())
    wrapped = message | {"uuid": talk.chain.ids.uuid(), "timestamp": moment}
    return {"message": wrapped, "normalizedMessages": []}
