"""Which recovery steps a policy allows, how often, and in which order."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec

from .limit_errors import LimitErrorType

if TYPE_CHECKING:
    from ...policy.policy import Policy


SECOND_MS: Final = 1000


class RecoveryStep(StrEnum):
    """One way to mend a session; the words are those of `recovery.order`."""

    FIX_EMPTY = "fix_empty"
    DEDUP = "dedup"
    DCP = "dcp"  # prunes what is superseded
    TRUNCATE = "truncate_largest"
    AGGRESSIVE = "aggressive"
    SUMMARIZE = "summarize"
    REVERT = "revert"


class RecoveryRetry(msgspec.Struct, frozen=True):
    """How often and how fast it is tried again; milliseconds."""

    max_attempts: int = 2
    initial_ms: int = 2000
    factor: float = 2.0
    max_ms: int = 30_000
    window_ms: int = 120_000  # for all steps of one attempt together (R002-12)


class RecoverySettings(msgspec.Struct, frozen=True):
    """The policy's keys `recovery.*`, and the pause between two attempts."""

    step_order: tuple[RecoveryStep, ...] = (
        RecoveryStep.FIX_EMPTY,
        RecoveryStep.TRUNCATE,
        RecoveryStep.SUMMARIZE,
        RecoveryStep.REVERT,
    )
    aggressive: bool = False
    """Without it the step is left out, wherever it stands in the order (002-50, R002-14)."""
    prune_superseded: bool = False
    target_ratio: float = 0.5
    chars_per_token: int = 4
    max_truncate: int = 20
    min_output_chars: int = 500  # characters; smaller results are left alone
    max_revert: int = 3
    min_messages: int = 2  # messages that a revert leaves, at least
    max_empty_fix: int = 3  # R002-15; the seed itself has no limit
    steps_to_confirm: frozenset[RecoveryStep] = frozenset({RecoveryStep.REVERT})
    cooldown_ms: int = 60_000  # R002-06
    retry: RecoveryRetry = RecoveryRetry()

    def needs_confirmation(self, step: RecoveryStep) -> bool:
        """Whether the user has to confirm a step; a revert always needs it (T-08)."""
        return step is RecoveryStep.REVERT or step in self.steps_to_confirm


def read_recovery_settings(policy: Policy) -> RecoverySettings:
    return RecoverySettings(
        step_order=tuple(RecoveryStep(each) for each in policy.texts("recovery.order")),
        aggressive=policy.flag("recovery.aggressive"),
        prune_superseded=policy.flag("recovery.dcp"),
        target_ratio=policy.number("recovery.target_ratio") or 0.0,
        chars_per_token=policy.integer("recovery.chars_per_token") or 1,
        max_truncate=policy.integer("recovery.max_truncate") or 0,
        min_output_chars=policy.integer("recovery.min_output") or 0,
        max_revert=policy.integer("recovery.max_revert") or 0,
        min_messages=policy.integer("recovery.min_messages") or 0,
        max_empty_fix=policy.integer("recovery.max_empty_fix") or 0,
        steps_to_confirm=frozenset(RecoveryStep(each) for each in policy.texts("recovery.confirm")),
        cooldown_ms=(policy.integer("compact.cooldown_s") or 0) * SECOND_MS,
        retry=RecoveryRetry(
            max_attempts=policy.integer("recovery.retry.max") or 0,
            initial_ms=policy.integer("recovery.retry.initial_ms") or 0,
            factor=policy.number("recovery.retry.factor") or 1.0,
            max_ms=policy.integer("recovery.retry.max_ms") or 0,
            window_ms=(policy.integer("recovery.retry.window_s") or 0) * SECOND_MS,
        ),
    )


def recovery_steps_for(
    error_type: LimitErrorType, settings: RecoverySettings
) -> tuple[RecoveryStep, ...]:
    """List what to try; each step costs the conversation more than the one before it.

    Nothing of a conversation is too large where a message is empty: only mending that
    message helps, or going back before it (002-45).
    """
    order = tuple(step for step in settings.step_order if _is_enabled(step, settings))
    if error_type is LimitErrorType.NON_EMPTY_CONTENT:
        return (RecoveryStep.FIX_EMPTY, *(step for step in order if step is RecoveryStep.REVERT))
    if error_type is LimitErrorType.BEDROCK and RecoveryStep.AGGRESSIVE in order:
        return (
            RecoveryStep.AGGRESSIVE,
            *(step for step in order if step is not RecoveryStep.AGGRESSIVE),
        )
    return order


def _is_enabled(step: RecoveryStep, settings: RecoverySettings) -> bool:
    if step is RecoveryStep.AGGRESSIVE:
        return settings.aggressive
    return settings.prune_superseded if step is RecoveryStep.DCP else True
