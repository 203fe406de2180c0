"""What recovery may do and how often, as a policy says it.

The defaults are oh-my-opencode's own (002-64 to 002-67, 002-82, 002-83, 002-93 to 002-96).
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from ...policy.policy import Policy

SECOND_MS: Final = 1000


class Step(StrEnum):
    """One way to mend a session; the words are those of `recovery.order`."""

    FIX_EMPTY = "fix_empty"
    DEDUP = "dedup"
    DCP = "dcp"
    """Prunes what is superseded."""
    TRUNCATE = "truncate_largest"
    AGGRESSIVE = "aggressive"
    SUMMARIZE = "summarize"
    REVERT = "revert"


class RetrySettings(msgspec.Struct, frozen=True):
    """How often and how fast it is tried again; milliseconds."""

    max_attempts: int = 2
    initial_ms: int = 2000
    factor: float = 2.0
    max_ms: int = 30_000
    window_ms: int = 120_000
    """For all steps of one attempt together (R002-12)."""


class RecoverySettings(msgspec.Struct, frozen=True):
    """The policy's keys `recovery.*`, and the pause between two attempts."""

    step_order: tuple[Step, ...] = (Step.FIX_EMPTY, Step.TRUNCATE, Step.SUMMARIZE, Step.REVERT)
    auto: bool = False
    aggressive: bool = False
    """Without it the step is left out, wherever it stands in the order (002-50, R002-14)."""
    prune_superseded: bool = False
    target_ratio: float = 0.5
    chars_per_token: int = 4
    max_truncate: int = 20
    min_output_chars: int = 500
    """Characters; smaller results are left alone."""
    max_revert: int = 3
    min_messages: int = 2
    """Messages that a revert leaves, at least."""
    max_empty_fix: int = 3
    """R002-15; the seed itself has no limit."""
    steps_to_confirm: frozenset[Step] = frozenset({Step.REVERT})
    cooldown_ms: int = 60_000
    """R002-06."""
    retry: RetrySettings = RetrySettings()

    def needs_confirmation(self, step: Step) -> bool:
        """Say whether a person has to confirm a step; a revert always (T-08)."""
        return step is Step.REVERT or step in self.steps_to_confirm


def recovery_settings(policy: Policy) -> RecoverySettings:
    """Take what concerns recovery from a policy."""
    return RecoverySettings(
        step_order=tuple(Step(each) for each in policy.texts("recovery.order")),
        auto=policy.flag("recovery.auto"),
        aggressive=policy.flag("recovery.aggressive"),
        prune_superseded=policy.flag("recovery.dcp"),
        target_ratio=policy.number("recovery.target_ratio") or 0.0,
        chars_per_token=policy.integer("recovery.chars_per_token") or 1,
        max_truncate=policy.integer("recovery.max_truncate") or 0,
        min_output_chars=policy.integer("recovery.min_output") or 0,
        max_revert=policy.integer("recovery.max_revert") or 0,
        min_messages=policy.integer("recovery.min_messages") or 0,
        max_empty_fix=policy.integer("recovery.max_empty_fix") or 0,
        steps_to_confirm=frozenset(Step(each) for each in policy.texts("recovery.confirm")),
        cooldown_ms=(policy.integer("compact.cooldown_s") or 0) * SECOND_MS,
        retry=RetrySettings(
            max_attempts=policy.integer("recovery.retry.max") or 0,
            initial_ms=policy.integer("recovery.retry.initial_ms") or 0,
            factor=policy.number("recovery.retry.factor") or 1.0,
            max_ms=policy.integer("recovery.retry.max_ms") or 0,
            window_ms=(policy.integer("recovery.retry.window_s") or 0) * SECOND_MS,
        ),
    )
