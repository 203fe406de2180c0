"""A compaction that no answer follows yet, for the status line: the client still says what was.

Until the next answer its input holds no usage (2.1.329), or that of the answer before (older
clients). The transcript's end has the boundary with the client's own estimate.
"""

from __future__ import annotations

import os

from ..plugin_files import plugin_log

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any, Final


class FreshCompaction:
    """A boundary; a plain class, as the modules of other kinds take too long to import."""

    def __init__(self, tokens: int | None, timestamp: str, before_tokens: int | None) -> None:
        self.tokens = tokens  # the client's estimate of what it left; None where it wrote none
        self.timestamp = timestamp  # as in the transcript
        self.before_tokens = before_tokens  # input side of the last answer; None if not seen


TAIL_BYTES: Final = 1024 * 1024
"""Read of a transcript's end: what the client restores after a compaction has about 200 kB."""

INPUT_FIELDS: Final = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
_BOUNDARY: Final = b'"compact_boundary"'


def find_fresh_compaction(transcript: str) -> FreshCompaction | None:
    """Find a boundary that no answer follows in a transcript's end; raises OSError."""
    with plugin_log.open_safely(transcript, "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
        data = file.read(TAIL_BYTES)
    if _BOUNDARY not in data:
        return None
    lines = data.split(b"\n")
    for place in range(len(lines) - 1, -1, -1):
        line = lines[place]
        if _BOUNDARY in line and (found := _read_boundary(line)) is not None:
            return FreshCompaction(*found, _last_answer(lines[:place]))
        if _answer_tokens(line) is not None:
            return None
    return None


def _read_boundary(line: bytes) -> tuple[int | None, str] | None:
    found = _decode(line)
    if found.get("type") != "system" or found.get("subtype") != "compact_boundary":
        return None
    details = found.get("compactMetadata")
    details = details if isinstance(details, dict) else {}
    kept = details.get("preservedMessages")
    anchor = kept.get("anchorUuid") if isinstance(kept, dict) else None
    if anchor is not None and anchor == found.get("uuid") and details.get("durationMs") == 0:
        return None  # only what a rewind kept
    left = details.get("postTokens")
    return (left if type(left) is int and left > 0 else None), str(found.get("timestamp"))


def _last_answer(lines: list[bytes]) -> int | None:
    answers = (_answer_tokens(line) for line in reversed(lines))
    return next((tokens for tokens in answers if tokens is not None), None)


def _answer_tokens(line: bytes) -> int | None:
    """Return the input side of an answer in the main conversation; None for any other line."""
    if b'"usage"' not in line or b'"assistant"' not in line:
        return None
    found = _decode(line)
    message = found.get("message")
    if found.get("type") != "assistant" or found.get("isSidechain") is True:
        return None
    usage = message.get("usage") if isinstance(message, dict) else None
    if not isinstance(usage, dict):
        return None
    counts = (usage.get(name) for name in INPUT_FIELDS)
    # An answer without tokens is the client's own line about an error.
    return sum(count for count in counts if type(count) is int) or None


def _decode(line: bytes) -> dict[str, Any]:
    return plugin_log.decode_object(line.decode("utf-8", "replace").strip()) or {}
