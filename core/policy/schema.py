"""Every key of the policy: what it takes, its unit, its built-in default, what it is for.

The defaults are those of requirements 2.2; a test asserts them one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from ..compliance.codes import Format
from ..levels import THRESHOLDS, Level
from ..prompting import TEXTS
from .kinds import (
    MOST_TOKENS,
    Chords,
    Flag,
    Hours,
    Labels,
    Number,
    Prices,
    Sizes,
    Span,
    Text,
    Thresholds,
    Whole,
    Word,
    Words,
)

if TYPE_CHECKING:
    from .kinds import Kind, Value

OFF: Final = "off"
"""The word for a number that does not apply."""

NATIVE: Final = "native"
"""The word for what the client itself decides."""

AUTO: Final = "auto"
"""The word for what follows from the size of what is at hand."""

KEPT: Final = "kept"
"""The word for what a person chose last in the dashboard."""

CHORDS: Final = "keys."
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

MONITOR: Final = "context-window-monitor"
"""The module that warns (002-104)."""

PREEMPTIVE: Final = "preemptive"
"""The module that suggests to save context before it is compacted (1.2.4)."""

RECOVERY: Final = "auto-recovery"
"""The module that recovers a session without being asked (1.2.9)."""

ABSOLUTE: Final = 400_000
"""Tokens; where context-stats ends the useful part of a window of 1M (peers 1.13)."""

_MODULES: Final = (
    MONITOR,
    PREEMPTIVE,
    RECOVERY,
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
_STEPS: Final = (
    "dedup",
    "aggressive",
    "truncate_largest",
    "fix_empty",
    "revert",
    "summarize",
    "dcp",
)

DESKTOPS: Final = (OFF, AUTO, "osc9", "osc777", "osc99", "notify-send", "osascript")
"""Ways to a notification outside of the terminal; `auto` is the one that is known to work here."""

_YES: Final = True
_NO: Final = False
_RATIO: Final = Number(0, 1)
_TOKENS: Final = Whole(0, MOST_TOKENS)
_COUNT: Final = Whole(0, 10_000)
_SECONDS: Final = Whole(0, 30 * 86_400)
_MILLISECONDS: Final = Whole(0, 86_400_000)


class Key(msgspec.Struct, frozen=True):
    """One value that can be set."""

    name: str
    value_type: Kind
    default: Value
    unit: str
    """Empty for what is counted in nothing."""
    description: str


_KEYS: Final = (
    Key("preset", Word(PRESET_NAMES), DEFAULT_PRESET, "", "the values to begin with"),
    Key("mode", Word(("observe", "suggest", "auto")), "suggest", "", "how far ctxtop goes"),
    Key("disabled_modules", Words(_MODULES), (), "", "what is left out"),
    Key(
        "usage.source",
        Word(("api_last", "api_last+cumulative", "chars4", "tiktoken")),
        "api_last",
        "",
        "what tells how much is in the context",
    ),
    Key(
        "usage.components",
        Words(_COMPONENTS),
        ("input", "cache_read", "cache_creation"),
        "",
        "the counts of an answer that are in the context",
    ),
    Key(
        "usage.estimator",
        Word(("tiktoken", "chars4")),
        "tiktoken",
        "",
        "how a text without a count is estimated",
    ),
    Key("usage.per_message_overhead", _COUNT, 4, "tokens", "added to each estimated message"),
    Key(
        "limit.source",
        Word(("table", "fixed", "env_1m")),
        "table",
        "",
        "the window by evidence, always limit.default, or 1M where the environment says so",
    ),
    Key("limit.default", Whole(1, MOST_TOKENS), 200_000, "tokens", "the window if none is known"),
    Key("limit.override", Sizes(), {}, "tokens", "windows by model, above all evidence"),
    Key("limit.safety_factor", Number(0.01, 1), 1.0, "ratio", "the part of the window to use"),
    Key(
        "limit.unknown",
        Word(("display_only", "use_default", "none")),
        "display_only",
        "",
        "what to do with a window that is not known",
    ),
    Key("limit.output_reserve", _TOKENS, 20_000, "tokens", "kept free for the answer"),
    Key(
        "limit.autocompact_buffer",
        _TOKENS,
        13_000,
        "tokens",
        "between the client's trigger and the rest of the window",
    ),
    Key("threshold", Thresholds(), THRESHOLDS, "ratio", "where each level begins"),
    Key("rearm.on_compaction", Flag(), _YES, "", "a compaction lets a level be said again"),
    Key("rearm.hysteresis", Number(0, 1, OFF), 0.05, "ratio", "a fall this far does the same"),
    Key(
        "rearm.cooldown_s",
        Whole(0, 30 * 86_400, OFF),
        OFF,
        "s",
        "said again after this time even while it stands; 0 is every answer",
    ),
    Key(
        "absolute.at_tokens",
        Whole(1, MOST_TOKENS, OFF),
        ABSOLUTE,
        "tokens",
        "a notice of its own for very large windows",
    ),
    Key(
        "absolute.from_window",
        Whole(1, MOST_TOKENS),
        500_000,
        "tokens",
        "the smallest window that is very large",
    ),
    Key("compact.strategy", Word(_STRATEGIES), "native", "", "how a context is made smaller"),
    Key("compact.by", Word(("plan", "client")), "plan", "", "who does it in mode auto"),
    Key("compact.min_messages", _COUNT, 6, "messages", "below this nothing is compacted"),
    Key("compact.min_tokens", _TOKENS, 50_000, "tokens", "below this nothing is compacted"),
    Key(
        "compact.preserve_recent",
        Whole(0, 10_000, NATIVE),
        10,
        "messages",
        "kept word for word",
    ),
    Key("compact.pair_safe", Flag(), _YES, "", "a tool's call and its result stay together"),
    Key("compact.cooldown_s", _SECONDS, 60, "s", "between two attempts, failed ones too"),
    Key("compact.timeout_s", _SECONDS, 60, "s", "after which an attempt has failed"),
    Key("compact.max_attempts", _COUNT, 2, "", "before it is given up"),
    Key("compact.target_reduction", Span(), (0.5, 0.7), "ratio", "what a good one frees"),
    Key(
        "compact.levels",
        Word(("three", "two")),
        "three",
        "",
        "light, medium and aggressive, or without medium",
    ),
    Key("compact.midpoint", Number(0.01, 2), 0.90, "ratio", "where medium begins"),
    Key("summary.model", Text(), "cheap", "", "cheap, session, or a model's id"),
    Key(
        "summary.max_tokens",
        Whole(0, MOST_TOKENS, AUTO),
        AUTO,
        "tokens",
        "the summary's size; auto is 8 % of what leaves, 12,000 at the most",
    ),
    Key("summary.max_words", Whole(1, 1_000_000), 1000, "words", "what a model is asked for"),
    Key("summary.template", Word(_TEMPLATES), "four_section", "", "what it is asked for"),
    Key("summary.preserve_decisions", Flag(), _YES, "", "decisions are kept"),
    Key("summary.preserve_tool_results", Flag(), _YES, "", "results of tools are kept"),
    Key("summary.cache", Flag(), _YES, "", "the same text is summarised once"),
    Key("summary.levels", Whole(1, 10), 1, "", "summaries of summaries"),
    Key("importance.user_explicit", _RATIO, 1.0, "score", "marked by a person"),
    Key("importance.decision", _RATIO, 0.8, "score", "holds a decision"),
    Key("importance.tool_result", _RATIO, 0.7, "score", "holds a tool's result"),
    Key("importance.keyword", _RATIO, 0.5, "score", "full of keywords"),
    Key("importance.anchors_max", _COUNT, 5, "messages", "anchors at most"),
    Key("importance.anchor_marker", Text(), "<!-- anchor -->", "", "what marks an anchor"),
    Key(
        "recovery.order",
        Words(_STEPS),
        ("fix_empty", "truncate_largest", "summarize", "revert"),
        "",
        "what is tried after a prompt that is too long",
    ),
    Key("recovery.auto", Flag(), _NO, "", "recover without being asked"),
    Key("recovery.aggressive", Flag(), _NO, "", "truncate many results at once"),
    Key("recovery.dcp", Flag(), _NO, "", "prune what is superseded"),
    Key("recovery.target_ratio", _RATIO, 0.5, "ratio", "truncated until this is in use"),
    Key("recovery.chars_per_token", Whole(1, 100), 4, "characters", "for what has no count"),
    Key("recovery.max_truncate", _COUNT, 20, "", "results at most"),
    Key("recovery.min_output", Whole(0, 1_000_000), 500, "characters", "smaller ones are left"),
    Key("recovery.max_revert", _COUNT, 3, "", "attempts"),
    Key("recovery.min_messages", _COUNT, 2, "messages", "never reverted below"),
    Key("recovery.max_empty_fix", _COUNT, 3, "", "attempts"),
    Key("recovery.retry.max", _COUNT, 2, "", "attempts"),
    Key("recovery.retry.initial_ms", _MILLISECONDS, 2000, "ms", "before the first"),
    Key("recovery.retry.factor", Number(1, 100), 2.0, "", "each wait is longer by this"),
    Key("recovery.retry.max_ms", _MILLISECONDS, 30_000, "ms", "the longest wait"),
    Key("recovery.retry.window_s", _SECONDS, 120, "s", "for all attempts together"),
    Key(
        "recovery.resume",
        Word(("none", "continue", "last_prompt")),
        "none",
        "",
        "what is sent after it",
    ),
    Key("recovery.confirm", Words(_STEPS), ("revert",), "", "steps that ask first"),
    Key("price", Prices(), {}, "", "dollars for a million tokens by model, above the list prices"),
    Key("tools.warn_result_chars", Whole(0, MOST_TOKENS), 10_000, "characters", "a large result"),
    Key("tools.cap_tokens", _TOKENS, 50_000, "tokens", "a result that is too large"),
    Key("tools.web_cap_tokens", _TOKENS, 10_000, "tokens", "the same for pages of the web"),
    Key("tools.header_lines", _COUNT, 3, "lines", "kept of a truncated result"),
    Key(
        "compliance.mode",
        Word(("last_message", "whole_transcript", OFF)),
        "last_message",
        "",
        "where an agent's marker counts",
    ),
    Key("compliance.line_limit", _COUNT, 10, "lines", "of an agent's output"),
    Key("compliance.review_line_limit", _COUNT, 20, "lines", "of a reviewer's output"),
    Key("compliance.result_max_lines", _COUNT, 3, "lines", "of the field Result"),
    Key("compliance.soft_chars", Whole(0, 1_000_000), 1000, "characters", "a long output"),
    Key("compliance.review_files", _COUNT, 7, "files", "of one review"),
    Key(
        "compliance.rules",
        Labels(tuple(Format)),
        {},
        "",
        "formats by agent type, where no skill is declared",
    ),
    Key("compliance.min_samples", _COUNT, 10, "results", "before a share is told"),
    Key("injection.sibling", _COUNT, 5, "", "results of agents of the same parent"),
    Key("injection.same_type", _COUNT, 3, "", "results of agents of the same type"),
    Key(
        "injection.same_type_scope",
        Word(("project", "all")),
        "project",
        "",
        "where those are looked for",
    ),
    Key("injection.cross_session", _COUNT, 5, "", "results of earlier sessions"),
    Key("injection.tagged", _COUNT, 5, "", "results by tag"),
    Key("injection.fallback", _COUNT, 10, "", "the newest, where nothing else fits"),
    Key("injection.task_desc", _COUNT, 100, "characters", "of a task's description"),
    Key("injection.plan", _COUNT, 200, "characters", "of a plan"),
    Key("injection.budget", _TOKENS, 4_000, "tokens", "all that one agent is given, at the most"),
    Key("steering.budget", _TOKENS, 1_000, "tokens", "what a compaction is told to keep"),
    Key("steering.again", _TOKENS, 1_500, "tokens", "what it forgot, said again with a prompt"),
    Key("prompts.reassure", Text(), TEXTS["reassure"], "", "what the model is told early"),
    Key("prompts.suggest", Text(), TEXTS["suggest"], "", "what it is told when it gets tight"),
    Key("ui.theme", Text(), KEPT, "", "colours; kept: those chosen last in the dashboard"),
    Key("ui.welcome", Flag(), _YES, "", "show the first steps at the first run"),
    Key("ui.ascii", Flag(), _NO, "", "draw with ASCII's signs alone"),
    Key("saveflow.orphan_after_s", _SECONDS, 300, "s", "a save without an end is orphaned"),
    Key("saveflow.fresh_for_s", _SECONDS, 86_400, "s", "how long a result is shown"),
    Key("saveflow.sentinel_ttl_s", _SECONDS, 1800, "s", "how long a sentinel holds"),
    Key(
        "saveflow.locations",
        Word(("all", "project", "user", "temporary")),
        "all",
        "",
        "where saves are looked for",
    ),
    Key("notify.toast", Flag(), _YES, "", "notices appear in the dashboard's corner"),
    Key("notify.bell", Flag(), _NO, "", "the terminal's bell rings"),
    Key("notify.desktop", Word(DESKTOPS), OFF, "", "notices outside of the terminal, and how"),
    Key(
        "notify.level",
        Word((*Level, OFF)),
        Level.NOTICE.value,
        "",
        "the lowest level whose beginning is told",
    ),
    Key("notify.waiting", Flag(), _YES, "", "a session that waits for you is told"),
    Key("notify.compactions", Flag(), _YES, "", "a compaction that happened is told"),
    Key("notify.agents", Flag(), _NO, "", "an agent that broke its rule is told"),
    Key("notify.quiet", Hours(OFF), OFF, "", "hours without bell and desktop, e.g. 22:00-07:00"),
)

KEYS: Final = {key.name: key for key in _KEYS}
"""By name, in the order in which they are shown."""


def key_of(name: str) -> Key:
    """Find a key by name; those of the dashboard's bindings are as many as it has bindings.

    Raises KeyError for a name that is none.
    """
    if name.startswith(CHORDS) and name != CHORDS:
        return Key(name, Chords(), "", "", "keys of this binding; `ctxtop keys` lists them all")
    return KEYS[name]
