"""Which keys a project's file may set, whoever wrote it, and which need the person's trust.

Keys are allowed by name: a key that is not in `SHOWN` needs trust, also one that is new.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from ..levels import Base, Level, Threshold
from .schema import KEYS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .kinds import Value


class Standing(StrEnum):
    """Who may set a key."""

    ANYONE = "anyone"
    """Any project's file: the key changes only what ctxtop shows."""
    TRUSTED = "trusted"
    """The person, or a project that the person trusted."""
    PERSON = "person"
    """The person alone: the key is about the dashboard, not about a project."""


class Trust(StrEnum):
    """What the person said of a project's file."""

    TRUSTED = "trusted"
    CHANGED = "changed"
    """It was trusted, and says something else by now."""
    UNTRUSTED = "untrusted"


SHOWN: Final = frozenset(
    {
        "preset",
        "disabled_modules",
        "threshold",
        "absolute.at_tokens",
        "absolute.from_window",
        "rearm.on_compaction",
        "rearm.hysteresis",
        "rearm.cooldown_s",
        "compliance.mode",
        "compliance.line_limit",
        "compliance.review_line_limit",
        "compliance.result_max_lines",
        "compliance.soft_chars",
        "compliance.review_files",
        "compliance.rules",
        "compliance.min_samples",
        "saveflow.orphan_after_s",
        "saveflow.fresh_for_s",
        "saveflow.sentinel_ttl_s",
    }
)
"""Keys that an untrusted project's file may set. Of its preset only these keys count, and its
`disabled_modules` are added to the person's."""

PERSONAL: Final = ("ui.", "notify.", "keys.")
"""How the keys begin that no project's file sets."""

EFFECTS: Final[Mapping[str, str]] = {
    "mode": "lets ctxtop change sessions by itself",
    "compact": "changes how, when and by whom sessions are compacted",
    "recovery": "changes what ctxtop does after a prompt that is too long",
    "summary": "chooses which model is sent a session's text, and what a summary keeps",
    "importance": "changes what a compaction keeps",
    "injection": "changes what is put into the context of agents, and from which projects",
    "steering": "changes what the client's compaction is told to keep",
    "prompts": "puts text into the model's context",
    "limit": "changes the window that everything is measured against",
    "usage": "changes what is counted",
    "price": "changes costs, and when a compaction pays",
    "tools": "changes which results count as large",
    "saveflow": "changes which folders are searched for saves",
}
"""What the keys of an area do once their file is trusted."""

STRICTER: Final[Mapping[str, tuple[Value, ...]]] = {
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
}
"""Values by which a person forbids something, the strictest first: where the person chose one,
a project's file may choose that one or one before it."""

ADDED: Final = frozenset({"disabled_modules", "recovery.confirm"})
"""Lists to which a project's file adds, where the person set them."""

LEAST_SHARE: Final = 0.25
"""Of a window: the system prompt and the tools alone take up to a fifth of 200,000 tokens, so a
level below this is reached in every session's first turns."""

LEAST_TOKENS: Final = 50_000
"""The same share of a window of 200,000 tokens."""

MOST_THRESHOLDS: Final = len(Level)
"""One a level; with more of them a context reaches one nearly every turn as it grows."""

LEAST_COOLDOWN_S: Final = 600
"""Seconds; a turn is over sooner, so a shorter time would make a notice each turn."""

LEAST_HYSTERESIS: Final = 0.02
"""Of a window; estimates move by less from one turn to the next."""


def standing_of(name: str) -> Standing:
    """Who may set the key of this name."""
    if name.startswith(PERSONAL):
        return Standing.PERSON
    return Standing.ANYONE if name in SHOWN and name in KEYS else Standing.TRUSTED


def effect_of(name: str) -> str:
    """What a key does once its file is trusted."""
    if standing_of(name) is Standing.ANYONE:
        return "counts also for hooks and where ctxtop acts by itself"
    return EFFECTS.get(name.partition(".")[0], "changes what ctxtop does")


def why_too_low(name: str, value: Value) -> str:
    """Why an untrusted file may not set a key to this value; empty where it may."""
    if name == "threshold" and isinstance(value, tuple):
        if len(value) > MOST_THRESHOLDS:
            return f"{len(value)} thresholds are more than {MOST_THRESHOLDS}"
        low = [each for each in value if isinstance(each, Threshold) and _is_low(each)]
        return f"{low[0].name} is below {LEAST_SHARE:.0%}" if low else ""
    least = _LEAST.get(name)
    if least is None or isinstance(value, str) or not isinstance(value, (int, float)):
        return ""
    return f"{value:g} is below {least:g}" if value < least else ""


def _is_low(threshold: Threshold) -> bool:
    return threshold.at < (LEAST_TOKENS if threshold.of is Base.TOKENS else LEAST_SHARE)


_LEAST: Final[Mapping[str, float]] = {
    "absolute.at_tokens": LEAST_TOKENS,
    "rearm.cooldown_s": LEAST_COOLDOWN_S,
    "rearm.hysteresis": LEAST_HYSTERESIS,
}
