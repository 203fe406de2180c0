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

    tried: tuple[Proposal, ...]
    """In their order; the last one suffices where there is a plan."""
    plan: Plan | None = None

    @property
    def chosen(self) -> Proposal | None:
        """The step that suffices; None where none does."""
        return self.tried[-1] if self.plan is not None else None

    @property
    def why_not(self) -> tuple[Refusal, ...]:
        """Why each of the steps before it does not suffice."""
        return tuple(each.missing for each in self.tried if each.missing)


class Base(msgspec.Struct, frozen=True):
    """The file that a plan is made for."""

    sha256: str
    bytes: int


def choose(
    steps: Iterable[Step],
    ground: Ground,
    base: Base,
    tools: Tools,
    confirmed: frozenset[Step] = frozenset(),
) -> Choice:
    """Take the steps one after the other until one suffices; the harm grows with each.

    A step that asks first, as a revert always does, is not taken unless it was confirmed (T-08).
    """
    tried: list[Proposal] = []
    for step in steps:
        proposal = propose(step, ground, tools)
        asks = ground.settings.asks_first(step) and step not in confirmed
        if asks and not proposal.missing:
            proposal = msgspec.structs.replace(proposal, missing=_unconfirmed(step))
        operations = with_thoughts(ground.view, whole(ground, proposal))
        if operations is None and not proposal.missing:
            proposal = msgspec.structs.replace(proposal, missing=_BOUND)
        tried.append(proposal)
        if operations is not None and not proposal.missing:
            return Choice(tuple(tried), _plan(ground, base, operations))
        ground = after(ground, proposal) if step is not Step.REVERT else ground
    return Choice(tuple(tried))


def steps_left(ground: Ground, steps: Iterable[Step]) -> Iterator[Step]:
    """Leave out the steps that were used as often as they may be."""
    return (each for each in steps if is_left(each, ground.counters, ground.settings))


def _plan(ground: Ground, base: Base, operations: tuple[Operation, ...]) -> Plan:
    view = ground.view
    places = [view.positions.get(each.line or 0, 0) for each in operations]
    position = view.overhead + min(places, default=0)
    saved = sum(each.tokens_saved for each in operations)
    even = break_even(view.tokens, position, saved, view.model)
    return make_plan(
        ground.found.session_id,
        base.sha256,
        base.bytes,
        with_usage(view, operations),
        before_tokens=view.tokens,
        break_even_requests=even.five_minutes,
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
