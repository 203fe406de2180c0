"""Every key of the policy changes something: a key without effect cannot come back."""

from __future__ import annotations

import ast
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import fields
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import ctxtop.collectors
import ctxtop.core
import ctxtop.tui
import pytest
from ctxtop.collectors.locations.places import PolicySources
from ctxtop.collectors.terminal.prompt_answer import answering_obstacle
from ctxtop.core.actions.pause_rules import preview_pause
from ctxtop.core.actions.session_recovery import resume_prompt
from ctxtop.core.archive.archive_policy import read_archive_settings
from ctxtop.core.compaction.automation_rules import (
    PastRun,
    automatic_target,
    check_automation_enabled,
    decide_compaction,
    decide_recompaction,
    decide_recovery,
)
from ctxtop.core.compaction.plan import ResultCaps
from ctxtop.core.compaction.policy_strategy import automatic_strategy, cut_options
from ctxtop.core.compaction.receipts import BackupRetention, backup_retention
from ctxtop.core.compaction.recovery.recovery_run import (
    RecoveryRetry,
    RecoverySettings,
    read_recovery_settings,
)
from ctxtop.core.compliance.expectations import (
    ComplianceSettings,
    ResultLimits,
    compliance_settings,
)
from ctxtop.core.injection.context_selection import InjectionLimits, injection_limits
from ctxtop.core.injection.injected_text import choose_prompt
from ctxtop.core.measure.plan_limits import PlanLimit
from ctxtop.core.model.claude_models import PriceRate, find_price
from ctxtop.core.model.cold_prompt import ColdLimits
from ctxtop.core.model.context import StoredTokenCounts, measure_context
from ctxtop.core.model.context_window import ClaimSource, Window
from ctxtop.core.model.conversation import MessagePart, PartKind
from ctxtop.core.model.stored_rows import UsageRow
from ctxtop.core.policy.policy import Policy, PolicyOrigin
from ctxtop.core.policy.resolve import RawValue, resolve_policy
from ctxtop.core.policy.schema import KEYS
from ctxtop.core.readers.fleet_reader import read_cold_limits
from ctxtop.core.saves.selected_files import SaveLimits, save_limits
from ctxtop.core.store.token_samples import read_part_counters
from ctxtop.core.summaries.key_messages import ImportanceSettings
from ctxtop.core.summaries.summary_building import (
    FactSelection,
    SummarySettings,
    read_summary_settings,
)
from ctxtop.tui.app_state.notifications import (
    NotificationSettings,
    find_limit_notifications,
    notification_settings,
)
from ctxtop.tui.base.ui_state import DashboardSettings, read_dashboard_settings
from msgspec.structs import replace

from ..pausing import candidate, idle_session
from ..policy_observations import (
    oversized_items,
    plan_with_large_results,
    summary_with_anchors,
)
from ..tui.makers import session
from ..tui.support import NOW_MS
from .test_automation import NOW, READY

Observe = Callable[[Policy], object]

LARGE: Final = Window(1_000_000, ClaimSource.TABLE)
ASSUMED: Final = Window(200_000, ClaimSource.ASSUMED)
GREW: Final = PastRun(NOW - 70_000, 90_000, 91_000, 180_000)
FAILED_ONCE: Final = replace(READY, runs=(PastRun(NOW - 70_000, failed_at_tokens=175_000),))
RAN_BEFORE: Final = replace(READY, runs=(GREW,))


def levels(policy: Policy) -> object:
    return policy.place_thresholds(LARGE)


def rearm(policy: Policy) -> object:
    return policy.rearm


def usable(policy: Policy) -> object:
    return policy.effective_window(LARGE)


def reserve(policy: Policy) -> object:
    return policy.reserve_tokens


def assumed(policy: Policy) -> object:
    return policy.effective_window(ASSUMED)


def price(policy: Policy) -> object:
    return find_price("claude-opus-4-6", PriceRate.STANDARD, policy.strings_by_name("price"))


def prompt(action: str) -> Observe:
    return lambda policy: choose_prompt({action}, policy)


def counted(policy: Policy) -> object:
    stored = StoredTokenCounts(210_000, input=10_000, cache_creation=20_000, cache_read=180_000)
    return measure_context(stored, LARGE, counting=policy.counting).tokens


def spent(policy: Policy) -> object:
    made = session(
        context=measure_context(StoredTokenCounts(1_000), LARGE, None, (), policy.counting)
    )
    return replace(made, usage=UsageRow("s", 1, 2, 3, 4, 1)).spent_tokens


def estimated(policy: Policy) -> object:
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(files("ctxtop.core.store").joinpath("schema.sql").read_text())
        counter = read_part_counters(db, policy.counting)("claude-opus-5-5")
        return counter.tokens(MessagePart(PartKind.PROMPT, "a b c d e f g h"))


def compaction(policy: Policy) -> object:
    return decide_compaction(policy, RAN_BEFORE)


def limit_notifications(policy: Policy) -> object:
    limit = PlanLimit("five_hour", "s1", 0.6, NOW, NOW, NOW + 1)
    return [each.title for each in find_limit_notifications([limit], policy, NOW)]


def paused(policy: Policy) -> object:
    large = idle_session(context=measure_context(StoredTokenCounts(250_000), LARGE))
    found = candidate(large), candidate(large, idle_from=200_000)
    return [preview_pause(each, policy, NOW_MS) for each in found]


OBSERVATIONS: Final[dict[str, tuple[object, Observe]]] = {
    "preset": ("clnode", levels),
    "mode": ("observe", check_automation_enabled),
    "disabled_modules": (["preemptive"], check_automation_enabled),
    "usage.source": ("api_last+cumulative", spent),
    "usage.estimator": ("chars4", estimated),
    "usage.per_message_overhead": (50, estimated),
    "usage.components": (["input", "cache_read"], counted),
    "limit.source": ("fixed", usable),
    "limit.default": (100_000, assumed),
    "limit.override": ({"claude-x": 64_000}, lambda policy: policy.lowest_threshold_tokens),
    "limit.safety_factor": (0.8, usable),
    "limit.unknown": ("none", assumed),
    "limit.output_reserve": (1_000, reserve),
    "limit.autocompact_buffer": (1_000, reserve),
    "threshold": (["0.3:high:compact"], levels),
    "rearm.on_compaction": (False, rearm),
    "rearm.hysteresis": (0.2, rearm),
    "rearm.cooldown_s": (60, rearm),
    "absolute.at_tokens": (300_000, levels),
    "absolute.from_window": (2_000_000, levels),
    "compact.strategy": ("summary", automatic_strategy),
    "compact.by": ("client", automatic_strategy),
    "compact.min_messages": (
        30,
        lambda policy: decide_compaction(policy, replace(READY, messages=20)),
    ),
    "compact.min_tokens": (180_000, compaction),
    "compact.cooldown_s": (600, compaction),
    "compact.max_attempts": (1, lambda policy: decide_compaction(policy, FAILED_ONCE)),
    "compact.target_reduction": (
        [0.6, 0.7],
        lambda policy: automatic_target(policy, READY.context),
    ),
    "pause.min_tokens": (500_000, paused),
    "pause.requests": (1, paused),
    "pause.ways": (["hand-off"], paused),
    "pause.reread_tokens": (0, paused),
    "pause.stand_aside": (False, paused),
    "compact.preserve_recent": (3, read_summary_settings),
    "compact.timeout_s": (5, read_summary_settings),
    "compact.levels": ("two", levels),
    "compact.midpoint": (0.87, levels),
    "summary.model": ("session", read_summary_settings),
    "summary.max_tokens": (900, read_summary_settings),
    "summary.max_words": (50, read_summary_settings),
    "summary.template": ("eight_section", read_summary_settings),
    "summary.preserve_decisions": (False, read_summary_settings),
    "summary.preserve_tool_results": (False, read_summary_settings),
    "summary.cache": (False, read_summary_settings),
    "summary.levels": (2, read_summary_settings),
    "importance.user_explicit": (0.5, summary_with_anchors),
    "importance.decision": (0.2, summary_with_anchors),
    "importance.tool_result": (0.2, summary_with_anchors),
    "importance.keyword": (0.2, summary_with_anchors),
    "importance.anchors_max": (1, summary_with_anchors),
    "importance.anchor_marker": ("[keep]", summary_with_anchors),
    "recovery.order": (["revert"], read_recovery_settings),
    "recovery.auto": (True, lambda policy: decide_recovery(policy, READY, None)),
    "recovery.aggressive": (True, read_recovery_settings),
    "recovery.dcp": (True, read_recovery_settings),
    "recovery.target_ratio": (0.3, read_recovery_settings),
    "recovery.chars_per_token": (3, read_recovery_settings),
    "recovery.max_truncate": (7, read_recovery_settings),
    "recovery.min_output": (70, read_recovery_settings),
    "recovery.max_revert": (7, read_recovery_settings),
    "recovery.min_messages": (7, read_recovery_settings),
    "recovery.max_recompact": (1, lambda policy: decide_recompaction(policy, READY, 0)),
    "recovery.max_empty_fix": (7, read_recovery_settings),
    "recovery.retry.max": (7, read_recovery_settings),
    "recovery.retry.initial_ms": (7, read_recovery_settings),
    "recovery.retry.factor": (7.0, read_recovery_settings),
    "recovery.retry.max_ms": (7, read_recovery_settings),
    "recovery.retry.window_s": (7, read_recovery_settings),
    "recovery.resume": (
        "continue",
        lambda policy: resume_prompt(policy.text("recovery.resume"), Path("/none"), None),
    ),
    "recovery.confirm": (["dedup"], read_recovery_settings),
    "price": ({"claude-opus": "1/2"}, price),
    "tools.warn_result_chars": (100_000, oversized_items),
    "tools.cap_tokens": (1_000, plan_with_large_results),
    "tools.web_cap_tokens": (400, plan_with_large_results),
    "tools.header_lines": (0, plan_with_large_results),
    "tools.first_chars": (5_000, cut_options),
    "compliance.mode": ("off", compliance_settings),
    "compliance.line_limit": (7, compliance_settings),
    "compliance.review_line_limit": (7, compliance_settings),
    "compliance.result_max_lines": (7, compliance_settings),
    "compliance.soft_chars": (7, compliance_settings),
    "compliance.review_files": (3, compliance_settings),
    "compliance.rules": ({"x": "review"}, compliance_settings),
    "compliance.min_samples": (7, compliance_settings),
    "injection.sibling": (7, injection_limits),
    "injection.same_type": (7, injection_limits),
    "injection.same_type_scope": ("all", injection_limits),
    "injection.cross_session": (7, injection_limits),
    "injection.tagged": (7, injection_limits),
    "injection.fallback": (7, injection_limits),
    "injection.task_desc": (7, injection_limits),
    "injection.plan": (7, injection_limits),
    "injection.budget": (7, injection_limits),
    "prompts.reassure": ("all is well", prompt("reassure")),
    "prompts.suggest": ("be brief", prompt("suggest")),
    "terminal.answer": (False, answering_obstacle),
    "backup.keep_days": (7, backup_retention),
    "backup.max_mib": (64, backup_retention),
    "archive.mode": ("all", read_archive_settings),
    "archive.max_size": (64, read_archive_settings),
    "archive.keep_days": (7, read_archive_settings),
    "saveflow.orphan_after_s": (7, save_limits),
    "saveflow.fresh_for_s": (7, save_limits),
    "saveflow.sentinel_ttl_s": (7, save_limits),
    "saveflow.locations": ("user", save_limits),
    "cold.min_tokens": (7, read_cold_limits),
    "cold.notify_tokens": (7, read_cold_limits),
    "cold.notify_before_s": (7, read_cold_limits),
    "limits.warn": ((0.5,), limit_notifications),
    "notify.toast": (False, notification_settings),
    "notify.bell": (True, notification_settings),
    "notify.desktop": ("osc9", notification_settings),
    "notify.level": ("off", notification_settings),
    "notify.waiting": (False, notification_settings),
    "notify.compactions": (False, notification_settings),
    "notify.agents": (True, notification_settings),
    "notify.quiet": ("22:00-07:00", notification_settings),
}
"""A value that is not the default, and what it changes."""

OF_THE_DASHBOARD: Final = {"ui.theme": "nord", "ui.welcome": "false", "ui.ascii": "true"}

READ_WHERE_THEY_ACT: Final = {
    "steering.budget": "collectors/plugin/answers/steer.py",
    "steering.again": "collectors/plugin/answers/remember.py",
}
"""Keys that one act reads; what they change is tested with the act."""

BESIDE: Final[dict[str, dict[str, object]]] = {
    "usage.per_message_overhead": {"usage.estimator": "chars4"},
    "limit.default": {"limit.unknown": "use_default"},
    "importance.tool_result": {"importance.user_explicit": 0.1},
    "recovery.max_recompact": {"recovery.auto": True},
    "tools.header_lines": {"tools.cap_tokens": 1_000},
    "compact.levels": {"threshold": ["0.8:light:inform", "0.9:medium:inform"]},
    "compact.midpoint": {"threshold": ["0.8:light:inform", "0.9:medium:inform"]},
}
"""What has to be said beside a key before it has an effect."""


def policy_of(values: dict[str, object]) -> Policy:
    said = {"mode": "auto"} | values
    found = resolve_policy(
        [RawValue(key, value, PolicyOrigin.USER_FILE, "here") for key, value in said.items()]
    )
    assert found.notices == ()
    return found


@pytest.mark.parametrize("key", OBSERVATIONS)
def test_a_key_changes_what_is_observed(key: str) -> None:
    value, observe = OBSERVATIONS[key]
    beside = BESIDE.get(key, {})
    assert observe(policy_of(beside | {key: value})) != observe(policy_of(beside))


@pytest.mark.parametrize("key", OF_THE_DASHBOARD)
def test_a_key_of_the_dashboard_changes_its_settings(key: str) -> None:
    said = PolicySources(command_line=((key, OF_THE_DASHBOARD[key]),))
    assert read_dashboard_settings(said) != read_dashboard_settings(PolicySources())


def unobserved_keys() -> set[str]:
    """Keys that no test observes; `make metrics` counts them."""
    bindings = {each for each in KEYS if each.startswith("keys.")}
    return set(KEYS) - {*OBSERVATIONS, *OF_THE_DASHBOARD, *READ_WHERE_THEY_ACT} - bindings


def test_every_key_is_observed() -> None:
    assert unobserved_keys() == set()
    assert {*OBSERVATIONS, *OF_THE_DASHBOARD, *READ_WHERE_THEY_ACT} <= set(KEYS)


PRODUCT: Final = [
    path
    for package in (ctxtop.core, ctxtop.collectors, ctxtop.tui)
    for path in sorted(Path(next(iter(package.__path__))).rglob("*.py"))
]


@pytest.mark.parametrize("key", READ_WHERE_THEY_ACT)
def test_a_key_is_read_where_it_acts(key: str) -> None:
    (path,) = (each for each in PRODUCT if str(each).endswith(READ_WHERE_THEY_ACT[key]))
    assert f'("{key}")' in path.read_text(encoding="utf-8")


SETTINGS: Final[list[Any]] = [
    BackupRetention,
    ColdLimits,
    ComplianceSettings,
    DashboardSettings,
    FactSelection,
    ImportanceSettings,
    InjectionLimits,
    NotificationSettings,
    RecoveryRetry,
    RecoverySettings,
    ResultCaps,
    ResultLimits,
    SaveLimits,
    SummarySettings,
]


@cache
def attributes_read() -> frozenset[str]:
    """The names of all attributes that the product reads."""
    return frozenset(
        node.attr
        for path in PRODUCT
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    )


@pytest.mark.parametrize("settings", SETTINGS)
def test_every_setting_is_read(settings: Any) -> None:  # noqa: ANN401 -- of two kinds
    """What a key changes in its settings is asked for somewhere."""
    names = getattr(settings, "__struct_fields__", None) or [each.name for each in fields(settings)]
    assert set(names) <= attributes_read()
