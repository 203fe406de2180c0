"""The lines below the common settings: what each does, in words."""

from __future__ import annotations

from datetime import time
from typing import Any

import pytest
from ctxtop.core.model.levels import DEFAULT_THRESHOLDS
from ctxtop.core.policy.policy import Policy, PolicyOrigin
from ctxtop.core.policy.resolve import BUILT_IN_POLICY, Policies, RawValue, resolve_policy
from ctxtop.core.policy.threshold_values import move_threshold
from ctxtop.tui.screens.settings.common_settings import (
    EffectContext,
    MachineFacts,
    affected_sessions,
    effect_text,
    features_text,
    level_text,
    origin_text,
)

from ..tui.makers import context, session
from ..tui.support import NOW_MS

SESSIONS = tuple(session(context=context(2_000 * each)) for each in (82, 75, 72, 10))
FACTS = MachineFacts(("claude-new-9", "claude-opus-5-5"), (), 3 << 20, ("steer",), "")


def effects_of(*values: tuple[str, object]) -> EffectContext:
    said = [RawValue(key, value, PolicyOrigin.USER_FILE, "x") for key, value in values]
    return EffectContext(resolve_policy(said), SESSIONS, NOW_MS, time(23), FACTS)


@pytest.mark.parametrize(
    ("place", "share", "text"),
    [
        (1, 0.8, "1 session above 80% now"),
        (1, 0.72, "3 sessions above 72% now, 2 would reach warning"),
        (1, 0.83, "0 sessions above 83% now, 1 would no longer reach warning"),
    ],
)
def test_a_level_says_who_is_above_it(place: int, share: float, text: str) -> None:
    draft = move_threshold(DEFAULT_THRESHOLDS, place, share)
    assert level_text(effects_of(), draft, draft[place]) == text


def test_a_preset_s_mode_is_said_to_do_nothing_by_itself() -> None:
    """What a control shows of the value in force is what automation decides by it."""
    effects = effects_of(("preset", "not-agent"))
    nothing = "nothing happens automatically: mode = auto must be set explicitly, not in the preset"
    assert effect_text(effects, "mode", "auto") == nothing
    chosen = effects_of(("compact.strategy", "native"))
    for key, value in (("compact.strategy", "native"), ("compact.by", "plan")):
        assert effect_text(chosen, key, value) == "automation asks Claude Code to /compact"
    for preset in ("native", "clnode", "claude-memory", "omo-doc"):
        effects = effects_of(("preset", preset), ("mode", "auto"))
        assert effect_text(effects, "compact.by", "plan").startswith("automation compacts nothing")
        assert effect_text(effects, "mode", "auto").startswith("idle sessions") is (
            preset != "clnode"
        )


def test_levels_that_cannot_be_moved_are_typed() -> None:
    assert "type a value" in level_text(effects_of(), (), None)


@pytest.mark.parametrize(
    ("key", "draft", "text"),
    [
        ("preset", "default", "in use"),
        ("preset", "claude-memory", "changes 5 settings; 3 sessions would change level"),
        ("preset", "not-agent", "changes 15 settings; contexts are counted in another way"),
        ("notify.toast", True, "for 3 sessions at notice or above, 0 waiting for you now"),
        ("notify.bell", False, "no bell"),
        ("notify.desktop", "off", "no desktop notification"),
        ("notify.level", "warning", "1 session at warning or above"),
        ("notify.level", "off", "no level, 0 waiting"),
        ("notify.quiet", "off", "at any time"),
        ("notify.quiet", "22:00-07:00", "quiet now"),
        ("notify.quiet", "01:00-07:00", "not quiet now"),
        ("ui.theme", "kept", "next start"),
        ("ui.ascii", True, "next start"),
        ("mode", "observe", "changes nothing"),
        ("mode", "suggest", "only when you ask"),
        ("mode", "auto", "0 due now"),
        ("compact.by", "client", "/compact"),
        ("compact.by", "plan", "with a backup and undo"),
        # The built-in value is nobody's choice: ctxtop plans.
        ("compact.strategy", "native", "ctxtop's plan, with a backup and undo"),
        ("compact.strategy", "ladder", "ctxtop's plan"),
        ("compact.strategy", "summary", "by a summary"),
        ("compact.strategy", "head_tail", "removes older turns"),
        ("compact.strategy", "none", "compacts nothing"),
        ("recovery.auto", False, "0 sessions too long now: r repairs one"),
        ("recovery.auto", True, "until mode is auto"),
        ("price", {}, "without a price: claude-new-9"),
        ("backup.keep_days", 7, "backups take 3.0 MiB; 0 older than this"),
        ("backup.max_mib", 2, "too much to edit in place"),
    ],
)
def test_each_setting_says_what_it_does(key: str, draft: Any, text: str) -> None:  # noqa: ANN401
    assert text in effect_text(effects_of(), key, draft)


def test_a_disabled_recovery_is_not_promised() -> None:
    effects = effects_of(("mode", "auto"), ("disabled_modules", ["auto-recovery"]))
    assert "disabled_modules has auto-recovery" in effect_text(effects, "recovery.auto", True)


def test_every_model_may_have_a_price() -> None:
    found = effect_text(effects_of(("price", {"claude-new": "1/2"})), "price", {})
    assert found == "every model that answered has a price"


def test_a_feature_of_hooks_says_whether_it_is_on() -> None:
    assert features_text(effects_of(), "steer", ("steer",)).startswith("steer (on): tells Claude")
    assert features_text(effects_of(), "inject", ("steer",)).startswith("inject (off): gives")


def test_an_origin_is_named_as_on_the_other_tab() -> None:
    policy = effects_of(("mode", "auto"), ("preset", "omo-2.6")).policy
    assert origin_text(policy.values["mode"]) == "your file"
    assert origin_text(policy.values["recovery.auto"]) == "preset omo-2.6"
    assert origin_text(policy.values["ui.ascii"]) == "default"


def test_only_sessions_that_the_settings_are_for_are_counted() -> None:
    shop, other = session(project_root="/shop"), session(project_root="/other")
    policies = Policies(BUILT_IN_POLICY, {"/shop": Policy({}, (), (), BUILT_IN_POLICY.rearm)})
    assert affected_sessions([shop, other], policies, None, NOW_MS) == (other,)
    assert affected_sessions([shop, other], policies, "/shop", NOW_MS) == (shop,)
