"""Every policy key: its type, default, description and unit; and the presets.

The defaults are those of requirements 2.2; a test asserts them one by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from ..compliance.findings import CLNODE_FORMATS, ResultFormat
from ..measure.levels import DEFAULT_THRESHOLDS, Level, Threshold, ThresholdBase, ThresholdOp
from .value_types import (
    MAX_TOKENS,
    Parser,
    PolicyValue,
    boolean,
    choice,
    choice_by_name,
    choice_list,
    integer,
    key_chords,
    number,
    prices_by_model,
    quiet_hours,
    ratio_range,
    text,
    threshold_list,
    tokens_by_model,
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
letter. Nothing is forced (002-34). A policy may replace them, also in another language."""

OFF: Final = "off"  # the word for a number that does not apply
NATIVE: Final = "native"  # the word for what the client itself decides
AUTO: Final = "auto"  # the word for what follows from the size of what is at hand
LAST_CHOSEN: Final = "kept"  # the word for what a person chose last in the dashboard
KEY_BINDING_PREFIX: Final = "keys."  # of policy keys that rebind a command of the dashboard

DEFAULT_PRESET: Final = "default"

MONITOR_MODULE: Final = "context-window-monitor"  # the module that warns (002-104)
PREEMPTIVE_MODULE: Final = "preemptive"  # suggests saving context before a compaction (1.2.4)
RECOVERY_MODULE: Final = "auto-recovery"  # recovers a session without being asked (1.2.9)

DEFAULT_ABSOLUTE_TOKENS: Final = 400_000  # the useful part of 1M by context-stats (peers 1.13)
DESKTOP_CHANNELS: Final = (OFF, AUTO, "osc9", "osc777", "osc99", "notify-send", "osascript")
"""Ways to show a desktop notification; `auto` is the one that is known to work here."""

_REASSURE: Final = Threshold(0.70, Level.NOTICE, "reassure")
_AT_THE_TRIGGER: Final = Threshold(1.0, Level.HIGH, "native", of=ThresholdBase.TRIGGER)
"""The client compacts here by itself: 0.835 of a window of 200,000 tokens."""

_NEVER_REARM: Final[Mapping[str, PolicyValue]] = {
    "rearm.on_compaction": False,
    "rearm.hysteresis": OFF,
}
_REARM_EVERY_TIME: Final[Mapping[str, PolicyValue]] = {"rearm.cooldown_s": 0}
# The same as "new message + 60 s": a context is evaluated when there is a new answer.
_REARM_EVERY_MINUTE: Final[Mapping[str, PolicyValue]] = {**_NEVER_REARM, "rearm.cooldown_s": 60}
# This notice is ours: a preset of another system has only that system's thresholds.
_NO_ABSOLUTE_NOTICE: Final[Mapping[str, PolicyValue]] = {"absolute.at_tokens": OFF}
_OTHER_SYSTEM: Final[Mapping[str, PolicyValue]] = {**_NO_ABSOLUTE_NOTICE, "compliance.mode": OFF}

_CLNODE: Final[Mapping[str, PolicyValue]] = {
    **_NO_ABSOLUTE_NOTICE,
    "mode": "observe",
    "usage.source": "api_last+cumulative",
    "threshold": (),
    "compact.strategy": "none",
    "compliance.mode": "whole_transcript",
    "compliance.rules": {name: each.value for name, each in CLNODE_FORMATS.items()},
}

PRESETS: Final[Mapping[str, Mapping[str, PolicyValue]]] = {
    DEFAULT_PRESET: {},
    "clnode": _CLNODE,
    "clnode-code": {
        **_CLNODE,
        "injection.fallback": 5,
        "injection.same_type_scope": "all",
    },
    "not-agent": {
        **_OTHER_SYSTEM,
        **_REARM_EVERY_TIME,
        "mode": "auto",
        "usage.source": "chars4",
        "usage.estimator": "chars4",
        "limit.source": "fixed",
        "limit.default": 100_000,
        "threshold": (
            Threshold(0.75, Level.HIGH, "compact"),
            Threshold(0.80, Level.NOTICE, "inform", ThresholdOp.ABOVE),
            Threshold(1.00, Level.OVERFLOW, "warn", ThresholdOp.ABOVE),
        ),
        "compact.strategy": "summary",
        "compact.preserve_recent": 4,
        "summary.model": "session",
        "summary.max_tokens": 2048,
    },
    "omo-doc": {
        **_OTHER_SYSTEM,
        **_NEVER_REARM,
        "usage.source": "chars4",
        "usage.estimator": "chars4",
        "threshold": (
            _REASSURE,
            Threshold(0.80, Level.WARNING, "suggest"),
            Threshold(1.00, Level.OVERFLOW, "recover"),
        ),
        "compact.strategy": "ladder",
        "summary.model": "session",
        "summary.template": "native",
        "recovery.auto": True,
        "recovery.order": ("aggressive", "truncate_largest", "fix_empty", "revert", "summarize"),
    },
    "omo-2.6": {
        **_OTHER_SYSTEM,
        **_REARM_EVERY_MINUTE,
        "mode": "auto",
        "usage.components": ("input", "cache_read", "output"),
        "limit.source": "env_1m",
        "threshold": (_REASSURE, Threshold(0.85, Level.HIGH, "compact")),
        "compact.strategy": "ladder",
        "summary.template": "five_section",
        "recovery.auto": True,
        "recovery.order": (
            "aggressive",
            "truncate_largest",
            "fix_empty",
            "summarize",
            "dcp",
            "revert",
        ),
    },
    "omo-latest": {
        **_OTHER_SYSTEM,
        **_REARM_EVERY_MINUTE,
        "mode": "auto",
        "usage.components": ("input", "cache_read"),
        "limit.unknown": "none",
        "threshold": (Threshold(0.78, Level.HIGH, "compact"),),
        "compact.strategy": "ladder",
        "summary.template": "eight_section",
        "recovery.auto": True,
        "recovery.order": ("dedup", "aggressive", "fix_empty", "summarize"),
    },
    "hybrid-buffer": {
        **_OTHER_SYSTEM,
        **_REARM_EVERY_TIME,
        "mode": "auto",
        "usage.source": "tiktoken",
        "limit.default": 100_000,
        "limit.safety_factor": 0.8,
        "limit.unknown": "use_default",
        "threshold": (
            Threshold(0.85, Level.LIGHT, "compact"),
            Threshold(0.90, Level.MEDIUM, "compact"),
            Threshold(0.95, Level.AGGRESSIVE, "compact"),
        ),
        "compact.strategy": "summary_buffer",
        "summary.model": "gemini-2.5-flash-lite",
        "summary.max_tokens": 500,
    },
    "claude-memory": {
        **_OTHER_SYSTEM,
        "mode": "observe",
        "limit.source": "fixed",
        "threshold": (_AT_THE_TRIGGER,),
    },
    "native": {
        **_OTHER_SYSTEM,
        "mode": "observe",
        "threshold": (_AT_THE_TRIGGER,),
        "compact.preserve_recent": NATIVE,
        "summary.model": "session",
        "summary.template": "native",
    },
}
"""The values that each preset changes. Where the system that it is named after has no such value,
the built-in value applies."""

_MODULES: Final = choice_list(
    MONITOR_MODULE, PREEMPTIVE_MODULE, RECOVERY_MODULE, "compliance", "save-flow", "injection"
)
_COMPONENTS: Final = choice_list("input", "cache_read", "cache_creation", "output")
_STRATEGY: Final = choice(
    "native", "summary", "summary_buffer", "window", "head_tail", "ladder", "none"
)
_TEMPLATE: Final = choice("four_section", "five_section", "eight_section", "native", "none")
_RECOVERY_STEPS: Final = choice_list(
    "dedup", "aggressive", "truncate_largest", "fix_empty", "revert", "summarize", "dcp"
)
_USAGE_SOURCE: Final = choice("api_last", "api_last+cumulative", "chars4", "tiktoken")
_ESTIMATOR: Final = choice("tiktoken", "chars4")
_UNKNOWN_LIMIT: Final = choice("display_only", "use_default", "none")
_WINDOW_OR_OFF: Final = integer(1, MAX_TOKENS, OFF)
_LEVELS: Final = choice("three", "two")
_COMPLIANCE_MODE: Final = choice("last_message", "whole_transcript", OFF)
_FORMATS: Final = choice_by_name(*ResultFormat)
_SCOPE: Final = choice("project", "all")
_LOCATIONS: Final = choice("all", "project", "user", "temporary")
_LEVEL: Final = choice(*Level, OFF)
_WINDOW: Final = integer(1, MAX_TOKENS)
_RATIO: Final = number(0, 1)
_TOKENS: Final = integer(0, MAX_TOKENS)
_COUNT: Final = integer(0, 10_000)
_SECONDS: Final = integer(0, 30 * 86_400)
_MILLISECONDS: Final = integer(0, 86_400_000)


class PolicyKey(msgspec.Struct, frozen=True):
    name: str
    parse: Parser
    default: PolicyValue
    description: str
    unit: str = ""  # in the plural; empty for what has none


_Row = tuple[str, Parser, PolicyValue, str] | tuple[str, Parser, PolicyValue, str, str]
_ROWS: Final[tuple[_Row, ...]] = (
    ("preset", choice(*PRESETS), DEFAULT_PRESET, "the values to begin with"),
    ("mode", choice("observe", "suggest", "auto"), "suggest", "how far ctxtop goes"),
    ("disabled_modules", _MODULES, (), "what is left out"),
    ("usage.source", _USAGE_SOURCE, "api_last", "what tells how much is in the context"),
    (
        "usage.components",
        _COMPONENTS,
        ("input", "cache_read", "cache_creation"),
        "the counts of an answer that are in the context",
    ),
    ("usage.estimator", _ESTIMATOR, "tiktoken", "how a text without a count is estimated"),
    ("usage.per_message_overhead", _COUNT, 4, "added to each estimated message", "tokens"),
    (
        "limit.source",
        choice("table", "fixed", "env_1m"),
        "table",
        "the window by evidence, always limit.default, or 1M where the environment says so",
    ),
    ("limit.default", _WINDOW, 200_000, "the window if none is known", "tokens"),
    ("limit.override", tokens_by_model, {}, "windows by model, above all evidence", "tokens"),
    ("limit.safety_factor", number(0.01, 1), 1.0, "the part of the window to use", "ratio"),
    ("limit.unknown", _UNKNOWN_LIMIT, "display_only", "what to do with a window that is not known"),
    ("limit.output_reserve", _TOKENS, 20_000, "kept free for the answer", "tokens"),
    (
        "limit.autocompact_buffer",
        _TOKENS,
        13_000,
        "between the client's trigger and the rest of the window",
        "tokens",
    ),
    ("threshold", threshold_list, DEFAULT_THRESHOLDS, "where each level begins", "ratio"),
    ("rearm.on_compaction", boolean, True, "a compaction lets a level be said again"),
    ("rearm.hysteresis", number(0, 1, OFF), 0.05, "a fall this far does the same", "ratio"),
    (
        "rearm.cooldown_s",
        integer(0, 30 * 86_400, OFF),
        OFF,
        "said again after this time even while it stands; 0 is every answer",
        "s",
    ),
    (
        "absolute.at_tokens",
        _WINDOW_OR_OFF,
        DEFAULT_ABSOLUTE_TOKENS,
        "a notice of its own for very large windows",
        "tokens",
    ),
    ("absolute.from_window", _WINDOW, 500_000, "the smallest window that is very large", "tokens"),
    ("compact.strategy", _STRATEGY, "native", "how a context is made smaller"),
    ("compact.by", choice("plan", "client"), "plan", "who does it in mode auto"),
    ("compact.min_messages", _COUNT, 6, "below this nothing is compacted", "messages"),
    ("compact.min_tokens", _TOKENS, 50_000, "below this nothing is compacted", "tokens"),
    ("compact.preserve_recent", integer(0, 10_000, NATIVE), 10, "kept word for word", "messages"),
    ("compact.pair_safe", boolean, True, "a tool's call and its result stay together"),
    ("compact.cooldown_s", _SECONDS, 60, "between two attempts, failed ones too", "s"),
    ("compact.timeout_s", _SECONDS, 60, "after which an attempt has failed", "s"),
    ("compact.max_attempts", _COUNT, 2, "before it is given up"),
    ("compact.target_reduction", ratio_range, (0.5, 0.7), "what a good one frees", "ratio"),
    ("compact.levels", _LEVELS, "three", "light, medium and aggressive, or without medium"),
    ("compact.midpoint", number(0.01, 2), 0.90, "where medium begins", "ratio"),
    ("summary.model", text, "cheap", "cheap, session, or a model's id"),
    (
        "summary.max_tokens",
        integer(0, MAX_TOKENS, AUTO),
        AUTO,
        "the summary's size; auto is 8 % of what leaves, 12,000 at the most",
        "tokens",
    ),
    ("summary.max_words", integer(1, 1_000_000), 1000, "what a model is asked for", "words"),
    ("summary.template", _TEMPLATE, "four_section", "what it is asked for"),
    ("summary.preserve_decisions", boolean, True, "decisions are kept"),
    ("summary.preserve_tool_results", boolean, True, "results of tools are kept"),
    ("summary.cache", boolean, True, "the same text is summarised once"),
    ("summary.levels", integer(1, 10), 1, "summaries of summaries"),
    ("importance.user_explicit", _RATIO, 1.0, "marked by a person", "score"),
    ("importance.decision", _RATIO, 0.8, "holds a decision", "score"),
    ("importance.tool_result", _RATIO, 0.7, "holds a tool's result", "score"),
    ("importance.keyword", _RATIO, 0.5, "full of keywords", "score"),
    ("importance.anchors_max", _COUNT, 5, "anchors at most", "messages"),
    ("importance.anchor_marker", text, "<!-- anchor -->", "what marks an anchor"),
    (
        "recovery.order",
        _RECOVERY_STEPS,
        ("fix_empty", "truncate_largest", "summarize", "revert"),
        "what is tried after a prompt that is too long",
    ),
    ("recovery.auto", boolean, False, "recover without being asked"),
    ("recovery.aggressive", boolean, False, "truncate many results at once"),
    ("recovery.dcp", boolean, False, "prune what is superseded"),
    ("recovery.target_ratio", _RATIO, 0.5, "truncated until this is in use", "ratio"),
    ("recovery.chars_per_token", integer(1, 100), 4, "for what has no count", "characters"),
    ("recovery.max_truncate", _COUNT, 20, "results at most"),
    ("recovery.min_output", integer(0, 1_000_000), 500, "smaller ones are left", "characters"),
    ("recovery.max_revert", _COUNT, 3, "attempts"),
    ("recovery.min_messages", _COUNT, 2, "never reverted below", "messages"),
    ("recovery.max_empty_fix", _COUNT, 3, "attempts"),
    ("recovery.retry.max", _COUNT, 2, "attempts"),
    ("recovery.retry.initial_ms", _MILLISECONDS, 2000, "before the first", "ms"),
    ("recovery.retry.factor", number(1, 100), 2.0, "each wait is longer by this"),
    ("recovery.retry.max_ms", _MILLISECONDS, 30_000, "the longest wait", "ms"),
    ("recovery.retry.window_s", _SECONDS, 120, "for all attempts together", "s"),
    ("recovery.resume", choice("none", "continue", "last_prompt"), "none", "what is sent after it"),
    ("recovery.confirm", _RECOVERY_STEPS, ("revert",), "steps that ask first"),
    ("price", prices_by_model, {}, "dollars for a million tokens by model, above the list prices"),
    ("tools.warn_result_chars", integer(0, MAX_TOKENS), 10_000, "a large result", "characters"),
    ("tools.cap_tokens", _TOKENS, 50_000, "a result that is too large", "tokens"),
    ("tools.web_cap_tokens", _TOKENS, 10_000, "the same for pages of the web", "tokens"),
    ("tools.header_lines", _COUNT, 3, "kept of a truncated result", "lines"),
    ("compliance.mode", _COMPLIANCE_MODE, "last_message", "where an agent's marker counts"),
    ("compliance.line_limit", _COUNT, 10, "of an agent's output", "lines"),
    ("compliance.review_line_limit", _COUNT, 20, "of a reviewer's output", "lines"),
    ("compliance.result_max_lines", _COUNT, 3, "of the field Result", "lines"),
    ("compliance.soft_chars", integer(0, 1_000_000), 1000, "a long output", "characters"),
    ("compliance.review_files", _COUNT, 7, "of one review", "files"),
    ("compliance.rules", _FORMATS, {}, "formats by agent type, where no skill is declared"),
    ("compliance.min_samples", _COUNT, 10, "before a share is told", "results"),
    ("injection.sibling", _COUNT, 5, "results of agents of the same parent"),
    ("injection.same_type", _COUNT, 3, "results of agents of the same type"),
    ("injection.same_type_scope", _SCOPE, "project", "where those are looked for"),
    ("injection.cross_session", _COUNT, 5, "results of earlier sessions"),
    ("injection.tagged", _COUNT, 5, "results by tag"),
    ("injection.fallback", _COUNT, 10, "the newest, where nothing else fits"),
    ("injection.task_desc", _COUNT, 100, "of a task's description", "characters"),
    ("injection.plan", _COUNT, 200, "of a plan", "characters"),
    ("injection.budget", _TOKENS, 4_000, "all that one agent is given, at the most", "tokens"),
    ("steering.budget", _TOKENS, 1_000, "what a compaction is told to keep", "tokens"),
    ("steering.again", _TOKENS, 1_500, "what it forgot, said again with a prompt", "tokens"),
    ("prompts.reassure", text, DEFAULT_PROMPTS["reassure"], "what the model is told early"),
    ("prompts.suggest", text, DEFAULT_PROMPTS["suggest"], "what it is told when it gets tight"),
    ("ui.theme", text, LAST_CHOSEN, "colours; kept: those chosen last in the dashboard"),
    ("ui.welcome", boolean, True, "show the first steps at the first run"),
    ("ui.ascii", boolean, False, "draw with ASCII's signs alone"),
    ("saveflow.orphan_after_s", _SECONDS, 300, "a save without an end is orphaned", "s"),
    ("saveflow.fresh_for_s", _SECONDS, 86_400, "how long a result is shown", "s"),
    ("saveflow.sentinel_ttl_s", _SECONDS, 1800, "how long a sentinel holds", "s"),
    ("saveflow.locations", _LOCATIONS, "all", "where saves are looked for"),
    ("notify.toast", boolean, True, "notices appear in the dashboard's corner"),
    ("notify.bell", boolean, False, "the terminal's bell rings"),
    ("notify.desktop", choice(*DESKTOP_CHANNELS), OFF, "notices outside of the terminal, and how"),
    ("notify.level", _LEVEL, Level.NOTICE.value, "the lowest level whose beginning is told"),
    ("notify.waiting", boolean, True, "a session that waits for you is told"),
    ("notify.compactions", boolean, True, "a compaction that happened is told"),
    ("notify.agents", boolean, False, "an agent that broke its rule is told"),
    ("notify.quiet", quiet_hours(OFF), OFF, "hours without bell and desktop, e.g. 22:00-07:00"),
)

KEYS: Final = {  # in the order in which they are shown
    name: PolicyKey(name, parse, default, description, *unit)
    for name, parse, default, description, *unit in _ROWS
}


def find_key(name: str) -> PolicyKey:
    """Find a key by name; there is one for each key binding of the dashboard, too.

    Raises KeyError if there is no such key.
    """
    if name.startswith(KEY_BINDING_PREFIX) and name != KEY_BINDING_PREFIX:
        what = "keys of this binding; `ctxtop keys` lists them all"
        return PolicyKey(name, key_chords, "", what)
    return KEYS[name]
