"""What is known of Claude's tokenizers without having them: measured on real sessions."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec

from .models import family_of

if TYPE_CHECKING:
    from .token_classes import Counts


class Tokenizer(StrEnum):
    """The two generations that count differently (formats 9)."""

    OLDER = "older"
    NEWER = "newer"


_OLDER: Final = frozenset(
    {
        "opus-4-6",
        "sonnet-4-6",
        "opus-4-5",
        "sonnet-4-5",
        "haiku-4-5",
        "opus-4-1",
        "opus-4",
        "sonnet-4",
        "3-7-sonnet",
        "3-5-sonnet",
        "3-5-haiku",
        "3-opus",
        "3-sonnet",
        "3-haiku",
    }
)


def tokenizer_of(model: str | None) -> Tokenizer:
    """Say which generation counts for a model; what is not known is new (formats 9)."""
    older = model is not None and family_of(model) in _OLDER
    return Tokenizer.OLDER if older else Tokenizer.NEWER


class Measured(msgspec.Struct, frozen=True):
    """What a tokenizer makes of a text and of what stands around it; all in its tokens."""

    weights: tuple[float, ...]
    """Of one token of cl100k_base of each class."""
    call: float
    """Around a tool call, beside its name and what it is given."""
    parameter: float
    """Around each thing that a call is given, beside its name."""
    result: float
    """Around a tool's result."""
    message: float
    """Around a prompt, or anything else that the client says in a person's place."""
    reminder: float
    """The reminder of the task tools, which older transcripts hold without its words."""
    thought: float
    """Of one token of cl100k_base of a thought's text: it is a summary of what was thought."""
    spread: float
    """Median error of a step of a session that was not measured."""
    p90: float
    """Error that nine steps of ten stay below."""

    def tokens(self, counts: Counts) -> float:
        """Weigh the tokens of a text by their classes."""
        return sum(map(float.__mul__, self.weights, map(float, counts)))


MEASURED: Final = {
    Tokenizer.OLDER: Measured(
        weights=(0.88, 1.07, 1.15, 1.0, 1.08, 1.21, 1.35, 2.02, 2.48, 1.51, 0.41, 1.22),
        call=33.5,
        parameter=13.5,
        result=12.7,
        message=3.0,
        reminder=130.0,
        thought=1.56,
        spread=0.028,
        p90=0.217,
    ),
    Tokenizer.NEWER: Measured(
        weights=(0.81, 1.31, 1.96, 2.69, 1.21, 1.06, 1.82, 2.67, 2.19, 1.42, 1.17, 1.64),
        call=22.0,
        parameter=17.3,
        result=4.6,
        message=13.8,
        reminder=130.0,
        thought=2.48,
        spread=0.015,
        p90=0.066,
    ),
}
"""By `tests/bench/measure_tokens.py` and `bench_tokens.py` on the corpora of real sessions.

Older: 445 steps of 13 sessions (clients 2.1.39 to 2.1.50, Opus 4.6 and Sonnet 4.6). Newer: 636
steps of 5 sessions (2.1.205 to 2.1.217, Fable 5, Opus 5, Sonnet 5). Spread and p90 are those
of sessions left out of the measuring. Of the reminder only the newer corpus tells, of other
scripts little. Who changes a number empties `growth`, `learnt` and `text_count` by a migration.
"""
