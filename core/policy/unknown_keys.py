"""What to do about a setting that does not exist: a removed one, another system's, or a typo."""

from collections.abc import Mapping
from typing import Final

from .schema import KEYS

REMOVED_KEYS: Final[Mapping[str, str]] = {
    # The API refuses a result without its call: no plan can do otherwise (R001-01, T-04).
    "compact.pair_safe": "remove it: a tool call is always kept with its result",
}
"""What to do about keys of earlier versions."""

OTHER_NAMES: Final[Mapping[str, str]] = {
    # oh-my-opencode (002-104 to 002-107)
    "disabled_hooks": "disabled_modules",
    "experimental": "recovery.aggressive, recovery.dcp, recovery.resume",
    "experimental.aggressive_truncation": "recovery.aggressive",
    "experimental.auto_resume": "recovery.resume",
    "experimental.dcp_for_compaction": "recovery.dcp",
    "experimental.dynamic_context_pruning": "recovery.dcp",
    "experimental.preemptive_compaction": "mode",
    "experimental.preemptive_compaction_threshold": "threshold",
    "experimental.truncate_all_tool_outputs": "tools.cap_tokens",
    # not-agent (001-19 to 001-22)
    "max_context_tokens": "limit.default",
    "compaction_threshold": "threshold",
    "preserve_recent_messages": "compact.preserve_recent",
    "enable_auto_compaction": "mode",
    # the hybrid buffer's design (003-24 to 003-32)
    "trigger.usageThreshold": "threshold",
    "trigger.emergencyThreshold": "threshold",
    "buffer.recentMessageCount": "compact.preserve_recent",
    "buffer.summaryMaxTokens": "summary.max_tokens",
    "buffer.anchorMaxCount": "importance.anchors_max",
    "summarizer.model": "summary.model",
    "summarizer.preserveDecisions": "summary.preserve_decisions",
    "summarizer.preserveToolResults": "summary.preserve_tool_results",
}
"""Names that the systems behind the presets give to these settings."""


def unknown_key_fix(name: str) -> str:
    """Return what to do about a key that does not exist."""
    if name in REMOVED_KEYS:
        return REMOVED_KEYS[name]
    ours = OTHER_NAMES.get(name) or OTHER_NAMES.get(name.partition(".")[0])
    if ours is not None:
        return f"here it is called {ours}"
    from difflib import get_close_matches  # only where a key is unknown

    near = get_close_matches(name, KEYS, 1)
    return f"did you mean {near[0]}?" if near else "`ctxtop settings` lists the keys"
