"""Every policy key: its type, unit, default and description.

The defaults are those of requirements 2.2; a test asserts them one by one.
"""

from __future__ import annotations

from typing import Final

import msgspec

from ..compliance.findings import ResultFormat
from ..measure.levels import DEFAULT_THRESHOLDS, Level
from .value_types import (
    MAX_TOKENS,
    BoolType,
    ChoiceByNameType,
    ChoiceListType,
    ChoiceType,
    FloatType,
    IntType,
    KeyChordsType,
    PolicyValue,
    PricesByModelType,
    QuietHoursType,
    RatioRangeType,
    TextType,
    ThresholdListType,
    TokensByModelType,
    ValueType,
)

SUGGEST_ACTION: Final = "suggest"

DEFAULT_PROMPTS: Final = {
    "reassure": (
        "There is still enough room in the context window: work on as planned; there is no"
        " need to hurry, to cut corners or to stop early."
    ),
    SUGGEST_ACTION: (
        "High context usage detected (>80%). Consider summarizing recent tool outputs or"
        " delegating subtasks to background agents to free up context space."
    ),
}
"""By the threshold's action, the less urgent first: 002-20 in our own words, 002-31 to the
letter. Nothing is forced (002-34). A policy may say it in other words, or another language."""

OFF: Final = "off"  # the word for a number that does not apply
NATIVE: Final = "native"  # the word for what the client itself decides
AUTO: Final = "auto"  # the word for what follows from the size of what is at hand
LAST_CHOSEN: Final = "kept"  # the word for what a person chose last in the dashboard
KEY_BINDING_PREFIX: Final = "keys."
"""Begins the name of a key of the policy that gives a binding of the dashboard other keys."""

DEFAULT_PRESET: Final = "default"

PRESET_NAMES: Final = (
    DEFAULT_PRESET,
    "clnode",
    "clnode-code",
    "not-agent",
    "omo-doc",
    "omo-2.6",
    "omo-latest",
    "hybrid-buffer",
    "claude-memory",
    "native",
)

MONITOR_MODULE: Final = "context-window-monitor"  # the module that warns (002-104)
PREEMPTIVE_MODULE: Final = "preemptive"
"""The module that suggests to save context before it is compacted (1.2.4)."""

RECOVERY_MODULE: Final = "auto-recovery"
"""The module that recovers a session without being asked (1.2.9)."""

DEFAULT_ABSOLUTE_TOKENS: Final = 400_000
"""Tokens; where context-stats ends the useful part of a window of 1M (peers 1.13)."""

_MODULES: Final = (
    MONITOR_MODULE,
    PREEMPTIVE_MODULE,
    RECOVERY_MODULE,
    "compliance",
    "save-flow",
    "injection",
)
_COMPONENTS: Final = ("input", "cache_read", "cache_creation", "output")
_STRATEGIES: Final = (
    "native",
    "summary",
    "summary_buffer",
    "window",
    "head_tail",
    "ladder",
    "none",
)
_TEMPLATES: Final = ("four_section", "five_section", "eight_section", "native", "none")
_RECOVERY_STEPS: Final = (
    "dedup",
    "aggressive",
    "truncate_largest",
    "fix_empty",
    "revert",
    "summarize",
    "dcp",
)

DESKTOP_CHANNELS: Final = (OFF, AUTO, "osc9", "osc777", "osc99", "notify-send", "osascript")
"""Ways to a notification outside of the terminal; `auto` is the one that is known to work here."""

_YES: Final = True
_NO: Final = False
_RATIO: Final = FloatType(0, 1)
_TOKENS: Final = IntType(0, MAX_TOKENS)
_COUNT: Final = IntType(0, 10_000)
_SECONDS: Final = IntType(0, 30 * 86_400)
_MILLISECONDS: Final = IntType(0, 86_400_000)


class PolicyKey(msgspec.Struct, frozen=True):
    """One value that can be set."""

    name: str
    value_type: ValueType
    default: PolicyValue
    unit: str  # empty for what is counted in nothing
    description: str


_KEYS: Final = (
    PolicyKey("preset", ChoiceType(PRESET_NAMES), DEFAULT_PRESET, "", "the values to begin with"),
    PolicyKey(
        "mode", ChoiceType(("observe", "suggest", "auto")), "suggest", "", "how far ctxtop goes"
    ),
    PolicyKey("disabled_modules", ChoiceListType(_MODULES), (), "", "what is left out"),
    PolicyKey(
        "usage.source",
        ChoiceType(("api_last", "api_last+cumulative", "chars4", "tiktoken")),
        "api_last",
        "",
        "what tells how much is in the context",
    ),
    PolicyKey(
        "usage.components",
        ChoiceListType(_COMPONENTS),
        ("input", "cache_read", "cache_creation"),
        "",
        "the counts of an answer that are in the context",
    ),
    PolicyKey(
        "usage.estimator",
        ChoiceType(("tiktoken", "chars4")),
        "tiktoken",
        "",
        "how a text without a count is estimated",
    ),
    PolicyKey("usage.per_message_overhead", _COUNT, 4, "tokens", "added to each estimated message"),
    PolicyKey(
        "limit.source",
        ChoiceType(("table", "fixed", "env_1m")),
        "table",
        "",
        "the window by evidence, always limit.default, or 1M where the environment says so",
    ),
    PolicyKey(
        "limit.default", IntType(1, MAX_TOKENS), 200_000, "tokens", "the window if none is known"
    ),
    PolicyKey(
        "limit.override", TokensByModelType(), {}, "tokens", "windows by model, above all evidence"
    ),
    PolicyKey(
        "limit.safety_factor", FloatType(0.01, 1), 1.0, "ratio", "the part of the window to use"
    ),
    PolicyKey(
        "limit.unknown",
        ChoiceType(("display_only", "use_default", "none")),
        "display_only",
        "",
        "what to do with a window that is not known",
    ),
    PolicyKey("limit.output_reserve", _TOKENS, 20_000, "tokens", "kept free for the answer"),
    PolicyKey(
        "limit.autocompact_buffer",
        _TOKENS,
        13_000,
        "tokens",
        "between the client's trigger and the rest of the window",
    ),
    PolicyKey(
        "threshold", ThresholdListType(), DEFAULT_THRESHOLDS, "ratio", "where each level begins"
    ),
    PolicyKey(
        "rearm.on_compaction", BoolType(), _YES, "", "a compaction lets a level be said again"
    ),
    PolicyKey(
        "rearm.hysteresis", FloatType(0, 1, OFF), 0.05, "ratio", "a fall this far does the same"
    ),
    PolicyKey(
        "rearm.cooldown_s",
        IntType(0, 30 * 86_400, OFF),
        OFF,
        "s",
        "said again after this time even while it stands; 0 is every answer",
    ),
    PolicyKey(
        "absolute.at_tokens",
        IntType(1, MAX_TOKENS, OFF),
        DEFAULT_ABSOLUTE_TOKENS,
        "tokens",
        "a notice of its own for very large windows",
    ),
    PolicyKey(
        "absolute.from_window",
        IntType(1, MAX_TOKENS),
        500_000,
        "tokens",
        "the smallest window that is very large",
    ),
    PolicyKey(
        "compact.strategy", ChoiceType(_STRATEGIES), "native", "", "how a context is made smaller"
    ),
    PolicyKey("compact.by", ChoiceType(("plan", "client")), "plan", "", "who does it in mode auto"),
    PolicyKey("compact.min_messages", _COUNT, 6, "messages", "below this nothing is compacted"),
    PolicyKey("compact.min_tokens", _TOKENS, 50_000, "tokens", "below this nothing is compacted"),
    PolicyKey(
        "compact.preserve_recent",
        IntType(0, 10_000, NATIVE),
        10,
        "messages",
        "kept word for word",
    ),
    PolicyKey(
        "compact.pair_safe", BoolType(), _YES, "", "a tool's call and its result stay together"
    ),
    PolicyKey("compact.cooldown_s", _SECONDS, 60, "s", "between two attempts, failed ones too"),
    PolicyKey("compact.timeout_s", _SECONDS, 60, "s", "after which an attempt has failed"),
    PolicyKey("compact.max_attempts", _COUNT, 2, "", "before it is given up"),
    PolicyKey(
        "compact.target_reduction", RatioRangeType(), (0.5, 0.7), "ratio", "what a good one frees"
    ),
    PolicyKey(
        "compact.levels",
        ChoiceType(("three", "two")),
        "three",
        "",
        "light, medium and aggressive, or without medium",
    ),
    PolicyKey("compact.midpoint", FloatType(0.01, 2), 0.90, "ratio", "where medium begins"),
    PolicyKey("summary.model", TextType(), "cheap", "", "cheap, session, or a model's id"),
    PolicyKey(
        "summary.max_tokens",
        IntType(0, MAX_TOKENS, AUTO),
        AUTO,
        "tokens",
        "the summary's size; auto is 8 % of what leaves, 12,000 at the most",
    ),
    PolicyKey(
        "summary.max_words", IntType(1, 1_000_000), 1000, "words", "what a model is asked for"
    ),
    PolicyKey(
        "summary.template", ChoiceType(_TEMPLATES), "four_section", "", "what it is asked for"
    ),
    PolicyKey("summary.preserve_decisions", BoolType(), _YES, "", "decisions are kept"),
    PolicyKey("summary.preserve_tool_results", BoolType(), _YES, "", "results of tools are kept"),
    PolicyKey("summary.cache", BoolType(), _YES, "", "the same text is summarised once"),
    PolicyKey("summary.levels", IntType(1, 10), 1, "", "summaries of summaries"),
    PolicyKey("importance.user_explicit", _RATIO, 1.0, "score", "marked by a person"),
    PolicyKey("importance.decision", _RATIO, 0.8, "score", "holds a decision"),
    PolicyKey("importance.tool_result", _RATIO, 0.7, "score", "holds a tool's result"),
    PolicyKey("importance.keyword", _RATIO, 0.5, "score", "full of keywords"),
    PolicyKey("importance.anchors_max", _COUNT, 5, "messages", "anchors at most"),
    PolicyKey(
        "importance.anchor_marker", TextType(), "<!-- anchor -->", "", "what marks an anchor"
    ),
    PolicyKey(
        "recovery.order",
        ChoiceListType(_RECOVERY_STEPS),
        ("fix_empty", "truncate_largest", "summarize", "revert"),
        "",
        "what is tried after a prompt that is too long",
    ),
    PolicyKey("recovery.auto", BoolType(), _NO, "", "recover without being asked"),
    PolicyKey("recovery.aggressive", BoolType(), _NO, "", "truncate many results at once"),
    PolicyKey("recovery.dcp", BoolType(), _NO, "", "prune what is superseded"),
    PolicyKey("recovery.target_ratio", _RATIO, 0.5, "ratio", "truncated until this is in use"),
    PolicyKey(
        "recovery.chars_per_token", IntType(1, 100), 4, "characters", "for what has no count"
    ),
    PolicyKey("recovery.max_truncate", _COUNT, 20, "", "results at most"),
    PolicyKey(
        "recovery.min_output", IntType(0, 1_000_000), 500, "characters", "smaller ones are left"
    ),
    PolicyKey("recovery.max_revert", _COUNT, 3, "", "attempts"),
    PolicyKey("recovery.min_messages", _COUNT, 2, "messages", "never reverted below"),
    PolicyKey("recovery.max_empty_fix", _COUNT, 3, "", "attempts"),
    PolicyKey("recovery.retry.max", _COUNT, 2, "", "attempts"),
    PolicyKey("recovery.retry.initial_ms", _MILLISECONDS, 2000, "ms", "before the first"),
    PolicyKey("recovery.retry.factor", FloatType(1, 100), 2.0, "", "each wait is longer by this"),
    PolicyKey("recovery.retry.max_ms", _MILLISECONDS, 30_000, "ms", "the longest wait"),
    PolicyKey("recovery.retry.window_s", _SECONDS, 120, "s", "for all attempts together"),
    PolicyKey(
        "recovery.resume",
        ChoiceType(("none", "continue", "last_prompt")),
        "none",
        "",
        "what is sent after it",
    ),
    PolicyKey(
        "recovery.confirm", ChoiceListType(_RECOVERY_STEPS), ("revert",), "", "steps that ask first"
    ),
    PolicyKey(
        "price",
        PricesByModelType(),
        {},
        "",
        "dollars for a million tokens by model, above the list prices",
    ),
    PolicyKey(
        "tools.warn_result_chars", IntType(0, MAX_TOKENS), 10_000, "characters", "a large result"
    ),
    PolicyKey("tools.cap_tokens", _TOKENS, 50_000, "tokens", "a result that is too large"),
    PolicyKey("tools.web_cap_tokens", _TOKENS, 10_000, "tokens", "the same for pages of the web"),
    PolicyKey("tools.header_lines", _COUNT, 3, "lines", "kept of a truncated result"),
    PolicyKey(
        "compliance.mode",
        ChoiceType(("last_message", "whole_transcript", OFF)),
        "last_message",
        "",
        "where an agent's marker counts",
    ),
    PolicyKey("compliance.line_limit", _COUNT, 10, "lines", "of an agent's output"),
    PolicyKey("compliance.review_line_limit", _COUNT, 20, "lines", "of a reviewer's output"),
    PolicyKey("compliance.result_max_lines", _COUNT, 3, "lines", "of the field Result"),
    PolicyKey("compliance.soft_chars", IntType(0, 1_000_000), 1000, "characters", "a long output"),
    PolicyKey("compliance.review_files", _COUNT, 7, "files", "of one review"),
    PolicyKey(
        "compliance.rules",
        ChoiceByNameType(tuple(ResultFormat)),
        {},
        "",
        "formats by agent type, where no skill is declared",
    ),
    PolicyKey("compliance.min_samples", _COUNT, 10, "results", "before a share is told"),
    PolicyKey("injection.sibling", _COUNT, 5, "", "results of agents of the same parent"),
    PolicyKey("injection.same_type", _COUNT, 3, "", "results of agents of the same type"),
    PolicyKey(
        "injection.same_type_scope",
        ChoiceType(("project", "all")),
        "project",
        "",
        "where those are looked for",
    ),
    PolicyKey("injection.cross_session", _COUNT, 5, "", "results of earlier sessions"),
    PolicyKey("injection.tagged", _COUNT, 5, "", "results by tag"),
    PolicyKey("injection.fallback", _COUNT, 10, "", "the newest, where nothing else fits"),
    PolicyKey("injection.task_desc", _COUNT, 100, "characters", "of a task's description"),
    PolicyKey("injection.plan", _COUNT, 200, "characters", "of a plan"),
    PolicyKey(
        "injection.budget", _TOKENS, 4_000, "tokens", "all that one agent is given, at the most"
    ),
    PolicyKey("steering.budget", _TOKENS, 1_000, "tokens", "what a compaction is told to keep"),
    PolicyKey(
        "steering.again", _TOKENS, 1_500, "tokens", "what it forgot, said again with a prompt"
    ),
    PolicyKey(
        "prompts.reassure",
        TextType(),
        DEFAULT_PROMPTS["reassure"],
        "",
        "what the model is told early",
    ),
    PolicyKey(
        "prompts.suggest",
        TextType(),
        DEFAULT_PROMPTS["suggest"],
        "",
        "what it is told when it gets tight",
    ),
    PolicyKey(
        "ui.theme", TextType(), LAST_CHOSEN, "", "colours; kept: those chosen last in the dashboard"
    ),
    PolicyKey("ui.welcome", BoolType(), _YES, "", "show the first steps at the first run"),
    PolicyKey("ui.ascii", BoolType(), _NO, "", "draw with ASCII's signs alone"),
    PolicyKey("saveflow.orphan_after_s", _SECONDS, 300, "s", "a save without an end is orphaned"),
    PolicyKey("saveflow.fresh_for_s", _SECONDS, 86_400, "s", "how long a result is shown"),
    PolicyKey("saveflow.sentinel_ttl_s", _SECONDS, 1800, "s", "how long a sentinel holds"),
    PolicyKey(
        "saveflow.locations",
        ChoiceType(("all", "project", "user", "temporary")),
        "all",
        "",
        "where saves are looked for",
    ),
    PolicyKey("notify.toast", BoolType(), _YES, "", "notices appear in the dashboard's corner"),
    PolicyKey("notify.bell", BoolType(), _NO, "", "the terminal's bell rings"),
    PolicyKey(
        "notify.desktop",
        ChoiceType(DESKTOP_CHANNELS),
        OFF,
        "",
        "notices outside of the terminal, and how",
    ),
    PolicyKey(
        "notify.level",
        ChoiceType((*Level, OFF)),
        Level.NOTICE.value,
        "",
        "the lowest level whose beginning is told",
    ),
    PolicyKey("notify.waiting", BoolType(), _YES, "", "a session that waits for you is told"),
    PolicyKey("notify.compactions", BoolType(), _YES, "", "a compaction that happened is told"),
    PolicyKey("notify.agents", BoolType(), _NO, "", "an agent that broke its rule is told"),
    PolicyKey(
        "notify.quiet",
        QuietHoursType(OFF),
        OFF,
        "",
        "hours without bell and desktop, e.g. 22:00-07:00",
    ),
)

KEYS: Final = {key.name: key for key in _KEYS}  # by name, in the order in which they are shown


def find_key(name: str) -> PolicyKey:
    """Find a key by name; those of the dashboard's bindings are as many as it has bindings.

    Raises KeyError for a name that is none.
    """
    if name.startswith(KEY_BINDING_PREFIX) and name != KEY_BINDING_PREFIX:
        return PolicyKey(
            name, KeyChordsType(), "", "", "keys of this binding; `ctxtop keys` lists them all"
        )
    return KEYS[name]
