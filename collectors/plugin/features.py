"""What a hook answers, and at which events; none of it unless its command names it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

FEATURES: Final[Mapping[str, tuple[str, ...]]] = {
    "enforce": ("SubagentStop",),
    "inject": ("SubagentStart",),
    "steer": ("PreCompact",),
    "remember": ("PostCompact", "UserPromptSubmit"),
    "prompts": ("UserPromptSubmit", "PostToolUse"),
    "confirm": ("UserPromptSubmit",),
}
"""Each is a module of `answers`; the order is that of an installed command."""
