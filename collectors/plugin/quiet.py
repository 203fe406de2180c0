"""Whether a session's fill is worth a whole look: most tool calls come nowhere near a threshold.

A whole look takes ten times what a hook may: after one, this says until where none is needed.
"""

from __future__ import annotations

import os
import time

from .log import SAFELY, decode, log_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any, Final

QUIET_S: Final = 60.0
"""After this a whole look is due all the same: a policy or a window may have changed."""

NO_END: Final = 1 << 40
"""Tokens, where no threshold is left."""

_TAIL_BYTES: Final = 256 * 1024
_KEY: Final = b'"usage":{'
_INPUT: Final = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


def rough_fill(transcript: Path) -> int | None:
    """Read the input of the last usage in a file's end, whoever's it is; None for none."""
    try:
        descriptor = os.open(transcript, os.O_RDONLY | SAFELY)
    except OSError:
        return None
    try:
        size = os.fstat(descriptor).st_size
        tail = os.pread(descriptor, _TAIL_BYTES, max(0, size - _TAIL_BYTES))
    except OSError:
        return None
    finally:
        os.close(descriptor)
    place = tail.rfind(_KEY)
    end = tail.find(b"\n", place)
    if place < 0 or end < 0:
        return None
    usage = _first_object(tail[place + len(_KEY) - 1 : end].decode("utf-8", "replace"))
    counts = [usage.get(name) for name in _INPUT]
    return sum(count for count in counts if type(count) is int)


def is_quiet(store: Path, session_id: str, tokens: int | None) -> bool:
    """Say whether nothing can be due at this rough fill."""
    if tokens is None:
        return False
    try:
        descriptor = os.open(_path(store, session_id), os.O_RDONLY | SAFELY)
        try:
            age_s = time.time() - os.fstat(descriptor).st_mtime
            kept = decode(os.read(descriptor, 200).decode("ascii", "replace")) or {}
        finally:
            os.close(descriptor)
    except OSError:
        return False
    low, high = kept.get("from"), kept.get("below")
    if type(low) is not int or type(high) is not int:
        return False
    return 0 <= age_s < QUIET_S and low <= tokens < high


def keep_quiet(store: Path, session_id: str, tokens: int | None, tokens_left: int) -> None:
    """Note that nothing is due until so many tokens more; raises OSError."""
    if tokens is None:
        return
    path = _path(store, session_id)
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | SAFELY
    descriptor = os.open(path, flags, 0o600)
    try:
        os.write(descriptor, f'{{"from":{tokens},"below":{tokens + tokens_left}}}'.encode())
    finally:
        os.close(descriptor)


def _first_object(text: str) -> dict[str, Any]:
    """Decode the object that a text begins with: of `usage`, which nests three deep at the most."""
    depth = 0
    for place, sign in enumerate(text):
        depth += (sign == "{") - (sign == "}")
        if not depth:
            return decode(text[: place + 1]) or {}
    return {}


def _path(store: Path, session_id: str) -> str:
    name = "".join(sign if sign.isalnum() or sign == "-" else "_" for sign in session_id[:64])
    return f"{log_folder(str(store))}/said/{name}.quiet"
