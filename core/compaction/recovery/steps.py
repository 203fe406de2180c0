"""What each step of a recovery proposes, and which of them suffices (002-53, 002-54, 002-60)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import msgspec
from msgspec.structs import replace

from ..limit_errors import LimitErrorType
from ..plan import Append, Operation, Refusal, Remove, Replace
from ..strategies.thinking_after import binds_thinking, find_after
from ..thoughts import is_open, thoughts_after
from .fix_empty import fix_empty
from .ground import Proposal
from .revert import revert
from .settings import Step
from .truncate import truncate_aggressively, truncate_largest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ..view import View
    from .ground import Ground

    Finder = Callable[[View], Iterable[Operation]]


_NO_SUMMARY: Final = Refusal(Step.SUMMARIZE, "no summary is smaller than what is there", "go on")


class Summariser(Protocol):
    """Who makes the operation that puts a summary in the place of what was."""

    def __call__(self, ground: Ground) -> Operation | Refusal:
        """Give the operation, or why there is none."""
        ...


class Tools(msgspec.Struct, frozen=True):
    """What recovery borrows: without it the steps that need it propose nothing."""

    finders: Mapping[Step, tuple[Finder, ...]] = {}
    """Strategies (`core.compaction.strategies`) by the step that uses them."""
    summarise: Summariser | None = None


def propose(step: Step, ground: Ground, tools: Tools) -> Proposal:
    """Say what a step would do, and whether that suffices; nothing is written."""
    if step is Step.FIX_EMPTY:
        return _with_more_to_do(fix_empty(ground), ground)
    if step is Step.TRUNCATE:
        return truncate_largest(ground)
    if step is Step.AGGRESSIVE:
        return truncate_aggressively(ground)
    if step is Step.REVERT:
        return revert(ground)
    if step is Step.SUMMARIZE:
        return _summarised(ground, tools.summarise)
    return _pruned(step, ground, tools.finders.get(step, ()))


def after(ground: Ground, proposal: Proposal) -> Ground:
    """Go on from what a step does that did not suffice by itself."""
    return replace(ground, planned=(*ground.planned, *proposal.operations))


def whole(ground: Ground, proposal: Proposal) -> tuple[Operation, ...]:
    """Give all operations of a step that suffices, with those that it builds on.

    A summary or a cut takes the place of what was truncated before it: only messages that
    were mended are of use beside it.
    """
    if proposal.step in {Step.SUMMARIZE, Step.REVERT}:
        cut = {
            edit.line
            for operation in proposal.operations
            for edit in operation.edits
            if not isinstance(edit, Append)
        }
        kept = (each for each in ground.planned if each.strategy == Step.FIX_EMPTY)
        return (*(each for each in kept if each.line not in cut), *proposal.operations)
    return (*ground.planned, *proposal.operations)


def _with_more_to_do(proposal: Proposal, ground: Ground) -> Proposal:
    """A mended message makes nothing smaller: where the size was refused, more has to be done."""
    if proposal.missing or ground.found.error_type is LimitErrorType.NON_EMPTY_CONTENT:
        return proposal
    missing = Refusal(proposal.step, "that makes nothing smaller", "go on")
    return replace(proposal, missing=missing)


def _summarised(ground: Ground, summarise: Summariser | None) -> Proposal:
    operation = summarise(ground) if summarise else _NO_SUMMARY
    if isinstance(operation, Refusal):
        return Proposal(Step.SUMMARIZE, missing=operation)
    if operation.tokens_saved <= 0:
        return Proposal(Step.SUMMARIZE, missing=_NO_SUMMARY)
    return _judged(Step.SUMMARIZE, ground, (operation,))


def _pruned(step: Step, ground: Ground, finders: Iterable[Finder]) -> Proposal:
    touched = ground.touched
    done = tuple(
        operation
        for find in finders
        for operation in find(ground.view)
        if operation.line not in touched
    )
    if not done:
        return Proposal(step, missing=Refusal(step, "nothing is said twice", "go on"))
    return _judged(step, ground, done)


def _judged(step: Step, ground: Ground, done: tuple[Operation, ...]) -> Proposal:
    if ground.fits_after(done):
        return Proposal(step, done)
    left = ground.tokens - sum(each.tokens_saved for each in done)
    missing = Refusal(step, f"{left:,} tokens are left, more than {ground.fits_at:,}", "go on")
    return Proposal(step, done, missing)


def with_thoughts(view: View, operations: tuple[Operation, ...]) -> tuple[Operation, ...] | None:
    """Leave out the thoughts that do not hold behind a change (rule T, compaction.md 2.5).

    None where the newest answer's are among them, which must stay while its call is open.
    """
    edits = [edit for each in operations for edit in each.edits]
    changed = [edit.line for edit in edits if isinstance(edit, Replace)]
    removed = {edit.line for edit in edits if isinstance(edit, Remove)}
    places = [slot.place for slot in view.slots if changed and slot.line >= min(changed)]
    if not places or not binds_thinking(view.model):
        return operations
    if is_open(view) and thoughts_after(view, min(places)):
        return None
    bound = (each for each in find_after(view, min(places)) if each.line not in removed)
    return (*operations, *bound)
