"""Whether ctxtop compacts a session without being asked: it is off until the person wants it.

Only what nobody has open is ever changed; where a session stands open and idle its client is
asked. Source: requirements 2.1 T-10, R002-05 to R002-07;
compaction.md 7.5 for rest, hysteresis, breaker and break-even.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from ..claims import Source
from ..policy.policy import Origin
from ..prices import WRITE_5_MINUTES, read_share
from ..sessions import Status
from .target import TARGET

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..context import Context
    from ..levels import Line
    from ..policy.policy import Policy

IDLE_MS: Final = 120_000
"""Since the last write: the live window, in which a client may still be at work."""

STALE_MS: Final = 24 * 3_600_000
"""A session that nobody has gone on with for so long is left as it is until somebody does."""

COLD_MS: Final = 3_600_000
"""The longest that a prompt cache is kept: from then on nothing is lost by a change."""

REARM_BELOW: Final = 0.60
"""Share of the policy's limit to which a context has to fall to be compacted once more, or"""

REARM_GROWTH: Final = 1.15
"""how often what was left it has to hold."""

MOST_RUNS: Final = 3
"""Of one session in RUNS_WITHIN_MS; a session that needs more is not helped by another one."""

RUNS_WITHIN_MS: Final = 300_000

MOST_AN_HOUR: Final = 6
"""Runs of one session, whatever a policy says of pauses: more than one each ten minutes only
repeats what did not help."""

HOUR_MS: Final = 3_600_000

BREAKER_MS: Final = 1_800_000
"""How long nothing is done after that many runs."""

BREAK_EVEN_REQUESTS: Final = 20
"""After which it must have paid for itself."""

URGENT: Final = 0.90
"""Share of the window from which on the price does not matter."""

ACTING: Final = frozenset({"offer_compact", "compact"})
"""Actions of a policy's thresholds at which it is time to compact."""

OUTPUT: Final = 5.0
"""Price of a token, as a multiple of one of input that is not cached (compaction.md 1.6)."""

SUMMARY_TOKENS: Final = 8_000
"""What a compaction of the client's writes and leaves, on the safe side."""

SAID: Final = frozenset({"window", "breaker", "price"})
"""Checks of which a person hears: the others pass by themselves, or nothing is to be done."""


class Verdict(msgspec.Struct, frozen=True):
    """Yes or no, and by which check."""

    allowed: bool
    check: str
    why: str

    @property
    def is_reported(self) -> bool:
        """Say whether a person should hear of it."""
        return not self.allowed and self.check in SAID


class Before(msgspec.Struct, frozen=True):
    """An automatic run of the session, and what came after it; tokens of the context."""

    began_at: int
    """When it began, in ms since 1970."""
    tokens_left: int | None = None
    """What it left; None where it failed."""
    min_tokens_since: int | None = None
    """The least that an answer since then has seen; None where there was no answer."""
    newest_tokens_since: int | None = None
    """What the newest answer since then has seen."""


class Situation(msgspec.Struct, frozen=True):
    """A session at one moment; times are ms since 1970."""

    context: Context
    status: Status
    is_open: bool
    """The registry names a process that has it open."""
    now_ms: int
    last_written_at: int | None
    """When its transcript was written last."""
    runs: tuple[Before, ...] = ()
    """Its automatic runs, oldest first, the failed ones too."""
    is_run_active: bool = False
    """One of them has not ended."""

    @property
    def idle_ms(self) -> int:
        """Say for how long nothing was written; 0 where that is not known."""
        return 0 if self.last_written_at is None else self.now_ms - self.last_written_at


def may_act(policy: Policy) -> Verdict:
    """Whether somebody who may has turned automation on (T-10).

    That is the person, or the file of a project that the person trusts: `Policies.acting` has
    no other file's words. A preset is chosen for its numbers, and turns nothing on.
    """
    mode = policy.values["mode"]
    if mode.value != "auto":
        return _no("mode", "nobody has asked for it: mode is not auto")
    if mode.origin in {Origin.PRESET, Origin.BUILT_IN}:
        return _no("mode", f"mode = auto counts only where it is said, not in the {mode.origin}")
    if not policy.suggests:
        return _no("module", "the module `preemptive` is disabled")
    if policy.text("compact.strategy") == "none":
        return _no("strategy", "compact.strategy is none")
    return _yes("mode", f"{mode.where} says mode = auto")


def should_act(policy: Policy, state: Situation) -> Verdict:
    """Decide whether to make this session smaller now, and why (not).

    What a plan of it would cost is for `pays`.
    """
    allowed = may_act(policy)
    if not allowed.allowed:
        return allowed
    return _first_no(
        (_full(policy, state.context), at_rest(state), _armed(policy, state), _paced(policy, state))
    )


def at_rest(state: Situation) -> Verdict:
    """Say whether nobody is, or may be, at work in a session."""
    if state.is_run_active:
        return _no("running", "a run is under way")
    rests = Status.IDLE if state.is_open else Status.ENDED
    if state.status is not rests:
        return _no("status", f"it is not {rests}: it is {state.status}")
    if state.idle_ms < IDLE_MS:
        return _no("idle", f"it was written less than {IDLE_MS // 1000} s ago")
    if state.idle_ms >= STALE_MS:
        return _no("stale", f"nobody has gone on with it for {STALE_MS // 3_600_000} hours")
    return _yes("idle", f"idle for {state.idle_ms // 1000} s")


def should_mend(policy: Policy, state: Situation, done_at: int | None) -> Verdict:
    """Decide whether to mend a session that ended in a refusal, once for each (002-08, 002-37).

    `done_at` is when a recovery of it was changed last, whoever asked for it.
    """
    allowed = may_act(policy)
    if not allowed.allowed:
        return allowed
    if not policy.recovers:
        return _no("module", "the module `auto-recovery` is disabled")
    if not policy.flag("recovery.auto"):
        return _no("recovery.auto", "recovery.auto is not true")
    resting = msgspec.structs.replace(
        state, status=Status.ENDED if state.status is Status.TOO_LONG else state.status
    )
    if (
        done_at is not None
        and state.last_written_at is not None
        and done_at >= state.last_written_at
    ):
        return _no("mended", "it was tried since")
    return _first_no((_closed(state), at_rest(resting), _paced(policy, state)))


def target_of(policy: Policy, context: Context) -> int:
    """Return the tokens that an automatic compaction aims at.

    It is a share of the window that the thresholds are for, and below the one that was reached:
    else there would be sessions that are over a threshold and never compacted.
    """
    window = context.window
    target = round(TARGET * (policy.usable_tokens(window) or window.tokens))
    lines = _acting_lines(policy, context)
    lowest = min((int(each.at * window.tokens) for each in lines), default=None)
    return target if lowest is None or target < lowest else round(TARGET * lowest)


def pays(requests: float | None, state: Situation) -> Verdict:
    """Say whether a change that breaks even after so many requests is worth it now."""
    ratio = state.context.ratio
    if ratio is not None and ratio >= URGENT:
        return _yes("price", "it is urgent")
    if requests is not None and state.idle_ms >= COLD_MS:
        return _yes("price", "the prompt cache is cold")
    if requests is None or requests > BREAK_EVEN_REQUESTS:
        after = "never" if requests is None else f"only after {requests:.0f} requests"
        return _no("price", f"it would pay {after}")
    return _yes("price", f"it pays after {requests:.0f} requests")


def break_even(tokens: int, left: int = SUMMARY_TOKENS, model: str | None = None) -> float | None:
    """Say after how many requests the client's own compaction has paid for itself.

    The summary is written, and put into the cache by the next request, which reads no old
    context any more, while the one that summarised did; each later request of `model` reads less.
    None where it never pays.
    """
    saved = read_share(model) * (tokens - left)
    return left * (OUTPUT + WRITE_5_MINUTES) / saved if saved > 0 else None


def breaker_until(runs: Iterable[int]) -> int | None:
    """Say until when nothing is done, where too many runs came too fast; None where not."""
    began = sorted(runs)
    until = None
    for first, last in zip(began, began[MOST_RUNS - 1 :], strict=False):
        if last - first < RUNS_WITHIN_MS:
            until = last + BREAKER_MS
    return until


def _closed(state: Situation) -> Verdict:
    return (
        _no("open", "somebody has it open") if state.is_open else _yes("open", "nobody has it open")
    )


def _full(policy: Policy, context: Context) -> Verdict:
    if context.tokens is None or context.ratio is None:
        return _no("unknown", "what is in its context is not known")
    least = policy.integer("compact.min_tokens") or 0
    if context.tokens < least:
        return _no("small", f"{context.tokens:,} tokens are fewer than {least:,}")
    lines = _acting_lines(policy, context)
    if not lines:
        return _no("threshold", "no threshold of the policy asks for it")
    lowest = min(lines, key=lambda each: each.at)
    if not any(each.is_reached(context.ratio) for each in lines):
        return _no("threshold", f"{context.ratio:.0%} of its window is below {lowest.at:.0%}")
    if context.window.source is Source.ASSUMED or policy.effective_window(context.window) is None:
        return _no("window", "its window is not known")
    return _yes("threshold", f"{context.ratio:.0%} of its window is in use")


def _acting_lines(policy: Policy, context: Context) -> list[Line]:
    acting = {each.name for each in policy.thresholds if each.action in ACTING}
    return [each for each in context.thresholds if each.name in acting]


def _armed(policy: Policy, state: Situation) -> Verdict:
    last = next((each for each in reversed(state.runs) if each.tokens_left is not None), None)
    if last is None or last.tokens_left is None:
        return _yes("armed", "nothing was done yet")
    if last.min_tokens_since is None or last.newest_tokens_since is None:
        return _no("armed", "nobody has gone on since the last run")
    window = state.context.window
    if last.min_tokens_since < REARM_BELOW * (policy.effective_window(window) or window.tokens):
        return _yes("armed", f"it fell below {REARM_BELOW:.0%} since the last run")
    if last.newest_tokens_since >= REARM_GROWTH * last.tokens_left:
        return _yes(
            "armed",
            f"it grew by {last.newest_tokens_since / last.tokens_left - 1:.0%} since the last run",
        )
    return _no("armed", f"it grew by less than {REARM_GROWTH - 1:.0%} since the last run")


def _paced(policy: Policy, state: Situation) -> Verdict:
    if not state.runs:
        return _yes("cooldown", "there was no run")
    cooldown_ms = (policy.integer("compact.cooldown_s") or 0) * 1000
    began = [each.began_at for each in state.runs]
    since = state.now_ms - began[-1]
    if since < cooldown_ms:
        return _no("cooldown", f"it cools down for {-(-(cooldown_ms - since) // 1000)} s more")
    within = [at for at in began if 0 <= state.now_ms - at < HOUR_MS]
    if len(within) >= MOST_AN_HOUR:
        minutes = -(-(within[-MOST_AN_HOUR] + HOUR_MS - state.now_ms) // 60_000)
        why = f"{len(within)} runs within an hour: paused for {minutes} minutes more"
        return _no("breaker", why)
    until = breaker_until(began)
    if until is not None and state.now_ms < until:
        minutes = -(-(until - state.now_ms) // 60_000)
        why = f"{MOST_RUNS} runs in {RUNS_WITHIN_MS // 60_000} minutes"
        return _no("breaker", f"{why}: paused for {minutes} minutes more")
    return _yes("cooldown", "the last run is long ago")


def _first_no(verdicts: Iterable[Verdict]) -> Verdict:
    reasons: list[str] = []
    for each in verdicts:
        if not each.allowed:
            return each
        reasons.append(each.why)
    return _yes("all", "; ".join(reasons))


def _no(check: str, why: str) -> Verdict:
    return Verdict(allowed=False, check=check, why=why)


def _yes(check: str, why: str) -> Verdict:
    return Verdict(allowed=True, check=check, why=why)
