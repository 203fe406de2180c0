"""Which steps a refusal calls for, in which order (002-13, 002-44 to 002-47, T-08)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..limit_errors import LimitErrorType
from .settings import Step

if TYPE_CHECKING:
    from .settings import RecoverySettings


def steps_for(error_type: LimitErrorType, settings: RecoverySettings) -> tuple[Step, ...]:
    """List what to try; each step costs the conversation more than the one before it.

    Nothing of a conversation is too large where a message is empty: only mending that
    message helps, or going back before it (002-45).
    """
    order = tuple(step for step in settings.step_order if _is_on(step, settings))
    if error_type is LimitErrorType.NON_EMPTY_CONTENT:
        return (Step.FIX_EMPTY, *(step for step in order if step is Step.REVERT))
    if error_type is LimitErrorType.BEDROCK and Step.AGGRESSIVE in order:
        return (Step.AGGRESSIVE, *(step for step in order if step is not Step.AGGRESSIVE))
    return order


def _is_on(step: Step, settings: RecoverySettings) -> bool:
    if step is Step.AGGRESSIVE:
        return settings.aggressive
    return settings.prune_superseded if step is Step.DCP else True
