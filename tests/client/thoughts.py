"""Thinking as the API hands it out, and what it says when it is sent back changed.

Source of the rules: the platform's pages "preserved thinking" and "prefix checks" (2026-10), and
issues that quote the answers.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from .validator import blocks_of, open_answers

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]

PRESERVING: Final = re.compile(
    r"claude-(?:fable-5-[12]|mythos-5-[12]|opus-5-5|sonnet-5-5|haiku-5-5)"
)
"""Models that bind thinking to what stood before it."""

UNSENT: Final = "x-anthropic-billing-header:"
"""How a block of `system` begins that the API takes out before the model reads it."""

_PLACED: Final = "Invalid `signature` in `thinking` block"

BOUND: Final = (
    f"{_PLACED}. The block is bound to a different conversation. Remove the block, or set "
    '`thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
)

LATEST: Final = (
    "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. "
    "These blocks must remain as they were in the original response."
)


@dataclass(frozen=True, slots=True)
class HandedOut:
    """One block of thinking as it left the API."""

    text: str
    prefix: str
    """Hash of the system prompt, the tools and all that was said before, thinking apart."""
    before: str | None
    """Signature of the thinking before it."""


class Thoughts:
    """All thinking that was handed out, by its signature."""

    def __init__(self) -> None:
        self._handed: dict[str, HandedOut] = {}
        self._begun: set[str] = set()
        """Calls whose answer began with thinking."""
        self._thought: dict[str, list[str]] = {}
        """Signatures of all thinking of a call's answer."""

    def hand_out(self, number: int, body: Json, blocks: list[Json]) -> None:
        """Sign the thinking of an answer, and remember what it follows."""
        before = next(
            (one["signature"] for _, _, one in reversed([*_thinking(body.get("messages", []))])),
            None,
        )
        prefix = _Prefix(body)
        said = [*_said(body.get("messages", []))]
        for place, block in enumerate(blocks):
            if block["type"] == "thinking":
                signed = f"thought {number} {place}".encode()
                block["signature"] = base64.b64encode(signed).decode()
                handed = HandedOut(block["thinking"], prefix.upto(said), before)
                self._handed[block["signature"]] = handed
                before = block["signature"]
            else:
                said.append(("assistant", block))
        thought = [block["signature"] for block in blocks if block["type"] == "thinking"]
        self._thought |= {block["id"]: thought for block in blocks if block["type"] == "tool_use"}
        if blocks and blocks[0]["type"] == "thinking":
            self._begun |= {block["id"] for block in blocks if block["type"] == "tool_use"}

    def refusals(self, body: Json) -> Iterator[str]:
        """Yield an error for each thinking block that was changed, moved or is missing."""
        messages: list[Json] = body.get("messages", [])
        answers = [place for place, one in enumerate(messages) if one["role"] == "assistant"]
        latest = answers[-1] if answers else None
        for place, number, block in _thinking(messages):
            handed = self._handed.get(str(block.get("signature")))
            if handed is None or handed.text != block.get("thinking"):
                words = LATEST if place == latest else _PLACED
                yield f"messages.{place}.content.{number}: {words}"
        if latest is not None and (body.get("thinking") or {}).get("type") == "enabled":
            first, *more = blocks_of(messages[latest]["content"]) or [{}]
            calls = {block.get("id") for block in (first, *more)}
            if calls & self._begun and first.get("type") not in {"thinking", "redacted_thinking"}:
                yield (
                    f"messages.{latest}.content.0.type: Expected `thinking` or "
                    f"`redacted_thinking`, but found `{first.get('type')}`. When `thinking` is "
                    "enabled, a final `assistant` message must start with a thinking block "
                    "(preceeding the lastmost set of `tool_use` and `tool_result` blocks)."
                )

    def missing(self, body: Json) -> Iterator[str]:
        """Yield an error for each answer of the open turn that lacks thinking it was given with.

        The real API refuses such a request where thinking is `enabled`, and elsewhere goes on
        without what the model had thought.
        """
        messages: list[Json] = body.get("messages", [])
        for place in open_answers(messages):
            blocks = blocks_of(messages[place]["content"])
            there = [block["signature"] for block in blocks if block.get("type") == "thinking"]
            given = [
                signature
                for block in blocks
                for signature in self._thought.get(str(block.get("id")), ())
            ]
            if not set(given) <= set(there):
                yield f"messages.{place}: the thinking of this answer is missing."

    def unbound(self, body: Json) -> Iterator[str]:
        """Yield an error for each thinking block whose preceding context has changed.

        The real API refuses such a request or drops the block, depending on model and
        account. Models that do not preserve thinking have no such check.
        """
        if not PRESERVING.match(str(body.get("model"))):
            return
        messages: list[Json] = body.get("messages", [])
        prefix, before = _Prefix(body), None
        for place, number, block in _thinking(messages):
            handed = self._handed.get(str(block.get("signature")))
            if handed is None:
                continue
            at = f"messages.{place}.content.{number}: {BOUND}"
            # What leads may be left out; what stands between others may not.
            if before is not None and handed.before != before:
                yield f"{at} The `thinking` block that preceded this one is missing."
            elif prefix.upto([*_said(messages, place, number)]) != handed.prefix:
                yield f"{at} What stands before it differs from what it was created with."
            before = block["signature"]


class _Prefix:
    """A hash of what stands before a place in a request; where a cache begins does not count."""

    def __init__(self, body: Json) -> None:
        system = [
            block
            for block in blocks_of(body.get("system"))
            if not str(block.get("text")).startswith(UNSENT)
        ]
        self._head = _plain([system, body.get("tools") or []])

    def upto(self, said: list[tuple[str, Json]]) -> str:
        text = json.dumps([self._head, _plain(said)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: Any) -> Any:  # noqa: ANN401 -- any JSON
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items() if name != "cache_control"}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


def _thinking(messages: list[Json]) -> Iterator[tuple[int, int, Json]]:
    for place, message in enumerate(messages):
        for number, block in enumerate(blocks_of(message.get("content"))):
            if block.get("type") == "thinking":
                yield place, number, block


def _said(
    messages: list[Json], until: int | None = None, number: int = 0
) -> Iterator[tuple[str, Json]]:
    """Yield the role and content of all blocks before a position, except thinking.

    The position is block `number` of message `until`; None means the end.
    """
    for place, message in enumerate(messages):
        blocks = blocks_of(message.get("content"))
        if place == until:
            blocks = blocks[:number]
        yield from (
            (str(message["role"]), block)
            for block in blocks
            if block.get("type") not in {"thinking", "redacted_thinking"}
        )
        if place == until:
            return
