"""What a preset does at each step, in words that are made from its values (2.2.1)."""

from collections.abc import Callable
from typing import Final

import msgspec

from ..compaction.plan import DEFAULT_OPTIONS, DEFAULT_PROTECTED_TURNS
from ..compaction.policy_strategy import (
    KEPT_SHARES,
    LADDER,
    SUMMARIES,
    automatic_strategy,
    compacts_by_itself,
    whole_options,
)
from ..compaction.recovery.limit_errors import LimitErrorType
from ..compaction.recovery.recovery_run import (
    RecoveryStep,
    read_recovery_settings,
    recovery_steps_for,
)
from ..compliance.expectations import LAST_MESSAGE, OFF, WHOLE_TRANSCRIPT, compliance_settings
from ..injection.context_selection import injection_limits
from ..injection.injected_text import prompt_thresholds
from ..model.claude_models import LARGE_WINDOW, unknown_model_window
from ..model.counting_rule import CHARACTER_UNITS
from ..model.levels import Threshold, ThresholdBase, ThresholdOp
from ..policy.policy import Policy, PolicyOrigin
from ..policy.resolve import RawValue, resolve_policy
from ..policy.schema import AUTO, DEFAULT_PRESET, NATIVE
from ..summaries.summary_building import (
    CHEAP_MODEL,
    MAX_PROMPT_TOKENS,
    MAX_SUMMARY_TOKENS,
    SOURCE_SHARE,
    SummarySettings,
    read_summary_settings,
)


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


ONCE_AUTO: Final = "once you set mode = auto yourself"  # automation_rules.check_automation_enabled


def _hooks_needed(*features: str) -> str:
    return f"`ctxtop hooks install --with {','.join(features)}`"


def _mode(policy: Policy) -> str:
    acts = ["shows"]
    if prompt_thresholds(policy):
        acts.append(f"with {_hooks_needed('prompts')} advises the model")
    if policy.text("mode") == AUTO and compacts_by_itself(policy):
        acts.append(f"compacts by itself {ONCE_AUTO}")
    return "; ".join(acts) if len(acts) > 1 else "shows only"


def _counting(policy: Policy) -> str:
    counting = policy.counting
    if counting.counts_text:
        return counting.description
    total = ", with the sum of all answers beside it" if counting.shows_spent else ""
    parts = "the whole input" if counting.is_input_side else counting.description
    unit = CHARACTER_UNITS.get(counting.estimator)
    texts = f"texts as {unit}" if unit else "texts by tiktoken"
    return f"the API's count of the last answer: {parts}{total}; {texts}"


def _window(policy: Policy) -> str:
    """Describe `Policy.effective_window`."""
    default = f"{policy.count('limit.default'):,} tokens"
    usable = policy.number("limit.safety_factor") or 1
    share = f"{_percent(usable)} of " if usable < 1 else ""
    match policy.text("limit.source"):
        case "fixed":
            return default
        case "env_1m":
            return f"{share}{LARGE_WINDOW:,} tokens where the window is that large, else {default}"
    unknown = {
        "display_only": f"{share}Claude Code's default, {unknown_model_window(None):,} tokens",
        "use_default": default,
        "none": "nothing is measured",
    }[policy.text("limit.unknown")]
    return f"{share}the model's; of an unknown model {unknown}, and it is never compacted by itself"


_ACTION_WORDS: Final = {
    "reassure": "reassures the model",
    "suggest": "advises it to save space",
    "offer_compact": "tells you, and compacts if mode is auto",
    "compact": "compacts",
    "inform": "tells you",
    "warn": "warns you",
    "alert": "alerts you",
    "recover": "tells you what to do",
    "native": "Claude Code compacts",
}


def _thresholds(policy: Policy) -> str:
    texts = [_threshold_text(each, policy) for each in policy.thresholds]
    if tokens := policy.count("absolute.at_tokens"):
        window = policy.count("absolute.from_window")
        texts.append(f"at {tokens:,} tokens in a window of {window:,} or more")
    return "; ".join(texts) or "never"


def _threshold_text(threshold: Threshold, policy: Policy) -> str:
    word = "above" if threshold.op is ThresholdOp.ABOVE else "at"
    what = _ACTION_WORDS[threshold.action]
    if threshold.of is ThresholdBase.TRIGGER:
        without = f"without one it tells you {policy.reserve_tokens:,} tokens below the window"
        return f"{word} the auto-compact limit ({without}): {what}"
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
}


def _strategy(policy: Policy) -> str:
    """Return the strategy of automation, or else of a plan that a person asks for."""
    strategy = automatic_strategy(policy)
    return strategy if compacts_by_itself(policy) or whole_options(policy) else LADDER


def _compaction(policy: Policy) -> str:
    strategy = _strategy(policy)
    if not compacts_by_itself(policy):
        return f"never by itself; when you ask, {_STRATEGY_WORDS[strategy]}"
    messages, tokens = policy.count("compact.min_messages"), policy.count("compact.min_tokens")
    least = f"only sessions of more than {messages} messages, from {tokens:,} tokens on"
    text = _STRATEGY_WORDS[strategy]
    if chars := policy.integer("tools.first_chars"):
        text = f"results are cut to their first {chars:,} characters; if that is too little, {text}"
    return f"{text}; {least}"


def _recent(policy: Policy) -> str:
    strategy, count = _strategy(policy), policy.integer("compact.preserve_recent")
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
    settings = read_summary_settings(policy)
    length = f"{_percent(SOURCE_SHARE)} of what it replaces, at most {MAX_SUMMARY_TOKENS:,}"
    if settings.budget is not None:
        length = f"at most {settings.budget.max_tokens:,}"
    besides = (
        f"your own messages, at most {MAX_PROMPT_TOKENS:,}, your rules and anchors, and what"
        " earlier compactions left"
    )
    sections = policy.text("summary.template").replace("_", " ")
    return (
        f"by rules; if you name a provider, by {_summary_model(settings)};"
        f" {length} tokens, and besides {besides}; template: {sections}"
    )


def _summary_model(settings: SummarySettings) -> str:
    if settings.names_foreign_model:
        return f"{CHEAP_MODEL}, or by {settings.model} at an OpenAI-compatible server that has it"
    return settings.resolve_model("the session's model")


_STEP_SWITCHES: Final = {
    RecoveryStep.AGGRESSIVE: "recovery.aggressive",
    RecoveryStep.DCP: "recovery.dcp",
}


def _recovery(policy: Policy) -> str:
    settings = read_recovery_settings(policy)
    steps = recovery_steps_for(LimitErrorType.TOKEN_LIMIT, settings)
    alone = [each for each in steps if not settings.needs_confirmation(each)]
    confirmed = [each for each in steps if settings.needs_confirmation(each)]
    off = [f"{each} ({_STEP_SWITCHES[each]})" for each in settings.step_order if each not in steps]
    text = f"by itself {ONCE_AUTO}" if policy.flag("recovery.auto") else "when you ask"
    text += f", if a prompt is too long: {', '.join(alone)}"
    if confirmed:
        text += f"; only if you confirm it: {', '.join(confirmed)}"
    if off:
        text += f"; off: {', '.join(off)}"
    if most := policy.count("recovery.max_recompact"):
        text += (
            f"; compacts again, at most {most} times, if answers after a compaction have no text"
        )
    return text


_COMPLIANCE_WORDS: Final = {
    LAST_MESSAGE: "the last message of one that declares a format is checked",
    WHOLE_TRANSCRIPT: "one that declares a format needs the marker in any of its answers",
}


def _compliance(policy: Policy) -> str:
    settings = compliance_settings(policy)
    if settings.mode == OFF:
        return "their results are not checked"
    limits, named = settings.limits, settings.preset_rules or {}
    size = f"{limits.output_lines} lines at most, {limits.review_lines} for a review"
    rules = f"; without a definition {', '.join(named)} are checked, too" if named else ""
    hook = f"with {_hooks_needed('enforce')} it is blocked once"
    return f"{_COMPLIANCE_WORDS[settings.mode]} ({size}){rules}; {hook}"


_SCOPES: Final = {False: "in the project", True: "in all projects"}


def _injection(policy: Policy) -> str:
    limits = injection_limits(policy)
    if limits is None:
        return "nothing"
    return (
        f"with {_hooks_needed('inject')} a starting agent gets the results of {limits.sibling}"
        f" agents with the same parent, {limits.same_type} of the same type"
        f" {_SCOPES[limits.all_projects]}, {limits.cross_session} of earlier sessions and"
        f" {limits.tagged} with the same tag, or of the {limits.fallback} newest if there is none;"
        f" and its open tasks, with the plan; {limits.budget:,} tokens at most"
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
