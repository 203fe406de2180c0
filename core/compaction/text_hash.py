"""The hash of a text, by which it is known again without being kept."""

from __future__ import annotations

import hashlib
from typing import Final

CHUNK_CHARS: Final = 1 << 16
"""Characters that are written as bytes at once: a text of many MB is not there twice."""


def text_hash(text: str, hex_digits: int) -> str:
    """Give the first hex digits of the SHA-256 of a text in UTF-8, half signs as they are."""
    hashed = hashlib.sha256()
    for start in range(0, len(text), CHUNK_CHARS):
        hashed.update(text[start : start + CHUNK_CHARS].encode("utf-8", "surrogatepass"))
    return hashed.hexdigest()[:hex_digits]
