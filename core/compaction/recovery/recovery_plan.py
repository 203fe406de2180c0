"""The first recovery step that frees enough, and the plan of what it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Protocol

import msgspec
from msgspec.structs import replace

from ..plan import (
    CompactionPlan,
    Operation,
    Refusal,
    RemoveLine,
    ReplaceValue,
    changed_lines,
    edits_of,
    make_plan,
)
from ..strategies.reasoning import (
    binds_thinking,
    drop_thinking_after,
    has_open_call,
    list_thinking_after,
)
from ..transcript_reading import add_lowered_usage
from ..transcript_view import TranscriptView
from .limit_errors import LimitErrorType
from .recovery_run import is_step_available
from .recovery_settings import RecoveryStep
from .recovery_steps import (
    RecoveryContext,
    StepProposal,
    propose_aggressive_truncation,
    propose_empty_fix,
    propose_revert,
    propose_truncation,
)

Finder = Callable[[TranscriptView], Iterable[Operation]]


_NO_SUMMARY: Final = Refusal(
    RecoveryStep.SUMMARIZE, "no summary is smaller than what is there", "go on"
)


class Summariser(Protocol):
    """Makes the operation that puts a summary in the place of older messages."""

    def __call__(self, context: RecoveryContext) -> Operation | Refusal:
        """Return the operation, or the reason why there is none."""
        ...


class RecoveryTools(msgspec.Struct, frozen=True):
    """What recovery borrows: without it the steps that need it propose nothing."""

    finders_by_step: Mapping[RecoveryStep, tuple[Finder, ...]] = {}
    """Strategies (`core.compaction.strategies`) by the step that uses them."""
    summarise: Summariser | None = None


def propose_step(
    step: RecoveryStep, context: RecoveryContext, tools: RecoveryTools
) -> StepProposal:
    """Plan a step and check whether it frees enough; nothing is written."""
    if step is RecoveryStep.FIX_EMPTY:
        return _require_smaller(propose_empty_fix(context), context)
    if step is RecoveryStep.TRUNCATE:
        return propose_truncation(context)
    if step is RecoveryStep.AGGRESSIVE:
        return propose_aggressive_truncation(context)
    if step is RecoveryStep.REVERT:
        return propose_revert(context)
    if step is RecoveryStep.SUMMARIZE:
        return _propose_summary(context, tools.summarise)
    return _propose_pruning(step, context, tools.finders_by_step.get(step, ()))


def with_planned(context: RecoveryContext, proposal: StepProposal) -> RecoveryContext:
    """Return the context after a step that did not suffice by itself."""
    return replace(context, planned_operations=(*context.planned_operations, *proposal.operations))


def operations_to_apply(context: RecoveryContext, proposal: StepProposal) -> tuple[Operation, ...]:
    """Return all operations of a step that suffices, with the earlier ones it builds on.

    A summary or a revert replaces what was truncated before it: of the earlier operations only
    filled empty messages are kept.
    """
    if proposal.step in {RecoveryStep.SUMMARIZE, RecoveryStep.REVERT}:
        cut = changed_lines(proposal.operations)
        kept = (
            each for each in context.planned_operations if each.strategy == RecoveryStep.FIX_EMPTY
        )
        return (*(each for each in kept if each.line not in cut), *proposal.operations)
    return (*context.planned_operations, *proposal.operations)


def _require_smaller(proposal: StepProposal, context: RecoveryContext) -> StepProposal:
    """Filling a message frees nothing: where the size was refused, another step has to follow."""
    if proposal.insufficient or context.refusal.error_type is LimitErrorType.NON_EMPTY_CONTENT:
        return proposal
    missing = Refusal(proposal.step, "that makes nothing smaller", "go on")
    return replace(proposal, insufficient=missing)


def _propose_summary(context: RecoveryContext, summarise: Summariser | None) -> StepProposal:
    operation = summarise(context) if summarise else _NO_SUMMARY
    if isinstance(operation, Refusal):
        return StepProposal(RecoveryStep.SUMMARIZE, insufficient=operation)
    if operation.tokens_saved <= 0:
        return StepProposal(RecoveryStep.SUMMARIZE, insufficient=_NO_SUMMARY)
    return _sized_proposal(RecoveryStep.SUMMARIZE, context, (operation,))


def _propose_pruning(
    step: RecoveryStep, context: RecoveryContext, finders: Iterable[Finder]
) -> StepProposal:
    touched = context.changed_lines
    done = tuple(
        operation
        for find in finders
        for operation in find(context.view)
        if operation.line not in touched
    )
    if not done:
        return StepProposal(step, insufficient=Refusal(step, "nothing is said twice", "go on"))
    return _sized_proposal(step, context, done)


def _sized_proposal(
    step: RecoveryStep, context: RecoveryContext, done: tuple[Operation, ...]
) -> StepProposal:
    if context.fits_after(done):
        return StepProposal(step, done)
    left = context.tokens - sum(each.tokens_saved for each in done)
    missing = Refusal(
        step, f"{left:,} tokens are left, more than {context.max_fitting_tokens:,}", "go on"
    )
    return StepProposal(step, done, missing)


def add_bound_thinking(
    view: TranscriptView, operations: tuple[Operation, ...]
) -> tuple[Operation, ...] | None:
    """Leave out the thoughts that do not hold behind a change (rule T, compaction.md 2.5).

    None where the newest answer's are among them, which must stay while its call is open.
    """
    edits = [*edits_of(operations)]
    changed = [edit.line for edit in edits if isinstance(edit, ReplaceValue)]
    removed = {edit.line for edit in edits if isinstance(edit, RemoveLine)}
    places = [slot.index for slot in view.blocks if changed and slot.line >= min(changed)]
    if not places or not binds_thinking(view.model):
        return operations
    if has_open_call(view) and list_thinking_after(view, min(places)):
        return None
    bound = drop_thinking_after(view, min(places))
    if bound is None or bound.line in removed:
        return operations
    return (*operations, bound)


class RecoveryChoice(msgspec.Struct, frozen=True):
    proposals: tuple[StepProposal, ...]
    """In their order; the last one suffices where there is a plan."""
    plan: CompactionPlan | None = None

    @property
    def chosen(self) -> StepProposal | None:
        """The step that suffices; None where none does."""
        return self.proposals[-1] if self.plan is not None else None

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """Why each of the steps before it does not suffice."""
        return tuple(each.insufficient for each in self.proposals if each.insufficient)


class BaseFile(msgspec.Struct, frozen=True):
    """The file that a plan is made for."""

    sha256: str
    bytes: int


def choose_step(
    steps: Iterable[RecoveryStep],
    context: RecoveryContext,
    base_file: BaseFile,
    tools: RecoveryTools,
    confirmed: frozenset[RecoveryStep] = frozenset(),
) -> RecoveryChoice:
    """Try the steps in order, least severe first, until one suffices.

    A step that needs confirmation, as a revert always does, is skipped unless it was confirmed
    (T-08).
    """
    tried: list[StepProposal] = []
    for step in steps:
        proposal = propose_step(step, context, tools)
        asks = context.settings.needs_confirmation(step) and step not in confirmed
        if asks and not proposal.insufficient:
            proposal = replace(proposal, insufficient=_needs_confirmation(step))
        operations = add_bound_thinking(context.view, operations_to_apply(context, proposal))
        if operations is None and not proposal.insufficient:
            proposal = replace(proposal, insufficient=_BOUND_THINKING)
        tried.append(proposal)
        if operations is not None and not proposal.insufficient:
            return RecoveryChoice(tuple(tried), _make_recovery_plan(context, base_file, operations))
        context = with_planned(context, proposal) if step is not RecoveryStep.REVERT else context
    return RecoveryChoice(tuple(tried))


def available_steps(
    context: RecoveryContext, steps: Iterable[RecoveryStep]
) -> Iterator[RecoveryStep]:
    """Leave out the steps that were used as often as they may be."""
    return (each for each in steps if is_step_available(each, context.counters, context.settings))


def _make_recovery_plan(
    context: RecoveryContext, base_file: BaseFile, operations: tuple[Operation, ...]
) -> CompactionPlan:
    view = context.view
    places = [view.tokens_before_line.get(each.line or 0, 0) for each in operations]
    return make_plan(
        context.refusal.session_id,
        base_file.sha256,
        base_file.bytes,
        add_lowered_usage(view, operations),
        before_tokens=view.tokens,
        unmoved_tokens=view.overhead_tokens + min(places, default=0),
        model=view.model,
    )


_BOUND_THINKING: Final = Refusal(
    "thinking", "the model's newest thoughts hold only behind an unchanged conversation", "go on"
)


def _needs_confirmation(step: RecoveryStep) -> Refusal:
    why = f"{step} asks first"
    if step is RecoveryStep.REVERT:
        why = "going back takes out your last prompt and all that followed it"
    return Refusal("confirm", why, f"read the plan, then add --confirm {step}")
