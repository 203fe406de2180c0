"""The presets: what each changes of the built-in values (requirements 2.2.1).

Where the table has a dash, the system that a preset is named after does not know the thing,
and the built-in value holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..compliance.expected import CLNODE_RULES
from ..levels import Base, Level, Op, Threshold
from .schema import DEFAULT_PRESET, NATIVE, OFF

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .kinds import Value

_REASSURE: Final = Threshold(0.70, Level.NOTICE, "reassure")
_AT_THE_TRIGGER: Final = Threshold(1.0, Level.HIGH, "native", of=Base.TRIGGER)
"""The client compacts here by itself: 0.835 of a window of 200,000 tokens."""

_NEVER: Final[Mapping[str, Value]] = {"rearm.on_compaction": False, "rearm.hysteresis": OFF}
_EVERY_TIME: Final[Mapping[str, Value]] = {"rearm.cooldown_s": 0}
# "New message + 60 s" is the same: a fill is looked at when there is a new answer.
_EVERY_MINUTE: Final[Mapping[str, Value]] = {**_NEVER, "rearm.cooldown_s": 60}
_UNCHECKED: Final[Mapping[str, Value]] = {"compliance.mode": OFF}

# Ours alone: who asks for another system's thresholds gets those and no other.
_ALONE: Final[Mapping[str, Value]] = {"absolute.at_tokens": OFF}

_CLNODE: Final[Mapping[str, Value]] = {
    **_ALONE,
    "mode": "observe",
    "usage.source": "api_last+cumulative",
    "threshold": (),
    "compact.strategy": "none",
    "compliance.mode": "whole_transcript",
    "compliance.rules": {name: each.value for name, each in CLNODE_RULES.items()},
}

PRESETS: Final[Mapping[str, Mapping[str, Value]]] = {
    DEFAULT_PRESET: {},
    "clnode": _CLNODE,
    "clnode-code": {
        **_CLNODE,
        "injection.fallback": 5,
        "injection.same_type_scope": "all",
    },
    "not-agent": {
        **_ALONE,
        **_UNCHECKED,
        **_EVERY_TIME,
        "mode": "auto",
        "usage.source": "chars4",
        "usage.estimator": "chars4",
        "limit.source": "fixed",
        "limit.default": 100_000,
        "threshold": (
            Threshold(0.75, Level.HIGH, "compact"),
            Threshold(0.80, Level.NOTICE, "inform", Op.ABOVE),
            Threshold(1.00, Level.OVERFLOW, "warn", Op.ABOVE),
        ),
        "compact.strategy": "summary",
        "compact.preserve_recent": 4,
        "summary.model": "session",
        "summary.max_tokens": 2048,
    },
    "omo-doc": {
        **_ALONE,
        **_UNCHECKED,
        **_NEVER,
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
        **_ALONE,
        **_UNCHECKED,
        **_EVERY_MINUTE,
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
        **_ALONE,
        **_UNCHECKED,
        **_EVERY_MINUTE,
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
        **_ALONE,
        **_UNCHECKED,
        **_EVERY_TIME,
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
        **_ALONE,
        **_UNCHECKED,
        "mode": "observe",
        "limit.source": "fixed",
        "threshold": (_AT_THE_TRIGGER,),
    },
    "native": {
        **_ALONE,
        **_UNCHECKED,
        "mode": "observe",
        "threshold": (_AT_THE_TRIGGER,),
        "compact.preserve_recent": NATIVE,
        "summary.model": "session",
        "summary.template": "native",
    },
}
