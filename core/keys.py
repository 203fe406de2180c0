"""Short keys for long ids: what only has to be told apart is stored in eight bytes."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

KEY_BYTES: Final = 8
"""SQLite's largest integer; two of a million ids in one file meet once in 37 million files."""


def text_key(text: str) -> int:
    """Make a signed 64-bit key of a text; equal texts have equal keys, on every machine."""
    digest = blake2b(text.encode("utf-8", "replace"), digest_size=KEY_BYTES).digest()
    return int.from_bytes(digest, "big", signed=True)
