"""Someone who talks to a model in 2.1.329: the main conversation or an agent in its own file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .attachments import Attachments
from .usage import Totals, Usage, current_usage, usage_for

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .chain import Chain
    from .model import Json, Model, ToolCall
    from .request_lines import Requests

ACCEPTED: Json = {"decision": "accept", "source": "config", "reasonType": "mode"}


def text_block(text: str) -> Json:
    """Return what an answer says."""
    return {"type": "text", "text": text}


def thinking_block(size: int) -> Json:
    """Return a thought: its text is left out, its signature is there."""
    return {
        "type": "thinking",
        "thinking": "",
        "signature": "EqQB" + "CkYICxgCKkDKK1b" * (size // 15),
    }


def tool_block(tool_use_id: str, call: ToolCall) -> Json:
    """Return the use of a tool."""
    return {"type": "tool_use", "id": tool_use_id, "name": call.name, "input": call.input}


class Speaker:
    """Writes answers and tool results, and keeps count of the context."""

    def __init__(
        self, chain: Chain, model: Model, requests: Requests, totals: Totals, attribution: Json
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
        self.lineage: Json = {"session_id": chain.origin.session_id} if typed else {}
        self.attachments = Attachments(chain, model, self.lineage)

    def answer(self, blocks: list[Json], tokens: int, output: int) -> list[str]:
        """Write one answer, a line for each of its blocks, and return the lines' ids."""
        self.chain.clock.advance()
        request_id = self.requests.send()
        usage = usage_for(tokens, self.tokens, output)
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

    def tool_result(self, tool_use_id: str, call: ToolCall, asked_by: str) -> None:
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
        after: Json = dict(self.result_fields(call))
        if call.name == "Bash":
            after["sandboxed"] = False
        after |= {"sourceToolAssistantUUID": asked_by, "permissionDecision": ACCEPTED}
        self._user(content, after | self.lineage)
        self.requests.add_message({"role": "user", "content": content})
        self.snapshot_once()
        self.attachments.tokens_left(self.spent_tokens, self.lineage)

    def result_fields(self, call: ToolCall) -> Json:
        """Return the structured result; agents' files do not have it."""
        return {"toolUseResult": call.result}

    def snapshot_once(self) -> None:
        """Write the snapshot that follows the first answer of a conversation."""
        if not self.has_tool_snapshot:
            self.attachments.snapshot_with_tools(self.requests.system)
            self.has_tool_snapshot = True

    def _user(self, content: str | list[Json], after: Json) -> str:
        head: Json = {
            "promptId": self.prompt_id,
            "type": "user",
            "message": {"role": "user", "content": content},
        }
        return self.chain.add(head, after)

    def _note_tools(self, blocks: Iterable[Json]) -> None:
        named = [block["name"] for block in blocks if block["type"] == "tool_use"]
        new = [name for name in dict.fromkeys(named) if name not in self.tools_used]
        self.tools_used += new
        if new and self.chain.agent_id is None:
            self.chain.add_note("tools-used", tools=list(self.tools_used))

    def _message(self, blocks: list[Json], usage: Usage) -> Json:
        asks = any(block["type"] == "tool_use" for block in blocks)
        return {
            "id": self.chain.ids.message(),
            "type": "message",
            "role": "assistant",
            "model": self.model.id,
            "stop_sequence": None,
            "content": [],
            "stop_reason": "tool_use" if asks else "end_turn",
            "usage": current_usage(usage),
            "stop_details": None,
        }

    def _block_line(self, message: Json, block: Json, place: int, request_id: str) -> str:
        head: Json = {"message": message | {"content": [block]}}
        if block["type"] == "tool_use":
            head["toolInputStreamMs"] = 1 + place
        head |= {
            "apiBlockIndex": place,
            "requestRef": request_id,
            "requestedModel": self.model.id,
            "promptCacheRequested": "5m",
        }
        head |= self._attribution | {"type": "assistant"}
        after: Json = {} if self.model.effort is None else {"effort": self.model.effort}
        after |= {"perTurnEffort": self.model.effort, "madeBy": "model"}
        return self.chain.add(head, after | self.lineage)
