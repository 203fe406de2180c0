"""Whether ctxtop compacts a session without being asked: it is off until a project wants it.

Source: requirements 2.1 T-10, R002-05 to R002-07; compaction.md 7.5 for the breaker and the
break-even.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from ..claims import Source
from ..policy.policy import Origin
from ..sessions import Status
from .should_compact import Decision

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..context import Context
    from ..policy.policy import Policy

MOST_RUNS: Final = 3
"""Of one session in RUNS_WITHIN_MS; a session that needs more is not helped by another one."""

RUNS_WITHIN_MS: Final = 300_000

BREAKER_MS: Final = 1_800_000
"""How long nothing is done after that many runs."""

BREAK_EVEN_REQUESTS: Final = 20
"""After which it must have paid for itself."""

URGENT: Final = 0.90
"""Share of the window from which on the price does not matter."""

ACTING: Final = frozenset({"offer_compact", "compact"})
"""Actions of a policy's thresholds at which it is time to compact."""

CACHE_READ: Final = 0.1
CACHE_WRITE: Final = 1.25
OUTPUT: Final = 5.0
"""Prices of a token, as a multiple of one of input that is not cached (compaction.md 1.6)."""

SUMMARY_TOKENS: Final = 8_000
"""What a compaction of the client's writes and leaves, on the safe side."""


class Situation(msgspec.Struct, frozen=True):
    """A session at one moment; times are ms since 1970."""

    context: Context
    status: Status
    is_open: bool
    """The registry names a process that has it open."""
    now_ms: int
    runs: tuple[int, ...] = ()
    """When its automatic runs began, oldest first, the failed ones too."""
    is_running: bool = False
    """One of them has not ended."""


def may_act(policy: Policy) -> Decision:
    """Say whether a project has asked for automation; nothing else can (T-10)."""
    mode = policy.values["mode"]
    if mode.value != "auto":
        return _no("the project has not asked for it: mode is not auto")
    if mode.origin is not Origin.PROJECT_FILE:
        return _no(f"mode = auto counts only in the project's own file, not in the {mode.origin}")
    if not policy.suggests:
        return _no("the module `preemptive` is disabled")
    return _yes("the project's file says mode = auto")


def should_act(policy: Policy, now: Situation) -> Decision:
    """Decide whether to ask the client to compact this session now, and why (not)."""
    allowed = may_act(policy)
    if not allowed.compact:
        return allowed
    return _first_no(
        (
            _at_rest(now),
            _full(policy, now.context),
            _paced(policy, now),
            _pays(now.context),
        )
    )


def break_even(tokens: int, left: int = SUMMARY_TOKENS) -> float | None:
    """Say after how many requests the client's own compaction has paid for itself.

    The summary is written, and put into the cache by the next request, which reads no old
    context any more, while the one that summarised did; each later request reads less. None
    where it never pays.
    """
    saved = CACHE_READ * (tokens - left)
    return left * (OUTPUT + CACHE_WRITE) / saved if saved > 0 else None


def _at_rest(now: Situation) -> Decision:
    if now.is_running:
        return _no("a run is under way")
    if not now.is_open:
        return _no("nobody has it open")
    if now.status is not Status.IDLE:
        return _no(f"it is not idle but {now.status}")
    return _yes("it is idle")


def _full(policy: Policy, context: Context) -> Decision:
    if context.tokens is None or context.ratio is None:
        return _no("what is in its context is not known")
    if context.window.source is Source.ASSUMED or policy.limit(context.window) is None:
        return _no("its window is not known")
    least = policy.whole("compact.min_tokens") or 0
    if context.tokens < least:
        return _no(f"{context.tokens:,} tokens are fewer than {least:,}")
    acting = {each.name for each in policy.thresholds if each.action in ACTING}
    lines = [each for each in context.lines if each.name in acting]
    if not lines:
        return _no("no threshold of the policy asks for it")
    lowest = min(lines, key=lambda each: each.at)
    if not any(each.is_reached(context.ratio) for each in lines):
        return _no(f"{context.ratio:.0%} of its window is below {lowest.at:.0%}")
    return _yes(f"{context.ratio:.0%} of its window is in use")


def _paced(policy: Policy, now: Situation) -> Decision:
    if not now.runs:
        return _yes("there was no run")
    cooldown_ms = (policy.whole("compact.cooldown_s") or 0) * 1000
    since = now.now_ms - now.runs[-1]
    if since < cooldown_ms:
        return _no(f"it cools down for {-(-(cooldown_ms - since) // 1000)} s more")
    until = breaker_until(now.runs)
    if until is not None and now.now_ms < until:
        minutes = -(-(until - now.now_ms) // 60_000)
        return _no(f"{MOST_RUNS} runs in {RUNS_WITHIN_MS // 60_000} minutes: paused for {minutes}")
    return _yes("the last run is long ago")


def breaker_until(runs: Iterable[int]) -> int | None:
    """Say until when nothing is done, where too many runs came too fast; None where not."""
    began = sorted(runs)
    until = None
    for first, last in zip(began, began[MOST_RUNS - 1 :], strict=False):
        if last - first < RUNS_WITHIN_MS:
            until = last + BREAKER_MS
    return until


def _pays(context: Context) -> Decision:
    if context.ratio is not None and context.ratio >= URGENT:
        return _yes("it is urgent")
    requests = break_even(context.tokens or 0)
    if requests is None or requests > BREAK_EVEN_REQUESTS:
        after = "never" if requests is None else f"only after {requests:.0f} requests"
        return _no(f"it would pay {after}")
    return _yes(f"it pays after {requests:.0f} requests")


def _first_no(decisions: Iterable[Decision]) -> Decision:
    reasons: list[str] = []
    for each in decisions:
        if not each.compact:
            return each
        reasons.append(each.reason)
    return _yes("; ".join(reasons))


def _no(reason: str) -> Decision:
    return Decision(compact=False, reason=reason)


def _yes(reason: str) -> Decision:
    return Decision(compact=True, reason=reason)
