"""Which sessions a pause is about, by which way, and why the others are left."""

from __future__ import annotations

from collections.abc import Callable, Generator
from threading import Event, Timer
from typing import Any, cast

import pytest
from ctxtop.core.actions import session_pause
from ctxtop.core.actions.pause_rules import (
    MIN_LEFT_MS,
    PauseCandidate,
    PauseCheck,
    idle_compaction_at,
    preview_pause,
)
from ctxtop.core.actions.session_pause import PauseResult, PauseTarget
from ctxtop.core.measure.effective_config import ResolvedSetting
from ctxtop.core.measure.plan_limits import FIVE_HOURS
from ctxtop.core.measure.window import read_auto_compact_config
from ctxtop.core.model.claude_models import FIVE_MINUTES_MS, HOUR_MS
from ctxtop.core.model.config_records import ConfigScope
from ctxtop.core.model.context import Context, ContextState
from ctxtop.core.model.pause_ways import PauseWay
from ctxtop.core.model.session import SessionStatus
from ctxtop.core.model.session_activity import UNKNOWN_CACHE, Activity, ActivityKind, PromptCache
from ctxtop.core.policy.policy import Policy, PolicyOrigin
from ctxtop.core.policy.resolve import RawValue, resolve_policy
from ctxtop.core.store.automation_records import PauseRecord
from ctxtop.tui.text.pause_text import preview_summary
from msgspec.structs import replace

from ..pausing import MINUTE, candidate, idle_session
from ..tui.makers import WINDOW
from ..tui.support import NOW_MS


def policy(**values: object) -> Policy:
    return resolve_policy(
        [
            RawValue(f"pause.{name}", value, PolicyOrigin.USER_FILE, "here")
            for name, value in values.items()
        ]
    )


def checked(found: PauseCandidate, now_ms: int = NOW_MS, **values: object) -> PauseCheck | None:
    return preview_pause(found, policy(**values), now_ms).decision.check


def test_an_idle_warm_session_is_compacted_by_its_client() -> None:
    item = preview_pause(candidate(), policy(), NOW_MS)
    assert item.acts
    assert item.decision.way is PauseWay.CLIENT
    assert item.costs is not None
    assert item.costs.paused_saving(PauseWay.CLIENT) > 0


BUSY = Activity(ActivityKind.TOOL, "Bash")
ASKED = Activity(ActivityKind.PERSON, "permission")
EARLIER = PauseRecord("s", 1, 2, "client", outcome="compacted")
SMALL = Context(49_999, ContextState.MEASURED, WINDOW)
UNKNOWN_SIZE = Context(None, ContextState.UNKNOWN, WINDOW)


@pytest.mark.parametrize(
    ("check", "fields"),
    [
        (PauseCheck.BUSY, {"status": SessionStatus.BUSY}),
        (PauseCheck.BUSY, {"activity": BUSY}),
        (PauseCheck.BUSY, {"status": SessionStatus.ACTIVE}),
        (PauseCheck.WAITING, {"status": SessionStatus.WAITING}),
        (PauseCheck.WAITING, {"activity": ASKED}),
        (PauseCheck.CLOSED, {"status": SessionStatus.ENDED, "live": False}),
        (PauseCheck.UNKNOWN, {"status": SessionStatus.TOO_LONG}),
        (PauseCheck.UNKNOWN, {"cache": UNKNOWN_CACHE}),
        (PauseCheck.UNKNOWN, {"context": UNKNOWN_SIZE}),
        (PauseCheck.COLD, {"cache": PromptCache(NOW_MS - 1, tokens=1)}),
        (PauseCheck.COLD, {"cache": PromptCache(NOW_MS + MIN_LEFT_MS, tokens=1)}),
        (PauseCheck.SMALL, {"context": SMALL}),
    ],
)
def test_a_session_is_left_by_its_state(check: PauseCheck, fields: dict[str, Any]) -> None:
    assert checked(candidate(idle_session(**fields))) is check


@pytest.mark.parametrize(
    ("check", "fields"),
    [
        (PauseCheck.AGENTS, {"running_agents": 1}),
        (PauseCheck.PAUSED, {"earlier": EARLIER}),
        (PauseCheck.UNKNOWN, {"answered_at": None}),
    ],
)
def test_a_session_is_left_by_what_is_known_beside_it(
    check: PauseCheck, fields: dict[str, Any]
) -> None:
    assert checked(candidate(**fields)) is check


def test_a_session_whose_client_cannot_be_asked_gets_a_note() -> None:
    item = preview_pause(candidate(via=None), policy(), NOW_MS)
    assert item.decision.way is PauseWay.HAND_OFF
    assert checked(candidate(via=None), ways=["client"]) is PauseCheck.UNREACHABLE


def test_nothing_is_done_that_costs_more_than_leaving_it() -> None:
    # Of 50,000 tokens a summary and its own prompt are most.
    small = idle_session(
        context=Context(31_000, ContextState.MEASURED, WINDOW),
        cache=PromptCache(NOW_MS + 50 * MINUTE, tokens=31_000, lifetime_ms=HOUR_MS),
    )
    assert checked(candidate(small), min_tokens=0) is PauseCheck.CHEAPEST


def test_the_way_that_costs_least_is_chosen() -> None:
    note = preview_pause(candidate(), policy(reread_tokens=0), NOW_MS)
    assert note.decision.way is PauseWay.HAND_OFF
    only = preview_pause(candidate(), policy(reread_tokens=0, ways=["client"]), NOW_MS)
    assert only.decision.way is PauseWay.CLIENT


def test_what_expires_first_is_paused_first_and_an_interruption_begins_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[int | None] = []
    next_may_begin = Event()

    def pause(target: PauseTarget, _now: Callable[[], int]) -> PauseResult:
        begun.append(target.item.session.cache.expires_at)
        if len(begun) == 2:
            next_may_begin.wait(10)
        return PauseResult(target.item, "done")

    monkeypatch.setattr(session_pause, "pause_session", pause)
    monkeypatch.setattr(session_pause, "MAX_AT_ONCE", 1)
    expiries = [NOW_MS + minutes * MINUTE for minutes in (50, 30, 40, 60)]
    caches = [PromptCache(at, tokens=1) for at in expiries]
    items = [
        preview_pause(candidate(idle_session(cache=cache)), policy(), NOW_MS) for cache in caches
    ]
    unused: Any = None
    targets = [PauseTarget(item, unused, unused, unused) for item in items]
    results = session_pause.pause_all(targets, lambda: NOW_MS)
    next(iter(results))
    Timer(0.2, next_may_begin.set).start()
    cast("Generator[PauseResult]", results).close()
    assert 1 <= len(begun) <= 2
    assert begun == sorted(expiries)[: len(begun)]


LARGE = candidate(
    idle_session(context=Context(250_000, ContextState.MEASURED, WINDOW)), idle_from=200_000
)
FIVE_MINUTES = PromptCache(NOW_MS + 4 * MINUTE, tokens=250_000, lifetime_ms=FIVE_MINUTES_MS)


def test_a_session_that_its_client_compacts_when_idle_is_left_to_it() -> None:
    assert checked(LARGE) is PauseCheck.IDLE_COMPACTION
    # At nine tenths of the cache's hour: 50 minutes are left, six of them after it.
    assert idle_compaction_at(LARGE, NOW_MS) == NOW_MS + 44 * MINUTE
    assert checked(LARGE, stand_aside=False) is None


@pytest.mark.parametrize(
    "unlike",
    [
        candidate(LARGE.session, idle_from=None),
        candidate(LARGE.session, idle_from=250_001),
        candidate(
            idle_session(context=LARGE.session.context, client_version="2.1.300"),
            idle_from=200_000,
        ),
        candidate(
            idle_session(context=LARGE.session.context, cache=FIVE_MINUTES), idle_from=200_000
        ),
        replace(LARGE, near_limit=True),
        replace(LARGE, opened_at=(LARGE.answered_at or 0) + 1),
    ],
    ids=["off", "smaller", "older client", "five minutes", "near a limit", "resumed"],
)
def test_a_session_that_its_client_would_not_compact_is_paused(unlike: PauseCandidate) -> None:
    assert idle_compaction_at(unlike, NOW_MS) is None
    assert checked(unlike) is None


def test_a_timer_that_did_not_fire_in_time_never_does() -> None:
    due = NOW_MS + 44 * MINUTE
    assert idle_compaction_at(LARGE, due + MINUTE) == due
    assert idle_compaction_at(LARGE, due + MINUTE + 1) is None
    assert checked(LARGE, due + MINUTE + 1) is None


def test_a_session_whose_model_was_changed_is_not_compacted_when_idle() -> None:
    cache = replace(LARGE.session.cache, is_for_next_model=False)
    changed = replace(LARGE, session=replace(LARGE.session, cache=cache))
    assert idle_compaction_at(changed, NOW_MS) is None


def setting(value: object) -> ResolvedSetting:
    assert isinstance(value, (bool, int, str))
    return ResolvedSetting(value, ConfigScope.USER, "settings.json")


@pytest.mark.parametrize(
    ("settings", "environment", "least"),
    [
        ({}, {}, 200_000),
        ({"idleCompaction": True}, {}, 200_000),
        ({"idleCompaction": False}, {}, None),
        ({"autoCompactEnabled": False}, {}, None),
        ({}, {"DISABLE_COMPACT": "1"}, None),
        ({}, {"CLAUDE_CODE_IDLE_COMPACT_MIN_TOKENS": "150000"}, 150_000),
        ({"env.CLAUDE_CODE_IDLE_COMPACT_MIN_TOKENS": "40000"}, {}, 100_000),
    ],
)
def test_when_the_client_compacts_follows_from_its_settings(
    settings: dict[str, object], environment: dict[str, str], least: int | None
) -> None:
    resolved = {name: setting(value) for name, value in settings.items()}
    assert read_auto_compact_config(resolved, environment, None).idle_from == least


def test_a_preview_adds_up_shares_where_all_of_them_are_known() -> None:
    subscriber = idle_session(percent_dollars={FIVE_HOURS: 0.1})
    known = preview_pause(candidate(subscriber), policy(), NOW_MS)
    unknown = preview_pause(candidate(idle_session()), policy(), NOW_MS)
    assert known.costs is not None
    usd = known.costs.leave.paused
    shares, plain = preview_summary([known, known]), preview_summary([known, unknown])
    assert shares.endswith(f"instead of ≈ {2 * usd * 10:.0f} % of 5h (${2 * usd:.2f})")
    assert plain.endswith(f"instead of ≈ ${2 * usd:.2f}")
