"""When a session is compacted without being asked: never, unless everything says so (T-10)."""

from __future__ import annotations

from typing import Any

import pytest
from ctxtop.core.compaction.automation_rules import (
    BREAKER_PAUSE_MS,
    BURST_WINDOW_MS,
    CACHE_LIFETIME_MS,
    HOUR_MS,
    IDLE_MS,
    MAX_RUNS_PER_HOUR,
    RECOMPACT_PAUSE_MS,
    STALE_MS,
    AutomationInput,
    PastRun,
    automatic_target,
    breaker_ends_at,
    check_automation_enabled,
    check_break_even,
    client_break_even,
    decide_compaction,
    decide_recompaction,
    decide_recovery,
)
from ctxtop.core.compaction.compression_level import COMPACTING_ACTIONS
from ctxtop.core.compaction.plan import PlanOptions
from ctxtop.core.compaction.policy_strategy import automatic_strategy
from ctxtop.core.model.context import Context, ContextState
from ctxtop.core.model.context_window import ClaimSource, Window
from ctxtop.core.model.session import LIVE_STATUSES, SessionStatus
from ctxtop.core.policy.policy import Policy, PolicyOrigin
from ctxtop.core.policy.resolve import RawValue, resolve_policy
from ctxtop.core.policy.schema import PRESETS
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

NOW = 1_795_000_000_000
MINUTE = 60_000


def policy(origin: PolicyOrigin = PolicyOrigin.PROJECT_FILE, **values: object) -> Policy:
    said = [RawValue("mode", "auto", origin, "here")]
    said += [
        RawValue(name.replace("__", "."), value, PolicyOrigin.PROJECT_FILE, "here")
        for name, value in values.items()
    ]
    return resolve_policy(said)


OPTED_IN = policy()


def context(tokens: int | None = 175_000, source: ClaimSource = ClaimSource.TABLE) -> Context:
    window = Window(200_000, source)
    state = ContextState.UNKNOWN if tokens is None else ContextState.MEASURED
    return Context(
        tokens,
        state,
        window,
        thresholds=OPTED_IN.place_thresholds(Window(200_000, ClaimSource.TABLE)),
    )


READY = AutomationInput(
    context(), SessionStatus.ENDED, is_open=False, now_ms=NOW, last_written_at=NOW - 10 * MINUTE
)


def test_all_is_well() -> None:
    verdict = decide_compaction(OPTED_IN, READY)
    assert verdict.allowed
    assert "88% of its window is in use" in verdict.why


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (resolve_policy(()), "mode is not auto"),
        (
            resolve_policy([RawValue("preset", "omo-2.6", PolicyOrigin.PROJECT_FILE, "")]),
            "not in the preset",
        ),
        (
            resolve_policy([RawValue("preset", "omo-2.6", PolicyOrigin.USER_FILE, "")]),
            "not in the preset",
        ),
        (policy(disabled_modules=["preemptive"]), "is disabled"),
        (policy(compact__strategy="none"), "compact.strategy is none"),
        (policy(compact__min_tokens=180_000), "175,000 tokens are fewer than 180,000"),
        (policy(threshold=[]), "no threshold triggers it"),
    ],
)
def test_a_policy_that_does_not_want_it(other: Policy, why: str) -> None:
    verdict = decide_compaction(other, READY)
    assert not verdict.allowed
    assert why in verdict.why


WHO_MAY = (
    PolicyOrigin.COMMAND_LINE,
    PolicyOrigin.ENVIRONMENT,
    PolicyOrigin.PROJECT_FILE,
    PolicyOrigin.USER_FILE,
)


@pytest.mark.parametrize("origin", WHO_MAY)
def test_the_person_and_a_trusted_project_turn_it_on(origin: PolicyOrigin) -> None:
    assert decide_compaction(policy(origin), READY).allowed


@pytest.mark.parametrize(
    ("changes", "check"),
    [
        ({"status": SessionStatus.BUSY}, "status"),
        ({"status": SessionStatus.WAITING}, "status"),
        ({"status": SessionStatus.IDLE}, "status"),
        ({"status": SessionStatus.ACTIVE}, "status"),
        ({"status": SessionStatus.TOO_LONG}, "status"),
        ({"status": SessionStatus.GONE}, "status"),
        ({"is_open": True}, "status"),
        ({"is_open": True, "status": SessionStatus.BUSY}, "status"),
        ({"is_open": True, "status": SessionStatus.WAITING}, "status"),
        (
            {"is_open": True, "status": SessionStatus.IDLE, "last_written_at": NOW - IDLE_MS + 1},
            "idle",
        ),
        ({"is_run_active": True}, "running"),
        ({"last_written_at": NOW - IDLE_MS + 1}, "idle"),
        ({"last_written_at": None}, "idle"),
        ({"last_written_at": NOW + 1}, "idle"),
        ({"last_written_at": NOW - STALE_MS}, "stale"),
        ({"context": context(None)}, "unknown"),
        ({"context": context(175_000, ClaimSource.ASSUMED)}, "window"),
        ({"context": context(49_999)}, "small"),
        ({"context": context(169_999)}, "threshold"),
        ({"messages": 0}, "messages"),
        ({"messages": 6}, "messages"),
        ({"runs": (PastRun(NOW - 59_999),)}, "cooldown"),
        ({"runs": tuple(PastRun(NOW - each * MINUTE) for each in (6, 4, 2))}, "breaker"),
        ({"runs": (PastRun(NOW - 9 * MINUTE, tokens_left=130_000),)}, "armed"),
    ],
)
def test_a_session_that_is_left_alone(changes: dict[str, Any], check: str) -> None:
    """T-10, and each gate of compaction.md 7.5."""
    verdict = decide_compaction(OPTED_IN, replace(READY, **changes))
    assert (verdict.allowed, verdict.check) == (False, check)


def test_a_session_that_stands_open_and_idle_may_be_asked() -> None:
    assert decide_compaction(
        OPTED_IN, replace(READY, is_open=True, status=SessionStatus.IDLE)
    ).allowed


def test_each_gate_opens_at_its_number() -> None:
    assert decide_compaction(OPTED_IN, replace(READY, messages=7)).allowed
    assert decide_compaction(OPTED_IN, replace(READY, context=context(170_000))).allowed
    assert decide_compaction(OPTED_IN, replace(READY, last_written_at=NOW - IDLE_MS)).allowed
    assert decide_compaction(OPTED_IN, replace(READY, last_written_at=NOW - STALE_MS + 1)).allowed
    assert decide_compaction(OPTED_IN, replace(READY, runs=(PastRun(NOW - MINUTE),))).allowed


@pytest.mark.parametrize(
    ("least", "newest", "armed"),
    [
        (None, None, False),  # nobody has gone on
        (131_000, 149_000, False),
        (131_000, 149_500, True),  # 15 % more than was left
        (120_000, 140_000, False),
        (119_999, 140_000, True),  # it was below 60 % of the window
    ],
)
def test_the_hysteresis(least: int | None, newest: int | None, *, armed: bool) -> None:
    before = PastRun(NOW - 60 * MINUTE, 130_000, least, newest)
    assert decide_compaction(OPTED_IN, replace(READY, runs=(before,))).allowed == armed
    # What failed since then does not arm it.
    failed = (before, PastRun(NOW - 2 * MINUTE))
    assert decide_compaction(OPTED_IN, replace(READY, runs=failed)).allowed == armed


@pytest.mark.parametrize("window", [20_000, 33_000, 33_001, 34_000, 200_000])
def test_the_target_is_a_share_of_any_window(window: int) -> None:
    known = replace(context(30_000), window=Window(window, ClaimSource.POLICY))
    target = automatic_target(OPTED_IN, known)
    assert target > 0
    aimed = PlanOptions(target=target / window).target_in(window)
    assert aimed is not None
    assert aimed.tokens == target


def test_the_breaker() -> None:
    """Three runs in five minutes; half an hour from the last one."""
    close, wide = (0, 1, BURST_WINDOW_MS - 1), (0, 1, BURST_WINDOW_MS)
    assert breaker_ends_at(close) == BURST_WINDOW_MS - 1 + BREAKER_PAUSE_MS
    assert breaker_ends_at(wide) is None
    assert breaker_ends_at(()) is None
    until = NOW + BREAKER_PAUSE_MS
    runs = tuple(map(PastRun, (NOW - 2 * MINUTE, NOW - MINUTE, NOW)))
    assert not decide_compaction(OPTED_IN, replace(READY, runs=runs, now_ms=until - 1)).allowed
    assert decide_compaction(OPTED_IN, replace(READY, runs=runs, now_ms=until)).allowed


@pytest.mark.parametrize(
    ("requests", "tokens", "idle_ms", "paid"),
    [
        (20.0, 175_000, 10 * MINUTE, True),
        (20.1, 175_000, 10 * MINUTE, False),
        (None, 175_000, 10 * MINUTE, False),
        (40.0, 180_000, 10 * MINUTE, True),  # 90 % is urgent
        (40.0, 175_000, CACHE_LIFETIME_MS - 1, False),
        (40.0, 175_000, CACHE_LIFETIME_MS, True),  # the cache is cold
        (None, 175_000, CACHE_LIFETIME_MS, False),
    ],
)
def test_what_pays(requests: float | None, tokens: int, idle_ms: int, *, paid: bool) -> None:
    now = replace(READY, context=context(tokens), last_written_at=NOW - idle_ms)
    assert check_break_even(OPTED_IN, now, requests).allowed == paid


def test_what_is_urgent_is_measured_by_the_limit_of_the_threshold() -> None:
    """91,000 tokens are 45 % of the window, and 91 % of the limit that not-agent sets."""
    full = replace(READY, context=context(91_000))
    assert not check_break_even(OPTED_IN, full, None).allowed
    assert check_break_even(policy(preset="not-agent"), full, None).allowed


def test_the_price_of_the_client_s_own() -> None:
    """8,000 tokens written (5) and cached (1.25), against a tenth of what is read less."""
    assert client_break_even(108_000) == pytest.approx(8_000 * 6.25 / (0.1 * 100_000))
    assert client_break_even(8_000) is None


@pytest.mark.parametrize(
    ("limit", "tokens", "is_due"),
    [
        (100_000, 74_999, False),
        (100_000, 75_000, True),
        (100_000, 76_000, True),
        (100_000, 83_500, True),
        (99_999, 74_998, False),
        (99_999, 74_999, True),  # int(74,999.25): 001-25
    ],
)
@pytest.mark.parametrize("window", [200_000, 1_000_000])
def test_the_threshold_is_a_whole_number_of_the_policy_s_limit(
    limit: int, tokens: int, window: int, *, is_due: bool
) -> None:
    """001-25: int(max * ratio), and `>=`; the target is of the same limit, and below."""
    wanted = policy(preset="not-agent", limit__default=limit)
    size = Window(window, ClaimSource.TABLE)
    full = Context(tokens, ContextState.MEASURED, size, thresholds=wanted.place_thresholds(size))
    verdict = decide_compaction(wanted, replace(READY, context=full))
    assert verdict.allowed == is_due
    assert f"of the limit of {limit:,} tokens" in verdict.why
    assert automatic_target(wanted, full) < 0.75 * limit


def test_a_threshold_that_must_be_exceeded_is_not_reached_at_its_number() -> None:
    """001-41 and 001-42 are strict."""
    wanted = policy(threshold=[{"at": 0.5, "level": "high", "action": "compact", "op": ">"}])
    window = Window(200_000, ClaimSource.TABLE)
    lines = wanted.place_thresholds(window)
    for tokens, is_due in ((100_000, False), (100_001, True)):
        full = Context(tokens, ContextState.MEASURED, window, thresholds=lines)
        assert decide_compaction(wanted, replace(READY, context=full)).allowed == is_due


def test_what_a_person_hears_of() -> None:
    assert decide_compaction(OPTED_IN, replace(READY, messages=6)).is_reported
    unknown = context(175_000, ClaimSource.ASSUMED)
    assert decide_compaction(OPTED_IN, replace(READY, context=unknown)).is_reported
    assert not decide_compaction(OPTED_IN, replace(READY, is_open=True)).is_reported
    assert not decide_compaction(OPTED_IN, replace(READY, context=context(60_000))).is_reported
    assert not decide_compaction(OPTED_IN, READY).is_reported


MENDING = policy(recovery__auto=True)
REFUSED = replace(READY, status=SessionStatus.TOO_LONG)


def test_a_refusal_is_mended_once_where_the_project_wants_it() -> None:
    """002-08 and 002-37."""
    assert decide_recovery(MENDING, REFUSED, None).allowed
    assert decide_recovery(MENDING, REFUSED, NOW - 11 * MINUTE).allowed
    assert decide_recovery(MENDING, REFUSED, NOW - 10 * MINUTE).check == "mended"
    assert decide_recovery(OPTED_IN, REFUSED, None).check == "recovery.auto"
    assert (
        decide_recovery(policy(PolicyOrigin.PRESET, recovery__auto=True), REFUSED, None).check
        == "mode"
    )
    assert decide_recovery(MENDING, replace(REFUSED, is_open=True), None).check == "open"
    assert (
        decide_recovery(MENDING, replace(REFUSED, runs=(PastRun(NOW - 1),)), None).check
        == "cooldown"
    )


def test_a_disabled_module_recovers_nothing() -> None:
    off = policy(recovery__auto=True, disabled_modules=["auto-recovery"])
    assert decide_recovery(off, REFUSED, None).check == "module"
    assert decide_compaction(off, READY).allowed


@pytest.mark.parametrize(
    "values", [{"disabled_modules": ["preemptive"]}, {"compact__strategy": "none"}]
)
def test_recovery_does_not_depend_on_compactions(values: dict[str, Any]) -> None:
    """Each module has a name of its own (002-05)."""
    only_recovers = policy(recovery__auto=True, **values)
    assert decide_recovery(only_recovers, REFUSED, None).allowed
    assert not decide_compaction(only_recovers, READY).allowed
    assert check_automation_enabled(only_recovers).allowed
    assert not check_automation_enabled(policy(**values)).allowed


RECOMPACTING = policy(preset="omo-latest")


def test_a_silent_session_is_compacted_again_where_the_policy_says_so() -> None:
    """R002-09: only with the module, in mode auto, while nobody is at work."""
    assert decide_recompaction(RECOMPACTING, READY, 0).allowed
    assert decide_recompaction(RECOMPACTING, READY, 2).allowed
    assert not decide_recompaction(RECOMPACTING, READY, 3).allowed, "at most three times"
    assert not decide_recompaction(MENDING, READY, 0).allowed
    busy = replace(READY, status=SessionStatus.BUSY)
    assert decide_recompaction(RECOMPACTING, busy, 0).check == "status"


@pytest.mark.parametrize(
    ("values", "check"),
    [
        ({"mode": "suggest"}, "mode"),
        ({"disabled_modules": ["auto-recovery"]}, "module"),
        ({"disabled_modules": ["preemptive"]}, "module"),
        ({"recovery__auto": False}, "recovery.auto"),
        ({"compact__strategy": "none"}, "strategy"),
    ],
)
def test_what_keeps_a_silent_session_from_being_compacted_again(
    values: dict[str, Any], check: str
) -> None:
    off = policy(preset="omo-latest", **values)
    assert decide_recompaction(off, READY, 0).check == check


def test_a_silent_session_is_left_alone_just_after_a_run() -> None:
    """5 s, whatever pause a policy sets."""
    hasty = policy(preset="omo-latest", compact__cooldown_s=0)
    pause = RECOMPACT_PAUSE_MS
    for ago, allowed in ((pause - 1, False), (pause, True)):
        ran = replace(READY, runs=(PastRun(NOW - ago),))
        assert decide_recompaction(hasty, ran, 1).allowed == allowed


def test_no_policy_lifts_the_limit_of_runs_an_hour() -> None:
    hasty = policy(compact__cooldown_s=0, recovery__auto=True)
    # Never three within five minutes, which would pause it for half an hour.
    runs = [NOW - MINUTE * 3 * each for each in range(1, MAX_RUNS_PER_HOUR + 1)]
    after = [
        replace(READY, runs=tuple(PastRun(at) for at in reversed(runs[:count])))
        for count in range(1, MAX_RUNS_PER_HOUR + 1)
    ]
    for count, now in enumerate(after, 1):
        assert decide_compaction(hasty, now).allowed == (count < MAX_RUNS_PER_HOUR), count
        mends = decide_recovery(hasty, replace(now, status=SessionStatus.TOO_LONG), None)
        assert mends.allowed == (count < MAX_RUNS_PER_HOUR)
    assert decide_compaction(hasty, after[-1]).is_reported
    later = HOUR_MS - 18 * MINUTE
    assert decide_compaction(hasty, replace(after[-1], now_ms=NOW + later)).allowed


def test_the_usual_target_is_half_of_the_window() -> None:
    assert automatic_target(OPTED_IN, context(220_000)) == 100_000


@pytest.mark.parametrize(
    ("values", "strategy"),
    [
        ({}, "ladder"),  # nobody's choice: as it was before there was one
        ({"compact__strategy": "native"}, "native"),
        ({"preset": "native"}, "native"),
        ({"preset": "omo-latest"}, "ladder"),
        ({"preset": "not-agent"}, "summary"),
        ({"preset": "hybrid-buffer"}, "summary_buffer"),
        ({"preset": "claude-memory"}, "ladder"),
        ({"preset": "not-agent", "compact__by": "client"}, "native"),
        ({"preset": "not-agent", "compact__by": "plan"}, "summary"),
        ({"preset": "native", "compact__by": "plan"}, "ladder"),
        ({"compact__strategy": "condense"}, "condense"),
        ({"compact__strategy": "none", "compact__by": "client"}, "none"),
    ],
)
def test_who_compacts_and_how(values: dict[str, Any], strategy: str) -> None:
    """Requirements 2.2 and 2.2.1; `compact.by`, if it is set, comes first."""
    assert automatic_strategy(policy(**values)) == strategy


@pytest.mark.parametrize(
    ("reduction", "tokens", "target"),
    [
        ((0.5, 0.7), 175_000, 87_500),  # half of the window, 100,000, would be 43 % less
        ((0.6, 0.7), 175_000, 70_000),
        ((0.1, 0.3), 175_000, 122_500),
        ((0.0, 0.1), 190_000, 85_000),  # 171,000 would be above the threshold of 170,000
        ((0.0, 1.0), 175_000, 100_000),
    ],
)
def test_the_target_is_inside_the_range_of_reduction(
    reduction: tuple[float, float], tokens: int, target: int
) -> None:
    """001-12."""
    wanted = policy(compact__target_reduction=list(reduction))
    assert automatic_target(wanted, context(tokens)) == target


def failed(minutes: int, tokens: int | None, least: int | None = None) -> PastRun:
    return PastRun(NOW - minutes * MINUTE, None, least, least, failed_at_tokens=tokens)


TWICE = (failed(20, 170_000), failed(10, 174_000))


@pytest.mark.parametrize(
    ("runs", "most", "is_tried"),
    [
        (TWICE, 2, False),
        (TWICE, 3, True),
        (TWICE[:1], 2, True),
        (TWICE[:1], 1, False),
        ((), 0, False),
        # Put off, and not tried in vain.
        ((TWICE[0], failed(10, None)), 2, True),
        # 175,000 is 5 % more than it was.
        ((failed(20, 166_600), TWICE[1]), 2, True),
        # Emptied since then, by Claude Code or a person.
        ((failed(20, 174_000, 20_000), failed(10, 174_000, 20_000)), 2, True),
        # One that succeeded after them.
        ((*TWICE, PastRun(NOW - 5 * MINUTE, 80_000, 81_000, 175_000)), 2, True),
    ],
)
def test_it_gives_up_until_the_session_has_grown(
    runs: tuple[PastRun, ...], most: int, *, is_tried: bool
) -> None:
    """T-10: max attempts."""
    wanted = policy(compact__max_attempts=most)
    verdict = decide_compaction(wanted, replace(READY, runs=runs))
    assert verdict.allowed == is_tried
    if not is_tried:
        assert verdict.check == "attempts"
        assert verdict.is_reported


@given(
    st.sampled_from(sorted(PRESETS)),
    st.integers(40_000, 2_000_000),
    st.lists(st.sampled_from([0.05, 0.2, 0.5, 0.9]), max_size=2),
)
def test_what_has_reached_a_threshold_is_above_the_target(
    preset: str, tokens: int, own: list[float]
) -> None:
    """The threshold and the target are of the same window, whatever the policy says of it."""
    said: dict[str, Any] = {"preset": preset}
    if own:
        said["threshold"] = [{"at": at, "level": "high", "action": "compact"} for at in own]
    wanted, window = policy(**said), Window(tokens, ClaimSource.TABLE)
    acting = {each.name for each in wanted.thresholds if each.action in COMPACTING_ACTIONS}
    lines = wanted.place_thresholds(window)
    found = Context(1, ContextState.MEASURED, window, thresholds=lines)
    for line in lines:
        if line.name in acting:
            assert 0 < automatic_target(wanted, found) < line.at * tokens


@given(
    st.sampled_from(SessionStatus),
    st.booleans(),
    st.none() | st.integers(0, 250_000),
    st.sampled_from(ClaimSource),
    st.lists(st.integers(0, 3_600_000), max_size=6),
    st.sampled_from(PolicyOrigin),
    st.none() | st.integers(-MINUTE, 2 * STALE_MS),
)
def test_it_acts_only_where_everything_is_given(
    status: SessionStatus,
    is_open: bool,
    tokens: int | None,
    source: ClaimSource,
    ages: list[int],
    origin: PolicyOrigin,
    idle_ms: int | None,
) -> None:
    """Never on a session in which somebody is at work, whatever else is true."""
    runs = tuple(PastRun(NOW - age) for age in sorted(ages, reverse=True))
    active_at = None if idle_ms is None else NOW - idle_ms
    now = AutomationInput(context(tokens, source), status, is_open, NOW, active_at, runs)
    wanted = policy(origin, recovery__auto=True)
    acts, mends = decide_compaction(wanted, now).allowed, decide_recovery(wanted, now, None).allowed
    if acts or mends:
        assert origin in WHO_MAY
        assert status is (SessionStatus.IDLE if is_open else status)
        assert is_open or status not in LIVE_STATUSES
        assert not (mends and is_open)
        assert idle_ms is not None
        assert IDLE_MS <= idle_ms < STALE_MS
        assert not runs or NOW - runs[-1].began_at >= 60_000
        until = breaker_ends_at(each.began_at for each in runs)
        assert until is None or until <= NOW
    if acts:
        assert tokens is not None
        assert tokens >= 170_000
        assert source is not ClaimSource.ASSUMED
