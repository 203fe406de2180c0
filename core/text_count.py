"""How many tokens a text has, for every model: counted once, and kept by what it says."""

from __future__ import annotations

from typing import Final

import msgspec

from .content_kind import ContentKind, kind_of
from .token_classes import class_counts
from .tokenizer import MEASURED, Tokenizer

KEPT_FROM_CHARS: Final = 1_000
"""A shorter text is counted in 0.1 ms; kept, it would take more room than time."""


class TextCount(msgspec.Struct, frozen=True):
    """A text's tokens, before a factor that was learnt on this machine."""

    kind: ContentKind
    base: int
    """By cl100k_base itself."""
    older: int
    newer: int

    def for_tokenizer(self, tokenizer: Tokenizer) -> int:
        """Give the tokens that a generation of tokenizers makes of it."""
        return self.older if tokenizer is Tokenizer.OLDER else self.newer


def count_text(text: str) -> TextCount:
    """Count a text's tokens; all estimated, since Claude's tokenizers are not public."""
    counts = class_counts(text)
    return TextCount(
        kind_of(text),
        sum(counts),
        round(MEASURED[Tokenizer.OLDER].tokens(counts)),
        round(MEASURED[Tokenizer.NEWER].tokens(counts)),
    )
