"""One truth for what a request holds: `usage` and count_tokens say the same."""

from __future__ import annotations

import json
from functools import cache
from typing import Any, Final

from ctxtop.core.measure.tokens import estimate_tokens

Json = dict[str, Any]

FACTOR: Final = 1.25
"""Tokens of this API for one of cl100k_base: what measures has to learn it from the totals."""

TOOLS_PREAMBLE: Final = 500
"""Tokens that the API adds where there are tools; the client takes as many off."""

MEDIA_TOKENS: Final = 1_600

MESSAGE_TOKENS: Final = 4


def count_request(body: Json) -> int:
    """Count what a body of /v1/messages or /v1/messages/count_tokens holds."""
    tools = body.get("tools") or []
    texts = [*_texts(body.get("system")), *(json.dumps(tool) for tool in tools)]
    messages: list[Json] = body.get("messages", [])
    media = 0
    for message in messages:
        for block in _blocks(message.get("content")):
            texts += _texts_of(block)
            parts = [block, *_blocks(block.get("content"))]
            media += sum(part.get("type") in {"image", "document"} for part in parts)
    counted = round(FACTOR * sum(_count(text) for text in texts))
    framed = MESSAGE_TOKENS * len(messages) + (TOOLS_PREAMBLE if tools else 0)
    return counted + framed + media * MEDIA_TOKENS


@cache
def _count(text: str) -> int:
    return estimate_tokens(text)


def _texts(value: object) -> list[str]:
    return [text for block in _blocks(value) for text in _texts_of(block)]


def _blocks(value: object) -> list[Json]:
    if isinstance(value, str):
        return [{"type": "text", "text": value}]
    return [block for block in value if isinstance(block, dict)] if isinstance(value, list) else []


def _texts_of(block: Json) -> list[str]:
    if block.get("type") == "tool_use":
        return [str(block.get("name")), json.dumps(block.get("input"))]
    if block.get("type") == "tool_result":
        return _texts(block.get("content"))
    return [str(block.get("text") or block.get("thinking") or "")]
