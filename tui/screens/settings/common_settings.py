"""The settings that people change most: which ones, and what each does to today's sessions."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import time
from typing import TYPE_CHECKING, Final

from ....core.actions import setting_effects
from ....core.actions.setting_effects import LevelEffect
from ....core.archive.archive_policy import read_archive_settings
from ....core.compaction.compression_level import COMPACTING_ACTIONS
from ....core.compaction.policy_strategy import LADDER, NONE, automatic_strategy
from ....core.compaction.receipts import (
    MIB,
    BackupStore,
    CompactionReceipt,
    ReceiptStore,
    backup_retention,
)
from ....core.model.levels import Threshold
from ....core.model.session import Session
from ....core.policy.policy import Policy, PolicyOrigin, ResolvedValue
from ....core.policy.resolve import Policies
from ....core.policy.schema import NATIVE, OFF
from ....core.policy.value_types import PolicyValue, parse_quiet_hours
from ....core.store.database import state_folder
from ....core.store.queries.context_queries import count_messages
from ....core.store.queries.spending_queries import model_usage
from ....core.transcript.sanitize import one_line
from ...page_kit.archive_dialogs import ARCHIVE_EFFECTS
from ...page_kit.hook_installation import read_installed_hooks
from ...text.formats import plural

if TYPE_CHECKING:
    from ....collectors.locations.places import Places


FEATURES_KEY: Final = "hooks"
"""Of what hooks may do: no key of the policy, but a part of the installed commands."""

FEATURE_EFFECTS: Final[Mapping[str, str]] = {
    "enforce": "stops an agent once if its result is not in its declared format",
    "inject": "gives a starting agent open tasks and earlier results of this project",
    "steer": "tells Claude Code's own compaction what to keep",
    "remember": "adds what a compaction lost to your next prompt, once",
    "prompts": "tells the model at warning levels that there is room, or to save context",
    "confirm": "tells a session at its next prompt that ctxtop compacted it",
    "cold": "tells you what a prompt to an expired prompt cache writes again, once",
}

_MODE_EFFECTS: Final = {
    "observe": "ctxtop only shows; it suggests nothing and changes nothing",
    "suggest": "ctxtop suggests; it changes a session only when you ask",
}
MAX_NAMED_MODELS: Final = 3


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """What is read once for the page: files and the whole store."""

    models: tuple[str, ...] = ()  # that answered in any session
    receipts: tuple[CompactionReceipt, ...] = ()
    backup_bytes: int = 0
    features: tuple[str, ...] = ()  # that installed hooks have
    hooks_note: str = ""  # where hooks are installed, or why their features cannot be changed
    message_counts: Mapping[str, int] = field(default_factory=dict)
    """Messages that the model sees, of today's sessions by id."""


def read_machine_facts(
    db: sqlite3.Connection, places: Places, sessions: Iterable[Session]
) -> MachineFacts:
    """Read the facts, with those of `sessions`. Raises OSError."""
    state, hooks = state_folder(places.store), read_installed_hooks(places)
    note = "" if hooks.is_installed else "no hooks are installed"
    if hooks.elsewhere:
        note = f"hooks are in {one_line(hooks.elsewhere)}: use `ctxtop hooks`"
    return MachineFacts(
        models=tuple(sorted({each.model for each in model_usage(db)})),
        receipts=tuple(ReceiptStore(state).all()),
        backup_bytes=BackupStore(state).total_bytes(),
        features=hooks.features,
        hooks_note=note,
        message_counts={each.session_id: count_messages(db, each.session_id) for each in sessions},
    )


@dataclass(frozen=True, slots=True)
class EffectContext:
    """What effects are computed from."""

    policy: Policy
    sessions: tuple[Session, ...]  # of today
    now_ms: int
    time_of_day: time
    facts: MachineFacts


def affected_sessions(
    sessions: Iterable[Session], policies: Policies, folder: str | None, now_ms: int
) -> tuple[Session, ...]:
    """Return today's sessions of a folder, or for None those whose project sets nothing itself."""
    own = (
        each
        for each in sessions
        if (
            each.project_root == folder
            if folder
            else (each.project_root or "") not in policies.projects
        )
    )
    return setting_effects.todays_sessions(own, now_ms)


def origin_text(value: ResolvedValue) -> str:
    return {
        PolicyOrigin.COMMAND_LINE: "command line",
        PolicyOrigin.ENVIRONMENT: one_line(value.where) or "environment",
        PolicyOrigin.PROJECT_FILE: "project's file",
        PolicyOrigin.USER_FILE: "your file",
        PolicyOrigin.PRESET: f"preset {one_line(value.where)}",
        PolicyOrigin.BUILT_IN: "default",
    }[value.origin]


def level_text(context: EffectContext, draft: PolicyValue, level: Threshold | None) -> str:
    """Describe what the chosen level of a draft is about."""
    if level is None:
        return "no level is a share of the window: type a value"
    after = setting_effects.with_value(context.policy, "threshold", draft)
    effect = setting_effects.level_effect(context.sessions, context.policy, after, level)
    above = f"{plural(effect.reached, 'session')} above {level.at * 100:.4g}% now"
    return ", ".join((above, *_level_changes(effect, level)))


def _level_changes(effect: LevelEffect, level: Threshold) -> list[str]:
    changes = []
    if effect.newly_reached:
        changes.append(f"{effect.newly_reached} would reach {level.level}")
    if effect.no_longer_reached:
        changes.append(f"{effect.no_longer_reached} would no longer reach {level.level}")
    return changes


def preset_text(context: EffectContext, draft: PolicyValue) -> str:
    preset = str(draft)
    if preset == context.policy.preset:
        return "in use: its values apply where no file sets one"
    effect = setting_effects.preset_effect(context.sessions, context.policy, preset)
    changed = plural(effect.changed_keys, "setting")
    if effect.changed_levels is None:
        return f"changes {changed}; contexts are counted in another way"
    return f"changes {changed}; {plural(effect.changed_levels, 'session')} would change level"


_CHANNELS: Final = {
    "notify.toast": "message in the dashboard",
    "notify.bell": "bell",
    "notify.desktop": "desktop notification",
}


def channel_text(context: EffectContext, key: str, draft: PolicyValue) -> str:
    """Describe what a way to notify is for."""
    if draft in {False, OFF}:
        return f"no {_CHANNELS[key]}"
    return f"for {notification_text(context, context.policy)}"


def notification_text(context: EffectContext, policy: Policy) -> str:
    """Count the sessions that notifications are about."""
    found = setting_effects.notified_sessions(context.sessions, policy)
    level = policy.text("notify.level")
    above = "no level"
    if level != OFF:
        above = f"{plural(found.at_level, 'session')} at {level} or above"
    return f"{above}, {found.waiting} waiting for you now"


def quiet_text(draft: PolicyValue, now: time) -> str:
    hours = parse_quiet_hours(str(draft))
    if hours is None:
        return "bell and desktop notify at any time"
    state = "quiet now" if hours.contains(now) else "not quiet now"
    return f"{state}; no bell and no desktop notification in these hours"


def automation_text(context: EffectContext, policy: Policy) -> str:
    mode = policy.text("mode")
    if mode in _MODE_EFFECTS:
        return _MODE_EFFECTS[mode]
    effect = setting_effects.automation_effect(
        context.sessions, policy, context.now_ms, context.facts.message_counts
    )
    if effect.obstacle:
        return f"nothing happens automatically: {effect.obstacle}"
    return (
        f"idle sessions are compacted at their level: {effect.compacted} due now,"
        f" {effect.recovered} to recover"
    )


_STRATEGY_EFFECTS: Final = {
    NONE: "automation compacts nothing",
    NATIVE: "automation asks Claude Code to /compact",
    LADDER: "automation applies ctxtop's plan, with a backup and undo",
    "condense": "automation condenses older turns if it must, with a backup and undo",
    "summary": "automation replaces older messages by a summary, with a backup and undo",
    "summary_buffer": "automation replaces older messages by a summary, with a backup and undo",
    "window": "automation removes older turns, with a backup and undo",
    "head_tail": "automation removes older turns, with a backup and undo",
}


def _compact_by_text(_context: EffectContext, policy: Policy) -> str:
    if not any(each.action in COMPACTING_ACTIONS for each in policy.thresholds):
        return "automation compacts nothing: no threshold has an action that compacts"
    return _STRATEGY_EFFECTS[automatic_strategy(policy)]


def _recovery_text(context: EffectContext, policy: Policy) -> str:
    count = sum(each.too_long is not None for each in context.sessions)
    now = f"{plural(count, 'session')} too long now"
    if not policy.flag("recovery.auto"):
        return f"{now}: r repairs one"
    if not policy.recovers:
        return f"{now}: nothing happens, because disabled_modules has auto-recovery"
    if policy.text("mode") != "auto":
        return f"{now}: nothing happens until mode is auto"
    return f"{now}: each is repaired in a fork"


def price_text(context: EffectContext) -> str:
    prices = context.policy.strings_by_name("price")
    names = setting_effects.unpriced_models(context.facts.models, prices)
    if not names:
        return "every model that answered has a price"
    shown = ", ".join(map(one_line, names[:MAX_NAMED_MODELS]))
    more = len(names) - MAX_NAMED_MODELS
    return f"without a price: {shown}" + (f" and {more} more" if more > 0 else "")


def features_text(context: EffectContext, word: str, chosen: tuple[str, ...]) -> str:
    state = "on" if word in chosen else "off"
    note = context.facts.hooks_note
    return f"{word} ({state}): {FEATURE_EFFECTS[word]}" + (f" · {note}" if note else "")


def _backup_text(context: EffectContext, policy: Policy) -> str:
    facts, retention = context.facts, backup_retention(policy)
    effect = setting_effects.backup_effect(
        facts.receipts, facts.backup_bytes, retention, context.now_ms
    )
    size = f"backups take {facts.backup_bytes / MIB:,.1f} MiB"
    full = ", too much to edit in place" if effect.is_full else ""
    needed = f", {effect.needed} of them kept because an undo needs them" if effect.needed else ""
    return f"{size}{full}; {effect.old} older than this{needed}"


_POLICY_EFFECTS: Final[Mapping[str, Callable[[EffectContext, Policy], str]]] = {
    "notify.level": notification_text,
    "mode": automation_text,
    "compact.by": _compact_by_text,
    "compact.strategy": _compact_by_text,
    "recovery.auto": _recovery_text,
    "backup.keep_days": _backup_text,
    "backup.max_mib": _backup_text,
    "archive.mode": lambda _, policy: ARCHIVE_EFFECTS[read_archive_settings(policy).mode],
}
_FIXED_EFFECTS: Final = {
    "ui.theme": "applies at the next start; t changes the theme now",
    "ui.ascii": "applies at the next start, to the dashboard and to what commands print",
}


def effect_text(context: EffectContext, key: str, draft: PolicyValue) -> str:
    """Describe in one line what a draft of a key does; levels and features have their own."""
    if key in _FIXED_EFFECTS:
        return _FIXED_EFFECTS[key]
    if key == "preset":
        return preset_text(context, draft)
    if key == "notify.quiet":
        return quiet_text(draft, context.time_of_day)
    if key in _CHANNELS:
        return channel_text(context, key, draft)
    if key == "price":
        return price_text(context)
    policy = context.policy
    if draft != policy.value(key):
        policy = setting_effects.with_value(policy, key, draft)
    return _POLICY_EFFECTS[key](context, policy)
