"""The end of a transcript: what its last answer saw, and when it was compacted last."""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING, Final

import msgspec

from ..clean import clean_title
from ..regular import open_regular
from ..times import to_ms
from .glance import look_at
from .lines import NotJsonError, ShapeError
from .usage import read_usage

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SYNTHETIC: Final = "<synthetic>"
"""The model of answers that the client wrote itself."""


class Newest(msgspec.Struct, frozen=True):
    """What the end of a transcript says of its context."""

    tokens: int | None = None
    """Input side of the last answer; None where none came since the last compaction."""
    model: str | None = None
    client_version: str | None = None
    compacted_at: int | None = None
    """Of the last compaction among these lines; milliseconds since 1970 (UTC)."""


class _Boundary(msgspec.Struct):
    type: str | None = None
    subtype: str | None = None
    timestamp: str | None = None


class _Identity(msgspec.Struct, rename="camel"):
    model_id: str | None = None


class _Attachment(msgspec.Struct):
    identity: _Identity | None = None


class _Introduction(msgspec.Struct):
    attachment: _Attachment | None = None


def newest(lines: Sequence[bytes]) -> Newest:
    """Read the last answer that counts, and the last compaction; lines that are none are none."""
    found = Newest()
    for line in reversed(lines):
        if b'"compact_boundary"' in line and (at := _boundary_at(line)) is not None:
            return msgspec.structs.replace(found, compacted_at=at)
        if found.tokens is None and b'"usage"' in line and b'"assistant"' in line:
            found = _answer(line) or found
    return found


def introduced_model(transcript: Path) -> str | None:
    """Find the model that the client last introduced, with its mark for a large window.

    Raises OSError. Clients before 2.1.2xx introduce none.
    """
    with open_regular(transcript) as file:
        try:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:
            # An empty file.
            return None
        with data:
            place = data.rfind(b'"modelId"')
            if place < 0:
                return None
            start, end = data.rfind(b"\n", 0, place) + 1, data.find(b"\n", place)
            line = data[start : end if end > 0 else len(data)]
    try:
        said = msgspec.json.decode(line, type=_Introduction)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    identity = said.attachment.identity if said.attachment else None
    return clean_title(identity.model_id) if identity and identity.model_id else None


def _boundary_at(line: bytes) -> int | None:
    try:
        said = msgspec.json.decode(line, type=_Boundary)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if (said.type, said.subtype) != ("system", "compact_boundary"):
        return None
    return to_ms(said.timestamp) or 0


def _answer(line: bytes) -> Newest | None:
    try:
        said = look_at(line)
    except (NotJsonError, ShapeError):
        return None
    message = said.message
    if said.type != "assistant" or said.is_sidechain or said.is_api_error_message:
        return None
    if message is None or message.usage is None or message.model in {None, SYNTHETIC}:
        return None
    _, seen = read_usage(message.usage)
    model = clean_title(message.model or "")
    return Newest(seen, model, clean_title(said.version or "") or None) if seen else None
