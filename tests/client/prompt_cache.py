"""A prompt cache like the API's: what it holds, what a request reads of it, why it missed."""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from .counting import count_request
from .script import texts_of

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]

HEADER: Final = "x-lab-cache"
"""Of a request that is answered from a cache: JSON with its name, and how many seconds
later than now the request is sent."""

FORGETS: Final = "THE SERVICE FORGETS"
"""In a prompt: all that was kept before is lost."""

LIFETIMES_S: Final = {"5m": 300, "1h": 3_600}

LEAST_TOKENS: Final = 1_024
"""A shorter prefix is not kept."""

LOOK_BACK: Final = 20
"""Blocks before a mark among which the API looks for one that ended a prefix it kept."""

KNOWN_FOR_S: Final = 3_600
"""How long an earlier request can be compared with; after 82 minutes a real one was not found."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A tool, a block of the system prompt, or a block of a message."""

    section: str
    own: str
    """Digest of itself alone."""
    digest: str
    """Of all that stands before it, too, and of the model."""
    tokens: int
    """Of the request up to its end."""
    lifetime: str | None
    """Where a prefix is to be kept up to here."""


@dataclass(slots=True)
class Cache:
    """The prefixes of one lab that are kept, and the requests that are remembered."""

    until: dict[str, float] = field(default_factory=dict)
    lifetimes: dict[str, str] = field(default_factory=dict)
    requests: dict[str, tuple[float, str, list[Piece]]] = field(default_factory=dict)

    def answer(
        self, message_id: str, body: Json, now: float, *, is_remembered: bool
    ) -> tuple[Json, int]:
        """Return `usage` without its output, and `diagnostics`; and how many tokens were written
        again that the request before it had sent already."""
        pieces = pieces_of(body)
        usage = self._usage(pieces, now)
        reason = self._reason(body, pieces, now)
        again = self._written_again(body, pieces, usage)
        if is_remembered:
            self.requests[message_id] = now, str(body.get("model")), pieces
        diagnostics = reason and {"cache_miss_reason": reason}
        return {"usage": usage, "diagnostics": diagnostics}, again

    def _written_again(self, body: Json, pieces: list[Piece], usage: Json) -> int:
        """Count by the texts themselves, wherever they stand."""
        _, _, before = self._previous(body) or (0.0, "", [])
        sent = Counter(piece.own for piece in before)
        read, start, again = usage["cache_read_input_tokens"], 0, 0
        end = read + usage["cache_creation_input_tokens"]
        for piece in pieces:
            # The same text may stand in several places: each was sent once.
            if start < end and sent[piece.own]:
                sent[piece.own] -= 1
                again += piece.tokens - start if start >= read else 0
            start = piece.tokens
        return again

    def _usage(self, pieces: list[Piece], now: float) -> Json:
        read = self._read(pieces, now)
        before = read
        written = dict.fromkeys(LIFETIMES_S, 0)
        for piece in pieces:
            if piece.lifetime is None or piece.tokens < max(LEAST_TOKENS, read):
                continue
            written[piece.lifetime] += piece.tokens - before
            before = piece.tokens
            self._keep(piece.digest, piece.lifetime, now)
        return {
            "input_tokens": pieces[-1].tokens - before,
            "cache_creation_input_tokens": sum(written.values()),
            "cache_read_input_tokens": read,
            "cache_creation": {
                f"ephemeral_{lifetime}_input_tokens": tokens for lifetime, tokens in written.items()
            },
            "service_tier": "standard",
        }

    def _read(self, pieces: list[Piece], now: float) -> int:
        """Find the longest prefix that is still kept; to read it makes it live longer."""
        for place in _looked_at(pieces):
            digest = pieces[place].digest
            if self.until.get(digest, 0.0) > now:
                for piece in pieces[: place + 1]:
                    if self.until.get(piece.digest, 0.0) > now:
                        self._keep(piece.digest, self.lifetimes[piece.digest], now)
                return pieces[place].tokens
        return 0

    def _keep(self, digest: str, lifetime: str, now: float) -> None:
        self.lifetimes[digest] = lifetime
        self.until[digest] = max(self.until.get(digest, 0.0), now + LIFETIMES_S[lifetime])

    def _previous(self, body: Json) -> tuple[float, str, list[Piece]] | None:
        """Return the request before: the one that the client names, else the newest."""
        if "diagnostics" in body:
            return self.requests.get(body["diagnostics"]["previous_message_id"])
        return next(reversed(self.requests.values()), None)

    def _reason(self, body: Json, pieces: list[Piece], now: float) -> Json | None:
        previous = self._previous(body)
        if previous is None:
            return None
        sent_at, model, before = previous
        if sent_at + KNOWN_FOR_S < now:
            return {"type": "previous_message_not_found"}
        if model != body.get("model"):
            return {"type": "model_changed", "cache_missed_input_tokens": before[-1].tokens}
        return _difference(before, pieces)


def _difference(before: list[Piece], now: list[Piece]) -> Json | None:
    """Name the first section in which a request does not begin as the one before it did."""
    same = 0
    for place, (old, new) in enumerate(zip(before, now, strict=False)):
        if old.digest != new.digest:
            missed = before[-1].tokens - same
            return {
                "type": f"{_section(before[place], now[place])}_changed",
                "cache_missed_input_tokens": missed,
            }
        same = old.tokens
    if len(now) < len(before):
        missed = before[-1].tokens - same
        return {"type": "messages_changed", "cache_missed_input_tokens": missed}
    return None


def _section(old: Piece, new: Piece) -> str:
    """Where a tool was added at the end, the system prompt stands in its place before."""
    return min(old.section, new.section, key=_SECTIONS.index)


_SECTIONS: Final = ("tools", "system", "messages")
"""In the order in which the API puts a request together."""


def _looked_at(pieces: list[Piece]) -> list[int]:
    """List the places of blocks that may end a kept prefix, the longest prefix first."""
    marks = [place for place, piece in enumerate(pieces) if piece.lifetime]
    near = {place for mark in marks for place in range(max(0, mark - LOOK_BACK), mark + 1)}
    return sorted(near, reverse=True)


def pieces_of(body: Json) -> list[Piece]:
    """Cut a request into what the cache compares, in the order in which the API joins it."""
    digest = hashlib.sha256(str(body.get("model")).encode())
    tokens = 0
    found = []
    for section, role, block in _blocks(body):
        plain = {name: value for name, value in block.items() if name != "cache_control"}
        text = json.dumps([section, role, plain], sort_keys=True).encode()
        digest.update(text)
        tokens += _tokens(section, plain)
        mark = block.get("cache_control")
        lifetime = mark.get("ttl", "5m") if mark else None
        own = hashlib.sha256(text).hexdigest()
        found.append(Piece(section, own, digest.hexdigest(), tokens, lifetime))
    return found


def _blocks(body: Json) -> Iterator[tuple[str, str, Json]]:
    for tool in body.get("tools") or []:
        yield "tools", "", tool
    for block in _listed(body.get("system") or []):
        if not block["text"].startswith(_BILLING):
            yield "system", "", block
    for message in body.get("messages", []):
        for block in _listed(message["content"]):
            yield "messages", message["role"], block


_BILLING: Final = "x-anthropic-billing-header"
"""Begins a block that is the client's note to the API, and no part of the prompt."""


def _listed(content: str | list[Json]) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _tokens(section: str, block: Json) -> int:
    if section == "tools":
        return count_request({"system": json.dumps(block)})
    return count_request({"messages": [{"content": [block]}]})


def _newest_of_user(body: Json) -> Json:
    messages: list[Json] = body["messages"]
    return next(one for one in reversed(messages) if one["role"] == "user")


class Caches:
    """One cache for each name that a request's header gives."""

    def __init__(self) -> None:
        self._by_name: dict[str, Cache] = {}

    def answer(self, exchange: Json, message: Json) -> None:
        """Write into a message what the cache says of its request, if that names a cache."""
        if HEADER not in exchange["headers"]:
            return
        asked = json.loads(exchange["headers"][HEADER])
        cache = self._by_name.setdefault(asked["name"], Cache())
        if any(FORGETS in text for text in texts_of(_newest_of_user(exchange["body"]))):
            cache.until.clear()
        now = time.time() + asked["later_s"]
        found, exchange["written_again"] = cache.answer(
            message["id"], exchange["body"], now, is_remembered=exchange["what"] == "answer"
        )
        found["usage"]["output_tokens"] = message["usage"]["output_tokens"]
        message |= found
