"""A policy: every value with its origin, and what the code asks of it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec
from msgspec.structs import replace

from ..claims import Source
from ..levels import Base, Level, Line, Rearm, Threshold, place
from ..models import LARGE_WINDOW, SMALL_WINDOW
from ..window import Window
from .schema import MONITOR, PREEMPTIVE, RECOVERY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .kinds import Value
    from .schema import Key
    from .trust import Trust

Kept = TypeVar("Kept")

SECOND_MS: Final = 1000

LEAST_WINDOW: Final = 100_000
"""Tokens; the smallest that a setting of the client's allows (claude-code-formats 3.5)."""

LEAST_TRIGGER: Final = 10_000
"""Tokens; a trigger can be set far below the window, and no lower than a system prompt."""


class Origin(StrEnum):
    """Where a value can be said, the highest first (requirements 2.2, R001-08)."""

    COMMAND_LINE = "command_line"
    ENVIRONMENT = "environment"
    PROJECT_FILE = "project_file"
    USER_FILE = "user_file"
    PRESET = "preset"
    BUILT_IN = "built_in"


_RANKS: Final = {origin: rank for rank, origin in enumerate(Origin)}


class Resolved(msgspec.Struct, frozen=True):
    """The value that holds, and where it was said."""

    key: Key
    value: Value
    origin: Origin
    where: str
    """The file, the variable, the option or the preset; empty for the built-in one."""


class PolicyNotice(msgspec.Struct, frozen=True):
    """Something that was said and does not hold: what, where, and what to do."""

    key: str
    """Empty where it is a file as a whole."""
    where: str
    origin: Origin
    what: str
    fix: str

    @property
    def location(self) -> str:
        """Where it stands, in words."""
        return f"{self.where}: {self.key}" if self.key else self.where

    def __str__(self) -> str:
        return f"{self.location}: {self.what}; {self.fix}"


class Ignored(msgspec.Struct, frozen=True):
    """A value that a project's file says and that does not count."""

    key: str
    value_text: str
    """The value in words."""
    where: str
    """The file, and the preset where it is that one's value."""
    why: str
    fix: str

    def __str__(self) -> str:
        return f"{self.where}: {self.key} = {self.value_text} is ignored: {self.why}; {self.fix}"


class Policy(msgspec.Struct, frozen=True):
    """The configuration of one project; made by `layers.resolve`."""

    values: Mapping[str, Resolved]
    notices: tuple[PolicyNotice, ...]
    thresholds: tuple[Threshold, ...]
    """Without the absolute one; `compact.levels` and `compact.midpoint` are worked in."""
    rearm: Rearm
    ignored: tuple[Ignored, ...] = ()
    """What the project's file says in vain."""
    trust: Trust | None = None
    """Of the project's file; None where there is none."""

    def value(self, name: str) -> Value:
        """Give any value; raises KeyError for a name that the schema does not have."""
        return self.values[name].value

    def flag(self, name: str) -> bool:
        """Give a value that is true or false; TypeError for a key of another kind."""
        return _kept(name, self.value(name), bool)

    def integer(self, name: str) -> int | None:
        """Give a whole number, None for the word that stands for none; TypeError as above."""
        value = self.value(name)
        return None if isinstance(value, str) else _kept(name, value, int)

    def number(self, name: str) -> float | None:
        """Give a number, None for the word that stands for none; TypeError as above."""
        value = self.value(name)
        return None if isinstance(value, str) else float(_kept(name, value, (int, float)))

    def text(self, name: str) -> str:
        """Give a word or a text; TypeError as above."""
        return _kept(name, self.value(name), str)

    def texts(self, name: str) -> tuple[str, ...]:
        """Give a list of words; TypeError as above."""
        return tuple(str(each) for each in _kept(name, self.value(name), tuple))

    def tokens_by_model(self, name: str) -> Mapping[str, int]:
        """Give tokens by model; TypeError as above."""
        return _kept(name, self.value(name), Mapping)

    def strings_by_name(self, name: str) -> Mapping[str, str]:
        """Give words by name; TypeError as above."""
        return _kept(name, self.value(name), Mapping)

    def with_prefix(self, prefix: str) -> Mapping[str, Resolved]:
        """Give the values whose names begin so, by the rest of their names."""
        found = {name: each for name, each in self.values.items() if name.startswith(prefix)}
        return {name.removeprefix(prefix): each for name, each in found.items()}

    @property
    def preset(self) -> str:
        """The preset's name."""
        return self.text("preset")

    def effective_window(self, window: Window) -> int | None:
        """Say which window in tokens the thresholds are meant for, None for none.

        Requirements 2.1 T-26; R002-05 (unknown is null), R003-03 (80 % of the real one).
        """
        if window.source is Source.POLICY:
            return window.tokens
        source, default = self.text("limit.source"), self.integer("limit.default")
        if source == "fixed" or (source == "env_1m" and window.tokens < LARGE_WINDOW):
            return default
        if window.source is Source.ASSUMED:
            unknown = self.text("limit.unknown")
            if unknown != "display_only":
                return default if unknown == "use_default" else None
        return round(window.tokens * (self.number("limit.safety_factor") or 1.0))

    def place_thresholds(self, window: Window, trigger: int | None = None) -> tuple[Line, ...]:
        """Find where the levels begin in a window, the lowest first; no line, no warning.

        `trigger` is where the client compacts by itself, in tokens; where it is not known it
        is computed of the window (T-01).
        """
        limit = self.effective_window(window)
        if limit is None:
            return ()
        computed = limit - self._reserve if limit > self._reserve else None
        thresholds = (*self.thresholds, *self._absolute(window.tokens))
        return place(thresholds, window.tokens, trigger or computed, limit)

    def _absolute(self, window: int) -> tuple[Threshold, ...]:
        # What was used of it costs and reads the same however large the window is.
        at, least = self.integer("absolute.at_tokens"), self.integer("absolute.from_window")
        if at is None or least is None or window < least:
            return ()
        return (Threshold(at, Level.NOTICE, "inform", of=Base.TOKENS),)

    def usable_tokens(self, window: Window) -> int | None:
        """Return the tokens that a conversation may fill of the window the thresholds are for.

        None where the policy has no limit for it.
        """
        limit = self.effective_window(window)
        return limit if limit is None else max(limit - self._reserve, 0) or limit

    @property
    def _reserve(self) -> int:
        names = ("limit.output_reserve", "limit.autocompact_buffer")
        return sum(self.integer(name) or 0 for name in names)

    @property
    def warns(self) -> bool:
        """Levels are logged and told, not only shown."""
        return MONITOR not in self.texts("disabled_modules")

    @property
    def suggests(self) -> bool:
        """The model is told to save context before it has to be compacted."""
        return PREEMPTIVE not in self.texts("disabled_modules")

    @property
    def recovers(self) -> bool:
        """Whether a session may be recovered without being asked."""
        return RECOVERY not in self.texts("disabled_modules")

    @property
    def lowest_threshold_tokens(self) -> int | None:
        """Below this many tokens no context reaches a line, however small its window; or None."""
        windows = [
            Window(tokens, Source.TABLE) for tokens in (LEAST_WINDOW, SMALL_WINDOW, LARGE_WINDOW)
        ]
        windows += [
            Window(tokens, Source.POLICY)
            for tokens in self.tokens_by_model("limit.override").values()
        ]
        lowest = [
            int(line.at * window.tokens)
            for window in windows
            for line in self.place_thresholds(window)
        ]
        if any(each.of is Base.TRIGGER for each in self.thresholds):
            lowest.append(LEAST_TRIGGER)
        return min(lowest, default=None)


def make_policy(
    values: Mapping[str, Resolved],
    notices: Iterable[PolicyNotice],
    ignored: Iterable[Ignored] = (),
) -> Policy:
    """Work the values that stand for each other into what the code asks for."""
    bare = Policy(values, tuple(notices), (), Rearm(), tuple(ignored))
    cooldown_s = bare.integer("rearm.cooldown_s")
    rearm = Rearm(
        on_compaction=bare.flag("rearm.on_compaction"),
        hysteresis=bare.number("rearm.hysteresis"),
        cooldown_ms=None if cooldown_s is None else cooldown_s * SECOND_MS,
    )
    return replace(bare, thresholds=_thresholds(bare), rearm=rearm)


def _thresholds(policy: Policy) -> tuple[Threshold, ...]:
    """Work `compact.levels` and `compact.midpoint` into the list (requirements 2.1, T-02)."""
    listed = _kept("threshold", policy.value("threshold"), tuple)
    found = [each for each in listed if isinstance(each, Threshold)]
    midpoint, chosen = policy.values["compact.midpoint"], policy.values["threshold"]
    if policy.text("compact.levels") == "two":
        found = [each for each in found if each.level is not Level.MEDIUM]
    elif midpoint.origin is not Origin.BUILT_IN and (
        _RANKS[midpoint.origin] <= _RANKS[chosen.origin]
    ):
        at = policy.number("compact.midpoint") or 0.0
        found = [replace(each, at=at) if each.level is Level.MEDIUM else each for each in found]
    return tuple(found)


def _kept(name: str, value: object, kind: type[Kept] | tuple[type[Kept], ...]) -> Kept:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise TypeError(f"{name} is of another kind")
    return value
