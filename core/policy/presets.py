"""The presets: which default values each of them changes.

Where the system that a preset is named after has no such value, the built-in value applies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..compliance.findings import CLNODE_FORMATS
from ..measure.levels import Level, Threshold, ThresholdBase, ThresholdOp
from .schema import DEFAULT_PRESET, NATIVE, OFF
from .value_types import PolicyValue

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
