"""What was really sent to the API: which messages, and where each part of a request stands.

Client 2.1.329 writes one `api-request` line a request, which names its messages by hash.
A message that was made up for the request stands in an `api-request-blob` line, and the
system prompt with the tools in an `api-request-shape` line; one that is the conversation's
own has no such line: its hash is that of the user's or assistant's lines themselves.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, Final

import msgspec

from ...core.keys import text_key
from ...core.store.facts import PartFact, RequestFact
from ..clean import clean_title
from ..times import to_ms
from .lines import Count  # noqa: TC001 -- msgspec reads it

if TYPE_CHECKING:
    from collections.abc import Iterable

MESSAGE: Final = "message"
SHAPE: Final = "shape"

PART: Final = re.compile(
    rb'\{"type":"api-request-(?:(blob)|shape)"'
    rb'(?:,"(?:sessionId|agentId|timestamp|version)":"[^"\\]{0,200}"){0,4}'
    rb',"(?:hash|shapeHash)":"([^"\\]{1,200})"'
)
"""The head of a line that holds a part of a request: nothing behind its hash is looked at."""

REQUEST: Final = b"api-request"
"""The type of a request's line, with which those of its parts begin."""


class _Params(msgspec.Struct):
    model: str | None = None


class _Request(msgspec.Struct, rename="camel"):
    id: str
    timestamp: str | None = None
    query_source: str | None = None
    shape_hash: str | None = None
    params: _Params | None = None
    base: str | None = None
    keep: Count = 0
    tail: list[str] = []


_request: Final = msgspec.json.Decoder(_Request)


def read_part(offset: int, data: bytes | memoryview) -> PartFact | None:
    """Read where a part of a request stands, from the head of its line alone."""
    found = PART.match(data)
    if not found:
        return None
    kind = MESSAGE if found[1] else SHAPE
    return PartFact(offset, len(data), text_key(found[2].decode("utf-8", "replace")), kind)


def read_request(offset: int, data: bytes | memoryview) -> RequestFact | None:
    """Read a request's line; None where a field is missing or of another kind."""
    try:
        said = _request.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return RequestFact(
        offset=offset,
        length=len(data),
        request=text_key(said.id),
        at=to_ms(said.timestamp),
        model=clean_title(said.params.model) if said.params and said.params.model else None,
        query_source=clean_title(said.query_source) if said.query_source else None,
        shape=text_key(said.shape_hash) if said.shape_hash else None,
        base=text_key(said.base) if said.base else None,
        keep=said.keep,
        tail=pack_keys(map(text_key, said.tail)),
    )


def pack_keys(keys: Iterable[int]) -> bytes:
    """Put keys side by side as the store keeps them."""
    listed = list(keys)
    return struct.pack(f">{len(listed)}q", *listed)
