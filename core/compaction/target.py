"""What a compaction aims at where nothing else was said (compaction.md 7.5)."""

from __future__ import annotations

from typing import Final

from ..trigger import BUFFER, RESERVE
from .plan import Harm

TARGET: Final = 0.5
"""Share of the effective window (compaction.md 7.5; oh-my-opencode has the same)."""

TOOL_TURNS: Final = 10
"""Newest turns with tools that stay (compaction.md 7.5)."""

MOST_HARM: Final = Harm.INPUTS
"""Levels up to here are balanced, beyond them they are asked for (compaction.md 7.4)."""


def effective_window(window_tokens: int) -> int:
    """Give the tokens of a window that a conversation can fill before the client compacts it."""
    return window_tokens - RESERVE - BUFFER


def target_tokens(window_tokens: int, window_share: float = TARGET) -> int:
    """Give the tokens that a share (0..1) of the effective window is."""
    return round(window_share * effective_window(window_tokens))
