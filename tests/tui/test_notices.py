"""What is told: found between two views, gathered, once, and only what is wanted."""

from __future__ import annotations

from dataclasses import replace as replaced
from typing import Any

import pytest
from ctxtop.core.measure.plan_limits import FIVE_HOURS
from ctxtop.core.model.cold_prompt import ColdLimits, RewriteCost
from ctxtop.core.model.levels import FillPoint, Level, LevelWarning, PlacedThreshold
from ctxtop.core.model.session import PromptTooLong, Session, SessionStatus
from ctxtop.core.model.session_activity import Activity, ActivityKind, PromptCache
from ctxtop.core.policy.policy import PolicyOrigin
from ctxtop.core.policy.resolve import BUILT_IN_POLICY, RawValue, resolve_policy
from ctxtop.core.store.warning_log import ContextWarning
from ctxtop.tui.app_state.notifications import (
    Notification,
    NotificationKind,
    channels_text,
    find_cold_notifications,
    find_notifications,
    group_notifications,
    level_notification,
    notification_settings,
)
from ctxtop.tui.base.messages import FleetView, ViewRequest
from ctxtop.tui.text.session_text import LEVEL_PURPOSES
from ctxtop.tui.text.severity import EventSeverity
from msgspec.structs import replace

from .makers import context, session
from .support import NOW_MS

IDLE = session(status=SessionStatus.IDLE, live=True)


def view(*sessions: Session, scanned: bool = True) -> FleetView:
    return FleetView(sessions, (), (), ViewRequest(), NOW_MS, None, scanned)


def found(before: Session | None, after: Session, since_ms: int = 0) -> list[Notification]:
    sessions = (before,) if before else ()
    return list(find_notifications(view(*sessions), view(after), since_ms))


def test_a_session_that_begins_to_wait_is_told_with_what_for() -> None:
    asked = Activity(ActivityKind.PERSON, "Bash [red]rm[/red]")
    waiting = replace(IDLE, status=SessionStatus.WAITING, activity=asked)
    (notice,) = found(IDLE, waiting)
    assert (notice.kind, notice.severity) == (NotificationKind.WAITING, EventSeverity.WARNING)
    assert notice.body == f"{IDLE.title}\nBash [red]rm[/red]"
    assert found(waiting, waiting) == []
    unregistered = replace(IDLE, status=SessionStatus.ACTIVE, activity=asked)
    assert [each.kind for each in found(IDLE, unregistered)] == [NotificationKind.WAITING]
    assert found(unregistered, waiting) == []
    assert found(waiting, replace(waiting, title="x")) == []
    assert [each.kind for each in found(None, waiting)] == [NotificationKind.WAITING]


def test_what_is_old_is_not_told() -> None:
    waiting = replace(IDLE, status=SessionStatus.WAITING)
    assert found(None, waiting, since_ms=NOW_MS) == []
    assert list(find_notifications(view(IDLE, scanned=False), view(waiting), 0)) == []


def test_a_compaction_names_what_it_freed() -> None:
    after = replace(IDLE, compactions=1, context=context(8_000))
    (notice,) = found(IDLE, after)
    assert notice.body.endswith("172 k → 8 k tokens")
    assert found(None, after) == []


def test_a_prompt_that_is_too_long_is_a_trouble() -> None:
    (notice,) = found(IDLE, replace(IDLE, too_long=PromptTooLong(210_000, 200_000)))
    assert notice.severity is EventSeverity.PROBLEM
    assert f"`ctxtop recover {IDLE.session_id[:8]}`" in notice.body


def test_a_session_that_was_recovered_is_told_with_its_fork() -> None:
    """002: whoever recovered it, also another ctxtop."""
    stuck = replace(IDLE, too_long=PromptTooLong(210_000, 200_000))
    recovered = replace(IDLE, recovered_in="f0-1")
    (notice,) = found(stuck, recovered)
    assert (notice.title, notice.severity) == ("the session was recovered", EventSeverity.NOTE)
    assert notice.body.endswith("claude --resume f0-1")
    assert notification_settings(BUILT_IN_POLICY).includes(notice)
    assert found(recovered, replace(recovered, last_prompt="x")) == []
    assert found(None, recovered) == []


def test_a_session_that_went_silent_after_a_compaction_is_reported_once() -> None:
    """R002-09; not again for the same compaction."""
    silent = replace(IDLE, is_silent=True)
    (notice,) = found(IDLE, silent)
    assert notice.title == "silent since its compaction"
    assert notice.body.endswith("3 answers in a row had neither text nor a tool call")
    assert notice.severity is EventSeverity.WARNING
    assert notification_settings(BUILT_IN_POLICY).includes(notice)
    assert found(silent, replace(silent, last_prompt="again")) == []
    (again,) = found(IDLE, replace(silent, last_prompt="again"))
    assert again.key == notice.key


def test_agents_that_broke_their_rule_are_told_where_that_is_wanted() -> None:
    (notice,) = found(replace(IDLE, agents_noncompliant=1), replace(IDLE, agents_noncompliant=3))
    assert "2 agents returned a noncompliant result" in notice.body
    assert not notification_settings(BUILT_IN_POLICY).includes(notice)
    assert replaced(notification_settings(BUILT_IN_POLICY), disabled=frozenset()).includes(notice)
    assert (
        found(replace(IDLE, agents_noncompliant=None), replace(IDLE, agents_noncompliant=0)) == []
    )


def level(name: Level, number: int = 1) -> ContextWarning:
    point = FillPoint(NOW_MS, 0.86, tokens=172_000)
    return ContextWarning(
        "s", None, LevelWarning(PlacedThreshold(0.85, name, "0.85"), point), number
    )


def test_a_context_above_its_limit_is_told_with_the_last_resort() -> None:
    """001-41: a reset forgets everything, so the session is saved first."""
    above = level_notification("t", level(Level.OVERFLOW)).body
    assert above.endswith("/clear, which forgets everything: save it first with `ctxtop export`")
    assert "/clear" not in level_notification("t", level(Level.HIGH)).body


def test_every_level_has_a_purpose() -> None:
    """002-23."""
    assert set(LEVEL_PURPOSES) == {each.severity for each in Level}


def test_levels_below_the_wanted_one_are_not_told() -> None:
    low, high = (level_notification("t", level(each)) for each in (Level.WARNING, Level.HIGH))
    policy = resolve_policy([RawValue("notify.level", "high", PolicyOrigin.USER_FILE, "f")])
    assert [notification_settings(policy).includes(each) for each in (low, high)] == [False, True]
    nothing = resolve_policy([RawValue("notify.level", "off", PolicyOrigin.USER_FILE, "f")])
    assert not notification_settings(nothing).includes(high)


EXPIRES_MS = NOW_MS + 500_000
BEFORE_MS = EXPIRES_MS - 120_000  # two minutes, the default of `cold.notify_before_s`
LARGE = replace(
    IDLE,
    cache=PromptCache(EXPIRES_MS, tokens=225_000, used_at=NOW_MS),
    rewrite_cost=RewriteCost(2.3, 0.1),
)


def test_a_large_cache_is_notified_two_minutes_before_it_expires() -> None:
    assert find_cold_notifications([LARGE], BEFORE_MS - 1) == ([], BEFORE_MS)
    (notice,), next_at = find_cold_notifications([LARGE], BEFORE_MS)
    assert next_at is None
    assert notice.kind is NotificationKind.COLD
    assert notice.title == "prompt cache expires in 2 min"
    assert notice.body == (
        f"{LARGE.title}\nafter that your next prompt rewrites ≈225 k tokens, ≈$2.30:"
        " compact now while it is cheap, or start a new session later with a hand-off"
    )
    assert find_cold_notifications([LARGE], EXPIRES_MS) == ([], None)
    subscriber = replace(LARGE, percent_dollars={FIVE_HOURS: 0.8})
    (share,), _ = find_cold_notifications([subscriber], BEFORE_MS)
    assert "rewrites ≈225 k tokens, ≈3 % of 5h ($2.30): " in share.body


def test_a_cache_has_one_key_however_often_its_end_is_corrected() -> None:
    (first,), _ = find_cold_notifications([LARGE], BEFORE_MS)
    corrected = replace(LARGE, cache=replace(LARGE.cache, expires_at=EXPIRES_MS + 900))
    (again,), _ = find_cold_notifications([corrected], EXPIRES_MS)
    used_again = replace(LARGE, cache=replace(LARGE.cache, used_at=NOW_MS + 1))
    (new,), _ = find_cold_notifications([used_again], BEFORE_MS)
    assert first.key == again.key != new.key


@pytest.mark.parametrize(
    "changes",
    [
        {"live": False, "status": SessionStatus.ENDED},
        {"status": SessionStatus.BUSY},
        {"cache": PromptCache(EXPIRES_MS, tokens=99_999)},
        {"cache": PromptCache(EXPIRES_MS)},
        {"cache": PromptCache(None, tokens=225_000)},
        {"cache": PromptCache(EXPIRES_MS, tokens=225_000, is_for_next_model=False)},
        {"cold_limits": ColdLimits(notify_tokens=0)},
        {"cold_limits": ColdLimits(notify_tokens=225_001)},
        {"cold_limits": ColdLimits(notice_ms=0)},
    ],
)
def test_what_works_or_loses_little_is_not_notified(changes: dict[str, Any]) -> None:
    assert find_cold_notifications([replace(LARGE, **changes)], BEFORE_MS) == ([], None)


def test_a_session_that_waits_for_an_answer_is_notified_too() -> None:
    waiting = replace(LARGE, status=SessionStatus.WAITING)
    later = replace(LARGE, cache=replace(LARGE.cache, expires_at=EXPIRES_MS + 5_000))
    latest = replace(LARGE, cache=replace(LARGE.cache, expires_at=EXPIRES_MS + 9_000))
    due, next_at = find_cold_notifications([latest, waiting, later], BEFORE_MS)
    assert (len(due), next_at) == (1, BEFORE_MS + 5_000)


def test_ten_at_once_are_one_with_their_number() -> None:
    ten = [
        Notification(
            NotificationKind.LEVEL,
            f"k{n}",
            "high",
            "w",
            EventSeverity.WARNING,
            f"session {n}",
            Level.HIGH,
        )
        for n in range(10)
    ]
    other = Notification(NotificationKind.WAITING, "w", "waits", "x", subject="x")
    one, two = group_notifications([*ten, other])
    assert one.title == "10 contexts reached a warning level"
    assert one.body == "session 0, session 1, session 2 and 7 more"
    assert one.severity is EventSeverity.WARNING
    assert two == other
    assert group_notifications(ten[:2]) == ten[:2]


def test_where_every_way_is_off_it_says_which_keys_turn_them_on() -> None:
    off = replaced(notification_settings(BUILT_IN_POLICY), toast=False)
    assert "notify.desktop" in channels_text(off, "off", "")
    on = replaced(off, toast=True, bell=True)
    assert channels_text(on, "osc9", "in tmux") == "notified by toast, bell, osc9 (in tmux)"
