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


def truncate_largest(ground: Ground) -> Proposal:
    """Truncate one result after the other, and stop when the request fits (002-54, R002-13)."""
    done: list[Operation] = []
    for slot in _by_size(ground):
        if len(done) >= ground.truncates_left or (done and ground.fits_after(done)):
            break
        operation = _truncated(ground, slot, Step.TRUNCATE, "the largest result that is left")
        done += [operation] if operation else []
    return _proposed(ground, Step.TRUNCATE, done)


def truncate_aggressively(ground: Ground) -> Proposal:
    """Truncate as many results as it takes to come down to the target (002-51 to 002-53).

    What is counted is what goes, in characters; the message in its place is not subtracted
    (002-62, 002-63).
    """
    to_free = chars_to_free(ground)
    done: list[Operation] = []
    freed = 0
    for slot in _by_size(ground):
        if len(done) >= ground.truncates_left or freed >= to_free:
            break
        operation = _truncated(ground, slot, Step.AGGRESSIVE, "among the largest results")
        if operation:
            done.append(operation)
            freed += slot.chars
    return _proposed(ground, Step.AGGRESSIVE, done)


def chars_to_free(ground: Ground) -> int:
    """Say how many characters have to go: those above the target's share of the limit."""
    limit = ground.limit_tokens
    target = int((ground.tokens if limit is None else limit) * ground.settings.target_ratio)
    return max(0, ground.tokens - target) * ground.settings.chars_per_token


def _by_size(ground: Ground) -> Iterator[Slot]:
    """List the results that may be truncated, the largest first.

    Those at the end too: most often it is the newest result that is too large.
    """
    touched = ground.touched
    found = [
        each
        for each in ground.view.slots
        if each.piece.kind is PieceKind.TOOL_RESULT
        and each.chars >= ground.settings.min_output
        and not each.replaced
        and each.line not in touched
        and each.line not in ground.view.kept
    ]
    yield from sorted(found, key=lambda each: (-each.chars, each.place))


def _truncated(ground: Ground, slot: Slot, step: Step, why: str) -> Operation | None:
    intent = Intent(step, Harm.MASKED, f"{why}: {slot.chars:,} characters")
    return replace_result(ground.view, slot, intent, TRUNCATION_MESSAGE)


def _proposed(ground: Ground, step: Step, done: list[Operation]) -> Proposal:
    if not done:
        least = ground.settings.min_output
        return Proposal(
            step,
            missing=Refusal(
                step, f"no result of {least} characters or more is left to truncate", "go on"
            ),
        )
    if ground.fits_after(done):
        return Proposal(step, tuple(done))
    saved = sum(each.tokens_saved for each in done)
    return Proposal(
        step,
        tuple(done),
        Refusal(
            step,
            f"{len(done)} truncated results free {saved:,} tokens: {ground.tokens - saved:,} are"
            f" left, more than {ground.fits_at:,}",
            "go on",
        ),
    )
