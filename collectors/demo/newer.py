"""A session of 2.1.217: sums over iterations, titles by hand, agents that are waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import filler
from .chain import Chain
from .model import Json, Model, ToolCall
from .plumbing import Clock, Sheet, stamp
from .speaker import text_block, thinking_block, tool_block
from .texts import REMARKS, Project
from .toolwork import work
from .usage import Usage, newer_usage, usage_for

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

    from .agent_texts import AgentTask

FIRST_TOKENS = 12_600  # an agent's first request in this era
CALL_TOKENS = 5_200


class NewerTalk:
    """Writes a transcript as 2.1.217 did."""

    def __init__(self, chain: Chain, model: Model) -> None:
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
        fields: Json = {
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

    def answer(self, blocks: list[Json], rounds: tuple[Usage, ...]) -> list[str]:
        """Write one answer; the context is what its last round saw."""
        self.chain.clock.advance()
        asks = any(block["type"] == "tool_use" for block in blocks)
        message: Json = {
            "model": self.model.id,
            "id": self.chain.ids.message(),
            "type": "message",
            "role": "assistant",
            "content": [],
            "stop_reason": "tool_use" if asks else "end_turn",
            "stop_sequence": None,
            "stop_details": None,
            "usage": newer_usage(rounds),
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

    def use(self, say: str, call: ToolCall, tokens: int) -> None:
        """Write an answer that uses a tool, and what the tool gave back."""
        tool_use_id = self.chain.ids.tool_use()
        block = tool_block(tool_use_id, call) | {"caller": {"type": "direct"}}
        blocks = [thinking_block(120), text_block(say), block]
        asked_by = self.answer(blocks, (usage_for(tokens, self.tokens, 240),))[-1]
        content: list[Json] = [
            {"tool_use_id": tool_use_id, "type": "tool_result", "content": call.output}
        ]
        # Agents' files keep what the model saw and no more.
        result: Json = {} if self.chain.agent_id is not None else {"toolUseResult": call.result}
        self._user(content, result | {"sourceToolAssistantUUID": asked_by})

    def say(self, text: str, rounds: tuple[Usage, ...]) -> None:
        """Write an answer that ends a turn, and the summary of the stop hook."""
        self.answer([text_block(text)], rounds)
        summary: Json = {
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

    def _user(self, content: str | list[Json], after: Json) -> None:
        head: Json = {
            "promptId": self.prompt_id,
            "type": "user",
            "message": {"role": "user", "content": content},
        }
        self.chain.add(head, after)

    def _queue(self, operation: Json, content: Json) -> None:
        moment = stamp(self.chain.clock.tick())
        line: Json = {"type": "queue-operation"} | operation
        session = {"timestamp": moment, "sessionId": self.chain.origin.session_id}
        self.chain.add_unchained(line | session | content)

    def _listings(self) -> None:
        names = list(filler.DEFERRED_TOOLS)
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
            "addedTypes": list(filler.AGENT_TYPES),
            "addedLines": [f"- {kind}: {filler.prose(80)}" for kind in filler.AGENT_TYPES],
            "removedTypes": [],
            "isInitial": True,
            "showConcurrencyNote": True,
        }
        skills = {
            "type": "skill_listing",
            "content": "\n".join(f"- {name}" for name in filler.SKILLS),
            "skillCount": len(filler.SKILLS),
            "isInitial": True,
            "names": list(filler.SKILLS),
        }
        for attachment in (tools, agents, skills):
            self.chain.add({"attachment": attachment, "type": "attachment"})


def waited_agent(
    talk: NewerTalk, task: AgentTask, folder: Path, project: Project, rng: Random, tokens: int
) -> list[Sheet]:
    """Write an agent that the main conversation waits for; return its files."""
    ids, agent_id = talk.chain.ids, talk.chain.ids.agent()
    tool_use_id = ids.tool_use()
    arguments = {
        "description": task.description,
        "subagent_type": task.kind,
        "prompt": task.prompt,
    }
    block = tool_block(tool_use_id, ToolCall("Agent", arguments, "", {}))
    blocks = [block | {"caller": {"type": "direct"}}]
    asked_by = talk.answer(blocks, (usage_for(tokens, talk.tokens, 310),))[-1]
    sheet = Sheet(folder / f"agent-{agent_id}.jsonl")
    clock = Clock(talk.chain.clock.at, talk.chain.clock.pace / 6, talk.chain.clock.end)
    inner = NewerTalk(Chain(talk.chain.origin, ids, clock, sheet, agent_id=agent_id), task.model)
    inner.prompt(task.prompt)
    for number in range(task.calls):
        call = work(rng, project, number, 900)
        inner.use(REMARKS[number], call, FIRST_TOKENS + number * CALL_TOKENS)
    last = usage_for(inner.tokens + CALL_TOKENS, inner.tokens, 420)
    inner.answer([text_block(task.result)], (last,))
    talk.chain.clock.at = clock.at
    result: Json = {
        "status": "completed",
        "prompt": task.prompt,
        "agentId": agent_id,
        "agentType": task.kind,
        "content": [{"type": "text", "text": task.result}],
        "resolvedModel": task.model.id,
        "totalDurationMs": 96_400,
        "totalTokens": last.context + last.output,
        "totalToolUseCount": task.calls,
        "usage": newer_usage((last,)),
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
    content: list[Json] = [
        {
            "tool_use_id": tool_use_id,
            "type": "tool_result",
            "content": [text_block(task.result), text_block(text)],
        }
    ]
    head: Json = {
        "promptId": talk.prompt_id,
        "type": "user",
        "message": {"role": "user", "content": content},
    }
    talk.chain.add(head, {"toolUseResult": result, "sourceToolAssistantUUID": asked_by})
    meta = Sheet(folder / f"agent-{agent_id}.meta.json")
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
