"""A resolved policy: each value with its origin, and which keys a project's file may set.

Keys are allowed by name: a key that is not in `UNTRUSTED_KEYS` needs trust, also a new one.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from ..model.claude_models import LARGE_WINDOW, SMALL_WINDOW
from ..model.context_window import ClaimSource, Window
from ..model.counting_rule import DEFAULT_COUNTING, CountingRule, make_counting_rule
from ..model.levels import (
    Level,
    PlacedThreshold,
    RearmRule,
    Threshold,
    ThresholdBase,
    place_thresholds,
)
from .schema import (
    KEYS,
    MONITOR_MODULE,
    OBSERVE,
    PREEMPTIVE_MODULE,
    RECOVERY_MODULE,
    PolicyKey,
)
from .value_types import PolicyValue


class KeyPermission(StrEnum):
    ANYONE = "anyone"  # any project's file: the key changes only what ctxtop shows
    TRUSTED = "trusted"  # the person, or a project that the person trusted
    PERSON = "person"  # the person alone: the key is about the dashboard, not about a project


class ProjectTrust(StrEnum):
    """Whether the person trusts a project's file."""

    TRUSTED = "trusted"
    CHANGED = "changed"  # it was trusted, and has changed since
    UNTRUSTED = "untrusted"


UNTRUSTED_KEYS: Final = frozenset(
    {
        *("preset", "disabled_modules", "threshold", "absolute.at_tokens", "absolute.from_window"),
        *("rearm.on_compaction", "rearm.hysteresis", "rearm.cooldown_s"),
        *("compliance.mode", "compliance.rules", "compliance.min_samples"),
        *("compliance.line_limit", "compliance.review_line_limit", "compliance.result_max_lines"),
        *("compliance.soft_chars", "compliance.review_files"),
        *("saveflow.orphan_after_s", "saveflow.fresh_for_s", "saveflow.sentinel_ttl_s"),
    }
)
"""Keys that an untrusted project's file may set. Of its preset only these keys count, and its
`disabled_modules` are added to the person's."""

PERSONAL_PREFIXES: Final = (
    "ui.",
    "notify.",
    "cold.",
    "limits.",
    "keys.",
    "backup.",
    "archive.",
    "pause.",
)
"""No project's file sets these."""

TRUST_EFFECTS: Final[Mapping[str, str]] = {
    "mode": "lets ctxtop change sessions automatically",
    "compact": "changes how, when and by whom sessions are compacted",
    "recovery": "changes what ctxtop does after a prompt that is too long",
    "summary": "chooses which model is sent a session's text, and what a summary keeps",
    "importance": "changes what a compaction keeps",
    "injection": "changes what is put into the context of agents, and from which projects",
    "steering": "changes what Claude Code's compaction is told to keep",
    "prompts": "puts text into the model's context",
    "limit": "changes the window that everything is measured against",
    "usage": "changes what is counted",
    "price": "changes costs, and when a compaction pays off",
    "tools": "changes which results count as large, and what is cut of them",
    "terminal": "lets the dashboard answer permission prompts of its sessions",
    "saveflow": "changes which folders are searched for saves",
}  # by area: what its keys do once their file is trusted

STRICTEST_FIRST: Final[Mapping[str, tuple[PolicyValue, ...]]] = {
    "mode": ("observe", "suggest", "auto"),
    "recovery.auto": (False, True),
    "recovery.aggressive": (False, True),
    "recovery.dcp": (False, True),
    "recovery.resume": ("none", "continue", "last_prompt"),
    "recovery.retry.max": (0,),
    "compact.strategy": ("none",),
    "compliance.mode": ("off",),
    "injection.same_type_scope": ("project", "all"),
    "injection.budget": (0,),
    "steering.budget": (0,),
    "steering.again": (0,),
    "terminal.answer": (False, True),
}
"""Values by which a person forbids something, the strictest first: if the person chose one,
a project's file may choose that one or one before it."""

ADDITIVE_KEYS: Final = frozenset({"disabled_modules", "recovery.confirm"})
"""Lists: a project's file only adds to what the person set."""

MIN_THRESHOLD_SHARE: Final = 0.25
"""Of a window: the system prompt and the tools alone take up to a fifth of 200,000 tokens, so
every session reaches a lower level in its first turns."""

MIN_THRESHOLD_TOKENS: Final = 50_000  # the same share of a window of 200,000 tokens
MAX_THRESHOLDS: Final = len(Level)
"""One a level; with more of them a growing context reaches one nearly every turn."""

MIN_COOLDOWN_S: Final = 600  # longer than a turn: a shorter time would allow a notice each turn
MIN_HYSTERESIS: Final = 0.02  # of a window; estimates move by less from one turn to the next

_MINIMUMS: Final[Mapping[str, float]] = {
    "absolute.at_tokens": MIN_THRESHOLD_TOKENS,
    "rearm.cooldown_s": MIN_COOLDOWN_S,
    "rearm.hysteresis": MIN_HYSTERESIS,
}


def key_permission(name: str) -> KeyPermission:
    if name.startswith(PERSONAL_PREFIXES):
        return KeyPermission.PERSON
    is_known = name in UNTRUSTED_KEYS and name in KEYS
    return KeyPermission.ANYONE if is_known else KeyPermission.TRUSTED


def trust_effect(name: str) -> str:
    """Return what a key does once its file is trusted."""
    if key_permission(name) is KeyPermission.ANYONE:
        return "also applies to hooks and automatic actions"
    return TRUST_EFFECTS.get(name.partition(".")[0], "changes what ctxtop does")


def why_too_low(name: str, value: PolicyValue) -> str:
    """Return why an untrusted file may not set a key to this value; empty if it may."""
    if name == "threshold" and isinstance(value, tuple):
        if len(value) > MAX_THRESHOLDS:
            return f"{len(value)} thresholds are more than {MAX_THRESHOLDS}"
        low = [each for each in value if isinstance(each, Threshold) and _is_low(each)]
        return f"{low[0].name} is below {MIN_THRESHOLD_SHARE:.0%}" if low else ""
    least = _MINIMUMS.get(name)
    if least is None or isinstance(value, str) or not isinstance(value, (int, float)):
        return ""
    return f"{value:g} is below {least:g}" if value < least else ""


def _is_low(threshold: Threshold) -> bool:
    in_tokens = threshold.of is ThresholdBase.TOKENS
    return threshold.at < (MIN_THRESHOLD_TOKENS if in_tokens else MIN_THRESHOLD_SHARE)


ExpectedT = TypeVar("ExpectedT")

MIN_WINDOW: Final = 100_000  # the smallest that a client's setting allows (claude-code-formats 3.5)
MIN_TRIGGER: Final = 10_000  # a trigger is never lower than a system prompt


class PolicyOrigin(StrEnum):
    """Where a value can be set, the highest first (requirements 2.2, R001-08)."""

    COMMAND_LINE = "command_line"
    ENVIRONMENT = "environment"
    PROJECT_FILE = "project_file"
    USER_FILE = "user_file"
    PRESET = "preset"
    BUILT_IN = "built_in"


class ResolvedValue(msgspec.Struct, frozen=True):
    key: PolicyKey
    value: PolicyValue
    origin: PolicyOrigin
    where: str  # the file, the variable, the option or the preset; empty for the built-in one


class PolicyNotice(msgspec.Struct, frozen=True):
    """A setting that does not apply: what is wrong, where, and what to do."""

    key: str  # empty for a file as a whole
    where: str
    origin: PolicyOrigin
    what: str
    fix: str

    @property
    def location(self) -> str:
        return f"{self.where}: {self.key}" if self.key else self.where

    def __str__(self) -> str:
        return f"{self.location}: {self.what}; {self.fix}"


class IgnoredValue(msgspec.Struct, frozen=True):
    """A value of a project's file that does not apply."""

    key: str
    value_text: str  # the value in words
    where: str  # the file, with the preset if the value is a preset's
    why: str
    fix: str

    def __str__(self) -> str:
        return f"{self.where}: {self.key} = {self.value_text} is ignored: {self.why}; {self.fix}"


class Policy(msgspec.Struct, frozen=True):
    """The configuration of one project; made by `resolve_policy`."""

    values: Mapping[str, ResolvedValue]
    notices: tuple[PolicyNotice, ...]
    thresholds: tuple[Threshold, ...]
    """Without the absolute one; `compact.levels` and `compact.midpoint` are applied."""
    rearm: RearmRule
    ignored: tuple[IgnoredValue, ...] = ()  # values of the project's file that do not apply
    trust: ProjectTrust | None = None  # of the project's file; None if there is none
    counting: CountingRule = DEFAULT_COUNTING

    def value(self, name: str) -> PolicyValue:
        """Return any value; raises KeyError for a name that is not in the schema."""
        return self.values[name].value

    def flag(self, name: str) -> bool:
        """Return a boolean. Like the methods below, raises TypeError for a key of another type."""
        return _checked_type(name, self.value(name), bool)

    def integer(self, name: str) -> int | None:
        """Return an integer, or None for the word that means none."""
        value = self.value(name)
        return None if isinstance(value, str) else _checked_type(name, value, int)

    def count(self, name: str) -> int:
        """Return an integer; 0 for the word that means none."""
        return self.integer(name) or 0

    def number(self, name: str) -> float | None:
        """Return a number, or None for the word that means none."""
        value = self.value(name)
        return None if isinstance(value, str) else float(_checked_type(name, value, (int, float)))

    def text(self, name: str) -> str:
        return _checked_type(name, self.value(name), str)

    def texts(self, name: str) -> tuple[str, ...]:
        return tuple(str(each) for each in _checked_type(name, self.value(name), tuple))

    def ratios(self, name: str) -> tuple[float, ...]:
        return tuple(float(each) for each in _checked_type(name, self.value(name), tuple))

    def tokens_by_model(self, name: str) -> Mapping[str, int]:
        return _checked_type(name, self.value(name), Mapping)

    def strings_by_name(self, name: str) -> Mapping[str, str]:
        return _checked_type(name, self.value(name), Mapping)

    def with_prefix(self, prefix: str) -> Mapping[str, ResolvedValue]:
        """Return the values whose names start with `prefix`, keyed by the rest of the name."""
        found = {name: each for name, each in self.values.items() if name.startswith(prefix)}
        return {name.removeprefix(prefix): each for name, each in found.items()}

    @property
    def preset(self) -> str:
        return self.text("preset")

    def effective_window(self, window: Window) -> int | None:
        """Return the window in tokens that the thresholds apply to; None if there is none.

        Requirements 2.1 T-26; R002-05 (unknown is null), R003-03 (80 % of the real one).
        """
        if window.source is ClaimSource.POLICY:
            return window.tokens
        source, default = self.text("limit.source"), self.integer("limit.default")
        if source == "fixed" or (source == "env_1m" and window.tokens < LARGE_WINDOW):
            return default
        if window.source is ClaimSource.ASSUMED:
            unknown = self.text("limit.unknown")
            if unknown != "display_only":
                return default if unknown == "use_default" else None
        return round(window.tokens * (self.number("limit.safety_factor") or 1.0))

    def place_thresholds(
        self, window: Window, trigger: int | None = None
    ) -> tuple[PlacedThreshold, ...]:
        """Find where the levels begin in a window, the lowest first; empty: no warnings.

        `trigger` is where the client compacts by itself, in tokens; if it is not known it
        is computed from the window (T-01).
        """
        limit = self.effective_window(window)
        if limit is None:
            return ()
        computed = limit - self.reserve_tokens if limit > self.reserve_tokens else None
        thresholds = (*self.thresholds, *self._absolute(window.tokens))
        return place_thresholds(thresholds, window.tokens, trigger or computed, limit)

    def _absolute(self, window: int) -> tuple[Threshold, ...]:
        # The used part costs the same and reads the same however large the window is.
        at, least = self.integer("absolute.at_tokens"), self.integer("absolute.from_window")
        if at is None or least is None or window < least:
            return ()
        return (Threshold(at, Level.NOTICE, "inform", of=ThresholdBase.TOKENS),)

    @property
    def reserve_tokens(self) -> int:
        """Tokens of a window that no conversation may fill."""
        return self.count("limit.output_reserve") + self.count("limit.autocompact_buffer")

    @property
    def warns(self) -> bool:
        """Whether levels are logged and notified, not only shown."""
        return MONITOR_MODULE not in self.texts("disabled_modules")

    @property
    def only_observes(self) -> bool:
        """Whether nothing is suggested to the model, and no session changed unasked (T-10)."""
        return self.value("mode") == OBSERVE

    @property
    def suggests(self) -> bool:
        """Whether the model is told to save context before it has to be compacted."""
        return PREEMPTIVE_MODULE not in self.texts("disabled_modules")

    @property
    def recovers(self) -> bool:
        """Whether a session may be recovered without being asked."""
        return RECOVERY_MODULE not in self.texts("disabled_modules")

    @property
    def target_reduction(self) -> tuple[float, float]:
        """The least and the most that a compaction should free, as shares of the context."""
        least, most = self.ratios("compact.target_reduction")
        return least, most

    @property
    def lowest_threshold_tokens(self) -> int | None:
        """The smallest input that can reach a threshold, however small the window; or None."""
        known = MIN_WINDOW, SMALL_WINDOW, LARGE_WINDOW
        overrides = self.tokens_by_model("limit.override").values()
        windows = [Window(tokens, ClaimSource.TABLE) for tokens in known]
        windows += [Window(tokens, ClaimSource.POLICY) for tokens in overrides]
        lowest = [
            int(line.at * window.tokens)
            for window in windows
            for line in self.place_thresholds(window)
        ]
        if any(each.of is ThresholdBase.TRIGGER for each in self.thresholds):
            lowest.append(MIN_TRIGGER)
        least = min(lowest, default=None)
        return None if least is None else max(0, least - self.counting.margin)


def make_policy(
    values: Mapping[str, ResolvedValue],
    notices: Iterable[PolicyNotice],
    ignored: Iterable[IgnoredValue] = (),
) -> Policy:
    bare = Policy(values, tuple(notices), (), RearmRule(), tuple(ignored))
    cooldown_s = bare.integer("rearm.cooldown_s")
    rearm = RearmRule(
        on_compaction=bare.flag("rearm.on_compaction"),
        hysteresis=bare.number("rearm.hysteresis"),
        cooldown_ms=None if cooldown_s is None else cooldown_s * 1000,
    )
    counting = make_counting_rule(
        bare.text("usage.source"),
        bare.texts("usage.components"),
        bare.text("usage.estimator"),
        bare.count("usage.per_message_overhead"),
    )
    return replace(bare, thresholds=_thresholds(bare), rearm=rearm, counting=counting)


def _thresholds(policy: Policy) -> tuple[Threshold, ...]:
    """Apply `compact.levels` and `compact.midpoint` to the list (requirements 2.1, T-02)."""
    listed = _checked_type("threshold", policy.value("threshold"), tuple)
    found = [each for each in listed if isinstance(each, Threshold)]
    midpoint, chosen = policy.values["compact.midpoint"], policy.values["threshold"]
    ranks = list(PolicyOrigin)
    if policy.text("compact.levels") == "two":
        found = [each for each in found if each.level is not Level.MEDIUM]
    elif midpoint.origin is not PolicyOrigin.BUILT_IN and (
        ranks.index(midpoint.origin) <= ranks.index(chosen.origin)
    ):
        at = policy.number("compact.midpoint") or 0.0
        found = [replace(each, at=at) if each.level is Level.MEDIUM else each for each in found]
    return tuple(found)


def _checked_type(
    name: str, value: object, kind: type[ExpectedT] | tuple[type[ExpectedT], ...]
) -> ExpectedT:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise TypeError(f"{name} has another type")
    return value
