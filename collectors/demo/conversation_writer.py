"""Writes a conversation as 2.1.329 does: requests, attachments, answers and tool results."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from .demo_data import CLIENT, MODEL_OF_ID, DemoJson, DemoModel, DemoToolCall, shape
from .demo_transcript import (
    DemoClock,
    TranscriptChain,
    content_digest,
    encode_json,
    format_time,
    to_millis,
)

UNCACHED_TOKENS = 6  # input tokens that no cache holds: the client sends next to nothing uncached

# About what the client really writes, in characters.
SYSTEM_PART_CHARS = (8_200, 2_400, 3_600, 3_000, 4_200)
TOOL_DESCRIPTION_CHARS = 2_600
AGENT_LINE_CHARS = 80
SKILL_LINE_CHARS = 90
TOKEN_BUDGET = 15_000_000  # what the client counts down from in its reminder


class AnswerUsage(NamedTuple):
    """The four token counts of one answer; their first three are the context."""

    uncached: int = 0
    written: int = 0  # to the cache
    read: int = 0  # from the cache
    output: int = 0

    @property
    def context(self) -> int:
        return self.uncached + self.written + self.read

    @classmethod
    def of_fields(cls, usage: DemoJson) -> AnswerUsage:
        """Read the usage object of an answer that was written."""
        cached = (usage["cache_creation_input_tokens"], usage["cache_read_input_tokens"])
        return cls(usage["input_tokens"], *cached, usage["output_tokens"])

    def fields(self, kind: str = "usage", **more: object) -> DemoJson:
        return shape(kind, **self._asdict(), **more)

    def plus(self, other: AnswerUsage) -> AnswerUsage:
        return AnswerUsage(*map(sum, zip(self, other, strict=True)))


def split_usage(tokens: int, before: int, output: int) -> AnswerUsage:
    """Return counts that add up to `tokens`: what was there before comes from the cache."""
    cached = max(0, min(before, tokens - UNCACHED_TOKENS))
    return AnswerUsage(UNCACHED_TOKENS, tokens - UNCACHED_TOKENS - cached, cached, output)


class CacheLoss(NamedTuple):
    """Why the next request misses the cache, and how much it still reads."""

    reason: str | None  # as the API names it; None where it says nothing
    still_read: int = 0

    def diagnostics(self, before: int) -> DemoJson:
        if self.reason is None:
            return {"diagnostics": None}
        return shape("cache miss", reason=self.reason, missed=before)


@dataclass
class CostTotals:
    started_ms: int
    by_model: dict[str, AnswerUsage] = field(default_factory=dict)

    def count(self, model_id: str, usage: AnswerUsage) -> None:
        self.by_model[model_id] = self.by_model.get(model_id, AnswerUsage()).plus(usage)

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
    return usage.fields("cost of a model", usd=round(cost, 6))


def text_block(text: str) -> DemoJson:
    return {"type": "text", "text": text}


def thinking_block(size: int) -> DemoJson:
    """Return a thought: its text is left out, its signature is there."""
    signature = "EqQB" + "CkYICxgCKkDKK1b" * (size // 15)
    return {"type": "thinking", "thinking": "", "signature": signature}


def tool_result_block(tool_use_id: str, output: str | list[DemoJson]) -> DemoJson:
    return {"tool_use_id": tool_use_id, "type": "tool_result", "content": output}


def stop_reason(blocks: list[DemoJson]) -> str:
    return "tool_use" if any(block["type"] == "tool_use" for block in blocks) else "end_turn"


@cache
def filler_text(size: int) -> str:
    """Return about `size` characters of instructions that nobody needs to read."""
    sentence = ". ".join(words.capitalize() for words in CLIENT.instructions) + ". "
    return (sentence * (size // len(sentence) + 1))[:size].rstrip() + "."


def tool_schemas(server_tools: tuple[str, ...] = ()) -> list[DemoJson]:
    text = filler_text(TOOL_DESCRIPTION_CHARS)
    names = (*CLIENT.tools, *server_tools)
    return [shape("tool", name=name, description=f"{name}: {text}") for name in names]


def agent_lines() -> list[str]:
    return [f"- {kind}: {filler_text(AGENT_LINE_CHARS)}" for kind in CLIENT.agent_types]


@dataclass
class RequestLog:
    """Keeps what was sent so far and writes the lines of the next request."""

    chain: TranscriptChain
    model: DemoModel
    source: str
    system: tuple[str, ...]
    server_tools: tuple[str, ...] = ()  # of tool servers, sent with the client's own
    base: str | None = None
    keep: int = 0
    pending: list[DemoJson] = field(default_factory=list)
    unstored: list[str] = field(default_factory=list)  # answers: sent again, never stored as blobs
    shape_hash: str = ""

    def add_message(self, role: str, content: str | list[DemoJson]) -> None:
        self.pending.append({"role": role, "content": content})

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
        digests = [content_digest(message) for message in self.pending]
        for digest, message in zip(digests, self.pending, strict=True):
            self._write("api-request-blob", hash=digest, message=message)
        tail = [*self.unstored, *digests]
        request_id = self.chain.ids.uuid()
        base = {} if self.base is None else {"base": self.base}
        self._write(
            "api-request",
            id=request_id,
            **self._sent_at(),
            querySource=self.source,
            shapeHash=self.shape_hash,
            params=self._params(),
            **base,
            keep=self.keep,
            tail=tail,
            **shape("cache control", last=self.keep + len(tail) - 1),
            requestDigest=content_digest([self.base, tail]),
        )
        self.base, self.keep = request_id, self.keep + len(tail)
        self.pending, self.unstored = [], []
        return request_id

    def _write_shape(self) -> None:
        opening = text_block("You are Claude Code, Anthropic's official CLI.")
        system = [opening, text_block("\n\n".join(self.system))]
        content: DemoJson = {"system": system, "tools": tool_schemas(self.server_tools)}
        self.shape_hash = content_digest(content)
        self._write(
            "api-request-shape", shapeHash=self.shape_hash, **self._sent_at(), shape=content
        )

    def _write(self, kind: str, **fields: object) -> None:
        head: DemoJson = {"type": kind, "sessionId": self.chain.origin.session_id}
        if self.chain.agent_id is not None:
            head["agentId"] = self.chain.agent_id
        self.chain.sink.add(head | fields)

    def _sent_at(self) -> DemoJson:
        moment = format_time(self.chain.clock.tick())
        return {"timestamp": moment, "version": self.chain.origin.version}

    def _params(self) -> DemoJson:
        """Return a request's parameters; a model without effort thinks with a budget."""
        kind = "request without effort" if self.model.effort is None else "request"
        return shape(kind, model=self.model, budget=self.model.max_output - 1)


def _rendered(text: str) -> DemoJson:
    """Return the fields that say how an attachment reached the model."""
    return {"rendered": [{"content": text}], "renderedRole": "system"}


def _reminder(text: str) -> DemoJson:
    return _rendered(f"<system-reminder>\n{text}\n</system-reminder>")


ACCEPTED_PERMISSION: DemoJson = {"decision": "accept", "source": "config", "reasonType": "mode"}


@dataclass(frozen=True)
class PendingToolCall:
    line_id: str
    tool_use_id: str
    call: DemoToolCall


class ConversationWriter:
    def __init__(
        self,
        chain: TranscriptChain,
        model: DemoModel,
        source: str,
        system: tuple[str, ...],
        totals: CostTotals,
    ) -> None:
        self.chain = chain
        self.model = model
        self.requests = RequestLog(chain, model, source, system)
        self.totals = totals
        self.tokens = 0
        self.spent_tokens = 0
        self.prompt_id = chain.ids.uuid()
        self.tools_used: list[str] = []
        self.has_tool_snapshot = False
        self.next_loss: CacheLoss | None = None
        self.is_typed = chain.origin.entrypoint == "cli"  # else a program sends the prompts
        self.attribution: DemoJson = {}
        is_named = self.is_typed and chain.agent_id is None
        # Later lines of a typed session name their session twice.
        self.lineage: DemoJson = {"session_id": chain.origin.session_id} if is_named else {}
        self._opening_lineage: DemoJson = {}  # the opening lines have it only after a compaction

    def answer(self, blocks: list[DemoJson], tokens: int, output: int) -> list[str]:
        """Write one answer, a line for each of its blocks, and return the lines' ids."""
        self.chain.clock.advance()
        request_id = self.requests.send()
        loss, self.next_loss = self.next_loss, None
        cached = self.tokens if loss is None else loss.still_read
        usage = split_usage(tokens, cached, output)
        self._note_tools(blocks)
        message = shape(
            "answer",
            id=self.chain.ids.message(),
            model=self.model.id,
            stop_reason=stop_reason(blocks),
            usage=usage.fields(),
        )
        if loss is not None:
            message |= loss.diagnostics(self.tokens)
        ids = [
            self._block_line(message, block, place, request_id)
            for place, block in enumerate(blocks)
        ]
        self.requests.add_answer(blocks)
        self.tokens = usage.context
        self.spent_tokens += usage.written + usage.output
        self.totals.count(self.model.id, usage)
        return ids

    def call_tool(
        self, say: str, call: DemoToolCall, tokens: int, output: int, *before: DemoJson
    ) -> PendingToolCall:
        """Write an answer that calls a tool; `before` are blocks in front of the text."""
        tool_use_id = self.chain.ids.tool_use()
        blocks = [*before, text_block(say), call.block(tool_use_id)]
        return PendingToolCall(self.answer(blocks, tokens, output)[-1], tool_use_id, call)

    def tool_result(self, pending: PendingToolCall) -> None:
        """Write a tool's result; its parent is the line that asked for it."""
        call, self.chain.parent = pending.call, pending.line_id
        content = [tool_result_block(pending.tool_use_id, call.output) | {"is_error": False}]
        # Agents' files have no structured results.
        after: DemoJson = {} if self.chain.agent_id else {"toolUseResult": call.result}
        if call.name == "Bash":
            after["sandboxed"] = False
        self._user_result(content, after, pending.line_id)
        self.add_tokens_left(self.lineage)

    def _user_result(self, content: list[DemoJson], after: DemoJson, asked_by: str) -> None:
        source = {"sourceToolAssistantUUID": asked_by, "permissionDecision": ACCEPTED_PERMISSION}
        self.add_user(content, after | source | self.lineage)
        self.requests.add_message("user", content)
        self.snapshot_once()

    def snapshot_once(self) -> None:
        """Write the system prompt and the tools as they are after a conversation's first answer."""
        if self.has_tool_snapshot:
            return
        tools = [
            {"name": tool["name"], "description": tool["description"], "schema": tool}
            for tool in tool_schemas()
        ]
        system = self.requests.system
        self._attach("snapshot with tools", self.lineage, system=system, tools=tools)
        self.has_tool_snapshot = True

    def add_user(
        self,
        content: str | list[DemoJson],
        after: DemoJson,
        line_id: str | None = None,
        **flags: object,
    ) -> None:
        head = shape("turn prompt", prompt_id=self.prompt_id, content=content)
        self.chain.add(head | flags, after, line_id)

    def _note_tools(self, blocks: list[DemoJson]) -> None:
        names = [block["name"] for block in blocks if block["type"] == "tool_use"]
        new = [name for name in dict.fromkeys(names) if name not in self.tools_used]
        self.tools_used += new
        if new and self.chain.agent_id is None:
            self.chain.add_note("tools-used", tools=list(self.tools_used))

    def _block_line(self, message: DemoJson, block: DemoJson, place: int, request_id: str) -> str:
        head: DemoJson = {"message": message | {"content": [block]}}
        if block["type"] == "tool_use":
            head["toolInputStreamMs"] = 1 + place
        place_of_block = shape(
            "block of an answer", place=place, request_id=request_id, model=self.model
        )
        head |= place_of_block | self.attribution | {"type": "assistant"}
        effort: DemoJson = {} if self.model.effort is None else {"effort": self.model.effort}
        after = effort | {"perTurnEffort": self.model.effort, "madeBy": "model"}
        return self.chain.add(head, after | self.lineage)

    def add_opening(self) -> None:
        self.add_environment()
        self.add_tools("tools and servers")
        self.add_agents()
        self.add_skills()

    def add_reopening(self) -> None:
        """Write what comes back right after a compaction's summary."""
        self._opening_lineage = self.lineage
        self.add_tools()
        self.add_agents()
        self.add_skills()
        self.add_environment()

    def add_environment(self) -> None:
        """Write where the client runs and which model it uses."""
        self._announce("environment", filler_text(240), cwd=self.chain.origin.cwd)
        text = f"You are powered by {self.model.name} ({self.model.id})."
        self._announce("model", text, model=self.model, text=text)

    def add_tools(self, kind: str = "tools") -> None:
        """Write the tools whose schemas are loaded when they are needed."""
        names = CLIENT.deferred_tools
        self._announce(kind, "Deferred tools: " + ", ".join(names), names=names)

    def add_agents(self) -> None:
        lines = agent_lines()
        self._announce("agents", "\n".join(lines), lines=lines, client=CLIENT)

    def add_skills(self) -> None:
        names = CLIENT.skills
        content = "\n".join(f"- {name}: {filler_text(SKILL_LINE_CHARS)}" for name in names)
        digests = [content_digest(name)[:16] for name in names]
        about = {"content": content, "count": len(names), "names": names, "digests": digests}
        self._announce("skills", content, **about)

    def add_session(self) -> None:
        """Write what is added once the prompt is there."""
        self._attach("session", self.lineage)
        day = self.chain.clock.at.date().isoformat()
        self._attach("date", _reminder(f"Today's date is {day}.") | self.lineage, day=day)

    def add_system(self) -> None:
        """Write how commits are signed, and the system prompt as the conversation begins."""
        commit = f"Co-Authored-By: Claude {self.model.name} <noreply@anthropic.com>"
        after = _rendered(filler_text(180)) | {"renderedRole": "user"}
        after["renderedBesideToolResult"] = True
        self._attach("signature", after | self.lineage, commit=commit)
        self._attach("snapshot", self.lineage, system=self.requests.system)

    def add_tokens_left(self, lineage: DemoJson) -> None:
        left = TOKEN_BUDGET - self.spent_tokens
        text = f"<total_tokens>{left} tokens left</total_tokens>"
        self._attach("tokens left", _reminder(text) | lineage, text=text)

    def add_hook_context(self, agent_kind: str, text: str) -> None:
        context = {"hookEventName": "SubagentStart", "additionalContext": text}
        output = encode_json({"hookSpecificOutput": context}).decode()
        name, ids = f"SubagentStart:{agent_kind}", self.chain.ids
        self._attach("hook success", {}, name=name, id=ids.uuid(), output=output)
        reminder = _reminder(f"SubagentStart hook additional context: {text}")
        self._attach("hook context", reminder, text=text, id=ids.uuid())

    def _announce(self, kind: str, rendered: str, /, **values: object) -> None:
        """Write an attachment of the opening, with the text as which it reached the model."""
        self._attach(kind, _rendered(rendered) | self._opening_lineage, **values)

    def _attach(self, kind: str, after: DemoJson, /, **values: object) -> None:
        attachment = shape(f"attachment {kind}", **values)
        self.chain.add({"attachment": attachment, "type": "attachment"}, after)
