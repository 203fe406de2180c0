"""The end of a transcript that has no line end: a whole line, or half of one."""

from __future__ import annotations

import json
from typing import Final

import msgspec

AROUND: Final = b"\0 \t\r"
"""What can stand around a line's text: a crash can leave NUL bytes (claude-code-formats 1.7)."""

_object: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def whole_length(data: bytes) -> int:
    """Return how many bytes of a last line are a whole JSON object and what stands before it.

    0 for half a line, and for any other value: `12` may be the beginning of `123`, but no object
    is the beginning of another one.
    """
    line = data.rstrip(AROUND)
    text = line.lstrip(AROUND)
    if not (text.startswith(b"{") and text.endswith(b"}")):
        return 0
    return len(line) if _is_object(text) else 0


def _is_object(text: bytes) -> bool:
    try:
        _object.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # Half a sign or a byte that is no UTF-8 is read all the same.
        try:
            return isinstance(json.loads(text.decode("utf-8", "replace")), dict)
        except (ValueError, RecursionError):
            return False
    return True
