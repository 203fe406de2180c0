"""Whether ctxtop may compact or recover a session without being asked, and when."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from ..measure.levels import PlacedThreshold
from ..measure.models import CACHE_WRITE_5M_FACTOR, cache_read_factor
from ..measure.window import ClaimSource
from ..model.context import Context
from ..model.session import SessionStatus
from ..policy.policy import Policy, PolicyOrigin
from .plan import DEFAULT_TARGET_SHARE

IDLE_MS: Final = 120_000
"""Since the last write: the live window, in which a client may still be at work."""

STALE_MS: Final = 24 * 3_600_000
"""A session that nobody has gone on with for so long is left as it is until somebody does."""

CACHE_LIFETIME_MS: Final = 3_600_000
"""The longest that a prompt cache is kept: from then on nothing is lost by a change."""

REARM_BELOW_SHARE: Final = 0.60
"""Share of the policy's limit to which a context has to fall to be compacted once more, or"""

REARM_GROWTH_FACTOR: Final = 1.15  # how often what was left it has to hold
MAX_BURST_RUNS: Final = 3
"""Of one session in RUNS_WITHIN_MS; a session that needs more is not helped by another one."""

BURST_WINDOW_MS: Final = 300_000

MAX_RUNS_PER_HOUR: Final = 6
"""Runs of one session, whatever a policy says of pauses: more than one each ten minutes only
repeats what did not help."""

HOUR_MS: Final = 3_600_000

BREAKER_PAUSE_MS: Final = 1_800_000  # how long nothing is done after that many runs
MAX_BREAK_EVEN_REQUESTS: Final = 20  # after which it must have paid for itself
URGENT_SHARE: Final = 0.90  # share of the window from which on the price does not matter
COMPACTING_ACTIONS: Final = frozenset({"offer_compact", "compact"})
"""Actions of a policy's thresholds at which it is time to compact."""

OUTPUT_PRICE: Final = 5.0
"""Price of a token, as a multiple of one of input that is not cached (compaction.md 1.6)."""

CLIENT_SUMMARY_TOKENS: Final = 8_000
"""What a compaction of the client's writes and leaves, on the safe side."""

REPORTED_CHECKS: Final = frozenset({"window", "breaker", "price"})
"""Checks of which a person hears: the others pass by themselves, or nothing is to be done."""


class AutomationDecision(msgspec.Struct, frozen=True):
    """Yes or no, and by which check."""

    allowed: bool
    check: str
    why: str

    @property
    def is_reported(self) -> bool:
        """Whether the user should be notified."""
        return not self.allowed and self.check in REPORTED_CHECKS


class PastRun(msgspec.Struct, frozen=True):
    """An automatic run of the session, and what came after it; tokens of the context."""

    began_at: int  # when it began, in ms since 1970
    tokens_left: int | None = None  # what it left; None where it failed
    min_tokens_since: int | None = None
    """The least that an answer since then has seen; None where there was no answer."""
    newest_tokens_since: int | None = None  # what the newest answer since then has seen


class AutomationInput(msgspec.Struct, frozen=True):
    """A session at one moment; times are ms since 1970."""

    context: Context
    status: SessionStatus
    is_open: bool  # the registry names a process that has it open
    now_ms: int
    last_written_at: int | None  # when its transcript was written last
    runs: tuple[PastRun, ...] = ()  # its automatic runs, oldest first, the failed ones too
    is_run_active: bool = False  # one of them has not ended

    @property
    def idle_ms(self) -> int:
        """Milliseconds since the last write; 0 if that is not known."""
        return 0 if self.last_written_at is None else self.now_ms - self.last_written_at


def check_automation_enabled(policy: Policy) -> AutomationDecision:
    """Whether somebody who may has turned automation on (T-10).

    That is the person, or the file of a project that the person trusts: `Policies.acting` has
    no other file's words. A preset is chosen for its numbers, and turns nothing on.
    """
    mode = policy.values["mode"]
    if mode.value != "auto":
        return _deny("mode", "nobody has asked for it: mode is not auto")
    if mode.origin in {PolicyOrigin.PRESET, PolicyOrigin.BUILT_IN}:
        return _deny("mode", f"mode = auto counts only where it is said, not in the {mode.origin}")
    if not policy.suggests:
        return _deny("module", "the module `preemptive` is disabled")
    if policy.text("compact.strategy") == "none":
        return _deny("strategy", "compact.strategy is none")
    return _allow("mode", f"{mode.where} says mode = auto")


def decide_compaction(policy: Policy, state: AutomationInput) -> AutomationDecision:
    """Decide whether to make this session smaller now, and why (not).

    What a plan of it would cost is for `pays`.
    """
    allowed = check_automation_enabled(policy)
    if not allowed.allowed:
        return allowed
    return _first_denial(
        (
            _check_fill(policy, state.context),
            check_idle(state),
            _check_rearmed(policy, state),
            _check_pace(policy, state),
        )
    )


def check_idle(state: AutomationInput) -> AutomationDecision:
    """Check that nobody is working, or may be working, in a session."""
    if state.is_run_active:
        return _deny("running", "a run is under way")
    rests = SessionStatus.IDLE if state.is_open else SessionStatus.ENDED
    if state.status is not rests:
        return _deny("status", f"it is not {rests}: it is {state.status}")
    if state.idle_ms < IDLE_MS:
        return _deny("idle", f"it was written less than {IDLE_MS // 1000} s ago")
    if state.idle_ms >= STALE_MS:
        return _deny("stale", f"nobody has gone on with it for {STALE_MS // 3_600_000} hours")
    return _allow("idle", f"idle for {state.idle_ms // 1000} s")


def decide_recovery(
    policy: Policy, state: AutomationInput, done_at: int | None
) -> AutomationDecision:
    """Decide whether to mend a session that ended in a refusal, once for each (002-08, 002-37).

    `done_at` is when a recovery of it was changed last, whoever asked for it.
    """
    allowed = check_automation_enabled(policy)
    if not allowed.allowed:
        return allowed
    if not policy.recovers:
        return _deny("module", "the module `auto-recovery` is disabled")
    if not policy.flag("recovery.auto"):
        return _deny("recovery.auto", "recovery.auto is not true")
    resting = msgspec.structs.replace(
        state,
        status=SessionStatus.ENDED if state.status is SessionStatus.TOO_LONG else state.status,
    )
    if (
        done_at is not None
        and state.last_written_at is not None
        and done_at >= state.last_written_at
    ):
        return _deny("mended", "it was tried since")
    return _first_denial((_check_closed(state), check_idle(resting), _check_pace(policy, state)))


def automatic_target(policy: Policy, context: Context) -> int:
    """Return the tokens that an automatic compaction aims at.

    It is a share of the window that the thresholds are for, and below the one that was reached:
    else there would be sessions that are over a threshold and never compacted.
    """
    window = context.window
    target = round(DEFAULT_TARGET_SHARE * (policy.usable_tokens(window) or window.tokens))
    lines = _compacting_lines(policy, context)
    lowest = min((int(each.at * window.tokens) for each in lines), default=None)
    return target if lowest is None or target < lowest else round(DEFAULT_TARGET_SHARE * lowest)


def check_break_even(requests: float | None, state: AutomationInput) -> AutomationDecision:
    """Check that a change which breaks even after `requests` pays off; None means never."""
    ratio = state.context.ratio
    if ratio is not None and ratio >= URGENT_SHARE:
        return _allow("price", "it is urgent")
    if requests is not None and state.idle_ms >= CACHE_LIFETIME_MS:
        return _allow("price", "the prompt cache is cold")
    if requests is None or requests > MAX_BREAK_EVEN_REQUESTS:
        after = "never" if requests is None else f"only after {requests:.0f} requests"
        return _deny("price", f"it would pay {after}")
    return _allow("price", f"it pays after {requests:.0f} requests")


def client_break_even(tokens: int, model: str | None = None) -> float | None:
    """Return the requests after which the client's own compaction breaks even; None if never.

    Its cost is that the summary is written, and then written to the cache by the next request.
    That request no longer reads the old context, while the one that summarised did; each later
    request of `model` reads fewer tokens.
    """
    saved = cache_read_factor(model) * (tokens - CLIENT_SUMMARY_TOKENS)
    return (
        CLIENT_SUMMARY_TOKENS * (OUTPUT_PRICE + CACHE_WRITE_5M_FACTOR) / saved
        if saved > 0
        else None
    )


def breaker_ends_at(runs: Iterable[int]) -> int | None:
    """Return until when (ms) automation pauses after too many runs; None for no pause."""
    began = sorted(runs)
    until = None
    for first, last in zip(began, began[MAX_BURST_RUNS - 1 :], strict=False):
        if last - first < BURST_WINDOW_MS:
            until = last + BREAKER_PAUSE_MS
    return until


def _check_closed(state: AutomationInput) -> AutomationDecision:
    return (
        _deny("open", "somebody has it open")
        if state.is_open
        else _allow("open", "nobody has it open")
    )


def _check_fill(policy: Policy, context: Context) -> AutomationDecision:
    if context.tokens is None or context.ratio is None:
        return _deny("unknown", "what is in its context is not known")
    least = policy.integer("compact.min_tokens") or 0
    if context.tokens < least:
        return _deny("small", f"{context.tokens:,} tokens are fewer than {least:,}")
    lines = _compacting_lines(policy, context)
    if not lines:
        return _deny("threshold", "no threshold of the policy asks for it")
    lowest = min(lines, key=lambda each: each.at)
    if not any(each.is_reached(context.ratio) for each in lines):
        return _deny("threshold", f"{context.ratio:.0%} of its window is below {lowest.at:.0%}")
    if (
        context.window.source is ClaimSource.ASSUMED
        or policy.effective_window(context.window) is None
    ):
        return _deny("window", "its window is not known")
    return _allow("threshold", f"{context.ratio:.0%} of its window is in use")


def _compacting_lines(policy: Policy, context: Context) -> list[PlacedThreshold]:
    acting = {each.name for each in policy.thresholds if each.action in COMPACTING_ACTIONS}
    return [each for each in context.thresholds if each.name in acting]


def _check_rearmed(policy: Policy, state: AutomationInput) -> AutomationDecision:
    last = next((each for each in reversed(state.runs) if each.tokens_left is not None), None)
    if last is None or last.tokens_left is None:
        return _allow("armed", "nothing was done yet")
    if last.min_tokens_since is None or last.newest_tokens_since is None:
        return _deny("armed", "nobody has gone on since the last run")
    window = state.context.window
    if last.min_tokens_since < REARM_BELOW_SHARE * (
        policy.effective_window(window) or window.tokens
    ):
        return _allow("armed", f"it fell below {REARM_BELOW_SHARE:.0%} since the last run")
    if last.newest_tokens_since >= REARM_GROWTH_FACTOR * last.tokens_left:
        return _allow(
            "armed",
            f"it grew by {last.newest_tokens_since / last.tokens_left - 1:.0%} since the last run",
        )
    return _deny("armed", f"it grew by less than {REARM_GROWTH_FACTOR - 1:.0%} since the last run")


def _check_pace(policy: Policy, state: AutomationInput) -> AutomationDecision:
    if not state.runs:
        return _allow("cooldown", "there was no run")
    cooldown_ms = (policy.integer("compact.cooldown_s") or 0) * 1000
    began = [each.began_at for each in state.runs]
    since = state.now_ms - began[-1]
    if since < cooldown_ms:
        return _deny("cooldown", f"it cools down for {-(-(cooldown_ms - since) // 1000)} s more")
    within = [at for at in began if 0 <= state.now_ms - at < HOUR_MS]
    if len(within) >= MAX_RUNS_PER_HOUR:
        minutes = -(-(within[-MAX_RUNS_PER_HOUR] + HOUR_MS - state.now_ms) // 60_000)
        why = f"{len(within)} runs within an hour: paused for {minutes} minutes more"
        return _deny("breaker", why)
    until = breaker_ends_at(began)
    if until is not None and state.now_ms < until:
        minutes = -(-(until - state.now_ms) // 60_000)
        why = f"{MAX_BURST_RUNS} runs in {BURST_WINDOW_MS // 60_000} minutes"
        return _deny("breaker", f"{why}: paused for {minutes} minutes more")
    return _allow("cooldown", "the last run is long ago")


def _first_denial(verdicts: Iterable[AutomationDecision]) -> AutomationDecision:
    reasons: list[str] = []
    for each in verdicts:
        if not each.allowed:
            return each
        reasons.append(each.why)
    return _allow("all", "; ".join(reasons))


def _deny(check: str, why: str) -> AutomationDecision:
    return AutomationDecision(allowed=False, check=check, why=why)


def _allow(check: str, why: str) -> AutomationDecision:
    return AutomationDecision(allowed=True, check=check, why=why)
