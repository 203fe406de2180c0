"""Write a conversation as 2.1.329 does: requests, answers, token counts and tool results."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field

from . import client_attachments
from .client_attachments import Attachments
from .demo_data import MODEL_OF_ID, DemoModel, DemoToolCall, shape
from .demo_transcript import (
    DemoClock,
    DemoJson,
    TranscriptChain,
    content_digest,
    format_time,
    to_millis,
)

UNCACHED_TOKENS = 6  # input tokens that no cache holds: the client sends next to nothing uncached


@dataclass(frozen=True)
class AnswerUsage:
    """The four counts of one answer; their first three are the context."""

    uncached: int
    written: int  # to the cache
    read: int  # from the cache
    output: int

    @property
    def context(self) -> int:
        return self.uncached + self.written + self.read

    @classmethod
    def of_fields(cls, usage: DemoJson) -> AnswerUsage:
        """Read the usage object of an answer that was written."""
        return cls(
            usage["input_tokens"],
            usage["cache_creation_input_tokens"],
            usage["cache_read_input_tokens"],
            usage["output_tokens"],
        )

    def fields(self, kind: str = "usage") -> DemoJson:
        """Return the usage object as the client of that shape writes it."""
        return shape(kind, **asdict(self))

    def plus(self, other: AnswerUsage) -> AnswerUsage:
        return AnswerUsage(
            self.uncached + other.uncached,
            self.written + other.written,
            self.read + other.read,
            self.output + other.output,
        )


NO_TOKENS = AnswerUsage(0, 0, 0, 0)


def split_usage(tokens: int, before: int, output: int) -> AnswerUsage:
    """Return counts that add up to `tokens`: what was there before comes from the cache."""
    cached = max(0, min(before, tokens - UNCACHED_TOKENS))
    return AnswerUsage(UNCACHED_TOKENS, tokens - UNCACHED_TOKENS - cached, cached, output)


@dataclass
class CostTotals:
    """The running totals that a session writes as its cost state."""

    started_ms: int
    by_model: dict[str, AnswerUsage] = field(default_factory=dict)

    def count(self, model: DemoModel, usage: AnswerUsage) -> None:
        self.by_model[model.id] = self.by_model.get(model.id, NO_TOKENS).plus(usage)

    def line(self, session_id: str, clock: DemoClock) -> DemoJson:
        models = {name: _model_cost(name, usage) for name, usage in self.by_model.items()}
        lasted = max(0, to_millis(clock.at) - self.started_ms)
        return shape(
            "cost",
            session=session_id,
            usd=round(sum(model["costUSD"] for model in models.values()), 6),
            api_ms=lasted // 3,
            tool_ms=lasted // 9,
            ms=lasted,
            started_ms=self.started_ms,
            models=models,
        )


def _model_cost(name: str, usage: AnswerUsage) -> DemoJson:
    weighted = usage.uncached + usage.output * 5 + usage.read / 10 + usage.written * 1.25
    cost = weighted * MODEL_OF_ID[name].usd_per_million / 1_000_000
    return shape("cost of a model", usd=round(cost, 6), **asdict(usage))


def request_params(model: DemoModel) -> DemoJson:
    """Return the parameters of a request; a model without effort thinks with a budget."""
    thinking: DemoJson = {"type": "adaptive", "display": "omitted"}
    if model.effort is None:
        budget = model.max_output - 1
        thinking = {"budget_tokens": budget, "type": "enabled", "display": "omitted"}
    params = shape("request", model=model.id, max_tokens=model.max_output, thinking=thinking)
    return params if model.effort is None else params | {"output_config": {"effort": model.effort}}


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
        line |= {"keep": self.keep, "tail": tail}
        line |= shape("cache control", last=self.keep + len(tail) - 1)
        self.chain.add_unchained(line | {"requestDigest": content_digest([self.base, tail])})
        self.base, self.keep = request_id, self.keep + len(tail)
        self.pending, self.unstored = [], []
        return request_id

    def _head(self, kind: str) -> DemoJson:
        head: DemoJson = {"type": kind, "sessionId": self.chain.origin.session_id}
        if self.chain.agent_id is not None:
            head["agentId"] = self.chain.agent_id
        return head

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
    return {"type": "text", "text": text}


def thinking_block(size: int) -> DemoJson:
    """Return a thought: its text is left out, its signature is there."""
    return {
        "type": "thinking",
        "thinking": "",
        "signature": "EqQB" + "CkYICxgCKkDKK1b" * (size // 15),
    }


def tool_use_block(tool_use_id: str, call: DemoToolCall) -> DemoJson:
    return {"type": "tool_use", "id": tool_use_id, "name": call.name, "input": call.input}


def tool_result_block(tool_use_id: str, output: str | list[DemoJson]) -> DemoJson:
    return {"tool_use_id": tool_use_id, "type": "tool_result", "content": output}


def stop_reason(blocks: list[DemoJson]) -> str:
    asks = any(block["type"] == "tool_use" for block in blocks)
    return "tool_use" if asks else "end_turn"


@dataclass(frozen=True)
class PendingToolCall:
    """A tool call that has no result yet: who asked, under which id, for what."""

    line_id: str
    tool_use_id: str
    call: DemoToolCall


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
        message = shape(
            "answer",
            id=self.chain.ids.message(),
            model=self.model.id,
            stop_reason=stop_reason(blocks),
            usage=usage.fields(),
        )
        ids = [
            self._block_line(message, block, place, request_id)
            for place, block in enumerate(blocks)
        ]
        self.requests.add_answer(blocks)
        self.tokens = usage.context
        self.spent_tokens += usage.written + usage.output
        self.totals.count(self.model, usage)
        return ids

    def tool_result(self, pending: PendingToolCall) -> None:
        """Write what a tool gave back; its parent is the line that asked for it."""
        call, self.chain.parent = pending.call, pending.line_id
        content = [tool_result_block(pending.tool_use_id, call.output) | {"is_error": False}]
        after: DemoJson = dict(self.result_fields(call))
        if call.name == "Bash":
            after["sandboxed"] = False
        after |= {
            "sourceToolAssistantUUID": pending.line_id,
            "permissionDecision": ACCEPTED_PERMISSION,
        }
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
        return self.chain.add(
            shape("turn prompt", prompt_id=self.prompt_id, content=content), after
        )

    def _note_tools(self, blocks: Iterable[DemoJson]) -> None:
        named = [block["name"] for block in blocks if block["type"] == "tool_use"]
        new = [name for name in dict.fromkeys(named) if name not in self.tools_used]
        self.tools_used += new
        if new and self.chain.agent_id is None:
            self.chain.add_note("tools-used", tools=list(self.tools_used))

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
