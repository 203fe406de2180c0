"""Every policy key: its type, default, description and unit; and the presets.

The defaults are those of requirements 2.2; a test asserts them one by one.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from ..model.cold_prompt import DEFAULT_MIN_TOKENS, DEFAULT_NOTICE_S, DEFAULT_NOTIFY_TOKENS
from ..model.counting_rule import TextEstimator, UsageComponent, UsageSource
from ..model.levels import DEFAULT_THRESHOLDS, Level, Threshold, ThresholdBase, ThresholdOp
from ..model.pause_ways import DEFAULT_REQUESTS, DEFAULT_REREAD_TOKENS, PauseWay
from ..model.result_formats import CLNODE_FORMATS, ResultFormat
from .threshold_values import change_thresholds, moves_levels, threshold_list
from .value_types import (
    MAX_TOKENS,
    Parser,
    PolicyValue,
    boolean,
    choice,
    choice_by_name,
    choice_list,
    forbidden_list,
    integer,
    key_chords,
    number,
    prices_by_model,
    quiet_hours,
    ratio_list,
    ratio_range,
    text,
    windows_by_model,
)


class PolicyKey(msgspec.Struct, frozen=True):
    name: str
    parse: Parser
    default: PolicyValue
    description: str
    unit: str = ""  # in the plural; empty for what has none


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
OBSERVE: Final = "observe"  # the mode in which ctxtop only shows
AUTO: Final = "auto"  # the word for what follows from the size of what is at hand
LAST_CHOSEN: Final = "kept"  # the word for what a person chose last in the dashboard
KEY_BINDING_PREFIX: Final = "keys."  # of policy keys that rebind a command of the dashboard

DEFAULT_PRESET: Final = "default"

MONITOR_MODULE: Final = "context-window-monitor"  # the module that warns (002-104)
PREEMPTIVE_MODULE: Final = "preemptive"  # suggests saving context before a compaction (1.2.4)
RECOVERY_MODULE: Final = "auto-recovery"  # recovers a session without being asked (1.2.9)

_SEED_MODULES: Final[Mapping[str, str]] = {
    "anthropic-auto-compact": RECOVERY_MODULE,
    "anthropic-context-window-limit-recovery": RECOVERY_MODULE,
    "preemptive-compaction": PREEMPTIVE_MODULE,
}
"""The names of oh-my-opencode's hooks that do the same (002-08, 002-104)."""

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
    "mode": OBSERVE,
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
        "usage.per_message_overhead": 0,
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
        "tools.first_chars": 10_000,
    },
    "omo-doc": {
        **_OTHER_SYSTEM,
        **_NEVER_REARM,
        "usage.source": "chars4",
        "usage.estimator": "chars4",
        "usage.per_message_overhead": 0,
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
        "recovery.max_recompact": 3,
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
        "mode": OBSERVE,
        "limit.source": "fixed",
        "threshold": (_AT_THE_TRIGGER,),
    },
    "native": {
        **_OTHER_SYSTEM,
        "mode": OBSERVE,
        "threshold": (_AT_THE_TRIGGER,),
        "compact.strategy": NATIVE,  # chosen, not only the default: automation asks Claude Code
        "compact.preserve_recent": NATIVE,
        "summary.model": "session",
        "summary.template": "native",
    },
}
"""The values that each preset changes. Where the system that it is named after has no such value,
the built-in value applies."""

_MODULES: Final = forbidden_list(
    (MONITOR_MODULE, PREEMPTIVE_MODULE, RECOVERY_MODULE, "compliance", "save-flow", "injection"),
    # Those that change sessions unasked.
    if_unclear=(PREEMPTIVE_MODULE, RECOVERY_MODULE),
    aliases=_SEED_MODULES,
)
_COMPONENTS: Final = choice_list(*UsageComponent)
_STRATEGY: Final = choice(
    "native", "summary", "summary_buffer", "window", "head_tail", "ladder", "condense", "none"
)
_TEMPLATE: Final = choice("four_section", "five_section", "eight_section", "native", "none")
_STEPS: Final = (
    *("dedup", "aggressive", "truncate_largest", "fix_empty", "revert", "summarize", "dcp"),
)
_RECOVERY_STEPS: Final = choice_list(*_STEPS)
_CONFIRMED_STEPS: Final = forbidden_list(_STEPS, if_unclear=_STEPS, aliases={})
_USAGE_SOURCE: Final = choice(*UsageSource)
_ESTIMATOR: Final = choice(*TextEstimator)
_UNKNOWN_LIMIT: Final = choice("display_only", "use_default", "none")
_PAUSE_WAYS: Final = choice_list(PauseWay.CLIENT, PauseWay.HAND_OFF)
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

_Row = tuple[str, Parser, PolicyValue, str] | tuple[str, Parser, PolicyValue, str, str]
_ROWS: Final[tuple[_Row, ...]] = (
    ("preset", choice(*PRESETS), DEFAULT_PRESET, "the preset to start from"),
    ("mode", choice(OBSERVE, "suggest", "auto"), "suggest", "what ctxtop may do on its own"),
    ("disabled_modules", _MODULES, (), "modules that are turned off"),
    (
        "usage.source",
        _USAGE_SOURCE,
        "api_last",
        "what a context is counted by: what the API reported, or the conversation's text",
    ),
    (
        "usage.components",
        _COMPONENTS,
        ("input", "cache_read", "cache_creation"),
        "token counts that are part of the context",
    ),
    ("usage.estimator", _ESTIMATOR, "tiktoken", "how text without a count is estimated"),
    (
        "usage.per_message_overhead",
        _COUNT,
        4,
        "added to each message counted by its text",
        "tokens",
    ),
    (
        "limit.source",
        choice("table", "fixed", "env_1m"),
        "table",
        "where the window comes from: evidence, limit.default, or the environment",
    ),
    (
        "limit.default",
        _WINDOW,
        200_000,
        "size of a fixed or unknown window",
        "tokens",
    ),
    ("limit.override", windows_by_model, {}, "window by model; overrides all evidence", "tokens"),
    (
        "limit.safety_factor",
        number(0.01, 1),
        1.0,
        "share of the window that counts as usable",
        "ratio",
    ),
    (
        "limit.unknown",
        _UNKNOWN_LIMIT,
        "display_only",
        "what an unknown model is measured by",
    ),
    ("limit.output_reserve", _TOKENS, 20_000, "reserved for the answer", "tokens"),
    (
        "limit.autocompact_buffer",
        _TOKENS,
        13_000,
        "gap between auto-compaction and the reserve",
        "tokens",
    ),
    ("threshold", threshold_list, DEFAULT_THRESHOLDS, "warning thresholds", "ratio"),
    ("rearm.on_compaction", boolean, True, "warn again after a compaction"),
    (
        "rearm.hysteresis",
        number(0, 1, OFF),
        0.05,
        "warn again after the context fell by this much",
        "ratio",
    ),
    (
        "rearm.cooldown_s",
        integer(0, 30 * 86_400, OFF),
        OFF,
        "warn again after this time, even if nothing changed; 0: at each answer",
        "s",
    ),
    (
        "absolute.at_tokens",
        _WINDOW_OR_OFF,
        DEFAULT_ABSOLUTE_TOKENS,
        "extra warning for very large windows",
        "tokens",
    ),
    ("absolute.from_window", _WINDOW, 500_000, "size from which a window is very large", "tokens"),
    ("compact.strategy", _STRATEGY, NATIVE, "how contexts are compacted"),
    ("compact.by", choice("plan", "client"), "plan", "who compacts in mode auto"),
    ("compact.min_messages", _COUNT, 6, "smaller sessions are never compacted", "messages"),
    ("compact.min_tokens", _TOKENS, 50_000, "smaller contexts are never compacted", "tokens"),
    (
        "compact.preserve_recent",
        integer(0, 10_000, NATIVE),
        10,
        "newest messages that are kept unchanged",
        "messages",
    ),
    ("compact.cooldown_s", _SECONDS, 60, "pause between two attempts", "s"),
    ("compact.timeout_s", _SECONDS, 60, "an attempt fails after this time", "s"),
    ("compact.max_attempts", _COUNT, 2, "attempts before giving up"),
    ("compact.target_reduction", ratio_range, (0.5, 0.7), "reduction to aim for", "ratio"),
    ("compact.levels", _LEVELS, "three", "three: light, medium and aggressive; two: no medium"),
    (
        "compact.midpoint",
        number(0.01, 2),
        0.90,
        "where medium begins, as a share of the limit",
        "ratio",
    ),
    ("pause.min_tokens", _TOKENS, 50_000, "`ctxtop pause` leaves smaller contexts alone", "tokens"),
    (
        "pause.requests",
        integer(1, 10_000),
        DEFAULT_REQUESTS,
        "requests after a break, over which costs are compared",
        "requests",
    ),
    (
        "pause.ways",
        _PAUSE_WAYS,
        (PauseWay.CLIENT.value, PauseWay.HAND_OFF.value),
        "what `ctxtop pause` may do: Claude Code's /compact, or a hand-off note",
    ),
    (
        "pause.reread_tokens",
        _TOKENS,
        DEFAULT_REREAD_TOKENS,
        "what a session that starts from a hand-off note reads again",
        "tokens",
    ),
    (
        "pause.stand_aside",
        boolean,
        True,
        "leave sessions that Claude Code itself compacts when idle",
    ),
    ("summary.model", text, "cheap", "model for summaries: cheap, session, or a model id"),
    (
        "summary.max_tokens",
        integer(0, MAX_TOKENS, AUTO),
        AUTO,
        (
            "size besides messages, rules, anchors, older summaries;"
            " auto: 8 % of what it replaces, up to 12,000"
        ),
        "tokens",
    ),
    ("summary.max_words", integer(1, 1_000_000), 1000, "length to ask a model for", "words"),
    ("summary.template", _TEMPLATE, "four_section", "sections to ask a model for"),
    ("summary.preserve_decisions", boolean, True, "keep decisions"),
    ("summary.preserve_tool_results", boolean, True, "keep tool results"),
    ("summary.cache", boolean, True, "summarize the same text only once"),
    ("summary.levels", integer(1, 10), 1, "levels of nested summaries"),
    ("importance.user_explicit", _RATIO, 1.0, "marked by the user", "score"),
    ("importance.decision", _RATIO, 0.8, "contains a decision", "score"),
    ("importance.tool_result", _RATIO, 0.7, "contains a tool result", "score"),
    ("importance.keyword", _RATIO, 0.5, "contains keywords", "score"),
    ("importance.anchors_max", _COUNT, 5, "maximum number of anchors", "messages"),
    ("importance.anchor_marker", text, "<!-- anchor -->", "text that marks an anchor"),
    (
        "recovery.order",
        _RECOVERY_STEPS,
        ("fix_empty", "truncate_largest", "summarize", "revert"),
        "recovery steps, in order",
    ),
    ("recovery.auto", boolean, False, "recover without asking"),
    ("recovery.aggressive", boolean, False, "truncate many results at once"),
    ("recovery.dcp", boolean, False, "prune superseded content"),
    ("recovery.target_ratio", _RATIO, 0.5, "truncate down to this share of the window", "ratio"),
    (
        "recovery.chars_per_token",
        integer(1, 100),
        4,
        "characters per token, for text without a count",
        "characters",
    ),
    ("recovery.max_truncate", _COUNT, 20, "maximum number of results to truncate"),
    (
        "recovery.min_output",
        integer(0, 1_000_000),
        500,
        "smaller results are left alone",
        "characters",
    ),
    ("recovery.max_revert", _COUNT, 3, "attempts"),
    ("recovery.min_messages", _COUNT, 2, "never revert below this", "messages"),
    ("recovery.max_empty_fix", _COUNT, 3, "attempts"),
    (
        "recovery.max_recompact",
        _COUNT,
        0,
        "how often to compact again if the answers after a compaction have no text",
        "attempts",
    ),
    ("recovery.retry.max", _COUNT, 2, "attempts"),
    ("recovery.retry.initial_ms", _MILLISECONDS, 2000, "delay before the first retry", "ms"),
    ("recovery.retry.factor", number(1, 100), 2.0, "factor by which the delay grows"),
    ("recovery.retry.max_ms", _MILLISECONDS, 30_000, "longest delay", "ms"),
    ("recovery.retry.window_s", _SECONDS, 120, "time for all attempts", "s"),
    (
        "recovery.resume",
        choice("none", "continue", "last_prompt"),
        "none",
        "what to send after a recovery",
    ),
    ("recovery.confirm", _CONFIRMED_STEPS, ("revert",), "steps that need confirmation"),
    ("price", prices_by_model, {}, "dollars per million tokens, by model; overrides list prices"),
    (
        "tools.warn_result_chars",
        integer(0, MAX_TOKENS),
        10_000,
        "longer results are marked as oversized",
        "characters",
    ),
    ("tools.cap_tokens", _TOKENS, 50_000, "larger results are cut at level 3", "tokens"),
    ("tools.web_cap_tokens", _TOKENS, 10_000, "the same for web pages", "tokens"),
    ("tools.header_lines", _COUNT, 3, "first lines that a cut result keeps", "lines"),
    (
        "tools.first_chars",
        integer(1, MAX_TOKENS, OFF),
        OFF,
        "in mode auto, first cut results to their first characters",
        "characters",
    ),
    (
        "compliance.mode",
        _COMPLIANCE_MODE,
        "last_message",
        "where the marker counts; whole_transcript: in any answer of the agent",
    ),
    ("compliance.line_limit", _COUNT, 10, "longest agent result", "lines"),
    ("compliance.review_line_limit", _COUNT, 20, "longest review", "lines"),
    ("compliance.result_max_lines", _COUNT, 3, "longest Result field", "lines"),
    ("compliance.soft_chars", integer(0, 1_000_000), 1000, "size of a long result", "characters"),
    ("compliance.review_files", _COUNT, 7, "maximum number of files in one review", "files"),
    ("compliance.rules", _FORMATS, {}, "format by agent type, if no skill is declared"),
    ("compliance.min_samples", _COUNT, 10, "results needed to show a share", "results"),
    ("injection.sibling", _COUNT, 5, "results of agents with the same parent"),
    ("injection.same_type", _COUNT, 3, "results of agents of the same type"),
    ("injection.same_type_scope", _SCOPE, "project", "where to look for those"),
    ("injection.cross_session", _COUNT, 5, "results of earlier sessions"),
    ("injection.tagged", _COUNT, 5, "results with the same tag"),
    ("injection.fallback", _COUNT, 10, "newest results, if nothing else matches"),
    ("injection.task_desc", _COUNT, 100, "length of a task description", "characters"),
    ("injection.plan", _COUNT, 200, "length of a plan", "characters"),
    ("injection.budget", _TOKENS, 4_000, "total for one agent", "tokens"),
    ("steering.budget", _TOKENS, 1_000, "instructions for a compaction", "tokens"),
    (
        "steering.again",
        _TOKENS,
        1_500,
        "what a compaction lost, added to the next prompt",
        "tokens",
    ),
    (
        "prompts.reassure",
        text,
        DEFAULT_PROMPTS["reassure"],
        "message to the model at an early threshold",
    ),
    (
        "prompts.suggest",
        text,
        DEFAULT_PROMPTS["suggest"],
        "message to the model when space is short",
    ),
    ("terminal.answer", boolean, True, "answer permission prompts from the dashboard"),
    (
        "backup.keep_days",
        integer(0, 3650),
        30,
        "how long backups are kept; one that an undo needs is never removed",
        "days",
    ),
    (
        "backup.max_mib",
        integer(16, 1_000_000),
        2048,
        "space for backups; above it, old ones are removed and no transcript is replaced",
        "MiB",
    ),
    (
        "archive.mode",
        choice(OFF, "summaries", "all"),
        OFF,
        "what is kept of sessions that Claude Code is about to delete",
    ),
    (
        "archive.max_size",
        integer(16, 1_000_000),
        4096,
        "space for the archive; above it, the oldest sessions are removed from it",
        "MiB",
    ),
    (
        "archive.keep_days",
        integer(0, 36_500),
        0,
        "how long sessions stay in the archive; 0: as long as there is space",
        "days",
    ),
    ("ui.theme", text, LAST_CHOSEN, "the theme; kept: the last one chosen"),
    ("ui.welcome", boolean, True, "show the welcome page on first start"),
    ("ui.ascii", boolean, False, "use ASCII characters only"),
    ("saveflow.orphan_after_s", _SECONDS, 300, "an unfinished save is orphaned after this", "s"),
    ("saveflow.fresh_for_s", _SECONDS, 86_400, "how long a result is shown", "s"),
    ("saveflow.sentinel_ttl_s", _SECONDS, 1800, "how long a sentinel is valid", "s"),
    ("saveflow.locations", _LOCATIONS, "all", "where to look for saves"),
    (
        "cold.min_tokens",
        _TOKENS,
        DEFAULT_MIN_TOKENS,
        "a prompt that writes less than this to the prompt cache again is not mentioned",
        "tokens",
    ),
    (
        "cold.notify_tokens",
        _TOKENS,
        DEFAULT_NOTIFY_TOKENS,
        "notify before a cache of this size expires while the session waits for you; 0: never",
        "tokens",
    ),
    (
        "cold.notify_before_s",
        integer(0, 3600),
        DEFAULT_NOTICE_S,
        "how long before its cache expires a session is going cold",
        "s",
    ),
    (
        "limits.warn",
        ratio_list,
        (0.8, 0.95),
        "shares of a plan's window that notify, each once; empty: none",
    ),
    ("notify.toast", boolean, True, "notifications in the dashboard"),
    ("notify.bell", boolean, False, "the terminal's bell"),
    ("notify.desktop", choice(*DESKTOP_CHANNELS), OFF, "desktop notifications"),
    ("notify.level", _LEVEL, Level.NOTICE.value, "lowest warning level that notifies"),
    ("notify.waiting", boolean, True, "notify when a session waits for you"),
    ("notify.compactions", boolean, True, "notify about compactions"),
    ("notify.agents", boolean, False, "notify about noncompliant agents"),
    (
        "notify.quiet",
        quiet_hours(OFF),
        OFF,
        "hours without bell or desktop notification, e.g. 22:00-07:00",
    ),
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


def is_partial(name: str, raw: object) -> bool:
    """Whether a value of a key leaves a part of the value below it as it is."""
    return name == "threshold" and moves_levels(raw)


def parse_change(name: str, raw: object, current: PolicyValue) -> PolicyValue:
    """Parse a new value for a key; what a partial one does not name stays as in `current`.

    Raises InvalidValueError, or KeyError if there is no such key.
    """
    if is_partial(name, raw):
        return change_thresholds(raw, current)
    return find_key(name).parse(raw)
