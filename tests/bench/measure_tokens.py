"""Measure what `core/measure/tokens.py` holds: the weights of each generation of tokenizers.

Usage: python -m tests.bench.measure_tokens, with CTXTOP_SHARED naming the shared folder.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from ctxtop.core.measure.token_estimate import fit_least_absolute
from ctxtop.core.measure.tokens import (
    TASK_REMINDERS,
    TOKENIZER_PROFILES,
    TokenClass,
    Tokenizer,
    TokenizerProfile,
    count_token_classes,
    model_text,
)
from ctxtop.core.model.conversation import PartKind

from .growth_steps import corpora

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctxtop.core.measure.token_estimate import GrowthStep
    from ctxtop.core.model.conversation import MessagePart

CALL, PARAMETER, RESULT, MESSAGE, REMINDER, THOUGHT = range(len(TokenClass), len(TokenClass) + 6)
AROUND: Final = ("call", "parameter", "result", "message", "reminder", "thought")

PRIOR: Final = (*[1.4] * len(TokenClass), 30, 15, 8, 12, 130, 1.6)
"""What a coefficient is that no step says anything of; the reminder's as in the newer corpus."""

PRIOR_WEIGHT: Final = 0.01
"""Of that: in rows that are shares of a growth, about three steps that name the coefficient."""

SMALL: Final = 20
"""Tokens; what is smaller is weighed as if it were this large."""

CALL_TOKENS: Final = 30
"""The least that a call has beside its text; a smaller output is a placeholder."""

Row = tuple[list[float], float]


@cache
def counts_of(text: str) -> tuple[int, ...]:
    """Count a text once."""
    return count_token_classes(text)


def features(pieces: Iterable[MessagePart]) -> list[float]:
    """Return the feature counts of these parts, in the order of the coefficients in PRIOR."""
    row = [0.0] * len(PRIOR)
    for piece in pieces:
        text, parameters = model_text(piece)
        counts = counts_of(text)
        if piece.kind is PartKind.THINKING:
            row[THOUGHT] += sum(counts)
            continue
        for place, count in enumerate(counts):
            row[place] += count
        if piece.kind is PartKind.TOOL_INPUT:
            row[CALL] += 1
            row[PARAMETER] += parameters
        elif piece.name in TASK_REMINDERS:
            row[REMINDER] += 1
        elif piece.kind in {PartKind.TOOL_RESULT, PartKind.AGENT_RETURN}:
            row[RESULT] += 1
        elif piece.kind is not PartKind.TEXT:
            row[MESSAGE] += 1
    return row


def rows_of(step: GrowthStep) -> list[Row]:
    """Return the step's rows for the fit.

    One row for each side if its output is known, else one row for both. No rows for a step
    with an image: its tokens are not known, and the corpus has too few images to measure them.
    """
    if any(piece.media for piece in step.added_parts):
        return []
    added, answer = features(step.added_parts), features(step.answer_parts)
    known = step.output_tokens > sum(answer[:CALL]) + answer[THOUGHT] + CALL_TOKENS * answer[CALL]
    if not known:
        return [([a + b for a, b in zip(added, answer, strict=True)], step.growth)]
    rows: list[Row] = [(added, step.growth - step.output_tokens)]
    silent = any(p.kind is PartKind.THINKING and not p.text for p in step.answer_parts)
    if not silent:
        rows.append((answer, float(step.output_tokens)))
    return [(row, target) for row, target in rows if target > 0]


def measure(steps: Iterable[GrowthStep]) -> TokenizerProfile:
    """Fit the coefficients of a generation."""
    rows: list[list[float]] = []
    targets: list[float] = []
    for row, target in (each for step in steps for each in rows_of(step)):
        scale = max(target, SMALL)
        rows.append([value / scale for value in row])
        targets.append(target / scale)
    for place, value in enumerate(PRIOR):
        rows.append([PRIOR_WEIGHT * (place == other) for other in range(len(PRIOR))])
        targets.append(PRIOR_WEIGHT * value)
    found = fit_least_absolute(rows, targets, PRIOR)
    around = dict(zip(AROUND, found[len(TokenClass) :], strict=True))
    # Signatures are no texts: their size was measured apart.
    signature = TOKENIZER_PROFILES[Tokenizer.NEWER].signature
    return TokenizerProfile(
        tuple(found[: len(TokenClass)]), **around, signature=signature, spread=0.0
    )


def main() -> None:
    """Print the constants."""
    for corpus, some in corpora().items():
        measured = measure(step for _, steps in some for step in steps)
        print(corpus, len(some), "families", sum(len(steps) for _, steps in some), "steps")
        for each, weight in zip(TokenClass, measured.weights, strict=True):
            print(f"  {each.name:12} {weight:.2f}")
        for name in AROUND:
            print(f"  {name:12} {getattr(measured, name):.2f}")


if __name__ == "__main__":
    main()
