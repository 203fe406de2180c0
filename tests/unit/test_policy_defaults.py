"""The policy's defaults and presets, each beside the requirement that asks for it."""

from __future__ import annotations

from typing import Any

import pytest
from ctxtop.core.model.context_window import ClaimSource, Window
from ctxtop.core.model.levels import (
    DEFAULT_THRESHOLDS,
    Level,
    RearmRule,
    Threshold,
    ThresholdBase,
    ThresholdOp,
)
from ctxtop.core.policy.policy import Policy, PolicyOrigin
from ctxtop.core.policy.resolve import BUILT_IN_POLICY, RawValue, resolve_policy
from ctxtop.core.policy.schema import DEFAULT_PROMPTS, KEYS, PRESETS
from ctxtop.core.policy.value_types import to_json_value

DEFAULTS: list[tuple[str, str, Any]] = [
    ("2.2", "preset", "default"),
    ("T-10", "mode", "suggest"),
    ("002-104", "disabled_modules", ()),
    ("T-03", "usage.source", "api_last"),
    ("T-03", "usage.components", ("input", "cache_read", "cache_creation")),
    ("003-11", "usage.estimator", "tiktoken"),
    ("R003-01", "usage.per_message_overhead", 4),
    ("2.2.1", "limit.source", "table"),
    ("T-26", "limit.default", 200_000),
    ("T-26", "limit.override", {}),
    ("issue", "price", {}),
    ("T-26", "limit.safety_factor", 1.0),
    ("T-26", "limit.unknown", "display_only"),
    ("T-01", "limit.output_reserve", 20_000),
    ("T-01", "limit.autocompact_buffer", 13_000),
    (
        "2.2",
        "threshold",
        (
            Threshold(0.70, Level.NOTICE, "reassure", ThresholdOp.AT_LEAST),
            Threshold(0.80, Level.WARNING, "suggest", ThresholdOp.AT_LEAST),
            Threshold(0.85, Level.HIGH, "offer_compact", ThresholdOp.AT_LEAST),
            Threshold(0.95, Level.EMERGENCY, "alert", ThresholdOp.AT_LEAST),
            Threshold(1.00, Level.OVERFLOW, "recover", ThresholdOp.AT_LEAST),
        ),
    ),
    ("T-09", "rearm.on_compaction", True),
    ("T-09", "rearm.hysteresis", 0.05),
    ("T-09", "rearm.cooldown_s", "off"),
    ("issue", "absolute.at_tokens", 400_000),
    ("issue", "absolute.from_window", 500_000),
    ("2.2", "compact.strategy", "native"),
    ("T-10", "compact.by", "plan"),
    ("R003-04", "compact.min_messages", 6),
    ("R002-06", "compact.min_tokens", 50_000),
    ("003-26", "compact.preserve_recent", 10),
    ("R002-06", "compact.cooldown_s", 60),
    ("R002-06", "compact.timeout_s", 60),
    ("T-10", "compact.max_attempts", 2),
    ("001-12", "compact.target_reduction", (0.5, 0.7)),
    ("T-02", "compact.levels", "three"),
    ("T-02", "compact.midpoint", 0.90),
    ("T-05", "summary.model", "cheap"),
    ("T-06", "summary.max_tokens", "auto"),
    ("001-28", "summary.max_words", 1000),
    ("001-26", "summary.template", "four_section"),
    ("003-30", "summary.preserve_decisions", True),
    ("003-31", "summary.preserve_tool_results", True),
    ("003-33", "summary.cache", True),
    ("003-20", "summary.levels", 1),
    ("003-32", "importance.user_explicit", 1.0),
    ("003-32", "importance.decision", 0.8),
    ("003-32", "importance.tool_result", 0.7),
    ("003-32", "importance.keyword", 0.5),
    ("003-28", "importance.anchors_max", 5),
    ("003-05", "importance.anchor_marker", "<!-- anchor -->"),
    ("T-08", "recovery.order", ("fix_empty", "truncate_largest", "summarize", "revert")),
    ("T-10", "recovery.auto", False),
    ("002-106", "recovery.aggressive", False),
    ("R002-17", "recovery.dcp", False),
    ("2.2", "recovery.target_ratio", 0.5),
    ("002-19", "recovery.chars_per_token", 4),
    ("002-102", "recovery.max_truncate", 20),
    ("T-20", "recovery.min_output", 500),
    ("002-102", "recovery.max_revert", 3),
    ("2.2", "recovery.min_messages", 2),
    ("T-20", "recovery.max_empty_fix", 3),
    ("R002-09", "recovery.max_recompact", 0),
    ("002-93", "recovery.retry.max", 2),
    ("002-94", "recovery.retry.initial_ms", 2000),
    ("002-95", "recovery.retry.factor", 2.0),
    ("002-96", "recovery.retry.max_ms", 30_000),
    ("R002-12", "recovery.retry.window_s", 120),
    ("T-11", "recovery.resume", "none"),
    ("T-08", "recovery.confirm", ("revert",)),
    ("001-05", "tools.warn_result_chars", 10_000),
    ("002-110", "tools.cap_tokens", 50_000),
    ("R002-18", "tools.web_cap_tokens", 10_000),
    ("R002-18", "tools.header_lines", 3),
    ("issue", "pause.min_tokens", 50_000),
    ("issue", "pause.requests", 20),
    ("issue", "pause.ways", ("client", "hand-off")),
    ("issue", "pause.reread_tokens", 24_000),
    ("issue", "pause.stand_aside", True),
    ("001-05", "tools.first_chars", "off"),
    ("T-07", "compliance.mode", "last_message"),
    ("000-40", "compliance.line_limit", 10),
    ("000-43", "compliance.review_line_limit", 20),
    ("2.2", "compliance.result_max_lines", 3),
    ("T-06", "compliance.soft_chars", 1000),
    ("000-50", "compliance.review_files", 7),
    ("T-25", "compliance.rules", {}),
    ("R004-13", "compliance.min_samples", 10),
    ("2.2", "injection.sibling", 5),
    ("2.2", "injection.same_type", 3),
    ("T-14", "injection.same_type_scope", "project"),
    ("2.2", "injection.cross_session", 5),
    ("2.2", "injection.tagged", 5),
    ("T-14", "injection.fallback", 10),
    ("2.2", "injection.task_desc", 100),
    ("2.2", "injection.plan", 200),
    ("ours", "injection.budget", 4_000),
    ("ours", "steering.budget", 1_000),
    ("ours", "steering.again", 1_500),
    ("002-20", "prompts.reassure", DEFAULT_PROMPTS["reassure"]),
    (
        "002-31",
        "prompts.suggest",
        (
            "High context usage detected (>80%). Consider summarizing recent tool outputs or"
            " delegating subtasks to background agents to free up context space."
        ),
    ),
    ("ours", "terminal.answer", True),
    ("2.2", "saveflow.orphan_after_s", 300),
    ("ours", "backup.keep_days", 30),
    ("ours", "backup.max_mib", 2048),
    ("ours", "archive.mode", "off"),
    ("ours", "archive.max_size", 4096),
    ("ours", "archive.keep_days", 0),
    ("2.2", "saveflow.fresh_for_s", 86_400),
    ("2.2", "saveflow.sentinel_ttl_s", 1800),
    ("T-18", "saveflow.locations", "all"),
    ("ours", "cold.min_tokens", 20_000),
    ("ours", "cold.notify_tokens", 100_000),
    ("ours", "cold.notify_before_s", 120),
    ("issue", "limits.warn", (0.8, 0.95)),
    ("ours", "notify.toast", True),
    ("ours", "notify.bell", False),
    ("ours", "notify.desktop", "off"),
    ("ours", "notify.level", "notice"),
    ("ours", "notify.waiting", True),
    ("ours", "notify.compactions", True),
    ("ours", "notify.agents", False),
    ("ours", "notify.quiet", "off"),
    ("issue", "ui.theme", "kept"),
    ("issue", "ui.welcome", True),
    ("issue", "ui.ascii", False),
]


def of_preset(name: str) -> Policy:
    return resolve_policy([RawValue("preset", name, PolicyOrigin.COMMAND_LINE, "--preset")])


@pytest.mark.parametrize(("requirement", "key", "value"), DEFAULTS)
def test_a_default_is_what_was_required(requirement: str, key: str, value: object) -> None:
    assert BUILT_IN_POLICY.value(key) == value, requirement
    assert type(BUILT_IN_POLICY.value(key)) is type(value)
    assert BUILT_IN_POLICY.values[key].origin is PolicyOrigin.BUILT_IN


def test_every_key_has_its_requirement() -> None:
    assert sorted(key for _, key, _ in DEFAULTS) == sorted(KEYS)


@pytest.mark.parametrize("key", KEYS.values(), ids=lambda key: key.name)
def test_every_default_is_a_value_that_its_key_takes(key: Any) -> None:  # noqa: ANN401
    assert key.parse(to_json_value(key.default)) == key.default
    assert key.description


LEVELS: dict[str, list[tuple[float, str, str, str, str]]] = {
    "default": [
        (0.70, "notice", "reassure", ">=", "window"),
        (0.80, "warning", "suggest", ">=", "window"),
        (0.85, "high", "offer_compact", ">=", "window"),
        (0.95, "emergency", "alert", ">=", "window"),
        (1.00, "overflow", "recover", ">=", "window"),
    ],
    "clnode": [],
    "clnode-code": [],
    "not-agent": [
        (0.75, "high", "compact", ">=", "window"),
        (0.80, "notice", "inform", ">", "window"),
        (1.00, "overflow", "warn", ">", "window"),
    ],
    "omo-doc": [
        (0.70, "notice", "reassure", ">=", "window"),
        (0.80, "warning", "suggest", ">=", "window"),
        (1.00, "overflow", "recover", ">=", "window"),
    ],
    "omo-2.6": [
        (0.70, "notice", "reassure", ">=", "window"),
        (0.85, "high", "compact", ">=", "window"),
    ],
    "omo-latest": [(0.78, "high", "compact", ">=", "window")],
    "hybrid-buffer": [
        (0.85, "light", "compact", ">=", "window"),
        (0.90, "medium", "compact", ">=", "window"),
        (0.95, "aggressive", "compact", ">=", "window"),
    ],
    "claude-memory": [(1.0, "high", "native", ">=", "trigger")],
    "native": [(1.0, "high", "native", ">=", "trigger")],
}


@pytest.mark.parametrize("name", PRESETS)
def test_the_thresholds_of_each_preset(name: str) -> None:
    found = [
        (each.at, each.level.value, each.action, each.op.value, each.of.value)
        for each in of_preset(name).thresholds
    ]

    assert found == LEVELS[name]


CLNODE_RULES = {
    "node-backend": "output",
    "react-frontend": "output",
    "cli-hooks": "output",
    "reviewer": "review",
    "clnode-curator": "output",
}
"""000-40 to 000-44."""

ROWS: dict[str, tuple[Any, ...]] = {
    # In the order of the table: default, clnode, not-agent, omo-doc, omo-2.6, omo-latest,
    # hybrid-buffer, claude-memory, native. Where the table has a dash the default holds.
    "usage.source": (
        "api_last",
        "api_last+cumulative",
        "chars4",
        "chars4",
        "api_last",
        "api_last",
        "tiktoken",
        "api_last",
        "api_last",
    ),
    "usage.components": (
        ("input", "cache_read", "cache_creation"),
        ("input", "cache_read", "cache_creation"),
        ("input", "cache_read", "cache_creation"),
        ("input", "cache_read", "cache_creation"),
        ("input", "cache_read", "output"),
        ("input", "cache_read"),
        ("input", "cache_read", "cache_creation"),
        ("input", "cache_read", "cache_creation"),
        ("input", "cache_read", "cache_creation"),
    ),
    "usage.per_message_overhead": (4, 4, 0, 0, 4, 4, 4, 4, 4),
    "limit.source": (
        "table",
        "table",
        "fixed",
        "table",
        "env_1m",
        "table",
        "table",
        "fixed",
        "table",
    ),
    "limit.default": (
        200_000,
        200_000,
        100_000,
        200_000,
        200_000,
        200_000,
        100_000,
        200_000,
        200_000,
    ),
    "limit.safety_factor": (1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.8, 1.0, 1.0),
    "limit.unknown": (
        *("display_only",) * 5,
        "none",
        "use_default",
        *("display_only",) * 2,
    ),
    "mode": (
        "suggest",
        "observe",
        "auto",
        "suggest",
        "auto",
        "auto",
        "auto",
        "observe",
        "observe",
    ),
    "recovery.auto": (False, False, False, True, True, True, False, False, False),
    "compact.preserve_recent": (10, 10, 4, 10, 10, 10, 10, 10, "native"),
    "summary.model": (
        "cheap",
        "cheap",
        "session",
        "session",
        "cheap",
        "cheap",
        "gemini-2.5-flash-lite",
        "cheap",
        "session",
    ),
    "summary.max_tokens": ("auto", "auto", 2048, *("auto",) * 3, 500, "auto", "auto"),
    "summary.max_words": (1000,) * 9,
    "summary.template": (
        "four_section",
        "four_section",
        "four_section",
        "native",
        "five_section",
        "eight_section",
        "four_section",
        "four_section",
        "native",
    ),
    "summary.cache": (True,) * 9,
    "compliance.line_limit": (10,) * 9,
    "compliance.review_line_limit": (20,) * 9,
    "compact.strategy": (
        "native",
        "none",
        "summary",
        "ladder",
        "ladder",
        "ladder",
        "summary_buffer",
        "native",
        "native",
    ),
    "recovery.order": (
        ("fix_empty", "truncate_largest", "summarize", "revert"),
        ("fix_empty", "truncate_largest", "summarize", "revert"),
        ("fix_empty", "truncate_largest", "summarize", "revert"),
        ("aggressive", "truncate_largest", "fix_empty", "revert", "summarize"),
        ("aggressive", "truncate_largest", "fix_empty", "summarize", "dcp", "revert"),
        ("dedup", "aggressive", "fix_empty", "summarize"),
        ("fix_empty", "truncate_largest", "summarize", "revert"),
        ("fix_empty", "truncate_largest", "summarize", "revert"),
        ("fix_empty", "truncate_largest", "summarize", "revert"),
    ),
    "recovery.confirm": (("revert",),) * 9,
    "recovery.max_recompact": (0, 0, 0, 0, 0, 3, 0, 0, 0),
    "rearm.on_compaction": (True, True, True, False, False, False, True, True, True),
    "rearm.hysteresis": (0.05, 0.05, 0.05, "off", "off", "off", 0.05, 0.05, 0.05),
    "rearm.cooldown_s": ("off", "off", 0, "off", 60, 60, 0, "off", "off"),
    "absolute.at_tokens": (400_000, *("off",) * 8),
    "compliance.mode": ("last_message", "whole_transcript", *("off",) * 7),
    "compliance.rules": ({}, CLNODE_RULES, *({},) * 7),
    "injection.fallback": (10,) * 9,
    "tools.first_chars": ("off", "off", 10_000, *("off",) * 6),
    "disabled_modules": ((),) * 9,
}
TABLE = [name for name in PRESETS if name != "clnode-code"]


@pytest.mark.parametrize("name", TABLE)
@pytest.mark.parametrize("key", ROWS)
def test_each_cell_of_the_table_of_presets(key: str, name: str) -> None:
    assert of_preset(name).value(key) == ROWS[key][TABLE.index(name)]


def test_the_table_has_every_preset_and_every_key_that_one_changes() -> None:
    changed = {key for values in PRESETS.values() for key in values}

    assert [KEYS["preset"].parse(name) for name in PRESETS] == list(PRESETS)
    assert changed - {"threshold", "usage.estimator", "injection.same_type_scope"} <= set(ROWS)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_holds_only_values_that_their_keys_take(name: str) -> None:
    for key, value in PRESETS[name].items():
        assert KEYS[key].parse(to_json_value(value)) == value
        assert of_preset(name).values[key].origin is PolicyOrigin.PRESET


def test_clnode_as_its_code_is() -> None:
    policy = of_preset("clnode-code")

    assert policy.value("injection.fallback") == 5
    assert policy.value("injection.same_type_scope") == "all"
    assert policy.value("compliance.mode") == "whole_transcript"


@pytest.mark.parametrize(
    ("name", "rearm"),
    [
        ("default", RearmRule(on_compaction=True, hysteresis=0.05)),
        ("not-agent", RearmRule(on_compaction=True, hysteresis=0.05, cooldown_ms=0)),
        ("omo-doc", RearmRule(on_compaction=False, hysteresis=None)),
        ("omo-2.6", RearmRule(on_compaction=False, hysteresis=None, cooldown_ms=60_000)),
    ],
)
def test_when_a_preset_says_a_level_again(name: str, rearm: RearmRule) -> None:
    assert of_preset(name).rearm == rearm


def known(tokens: int) -> Window:
    return Window(tokens, ClaimSource.TABLE)


@pytest.mark.parametrize(
    ("requirement", "name", "window", "tokens"),
    [
        ("2.2", "default", 200_000, [140_000, 160_000, 170_000, 190_000, 200_000]),
        (
            "issue",
            "default",
            1_000_000,
            [400_000, 700_000, 800_000, 850_000, 950_000, 1_000_000],
        ),
        ("T-26", "clnode", 200_000, []),
        ("001-25", "not-agent", 200_000, [75_000, 80_000, 100_000]),
        ("001-25", "not-agent", 1_000_000, [75_000, 80_000, 100_000]),
        ("R002-05", "omo-2.6", 200_000, [140_000, 170_000]),
        ("R002-05", "omo-2.6", 1_000_000, [700_000, 850_000]),
        ("R002-06", "omo-latest", 200_000, [156_000]),
        ("R003-03", "hybrid-buffer", 1_000_000, [680_000, 720_000, 760_000]),
        ("T-01", "native", 200_000, [167_000]),
        ("T-01", "native", 1_000_000, [967_000]),
        ("T-01", "claude-memory", 1_000_000, [167_000]),
    ],
)
def test_where_the_levels_of_a_preset_begin(
    requirement: str, name: str, window: int, tokens: list[int]
) -> None:
    lines = of_preset(name).place_thresholds(known(window))

    assert [round(line.at * window) for line in lines] == tokens, requirement


def test_the_native_line_follows_the_trigger_that_is_known() -> None:
    (line,) = of_preset("native").place_thresholds(known(200_000), trigger=155_000)

    assert line.at == 155_000 / 200_000


def test_the_line_of_the_native_preset_is_as_the_table_says() -> None:
    (line,) = of_preset("native").place_thresholds(known(200_000))

    assert line.at == 0.835


def test_a_window_that_is_not_known() -> None:
    assumed = Window(200_000, ClaimSource.ASSUMED)

    assert [line.at for line in BUILT_IN_POLICY.place_thresholds(assumed)] == [
        each.at for each in DEFAULT_THRESHOLDS
    ]
    assert of_preset("omo-latest").place_thresholds(assumed) == ()
    assert of_preset("hybrid-buffer").effective_window(assumed) == 100_000


def test_a_window_of_the_policy_is_taken_as_it_is() -> None:
    factor = RawValue("limit.safety_factor", 0.5, PolicyOrigin.USER_FILE, "config.toml")

    assert resolve_policy([factor]).effective_window(known(200_000)) == 100_000
    assert resolve_policy([factor]).effective_window(Window(64_000, ClaimSource.POLICY)) == 64_000


def test_two_levels_as_they_were_built() -> None:
    policy = resolve_policy(
        [
            RawValue("preset", "hybrid-buffer", PolicyOrigin.COMMAND_LINE, "--preset"),
            RawValue("compact.levels", "two", PolicyOrigin.COMMAND_LINE, "--set"),
        ]
    )

    assert [(each.at, each.level) for each in policy.thresholds] == [
        (0.85, Level.LIGHT),
        (0.95, Level.AGGRESSIVE),
    ]


def test_the_midpoint_can_be_moved() -> None:
    policy = resolve_policy(
        [
            RawValue("preset", "hybrid-buffer", PolicyOrigin.USER_FILE, "config.toml"),
            RawValue("compact.midpoint", "0.92", PolicyOrigin.ENVIRONMENT, "X"),
        ]
    )

    assert [each.at for each in policy.thresholds] == [0.85, 0.92, 0.95]


@pytest.mark.parametrize("name", PRESETS)
def test_nothing_is_reached_below_the_floor(name: str) -> None:
    policy = of_preset(name)
    lines = [
        line.at * window
        for window in (100_000, 128_000, 200_000, 400_000, 1_000_000)
        for line in policy.place_thresholds(known(window))
    ]

    assert (
        policy.lowest_threshold_tokens is None
        if not lines
        else (policy.lowest_threshold_tokens or 0) <= min(lines)
    )


def test_the_base_of_a_threshold_is_part_of_its_name() -> None:
    names = {
        Threshold(0.8, Level.WARNING, "warn").name,
        Threshold(0.8, Level.WARNING, "warn", ThresholdOp.ABOVE).name,
        Threshold(0.8, Level.WARNING, "warn", of=ThresholdBase.TRIGGER).name,
    }

    assert names == {"0.8", ">0.8", "0.8@trigger"}
