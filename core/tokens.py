"""Tokens of a text, estimated with the table that the package ships; never by the network."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tiktoken import Encoding

TABLE: Final = "cl100k_base.tiktoken"

TABLE_SHA256: Final = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"
"""As in tiktoken's own source (tiktoken_ext/openai_public.py, 0.14)."""

_PATTERN: Final = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
    r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)
"""The split of cl100k_base, from the same source."""

CHUNK_CHARS: Final = 50_000
"""tiktoken slows down on one very long run of letters; a text is counted in pieces."""


def estimate_tokens(text: str) -> int:
    """Estimate a text's tokens with cl100k_base: a proxy, Claude's own tokenizer is not public."""
    return sum(map(len, encode(text)))


def encode(text: str) -> Iterator[list[int]]:
    """Give the ids of a text's tokens in cl100k_base, in chunks that no text slows down."""
    encoding = _encoding()
    for start in range(0, len(text), CHUNK_CHARS):
        yield encoding.encode_ordinary(text[start : start + CHUNK_CHARS])


def token_bytes(token: int) -> bytes:
    """Give what one token of cl100k_base stands for."""
    return _encoding().decode_single_token_bytes(token)


def count_of(estimated: int | None, text: str) -> int:
    """Give the estimate of a text's tokens, made now where nobody has made it yet."""
    return estimate_tokens(text) if estimated is None else estimated


@cache
def _encoding() -> Encoding:
    # tiktoken would keep a second copy in the shared temporary folder.
    os.environ.setdefault("TIKTOKEN_CACHE_DIR", "")
    # Imported late: nothing before the first paint needs them.
    from importlib.resources import as_file, files

    from tiktoken import Encoding
    from tiktoken.load import load_tiktoken_bpe

    with as_file(files("ctxtop.core.data") / TABLE) as path:
        ranks = load_tiktoken_bpe(str(path), expected_hash=TABLE_SHA256)
    return Encoding(name="cl100k_base", pat_str=_PATTERN, mergeable_ranks=ranks, special_tokens={})
