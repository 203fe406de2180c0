"""Whether ctxtop may compact or recover a session without being asked, and when."""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from ..measure.pause_costs import CLIENT_SUMMARY_TOKENS
from ..model.claude_models import CACHE_WRITE_5M_FACTOR, OUTPUT_FACTOR, cache_read_factor
from ..model.context import Context
from ..model.context_window import ClaimSource
from ..model.session import SessionStatus
from ..policy.policy import Policy, PolicyOrigin
from .compression_level import (
    COMPRESSION_LEVELS,
    compacting_sizes,
    defined_compression,
    limit_text,
    limit_tokens,
)
from .plan import DEFAULT_TARGET_SHARE
from .policy_strategy import NONE

_REPORTED_CHECKS: Final = frozenset({"window", "breaker", "price", "messages", "attempts"})


class AutomationDecision(msgspec.Struct, frozen=True):
    allowed: bool
    check: str
    why: str

    @property
    def is_reported(self) -> bool:
        """Whether to notify the user: other checks pass by themselves, or need nothing done."""
        return not self.allowed and self.check in _REPORTED_CHECKS


class PastRun(msgspec.Struct, frozen=True):
    """An automatic run of the session, and what came after it; tokens of the context."""

    began_at: int  # in ms since 1970
    tokens_left: int | None = None  # None if it failed
    min_tokens_since: int | None = None  # that an answer since then has seen; None for no answer
    newest_tokens_since: int | None = None  # that the newest answer since then has seen
    failed_at_tokens: int | None = None  # size when it was tried in vain; None if it was not


class AutomationInput(msgspec.Struct, frozen=True):
    """A session at one moment; times are ms since 1970."""

    context: Context
    status: SessionStatus
    is_open: bool  # the registry names a process that has it open
    now_ms: int
    last_written_at: int | None  # when its transcript was written last
    runs: tuple[PastRun, ...] = ()  # its automatic runs, oldest first, the failed ones too
    is_run_active: bool = False  # one of them has not ended
    messages: int | None = None  # that the model sees; None if nobody counted them

    @property
    def idle_ms(self) -> int:
        """Milliseconds since the last write; 0 if that is not known."""
        return 0 if self.last_written_at is None else self.now_ms - self.last_written_at


def check_automation_enabled(policy: Policy) -> AutomationDecision:
    """Whether somebody who may has turned automation on (T-10).

    That is the person, or the file of a project that the person trusts: `Policies.acting` reads
    no other file. A preset is chosen for its numbers, and turns nothing on. Compactions and
    recoveries are two modules: it is enough that one of them is on.
    """
    mode = policy.values["mode"]
    if mode.value != "auto":
        return _deny("mode", "mode is not auto")
    if mode.origin in {PolicyOrigin.PRESET, PolicyOrigin.BUILT_IN}:
        return _deny("mode", f"mode = auto must be set explicitly, not in the {mode.origin}")
    compacts, recovers = _check_compaction_enabled(policy), _check_recovery_enabled(policy)
    if not compacts.allowed and not recovers.allowed:
        return compacts
    return _allow("mode", f"{mode.where} sets mode = auto")


def _check_compaction_enabled(policy: Policy) -> AutomationDecision:
    if not policy.suggests:
        return _deny("module", "the module `preemptive` is disabled")
    if policy.text("compact.strategy") == NONE:
        return _deny("strategy", "compact.strategy is none")
    return _allow("strategy", "automatic compactions are enabled")


def _check_recovery_enabled(policy: Policy) -> AutomationDecision:
    if not policy.recovers:
        return _deny("module", "the module `auto-recovery` is disabled")
    if not policy.flag("recovery.auto"):
        return _deny("recovery.auto", "recovery.auto is not true")
    return _allow("recovery.auto", "automatic recoveries are enabled")


def decide_compaction(policy: Policy, state: AutomationInput) -> AutomationDecision:
    """Decide whether to compact this session now; `check_break_even` decides on a plan's cost."""
    return _first_denial(
        (
            check_automation_enabled(policy),
            _check_compaction_enabled(policy),
            _check_fill(policy, state.context),
            _check_messages(policy, state.messages),
            check_idle(state),
            _check_rearmed(policy, state),
            _check_attempts(policy, state),
            _check_pace(policy, state),
        )
    )


IDLE_MS: Final = 120_000  # since the last write: a client may still be at work
STALE_MS: Final = 24 * 3_600_000  # a session that nobody resumes for so long is left alone


def check_idle(state: AutomationInput) -> AutomationDecision:
    if state.is_run_active:
        return _deny("running", "a run is in progress")
    idle_status = SessionStatus.IDLE if state.is_open else SessionStatus.ENDED
    if state.status is not idle_status:
        return _deny("status", f"it is not {idle_status}: it is {state.status}")
    if state.idle_ms < IDLE_MS:
        return _deny("idle", f"it was written to less than {IDLE_MS // 1000} s ago")
    if state.idle_ms >= STALE_MS:
        return _deny("stale", f"it has been inactive for {STALE_MS // 3_600_000} hours")
    return _allow("idle", f"idle for {state.idle_ms // 1000} s")


def decide_recovery(
    policy: Policy, state: AutomationInput, done_at: int | None
) -> AutomationDecision:
    """Decide whether to recover a session that ended in a refusal, once for each (002-08, 002-37).

    `done_at` is when its recovery was changed last, whoever asked for it.
    """
    enabled = _first_denial((check_automation_enabled(policy), _check_recovery_enabled(policy)))
    if not enabled.allowed:
        return enabled
    written = state.last_written_at
    if done_at is not None and written is not None and done_at >= written:
        return _deny("mended", "it has already been tried")
    if state.is_open:
        return _deny("open", "it is open in Claude Code")
    is_too_long = state.status is SessionStatus.TOO_LONG
    ended = msgspec.structs.replace(state, status=SessionStatus.ENDED) if is_too_long else state
    checks = (check_idle(ended), _check_pace(policy, state))
    return _first_denial((_allow("open", "it is not open in Claude Code"), *checks))


RECOMPACT_REASON: Final = "its answers since the last compaction have no text"
RECOMPACT_PAUSE_MS: Final = 5_000  # after a run: the model may not have answered yet (R002-09)


def decide_recompaction(
    policy: Policy, state: AutomationInput, attempts: int
) -> AutomationDecision:
    """Decide whether to compact a session again that went silent after a compaction (R002-09).

    `attempts` is how often that was tried.
    """
    most = policy.count("recovery.max_recompact")
    if attempts >= most:
        return _deny("recovery.max_recompact", f"compacted again {attempts} of {most} times")
    return _first_denial(
        (
            check_automation_enabled(policy),
            _check_recovery_enabled(policy),
            _check_compaction_enabled(policy),
            check_idle(state),
            _check_recompaction_pause(state),
            _check_pace(policy, state),
        )
    )


def _check_recompaction_pause(state: AutomationInput) -> AutomationDecision:
    began_at = max((run.began_at for run in state.runs), default=None)
    if began_at is not None and state.now_ms - began_at < RECOMPACT_PAUSE_MS:
        return _deny("cooldown", f"a run began less than {RECOMPACT_PAUSE_MS // 1000} s ago")
    return _allow("cooldown", "no run began a moment ago")


def automatic_target(policy: Policy, context: Context) -> int:
    """Return the target of an automatic compaction, in tokens.

    It is a share of the window that the thresholds are for, moved into `compact.target_reduction`
    (001-12), and below the threshold that was reached: else there would be sessions that are over
    a threshold and never compacted.
    """
    usual = round(DEFAULT_TARGET_SHARE * limit_tokens(policy, context))
    lowest = min(compacting_sizes(policy, context), default=0)
    least, most = _reduction_range(policy, context)
    size = max(context.tokens or 0, lowest)  # nothing smaller is compacted
    target = max(round(size * (1 - most)), min(usual, round(size * (1 - least))))
    return target if not lowest or target < lowest else round(DEFAULT_TARGET_SHARE * lowest)


def _reduction_range(policy: Policy, context: Context) -> tuple[float, float]:
    """Return the shares to free: by the level of compression, if the policy defines levels."""
    least, most = policy.target_reduction
    level = defined_compression(policy, context)
    if level is None:
        return least, most
    step = COMPRESSION_LEVELS.index(level) / (len(COMPRESSION_LEVELS) - 1)
    share = least + step * (most - least)
    return share, share


CACHE_LIFETIME_MS: Final = 3_600_000  # of a prompt cache: later a change loses nothing
MAX_BREAK_EVEN_REQUESTS: Final = 20  # after which a change must have paid for itself
URGENT_SHARE: Final = 0.90  # share of the policy's limit from which the price does not matter


def check_break_even(
    policy: Policy, state: AutomationInput, requests: float | None
) -> AutomationDecision:
    """Check that a change which breaks even after `requests` pays off; None means never."""
    if (state.context.tokens or 0) >= URGENT_SHARE * limit_tokens(policy, state.context):
        return _allow("price", "it is urgent")
    if requests is None:
        return _deny("price", "it would never break even")
    if state.idle_ms >= CACHE_LIFETIME_MS:
        return _allow("price", "the prompt cache is cold")
    if requests > MAX_BREAK_EVEN_REQUESTS:
        return _deny("price", f"it would break even only after {requests:.0f} requests")
    return _allow("price", f"it breaks even after {requests:.0f} requests")


def client_break_even(tokens: int, model: str | None = None) -> float | None:
    """Return the requests after which the client's own compaction breaks even; None if never.

    Its cost is that the summary is written, and then written to the cache by the next request.
    That request no longer reads the old context, while the one that summarized did; each later
    request of `model` reads fewer tokens.
    """
    saved = cache_read_factor(model) * (tokens - CLIENT_SUMMARY_TOKENS)
    cost = CLIENT_SUMMARY_TOKENS * (OUTPUT_FACTOR + CACHE_WRITE_5M_FACTOR)
    return cost / saved if saved > 0 else None


MAX_BURST_RUNS: Final = 3  # of one session in BURST_WINDOW_MS: another run would not help it
BURST_WINDOW_MS: Final = 300_000
BREAKER_PAUSE_MS: Final = 1_800_000  # after that many runs


def breaker_ends_at(runs: Iterable[int]) -> int | None:
    """Return until when (ms) automation pauses after too many runs; None for no pause."""
    starts = sorted(runs)
    until = None
    for first, last in zip(starts, starts[MAX_BURST_RUNS - 1 :], strict=False):
        if last - first < BURST_WINDOW_MS:
            until = last + BREAKER_PAUSE_MS
    return until


def _check_fill(policy: Policy, context: Context) -> AutomationDecision:
    if context.tokens is None or context.ratio is None:
        return _deny("unknown", "its context is unknown")
    least = policy.count("compact.min_tokens")
    if context.tokens < least:
        return _deny("small", f"{context.tokens:,} tokens are fewer than {least:,}")
    sizes = compacting_sizes(policy, context)
    if not sizes:
        return _deny("threshold", "no threshold triggers it")
    limit = limit_tokens(policy, context)
    share = f"{context.tokens / limit:.0%} of {limit_text(policy, context)}"
    if context.tokens < min(sizes):
        return _deny("threshold", f"{share} is below {min(sizes) / limit:.0%}")
    is_assumed = context.window.source is ClaimSource.ASSUMED
    if is_assumed or policy.effective_window(context.window) is None:
        return _deny("window", "its window is unknown")
    level = defined_compression(policy, context)
    return _allow("threshold", f"{share} is in use{f': compression {level}' if level else ''}")


def _check_messages(policy: Policy, messages: int | None) -> AutomationDecision:
    """Refuse a session of so few messages that hardly any could leave (001-24)."""
    most = policy.count("compact.min_messages")
    if messages is None or messages > most:
        return _allow("messages", "it has enough messages")
    what = "message" if messages == 1 else "messages"
    why = f"{messages} {what}: at most {most} are never compacted (compact.min_messages)"
    return _deny("messages", why)


# A context is compacted again after it fell below a share of the policy's limit or has grown.
REARM_BELOW_SHARE: Final = 0.60
REARM_GROWTH_FACTOR: Final = 1.15  # of what the last run left


def _check_rearmed(policy: Policy, state: AutomationInput) -> AutomationDecision:
    last = next((each for each in reversed(state.runs) if each.tokens_left is not None), None)
    if last is None or last.tokens_left is None:
        return _allow("armed", "nothing has run yet")
    if last.min_tokens_since is None or last.newest_tokens_since is None:
        return _deny("armed", "there has been no activity since the last run")
    limit = limit_tokens(policy, state.context)
    if last.min_tokens_since < REARM_BELOW_SHARE * limit:
        return _allow("armed", f"it fell below {REARM_BELOW_SHARE:.0%} since the last run")
    if last.newest_tokens_since >= REARM_GROWTH_FACTOR * last.tokens_left:
        growth = last.newest_tokens_since / last.tokens_left - 1
        return _allow("armed", f"it grew by {growth:.0%} since the last run")
    return _deny("armed", f"it grew by less than {REARM_GROWTH_FACTOR - 1:.0%} since the last run")


POSTPONED_CHECKS: Final = frozenset(
    ("price", "live", "changed", "open", "idle", "open-call", "agent", "held", "late-write")
)
"""Checks of a run that was put off, not tried in vain: they pass with time."""

RETRY_GROWTH_FACTOR: Final = 1.05
"""Growth after which a session in which attempts failed is tried again: 8,500 of 170,000 tokens,
a few turns. The 15 % of REARM_GROWTH_FACTOR would be beyond most windows."""


def _check_attempts(policy: Policy, state: AutomationInput) -> AutomationDecision:
    """Refuse a session after `compact.max_attempts` failures, until it has grown (T-10)."""
    most = policy.count("compact.max_attempts")
    failed = 0
    for run in reversed(state.runs):
        if run.tokens_left is not None:
            break
        failed += _failed_at_this_size(policy, run, state.context)
    if failed < most:
        return _allow("attempts", f"{failed} of {most} attempts failed")
    growth = f"{RETRY_GROWTH_FACTOR - 1:.0%}"
    what = "attempt" if failed == 1 else "attempts"
    return _deny("attempts", f"{failed} {what} failed: not tried again until it grew by {growth}")


def _failed_at_this_size(policy: Policy, run: PastRun, context: Context) -> bool:
    """Whether an attempt failed, and the context has neither grown nor been emptied since."""
    if run.failed_at_tokens is None or context.tokens is None:
        return False
    limit = limit_tokens(policy, context)
    least = run.min_tokens_since
    if least is not None and least < REARM_BELOW_SHARE * limit:
        return False
    return context.tokens < RETRY_GROWTH_FACTOR * run.failed_at_tokens


MAX_RUNS_PER_HOUR: Final = 6
"""Runs of one session, whatever pauses a policy sets: more than one in ten minutes only
repeats what did not help."""
HOUR_MS: Final = 3_600_000


def _check_pace(policy: Policy, state: AutomationInput) -> AutomationDecision:
    if not state.runs:
        return _allow("cooldown", "there has been no run")
    starts = [run.began_at for run in state.runs]
    left_ms = starts[-1] + policy.count("compact.cooldown_s") * 1000 - state.now_ms
    if left_ms > 0:
        return _deny("cooldown", f"it pauses for another {-(-left_ms // 1000)} s")
    within = [at for at in starts if 0 <= state.now_ms - at < HOUR_MS]
    if len(within) >= MAX_RUNS_PER_HOUR:
        minutes = -(-(within[-MAX_RUNS_PER_HOUR] + HOUR_MS - state.now_ms) // 60_000)
        why = f"{len(within)} runs within an hour: paused for {minutes} more minutes"
        return _deny("breaker", why)
    until = breaker_ends_at(starts)
    if until is not None and state.now_ms < until:
        minutes = -(-(until - state.now_ms) // 60_000)
        why = f"{MAX_BURST_RUNS} runs in {BURST_WINDOW_MS // 60_000} minutes"
        return _deny("breaker", f"{why}: paused for {minutes} more minutes")
    return _allow("cooldown", "the last run was long ago")


def _first_denial(decisions: Sequence[AutomationDecision]) -> AutomationDecision:
    denial = next((each for each in decisions if not each.allowed), None)
    return denial or _allow("all", "; ".join(each.why for each in decisions))


def _deny(check: str, why: str) -> AutomationDecision:
    return AutomationDecision(allowed=False, check=check, why=why)


def _allow(check: str, why: str) -> AutomationDecision:
    return AutomationDecision(allowed=True, check=check, why=why)
