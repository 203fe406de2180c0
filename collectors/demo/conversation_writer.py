"""Write a conversation as 2.1.329 does: requests, answers, token counts and tool results."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from . import client_attachments
from .client_attachments import Attachments
from .demo_transcript import (
    MODELS,
    DemoClock,
    DemoJson,
    DemoModel,
    content_digest,
    format_time,
    to_millis,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .demo_transcript import DemoJson, DemoModel, DemoToolCall, TranscriptChain


UNCACHED_TOKENS = 6  # input tokens that no cache holds: the client sends next to nothing uncached


@dataclass(frozen=True)
class AnswerUsage:
    """The four counts of one answer; their first three are the context."""

    uncached: int
    cache_written: int
    cache_read: int
    output: int

    @property
    def context(self) -> int:
        """Return how many tokens the model saw."""
        return self.uncached + self.cache_written + self.cache_read


def split_usage(tokens: int, before: int, output: int) -> AnswerUsage:
    """Return counts that add up to `tokens`: what was there before comes from the cache."""
    cached = max(0, min(before, tokens - UNCACHED_TOKENS))
    return AnswerUsage(UNCACHED_TOKENS, tokens - UNCACHED_TOKENS - cached, cached, output)


def current_usage_fields(usage: AnswerUsage) -> DemoJson:
    """Return the usage object as 2.1.329 writes it."""
    return {
        "input_tokens": usage.uncached,
        "cache_creation_input_tokens": usage.cache_written,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": usage.output,
        "output_tokens_details": {"thinking_tokens": 0},
        "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
        "service_tier": "standard",
        "cache_creation": {
            "ephemeral_1h_input_tokens": 0,
            "ephemeral_5m_input_tokens": usage.cache_written,
        },
        "inference_geo": "",
        "iterations": [],
        "speed": "standard",
        "fallback_credit": None,
    }


def newer_usage_fields(rounds: tuple[AnswerUsage, ...]) -> DemoJson:
    """Return the usage object as 2.1.217 writes it: the top level is the sum of its rounds."""
    written = sum(usage.cache_written for usage in rounds)
    return {
        "input_tokens": sum(usage.uncached for usage in rounds),
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": sum(usage.cache_read for usage in rounds),
        "output_tokens": sum(usage.output for usage in rounds),
        "server_tool_use": {"web_search_requests": len(rounds) - 1, "web_fetch_requests": 0},
        "service_tier": "standard",
        "cache_creation": {"ephemeral_1h_input_tokens": written, "ephemeral_5m_input_tokens": 0},
        "inference_geo": "not_available",
        "iterations": [
            {
                "input_tokens": usage.uncached,
                "output_tokens": usage.output,
                "cache_read_input_tokens": usage.cache_read,
                "cache_creation_input_tokens": usage.cache_written,
                "cache_creation": {
                    "ephemeral_5m_input_tokens": 0,
                    "ephemeral_1h_input_tokens": usage.cache_written,
                },
                "type": "message",
            }
            for usage in rounds
        ],
        "speed": "standard",
    }


def older_usage_fields(usage: AnswerUsage) -> DemoJson:
    """Return the usage object as 2.1.45 writes it."""
    return {
        "input_tokens": usage.uncached,
        "cache_creation_input_tokens": usage.cache_written,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": 0,
            "ephemeral_1h_input_tokens": usage.cache_written,
        },
        "output_tokens": usage.output,
        "service_tier": "standard",
        "inference_geo": "not_available",
    }


@dataclass
class CostTotals:
    """The running totals that a session writes as its cost state."""

    started_ms: int
    by_model: dict[str, list[int]] = field(default_factory=dict)

    def count(self, model: DemoModel, usage: AnswerUsage) -> None:
        """Add one answer."""
        sums = self.by_model.setdefault(model.id, [0, 0, 0, 0])
        for place, value in enumerate(
            (usage.uncached, usage.output, usage.cache_read, usage.cache_written)
        ):
            sums[place] += value

    def line(self, session_id: str, clock: DemoClock) -> DemoJson:
        """Return the cost-state line of this moment."""
        models = {name: self._model(name, sums) for name, sums in self.by_model.items()}
        lasted = max(0, to_millis(clock.at) - self.started_ms)
        return {
            "type": "cost-state",
            "sessionId": session_id,
            "totalCostUSD": round(sum(model["costUSD"] for model in models.values()), 6),
            "totalAPIDuration": lasted // 3,
            "totalAPIDurationWithoutRetries": lasted // 3,
            "totalToolDuration": lasted // 9,
            "totalLinesAdded": 0,
            "totalLinesRemoved": 0,
            "totalDuration": lasted,
            "startTime": self.started_ms,
            "modelUsage": models,
            "hasUnknownModelCost": False,
        }

    def _model(self, name: str, sums: list[int]) -> DemoJson:
        fresh, output, cached, written = sums
        cost = (
            (fresh + output * 5 + cached / 10 + written * 1.25)
            * MODELS[name].usd_per_million
            / 1_000_000
        )
        return {
            "inputTokens": fresh,
            "outputTokens": output,
            "thinkingTokens": 0,
            "cacheReadInputTokens": cached,
            "cacheCreationInputTokens": written,
            "cacheCreationEphemeral5mInputTokens": written,
            "cacheCreationEphemeral1hInputTokens": 0,
            "webSearchRequests": 0,
            "costUSD": round(cost, 6),
        }


BETAS = (
    "interleaved-thinking-2025-05-14",
    "context-management-2025-06-27",
    "claude-code-20250219",
    "thinking-token-count-2026-05-13",
    "advanced-tool-use-2025-11-20",
)
EPHEMERAL: DemoJson = {"type": "ephemeral"}


def request_params(model: DemoModel) -> DemoJson:
    """Return the parameters of a request; a model without effort thinks with a budget."""
    params: DemoJson = {"model": model.id, "betas": list(BETAS), "max_tokens": model.max_output}
    clearing = {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}
    if model.effort is None:
        budget = {"budget_tokens": model.max_output - 1, "type": "enabled", "display": "omitted"}
        return params | {"thinking": budget, "context_management": clearing}
    return params | {
        "thinking": {"type": "adaptive", "display": "omitted"},
        "context_management": clearing,
        "output_config": {"effort": model.effort},
    }


@dataclass
class RequestLog:
    """Keeps what was sent so far and writes the lines of the next request."""

    chain: TranscriptChain
    model: DemoModel
    source: str
    system: tuple[str, ...]
    base: str | None = None
    keep: int = 0
    pending: list[DemoJson] = field(default_factory=list)
    unstored: list[str] = field(default_factory=list)  # answers: sent again, never stored as blobs
    shape_hash: str = ""

    def add_message(self, message: DemoJson) -> None:
        self.pending.append(message)

    def add_answer(self, blocks: list[DemoJson]) -> None:
        """Record an answer; the next request includes it."""
        self.unstored.append(content_digest({"role": "assistant", "content": blocks}))

    def reset(self) -> None:
        """Start from nothing, as after a compaction."""
        self.base, self.keep, self.shape_hash = None, 0, ""
        self.pending, self.unstored = [], []

    def send(self) -> str:
        """Write the lines of one request and return its id."""
        if not self.shape_hash:
            self._write_shape()
        tail = [*self.unstored, *(content_digest(message) for message in self.pending)]
        for message in self.pending:
            self.chain.add_unchained(
                self._head("api-request-blob")
                | {"hash": content_digest(message), "message": message}
            )
        request_id = self.chain.ids.uuid()
        line = self._head("api-request") | {
            "id": request_id,
            "timestamp": format_time(self.chain.clock.tick()),
            "version": self.chain.origin.version,
            "querySource": self.source,
            "shapeHash": self.shape_hash,
            "params": request_params(self.model),
        }
        if self.base is not None:
            line["base"] = self.base
        line |= {"keep": self.keep, "tail": tail, "cacheControl": self._cache(len(tail))}
        self.chain.add_unchained(line | {"requestDigest": content_digest([self.base, tail])})
        self.base, self.keep = request_id, self.keep + len(tail)
        self.pending, self.unstored = [], []
        return request_id

    def _head(self, kind: str) -> DemoJson:
        head: DemoJson = {"type": kind, "sessionId": self.chain.origin.session_id}
        if self.chain.agent_id is not None:
            head["agentId"] = self.chain.agent_id
        return head

    def _cache(self, added: int) -> list[DemoJson]:
        last = ["messages", self.keep + added - 1, "content", 0]
        return [
            {"path": ["system", 0], "value": EPHEMERAL},
            {"path": ["system", 1], "value": EPHEMERAL},
            {"path": last, "value": EPHEMERAL},
        ]

    def _write_shape(self) -> None:
        shape: DemoJson = {
            "system": [
                {"type": "text", "text": "You are Claude Code, Anthropic's official CLI."},
                {"type": "text", "text": "\n\n".join(self.system)},
            ],
            "tools": client_attachments.tool_schemas(),
        }
        self.shape_hash = content_digest(shape)
        self.chain.add_unchained(
            self._head("api-request-shape")
            | {
                "shapeHash": self.shape_hash,
                "timestamp": format_time(self.chain.clock.tick()),
                "version": self.chain.origin.version,
                "shape": shape,
            }
        )


ACCEPTED_PERMISSION: DemoJson = {"decision": "accept", "source": "config", "reasonType": "mode"}


def text_block(text: str) -> DemoJson:
    """Return what an answer says."""
    return {"type": "text", "text": text}


def thinking_block(size: int) -> DemoJson:
    """Return a thought: its text is left out, its signature is there."""
    return {
        "type": "thinking",
        "thinking": "",
        "signature": "EqQB" + "CkYICxgCKkDKK1b" * (size // 15),
    }


def tool_use_block(tool_use_id: str, call: DemoToolCall) -> DemoJson:
    """Return the use of a tool."""
    return {"type": "tool_use", "id": tool_use_id, "name": call.name, "input": call.input}


class ConversationWriter:
    """Writes answers and tool results, and keeps count of the context."""

    def __init__(
        self,
        chain: TranscriptChain,
        model: DemoModel,
        requests: RequestLog,
        totals: CostTotals,
        attribution: DemoJson,
    ) -> None:
        self.chain = chain
        self.model = model
        self.requests = requests
        self.totals = totals
        self.tokens = 0
        self.spent_tokens = 0
        self.prompt_id = chain.ids.uuid()
        self.tools_used: list[str] = []
        self.has_tool_snapshot = False
        self._attribution = attribution
        typed = chain.origin.entrypoint == "cli" and chain.agent_id is None
        self.lineage: DemoJson = {"session_id": chain.origin.session_id} if typed else {}
        self.attachments = Attachments(chain, model, self.lineage)

    def answer(self, blocks: list[DemoJson], tokens: int, output: int) -> list[str]:
        """Write one answer, a line for each of its blocks, and return the lines' ids."""
        self.chain.clock.advance()
        request_id = self.requests.send()
        usage = split_usage(tokens, self.tokens, output)
        self._note_tools(blocks)
        message = self._message(blocks, usage)
        ids = [
            self._block_line(message, block, place, request_id)
            for place, block in enumerate(blocks)
        ]
        self.requests.add_answer(blocks)
        self.tokens = usage.context
        self.spent_tokens += usage.cache_written + usage.output
        self.totals.count(self.model, usage)
        return ids

    def tool_result(self, tool_use_id: str, call: DemoToolCall, asked_by: str) -> None:
        """Write what a tool gave back; its parent is the line that asked for it."""
        self.chain.parent = asked_by
        content = [
            {
                "tool_use_id": tool_use_id,
                "type": "tool_result",
                "content": call.output,
                "is_error": False,
            }
        ]
        after: DemoJson = dict(self.result_fields(call))
        if call.name == "Bash":
            after["sandboxed"] = False
        after |= {"sourceToolAssistantUUID": asked_by, "permissionDecision": ACCEPTED_PERMISSION}
        self._user(content, after | self.lineage)
        self.requests.add_message({"role": "user", "content": content})
        self.snapshot_once()
        self.attachments.tokens_left(self.spent_tokens, self.lineage)

    def result_fields(self, call: DemoToolCall) -> DemoJson:
        """Return the structured result; agents' files do not have it."""
        return {"toolUseResult": call.result}

    def snapshot_once(self) -> None:
        """Write the snapshot that follows the first answer of a conversation."""
        if not self.has_tool_snapshot:
            self.attachments.snapshot_with_tools(self.requests.system)
            self.has_tool_snapshot = True

    def _user(self, content: str | list[DemoJson], after: DemoJson) -> str:
        head: DemoJson = {
            "promptId": self.prompt_id,
            "type": "user",
            "message": {"role": "user", "content": content},
        }
        return self.chain.add(head, after)

    def _note_tools(self, blocks: Iterable[DemoJson]) -> None:
        named = [block["name"] for block in blocks if block["type"] == "tool_use"]
        new = [name for name in dict.fromkeys(named) if name not in self.tools_used]
        self.tools_used += new
        if new and self.chain.agent_id is None:
            self.chain.add_note("tools-used", tools=list(self.tools_used))

    def _message(self, blocks: list[DemoJson], usage: AnswerUsage) -> DemoJson:
        asks = any(block["type"] == "tool_use" for block in blocks)
        return {
            "id": self.chain.ids.message(),
            "type": "message",
            "role": "assistant",
            "model": self.model.id,
            "stop_sequence": None,
            "content": [],
            "stop_reason": "tool_use" if asks else "end_turn",
            "usage": current_usage_fields(usage),
            "stop_details": None,
        }

    def _block_line(self, message: DemoJson, block: DemoJson, place: int, request_id: str) -> str:
        head: DemoJson = {"message": message | {"content": [block]}}
        if block["type"] == "tool_use":
            head["toolInputStreamMs"] = 1 + place
        head |= {
            "apiBlockIndex": place,
            "requestRef": request_id,
            "requestedModel": self.model.id,
            "promptCacheRequested": "5m",
        }
        head |= self._attribution | {"type": "assistant"}
        after: DemoJson = {} if self.model.effort is None else {"effort": self.model.effort}
        after |= {"perTurnEffort": self.model.effort, "madeBy": "model"}
        return self.chain.add(head, after | self.lineage)
