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

    def __call__(self, context: Ground) -> Operation | Refusal:
        """Give the operation, or why there is none."""
        ...


class Tools(msgspec.Struct, frozen=True):
    """What recovery borrows: without it the steps that need it propose nothing."""

    finders_by_step: Mapping[Step, tuple[Finder, ...]] = {}
    """Strategies (`core.compaction.strategies`) by the step that uses them."""
    summarise: Summariser | None = None


def propose(step: Step, context: Ground, tools: Tools) -> Proposal:
    """Say what a step would do, and whether that suffices; nothing is written."""
    if step is Step.FIX_EMPTY:
        return _with_more_to_do(fix_empty(context), context)
    if step is Step.TRUNCATE:
        return truncate_largest(context)
    if step is Step.AGGRESSIVE:
        return truncate_aggressively(context)
    if step is Step.REVERT:
        return revert(context)
    if step is Step.SUMMARIZE:
        return _summarised(context, tools.summarise)
    return _pruned(step, context, tools.finders_by_step.get(step, ()))


def after(context: Ground, proposal: Proposal) -> Ground:
    """Go on from what a step does that did not suffice by itself."""
    return replace(context, planned_operations=(*context.planned_operations, *proposal.operations))


def whole(context: Ground, proposal: Proposal) -> tuple[Operation, ...]:
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
        kept = (each for each in context.planned_operations if each.strategy == Step.FIX_EMPTY)
        return (*(each for each in kept if each.line not in cut), *proposal.operations)
    return (*context.planned_operations, *proposal.operations)


def _with_more_to_do(proposal: Proposal, context: Ground) -> Proposal:
    """A mended message makes nothing smaller: where the size was refused, more has to be done."""
    if proposal.insufficient or context.refusal.error_type is LimitErrorType.NON_EMPTY_CONTENT:
        return proposal
    missing = Refusal(proposal.step, "that makes nothing smaller", "go on")
    return replace(proposal, insufficient=missing)


def _summarised(context: Ground, summarise: Summariser | None) -> Proposal:
    operation = summarise(context) if summarise else _NO_SUMMARY
    if isinstance(operation, Refusal):
        return Proposal(Step.SUMMARIZE, insufficient=operation)
    if operation.tokens_saved <= 0:
        return Proposal(Step.SUMMARIZE, insufficient=_NO_SUMMARY)
    return _judged(Step.SUMMARIZE, context, (operation,))


def _pruned(step: Step, context: Ground, finders: Iterable[Finder]) -> Proposal:
    touched = context.changed_lines
    done = tuple(
        operation
        for find in finders
        for operation in find(context.view)
        if operation.line not in touched
    )
    if not done:
        return Proposal(step, insufficient=Refusal(step, "nothing is said twice", "go on"))
    return _judged(step, context, done)


def _judged(step: Step, context: Ground, done: tuple[Operation, ...]) -> Proposal:
    if context.fits_after(done):
        return Proposal(step, done)
    left = context.tokens - sum(each.tokens_saved for each in done)
    missing = Refusal(
        step, f"{left:,} tokens are left, more than {context.max_fitting_tokens:,}", "go on"
    )
    return Proposal(step, done, missing)


def with_thoughts(view: View, operations: tuple[Operation, ...]) -> tuple[Operation, ...] | None:
    """Leave out the thoughts that do not hold behind a change (rule T, compaction.md 2.5).

    None where the newest answer's are among them, which must stay while its call is open.
    """
    edits = [edit for each in operations for edit in each.edits]
    changed = [edit.line for edit in edits if isinstance(edit, Replace)]
    removed = {edit.line for edit in edits if isinstance(edit, Remove)}
    places = [slot.index for slot in view.blocks if changed and slot.line >= min(changed)]
    if not places or not binds_thinking(view.model):
        return operations
    if is_open(view) and thoughts_after(view, min(places)):
        return None
    bound = (each for each in find_after(view, min(places)) if each.line not in removed)
    return (*operations, *bound)
