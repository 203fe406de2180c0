"""What a new value of a setting would do to the sessions of today."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.core.actions.setting_effects import (
    TODAY_MS,
    AutomationEffect,
    BackupEffect,
    LevelEffect,
    NotifiedSessions,
    PresetEffect,
    automation_effect,
    backup_effect,
    level_effect,
    notified_sessions,
    preset_effect,
    session_level,
    todays_sessions,
    unpriced_models,
    with_value,
)
from ctxtop.core.compaction.plan import make_plan
from ctxtop.core.compaction.receipts import (
    DAY_MS,
    ApplyMode,
    BackupRetention,
    CompactionReceipt,
    MtimeHandling,
    WrittenVersion,
)
from ctxtop.core.model.levels import Level
from ctxtop.core.model.session import PromptTooLong, SessionStatus
from ctxtop.core.policy.policy import Policy, PolicyOrigin
from ctxtop.core.policy.resolve import BUILT_IN_POLICY, RawValue, resolve_policy
from ctxtop.core.policy.threshold_values import movable_thresholds, move_threshold
from msgspec.structs import replace

from ..sessions_on_disk import operation
from ..tui.makers import context, session
from ..tui.support import NOW_MS

if TYPE_CHECKING:
    from ctxtop.core.model.session import Session


def at(*percents: int) -> list[Session]:
    """Make sessions whose windows are filled so far."""
    return [session(context=context(2_000 * each)) for each in percents]


def moved(place: int, share: float) -> tuple[Policy, Any]:
    draft = move_threshold(BUILT_IN_POLICY.value("threshold"), place, share)
    return with_value(BUILT_IN_POLICY, "threshold", draft), movable_thresholds(draft)[place]


def test_today_is_what_is_open_or_was_active_within_a_day() -> None:
    now = session(last_activity_at=NOW_MS - TODAY_MS + 1)
    old, opened = (
        session(last_activity_at=NOW_MS - TODAY_MS),
        session(last_activity_at=1, live=True),
    )
    never = session(last_activity_at=None)
    assert todays_sessions([now, old, opened, never], NOW_MS) == (now, opened)


@pytest.mark.parametrize(
    ("place", "share", "expected"),
    [
        (1, 0.80, LevelEffect(1, 0, 0)),
        (1, 0.72, LevelEffect(3, 2, 0)),
        (1, 0.84, LevelEffect(0, 0, 1)),
        (0, 0.50, LevelEffect(4, 1, 0)),
    ],
)
def test_a_moved_level_is_reached_by_others(
    place: int, share: float, expected: LevelEffect
) -> None:
    sessions = [*at(82, 75, 72, 50, 10), session(context=context(None))]
    after, threshold = moved(place, share)
    assert level_effect(sessions, BUILT_IN_POLICY, after, threshold) == expected


def test_a_changed_value_is_as_if_the_own_file_set_it() -> None:
    after = with_value(BUILT_IN_POLICY, "mode", "auto")
    assert after.values["mode"].origin is PolicyOrigin.USER_FILE
    assert after.value("preset") == BUILT_IN_POLICY.value("preset")


def test_a_preset_changes_what_no_file_sets() -> None:
    own = resolve_policy([RawValue("summary.max_tokens", 99, PolicyOrigin.USER_FILE, "x")])
    after = with_value(own, "preset", "hybrid-buffer")
    real = resolve_policy(
        [
            RawValue("summary.max_tokens", 99, PolicyOrigin.USER_FILE, "x"),
            RawValue("preset", "hybrid-buffer", PolicyOrigin.USER_FILE, "x"),
        ]
    )
    assert {name: each.value for name, each in after.values.items()} == {
        name: each.value for name, each in real.values.items()
    }
    assert after.thresholds == real.thresholds
    back = with_value(after, "preset", "default")
    assert back.thresholds == own.thresholds


def test_what_a_preset_changes_is_counted() -> None:
    found = preset_effect(at(75, 90, 10), BUILT_IN_POLICY, "claude-memory")
    # The threshold, absolute.at_tokens, compliance.mode, mode and limit.source.
    assert found == PresetEffect(changed_keys=5, changed_levels=1)  # at 90 % both say high
    assert preset_effect(at(75), BUILT_IN_POLICY, "default") == PresetEffect(0, 0)
    # What a text weighs is not known before it was counted.
    assert preset_effect(at(75), BUILT_IN_POLICY, "not-agent").changed_levels is None


def test_notifications_are_about_sessions_at_the_lowest_level_and_those_that_wait() -> None:
    sessions = [*at(72, 82, 96), session(context=context(0), status=SessionStatus.WAITING)]
    assert notified_sessions(sessions, BUILT_IN_POLICY) == NotifiedSessions(3, 1)
    for key, value, expected in (
        ("notify.level", "warning", NotifiedSessions(2, 1)),
        ("notify.level", "off", NotifiedSessions(0, 1)),
        ("notify.waiting", False, NotifiedSessions(3, 0)),
        ("disabled_modules", ("context-window-monitor",), NotifiedSessions(0, 1)),
    ):
        assert notified_sessions(sessions, with_value(BUILT_IN_POLICY, key, value)) == expected
    assert session_level(sessions[2], BUILT_IN_POLICY) is Level.EMERGENCY


def test_automation_counts_what_is_due_now() -> None:
    policy = with_value(BUILT_IN_POLICY, "threshold", moved(2, 0.85)[0].value("threshold"))
    auto = with_value(with_value(policy, "mode", "auto"), "recovery.auto", True)
    compacting = resolve_policy(
        [
            RawValue("mode", "auto", PolicyOrigin.USER_FILE, "x"),
            RawValue("threshold", "0.7:high:compact", PolicyOrigin.USER_FILE, "x"),
        ]
    )
    idle = session(last_activity_at=NOW_MS - 600_000)
    busy = session(status=SessionStatus.BUSY, live=True)
    refused = session(
        status=SessionStatus.TOO_LONG,
        too_long=PromptTooLong(210_000, 200_000),
        last_activity_at=NOW_MS - 600_000,
    )
    assert automation_effect([idle], policy, NOW_MS, {}) == AutomationEffect("mode is not auto")
    assert automation_effect([idle, busy], compacting, NOW_MS, {}) == AutomationEffect("", 1, 0)
    assert automation_effect([idle, refused], auto, NOW_MS, {}).recovered == 1
    # Those with few messages are never compacted.
    for messages, compacted in ((6, 0), (7, 1)):
        counts = {idle.session_id: messages}
        assert automation_effect([idle], compacting, NOW_MS, counts).compacted == compacted
    silent = replace(idle, is_silent=True)
    assert automation_effect([silent], auto, NOW_MS, {}).recovered == 0
    again = with_value(auto, "recovery.max_recompact", 3)
    assert automation_effect([silent], again, NOW_MS, {}).recovered == 1


def test_models_without_a_price() -> None:
    models = ["claude-opus-5-5", "claude-new-9", "claude-new-9[1m]", "<synthetic>", ""]
    assert unpriced_models(models, {}) == ("claude-new-9",)
    assert unpriced_models(models, {"claude-new": "1/2"}) == ()


def test_backups_that_are_old_stay_where_an_undo_needs_them() -> None:
    def receipt(number: int, days: int, version: WrittenVersion) -> CompactionReceipt:
        return CompactionReceipt(
            receipt_id=f"{number:08}",
            session_id="s",
            new_session_id=None,
            mode=ApplyMode.IN_PLACE,
            at=NOW_MS - days * DAY_MS,
            transcript="/gone",
            target="/gone",
            backup=f"b{number}",
            verified=(),
            resume_command="",
            mtime=MtimeHandling.KEPT,
            plan=make_plan("s", "x", 1, [operation()], before_tokens=1),
            now=version,
        )

    done, undone = WrittenVersion("0" * 64, 1), WrittenVersion("0" * 64, 1, (0,))
    receipts = [receipt(1, 50, done), receipt(2, 50, undone), receipt(3, 2, undone)]
    keep_month = BackupRetention()
    assert backup_effect(receipts, 10, keep_month, NOW_MS) == BackupEffect(2, 1, is_full=False)
    small = BackupRetention(keep_ms=DAY_MS, max_bytes=9)
    assert backup_effect(receipts, 10, small, NOW_MS) == BackupEffect(3, 1, is_full=True)
