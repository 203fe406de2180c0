"""What a preset does at each step, in words that are made from its values (2.2.1)."""

from collections.abc import Callable
from typing import Final

import msgspec

from ..compaction.plan import DEFAULT_OPTIONS, DEFAULT_PROTECTED_TURNS
from ..compaction.policy_strategy import (
    KEPT_SHARES,
    LADDER,
    NONE,
    SUMMARIES,
    automatic_strategy,
)
from ..measure.counting_rule import CHARACTER_UNITS
from ..measure.levels import Threshold, ThresholdBase, ThresholdOp
from ..policy.policy import Policy, PolicyOrigin
from ..policy.resolve import RawValue, resolve_policy
from ..policy.schema import AUTO, DEFAULT_PRESET, NATIVE, OFF
from ..policy.value_types import format_value


class PresetStep(msgspec.Struct, frozen=True):
    step: str  # one word
    text: str
    default_text: str  # of the preset `default`


def preset_steps(preset: str) -> tuple[PresetStep, ...]:
    """Explain a preset step by step, beside the default."""
    policy, default = _policy_of(preset), _policy_of(DEFAULT_PRESET)
    return tuple(
        PresetStep(step, describe(policy), describe(default)) for step, describe in _STEPS.items()
    )


def _policy_of(preset: str) -> Policy:
    return resolve_policy([RawValue("preset", preset, PolicyOrigin.COMMAND_LINE, "")])


def _percent(share: float) -> str:
    return f"{100 * share:.0f}\N{NO-BREAK SPACE}%"


_MODES: Final = {
    "observe": "shows only",
    "suggest": "shows, and advises the model",
    "auto": "shows, advises the model, and acts by itself once you set mode = auto yourself",
}


def _mode(policy: Policy) -> str:
    return _MODES[policy.text("mode")]


def _counting(policy: Policy) -> str:
    counting = policy.counting
    if counting.counts_text:
        return counting.description
    total = ", with the sum of all answers beside it" if counting.shows_spent else ""
    parts = "the whole input" if counting.is_input_side else counting.description
    unit = CHARACTER_UNITS.get(counting.estimator)
    texts = f"texts as {unit}" if unit else "texts by tiktoken"
    return f"the API's count of the last answer: {parts}{total}; {texts}"


_UNKNOWN_WINDOWS: Final = {
    "display_only": "{} if that is unknown, for display only",
    "use_default": "{} if that is unknown",
    "none": "if that is unknown, nothing is measured by it",
}


def _window(policy: Policy) -> str:
    default = f"{policy.count('limit.default'):,} tokens"
    match policy.text("limit.source"):
        case "fixed":
            text = default
        case "env_1m":
            text = "1,000,000 tokens if the environment says so, otherwise 200,000"
        case _:
            text = f"the model's; {_UNKNOWN_WINDOWS[policy.text('limit.unknown')]}"
            text = text.format(default)
    usable = policy.number("limit.safety_factor") or 1
    return f"{_percent(usable)} of {text}" if usable < 1 else text


_ACTION_WORDS: Final = {
    "reassure": "reassures the model",
    "suggest": "advises it to save space",
    "offer_compact": "offers to compact",
    "compact": "compacts",
    "inform": "tells you",
    "warn": "warns you",
    "alert": "alerts you",
    "recover": "recovers",
    "native": "Claude Code compacts",
}


def _thresholds(policy: Policy) -> str:
    texts = [*map(_threshold_text, policy.thresholds)]
    if tokens := policy.count("absolute.at_tokens"):
        window = policy.count("absolute.from_window")
        texts.append(f"at {tokens:,} tokens in a window of {window:,} or more")
    return "; ".join(texts) or "never"


def _threshold_text(threshold: Threshold) -> str:
    word = "above" if threshold.op is ThresholdOp.ABOVE else "at"
    what = _ACTION_WORDS[threshold.action]
    if threshold.of is ThresholdBase.TRIGGER:
        return f"{word} the auto-compact limit: {what}"
    if threshold.at > 1:
        return f"{word} {threshold.at:,.0f} tokens: {what}"
    return f"{word} {_percent(threshold.at)}: {what}"


def _rearm(policy: Policy) -> str:
    ways = []
    if policy.flag("rearm.on_compaction"):
        ways.append("after a compaction")
    if drop := policy.number("rearm.hysteresis"):
        ways.append(f"after the context fell by {_percent(drop)}")
    seconds = policy.integer("rearm.cooldown_s")
    if seconds is not None:
        ways.append(f"after {seconds} s" if seconds else "at each answer")
    return ", ".join(ways) or "never"


_STRATEGY_WORDS: Final = {
    NATIVE: "asks Claude Code to /compact",
    LADDER: "a plan by levels, the least harmful changes first",
    "condense": "a plan by levels; if it misses the target, the oldest turns become a digest",
    "summary": "older messages are replaced by a summary",
    "summary_buffer": "older messages are replaced by a summary",
    "window": "all but the first prompt and the newest turns is removed",
    "head_tail": "all but the first prompt and the newest turns is removed",
    NONE: "never",
}


def _compaction(policy: Policy) -> str:
    strategy = automatic_strategy(policy)
    if strategy == NONE:
        return _STRATEGY_WORDS[NONE]
    messages, tokens = policy.count("compact.min_messages"), policy.count("compact.min_tokens")
    least = f"only sessions of more than {messages} messages, from {tokens:,} tokens on"
    text = _STRATEGY_WORDS[strategy]
    if chars := policy.integer("tools.first_chars"):
        text = f"results are cut to their first {chars:,} characters; if that is too little, {text}"
    return f"{text}; {least}"


def _recent(policy: Policy) -> str:
    strategy, count = automatic_strategy(policy), policy.integer("compact.preserve_recent")
    if strategy == LADDER:
        tokens = DEFAULT_OPTIONS.min_tail_tokens
        return f"the newest {DEFAULT_PROTECTED_TURNS} turns with tools, at least {tokens:,} tokens"
    if count is None:
        return "as Claude Code does"
    fewer = ", fewer of a session that has hardly more" if strategy in SUMMARIES else ""
    return f"the newest {count} messages{_kept_by_level(policy)}{fewer}"


def _kept_by_level(policy: Policy) -> str:
    if not any(each.level in KEPT_SHARES for each in policy.thresholds):
        return ""
    shares = (f"{_percent(share)} of them at {level}" for level, share in KEPT_SHARES.items())
    return f" ({', '.join(shares)})"


def _summary(policy: Policy) -> str:
    size, template = policy.value("summary.max_tokens"), policy.text("summary.template")
    length = "sized by what it replaces" if size == AUTO else f"at most {size:,} tokens"
    sections = template.replace("_", " ")
    model = f"by rules, or by a model if you ask for one: {policy.text('summary.model')}"
    return f"{model}; {length}; template: {sections}"


def _recovery(policy: Policy) -> str:
    is_automatic = policy.flag("recovery.auto")
    who = "by itself once you set mode = auto yourself" if is_automatic else "when you ask"
    text = f"{who}: {format_value(policy.value('recovery.order'))}"
    if most := policy.count("recovery.max_recompact"):
        text += (
            f"; compacts again, at most {most} times, if answers after a compaction have no text"
        )
    return text


_COMPLIANCE_WORDS: Final = {
    "last_message": "the last message of their results is checked",
    "whole_transcript": "their whole transcripts are checked",
    OFF: "their results are not checked",
}


def _compliance(policy: Policy) -> str:
    return _COMPLIANCE_WORDS[policy.text("compliance.mode")]


_SCOPES: Final = {"project": "of the project", "all": "of all projects"}


def _injection(policy: Policy) -> str:
    newest, same = policy.count("injection.fallback"), policy.count("injection.same_type")
    where = _SCOPES[policy.text("injection.same_type_scope")]
    return (
        f"{same} results of agents of the same type {where}; {newest} newest ones if none matches"
    )


_STEPS: Final[dict[str, Callable[[Policy], str]]] = {
    "acts": _mode,
    "counts": _counting,
    "window": _window,
    "warns": _thresholds,
    "again": _rearm,
    "compacts": _compaction,
    "keeps": _recent,
    "summary": _summary,
    "recovers": _recovery,
    "agents": _compliance,
    "injects": _injection,
}
