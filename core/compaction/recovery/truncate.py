"""Truncating the largest results: until the request fits, or down to half of the window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...conversation import PieceKind
from ..changes import Intent, replace_result
from ..plan import Harm, Operation, Refusal
from .ground import Proposal
from .settings import Step

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..view import Slot
    from .ground import Ground

TRUNCATION_MESSAGE: Final = (
    "[TOOL RESULT TRUNCATED - Context limit exceeded. Original output was too large and has been"
    " truncated to recover the session. Please re-run this tool if you need the full output.]"
)
"""What the model reads in its place (002-73)."""


def truncate_largest(context: Ground) -> Proposal:
    """Truncate one result after the other, and stop when the request fits (002-54, R002-13)."""
    done: list[Operation] = []
    for slot in _by_size(context):
        if len(done) >= context.truncations_left or (done and context.fits_after(done)):
            break
        operation = _truncated(context, slot, Step.TRUNCATE, "the largest result that is left")
        done += [operation] if operation else []
    return _proposed(context, Step.TRUNCATE, done)


def truncate_aggressively(context: Ground) -> Proposal:
    """Truncate as many results as it takes to come down to the target (002-51 to 002-53).

    What is counted is what goes, in characters; the message in its place is not subtracted
    (002-62, 002-63).
    """
    to_free = chars_to_free(context)
    done: list[Operation] = []
    freed = 0
    for slot in _by_size(context):
        if len(done) >= context.truncations_left or freed >= to_free:
            break
        operation = _truncated(context, slot, Step.AGGRESSIVE, "among the largest results")
        if operation:
            done.append(operation)
            freed += slot.chars
    return _proposed(context, Step.AGGRESSIVE, done)


def chars_to_free(context: Ground) -> int:
    """Say how many characters have to go: those above the target's share of the limit."""
    limit = context.limit_tokens
    target = int((context.tokens if limit is None else limit) * context.settings.target_ratio)
    return max(0, context.tokens - target) * context.settings.chars_per_token


def _by_size(context: Ground) -> Iterator[Slot]:
    """List the results that may be truncated, the largest first.

    Those at the end too: most often it is the newest result that is too large.
    """
    touched = context.changed_lines
    found = [
        each
        for each in context.view.blocks
        if each.part.kind is PieceKind.TOOL_RESULT
        and each.chars >= context.settings.min_output_chars
        and not each.is_replaced
        and each.line not in touched
        and each.line not in context.view.protected_lines
    ]
    yield from sorted(found, key=lambda each: (-each.chars, each.index))


def _truncated(context: Ground, block: Slot, step: Step, why: str) -> Operation | None:
    intent = Intent(step, Harm.MASKED, f"{why}: {block.chars:,} characters")
    return replace_result(context.view, block, intent, TRUNCATION_MESSAGE)


def _proposed(context: Ground, step: Step, done: list[Operation]) -> Proposal:
    if not done:
        least = context.settings.min_output_chars
        return Proposal(
            step,
            insufficient=Refusal(
                step, f"no result of {least} characters or more is left to truncate", "go on"
            ),
        )
    if context.fits_after(done):
        return Proposal(step, tuple(done))
    saved = sum(each.tokens_saved for each in done)
    return Proposal(
        step,
        tuple(done),
        Refusal(
            step,
            f"{len(done)} truncated results free {saved:,} tokens: {context.tokens - saved:,} are"
            f" left, more than {context.max_fitting_tokens:,}",
            "go on",
        ),
    )
