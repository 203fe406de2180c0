"""Choosing the first step that suffices, and making one plan of what it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from ..break_even import break_even
from ..plan import Plan, Refusal, make_plan
from ..strategies.usage import with_usage
from .ground import Proposal  # noqa: TC001 -- msgspec reads it
from .run import is_left
from .settings import Step
from .steps import after, propose, whole, with_thoughts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..plan import Operation
    from .ground import Ground
    from .steps import Tools


class Choice(msgspec.Struct, frozen=True):
    """What recovery would do."""

    proposals: tuple[Proposal, ...]
    """In their order; the last one suffices where there is a plan."""
    plan: Plan | None = None

    @property
    def chosen(self) -> Proposal | None:
        """The step that suffices; None where none does."""
        return self.proposals[-1] if self.plan is not None else None

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """Why each of the steps before it does not suffice."""
        return tuple(each.insufficient for each in self.proposals if each.insufficient)


class Base(msgspec.Struct, frozen=True):
    """The file that a plan is made for."""

    sha256: str
    bytes: int


def choose(
    steps: Iterable[Step],
    context: Ground,
    base_file: Base,
    tools: Tools,
    confirmed: frozenset[Step] = frozenset(),
) -> Choice:
    """Take the steps one after the other until one suffices; the harm grows with each.

    A step that asks first, as a revert always does, is not taken unless it was confirmed (T-08).
    """
    tried: list[Proposal] = []
    for step in steps:
        proposal = propose(step, context, tools)
        asks = context.settings.needs_confirmation(step) and step not in confirmed
        if asks and not proposal.insufficient:
            proposal = msgspec.structs.replace(proposal, insufficient=_unconfirmed(step))
        operations = with_thoughts(context.view, whole(context, proposal))
        if operations is None and not proposal.insufficient:
            proposal = msgspec.structs.replace(proposal, insufficient=_BOUND)
        tried.append(proposal)
        if operations is not None and not proposal.insufficient:
            return Choice(tuple(tried), _plan(context, base_file, operations))
        context = after(context, proposal) if step is not Step.REVERT else context
    return Choice(tuple(tried))


def steps_left(context: Ground, steps: Iterable[Step]) -> Iterator[Step]:
    """Leave out the steps that were used as often as they may be."""
    return (each for each in steps if is_left(each, context.counters, context.settings))


def _plan(context: Ground, base_file: Base, operations: tuple[Operation, ...]) -> Plan:
    view = context.view
    places = [view.tokens_before_line.get(each.line or 0, 0) for each in operations]
    position = view.overhead_tokens + min(places, default=0)
    saved = sum(each.tokens_saved for each in operations)
    even = break_even(view.tokens, position, saved, view.model)
    return make_plan(
        context.refusal.session_id,
        base_file.sha256,
        base_file.bytes,
        with_usage(view, operations),
        before_tokens=view.tokens,
        break_even_requests=even.requests_5m,
    )


_BOUND: Final = Refusal(
    "thinking",
    "the model's newest thoughts hold only behind an unchanged conversation",
    "go on",
)


def _unconfirmed(step: Step) -> Refusal:
    why = f"{step} asks first"
    if step is Step.REVERT:
        why = "going back takes out your last prompt and all that followed it"
    return Refusal("confirm", why, f"read the plan, then add --confirm {step}")
