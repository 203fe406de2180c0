"""The lines in which 2.1.329 keeps every request that it sent: shape, blobs, request."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from . import filler
from .plumbing import digest_of, stamp

if TYPE_CHECKING:
    from .chain import Chain
    from .model import Json, Model

BETAS = (
    "interleaved-thinking-2025-05-14",
    "context-management-2025-06-27",
    "claude-code-20250219",
    "thinking-token-count-2026-05-13",
    "advanced-tool-use-2025-11-20",
)
EPHEMERAL: Json = {"type": "ephemeral"}


def params_of(model: Model) -> Json:
    """Return the parameters of a request; a model without effort thinks with a budget."""
    params: Json = {"model": model.id, "betas": list(BETAS), "max_tokens": model.max_output}
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
class Requests:
    """Keeps what was sent so far and writes the lines of the next request."""

    chain: Chain
    model: Model
    source: str
    system: tuple[str, ...]
    base: str | None = None
    keep: int = 0
    pending: list[Json] = field(default_factory=list)
    unstored: list[str] = field(default_factory=list)  # answers: sent again, never stored as blobs
    shape_hash: str = ""

    def add_message(self, message: Json) -> None:
        """Take one message into the next request."""
        self.pending.append(message)

    def add_answer(self, blocks: list[Json]) -> None:
        """Take an answer: the next request carries it."""
        self.unstored.append(digest_of({"role": "assistant", "content": blocks}))

    def reset(self) -> None:
        """Start from nothing, as after a compaction."""
        self.base, self.keep, self.shape_hash = None, 0, ""
        self.pending, self.unstored = [], []

    def send(self) -> str:
        """Write the lines of one request and return its id."""
        if not self.shape_hash:
            self._write_shape()
        tail = [*self.unstored, *(digest_of(message) for message in self.pending)]
        for message in self.pending:
            self.chain.add_unchained(
                self._head("api-request-blob") | {"hash": digest_of(message), "message": message}
            )
        request_id = self.chain.ids.uuid()
        line = self._head("api-request") | {
            "id": request_id,
            "timestamp": stamp(self.chain.clock.tick()),
            "version": self.chain.origin.version,
            "querySource": self.source,
            "shapeHash": self.shape_hash,
            "params": params_of(self.model),
        }
        if self.base is not None:
            line["base"] = self.base
        line |= {"keep": self.keep, "tail": tail, "cacheControl": self._cache(len(tail))}
        self.chain.add_unchained(line | {"requestDigest": digest_of([self.base, tail])})
        self.base, self.keep = request_id, self.keep + len(tail)
        self.pending, self.unstored = [], []
        return request_id

    def _head(self, kind: str) -> Json:
        head: Json = {"type": kind, "sessionId": self.chain.origin.session_id}
        if self.chain.agent_id is not None:
            head["agentId"] = self.chain.agent_id
        return head

    def _cache(self, added: int) -> list[Json]:
        last = ["messages", self.keep + added - 1, "content", 0]
        return [
            {"path": ["system", 0], "value": EPHEMERAL},
            {"path": ["system", 1], "value": EPHEMERAL},
            {"path": last, "value": EPHEMERAL},
        ]

    def _write_shape(self) -> None:
        shape: Json = {
            "system": [
                {"type": "text", "text": "You are Claude Code, Anthropic's official CLI."},
                {"type": "text", "text": "\n\n".join(self.system)},
            ],
            "tools": filler.tool_schemas(),
        }
        self.shape_hash = digest_of(shape)
        self.chain.add_unchained(
            self._head("api-request-shape")
            | {
                "shapeHash": self.shape_hash,
                "timestamp": stamp(self.chain.clock.tick()),
                "version": self.chain.origin.version,
                "shape": shape,
            }
        )
