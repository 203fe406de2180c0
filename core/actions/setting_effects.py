"""What a setting does, or a new value would do, to the sessions of today; from sessions alone."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from ..compaction.automation_rules import (
    AutomationInput,
    check_automation_enabled,
    decide_compaction,
    decide_recompaction,
    decide_recovery,
)
from ..compaction.receipts import BackupRetention, CompactionReceipt
from ..model.claude_models import LARGE_WINDOW_SUFFIX, PriceRate, find_price
from ..model.levels import Level, PlacedThreshold, Threshold, reached_level
from ..model.session import Session, SessionStatus
from ..policy.policy import Policy, PolicyOrigin, ResolvedValue, make_policy
from ..policy.resolve import RawValue, resolve_policy
from ..policy.schema import OFF, PRESETS, find_key
from ..policy.value_types import PolicyValue

TODAY_MS: Final = 24 * 3_600_000  # sessions that were active within this time count


def todays_sessions(sessions: Iterable[Session], now_ms: int) -> tuple[Session, ...]:
    """Return the sessions that are open, or were active in the last 24 hours."""
    return tuple(
        each for each in sessions if each.live or now_ms - (each.last_activity_at or 0) < TODAY_MS
    )


def with_value(policy: Policy, name: str, value: PolicyValue) -> Policy:
    """Return the policy as if the person's own file set a value."""
    changed = ResolvedValue(find_key(name), value, PolicyOrigin.USER_FILE, "")
    values = {**policy.values, name: changed}
    if name == "preset":
        values = _with_preset(values, str(value)) | {name: changed}
    return make_policy(values, policy.notices, policy.ignored)


def _with_preset(values: Mapping[str, ResolvedValue], preset: str) -> dict[str, ResolvedValue]:
    raw = RawValue("preset", preset, PolicyOrigin.USER_FILE, "")
    below = resolve_policy([raw]).values
    lower = {PolicyOrigin.PRESET, PolicyOrigin.BUILT_IN}
    return {
        name: below.get(name, each) if each.origin in lower else each
        for name, each in values.items()
    }


class LevelEffect(msgspec.Struct, frozen=True):
    """How many of some sessions a level is about."""

    reached: int  # with the new threshold
    newly_reached: int
    no_longer_reached: int


def level_effect(
    sessions: Iterable[Session], before: Policy, after: Policy, threshold: Threshold
) -> LevelEffect:
    """Count the sessions that reach a level with `after`, and how that differs from `before`."""
    pairs = [
        tuple(_reaches(session, policy, threshold.level) for policy in (before, after))
        for session in sessions
    ]
    return LevelEffect(
        reached=sum(then for _, then in pairs),
        newly_reached=sum(then and not now for now, then in pairs),
        no_longer_reached=sum(now and not then for now, then in pairs),
    )


def _reaches(session: Session, policy: Policy, level: Level) -> bool:
    ratio = session.context.ratio
    if ratio is None:
        return False
    placed = _placed_thresholds(session, policy)
    return any(each.level is level and each.is_reached(ratio) for each in placed)


def _placed_thresholds(session: Session, policy: Policy) -> tuple[PlacedThreshold, ...]:
    return policy.place_thresholds(session.context.window, session.context.trigger_tokens)


def session_level(session: Session, policy: Policy) -> Level | None:
    """Return the most urgent level that a session reaches by a policy."""
    return reached_level(session.context.ratio, _placed_thresholds(session, policy))


class PresetEffect(msgspec.Struct, frozen=True):
    changed_keys: int  # settings whose value changes
    changed_levels: int | None
    """Sessions with another level; None if the preset counts contexts in another way."""


def preset_effect(sessions: Iterable[Session], policy: Policy, preset: str) -> PresetEffect:
    after = with_value(policy, "preset", preset)
    names = {*PRESETS[policy.preset], *PRESETS[preset]}
    changed_keys = sum(policy.value(name) != after.value(name) for name in names)
    if after.counting != policy.counting:
        # How large a context is by its text is not known before it is counted.
        return PresetEffect(changed_keys, None)
    return PresetEffect(
        changed_keys,
        sum(session_level(each, policy) is not session_level(each, after) for each in sessions),
    )


class NotifiedSessions(msgspec.Struct, frozen=True):
    at_level: int  # at or above the lowest level that notifies
    waiting: int


def notified_sessions(sessions: Sequence[Session], policy: Policy) -> NotifiedSessions:
    """Count what notifications are about now; none where the kind is switched off."""
    lowest = policy.text("notify.level")
    notifying = list(Level)[list(Level).index(Level(lowest)) :] if lowest != OFF else []
    at_level = sum(session_level(each, policy) in notifying for each in sessions)
    waiting = sum(each.status is SessionStatus.WAITING for each in sessions)
    return NotifiedSessions(
        at_level=at_level if policy.warns else 0,
        waiting=waiting if policy.flag("notify.waiting") else 0,
    )


class AutomationEffect(msgspec.Struct, frozen=True):
    obstacle: str  # why nothing happens automatically; empty if automation is on
    compacted: int = 0  # sessions that a compaction is due for
    recovered: int = 0  # of sessions that were refused, or went silent after a compaction


def automation_effect(
    sessions: Iterable[Session],
    policy: Policy,
    now_ms: int,
    message_counts: Mapping[str, int],
) -> AutomationEffect:
    """Count what automation would do now, before a plan's price is known.

    `message_counts` has the messages that the model sees, by session; one that is missing counts
    as large enough.
    """
    enabled = check_automation_enabled(policy)
    if not enabled.allowed:
        return AutomationEffect(enabled.why)
    states = [
        (each, _automation_input(each, now_ms, message_counts.get(each.session_id)))
        for each in sessions
    ]
    too_long = [state for _, state in states if state.status is SessionStatus.TOO_LONG]
    silent = [state for session, state in states if session.is_silent]
    return AutomationEffect(
        "",
        compacted=sum(decide_compaction(policy, state).allowed for _, state in states),
        recovered=sum(decide_recovery(policy, state, None).allowed for state in too_long)
        + sum(decide_recompaction(policy, state, 0).allowed for state in silent),
    )


def _automation_input(session: Session, now_ms: int, messages: int | None) -> AutomationInput:
    return AutomationInput(
        session.context,
        session.status,
        is_open=session.live and session.status is not SessionStatus.ACTIVE,
        now_ms=now_ms,
        last_written_at=session.last_activity_at,
        messages=messages,
    )


def unpriced_models(models: Iterable[str], custom_prices: Mapping[str, str]) -> tuple[str, ...]:
    """Return the models that have no price, each once, by name."""
    names = {each.removesuffix(LARGE_WINDOW_SUFFIX) for each in models}
    # The client writes names in <> for messages that no model made.
    real = (each for each in names if each and not each.startswith("<"))
    return tuple(
        sorted(each for each in real if find_price(each, PriceRate.STANDARD, custom_prices) is None)
    )


class BackupEffect(msgspec.Struct, frozen=True):
    old: int  # older than every backup is kept
    needed: int  # of these, for an undo: they stay
    is_full: bool  # no transcript is replaced


def backup_effect(
    receipts: Iterable[CompactionReceipt], total_bytes: int, retention: BackupRetention, now_ms: int
) -> BackupEffect:
    own = [each for each in receipts if each.backup is not None]
    old = [each for each in own if now_ms - each.at > retention.keep_ms]
    return BackupEffect(
        old=len({each.backup for each in old}),
        needed=len({each.backup for each in old if each.needs_backup}),
        is_full=total_bytes > retention.max_bytes,
    )
