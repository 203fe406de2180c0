"""What `/context` of the client said: its own account of what fills a context."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Reported(StrEnum):
    """Categories by the names that the client gives them (client 2.1.329)."""

    SYSTEM_PROMPT = "System prompt"
    SYSTEM_TOOLS = "System tools"
    """Without the tokens of the skills' listing, which stood in a tool's description once."""
    MCP_TOOLS = "MCP tools"
    CUSTOM_AGENTS = "Custom agents"
    MEMORY_FILES = "Memory files"
    SKILLS = "Skills"
    """Of the listing, by an estimate of the client's own."""
    MESSAGES = "Messages"
    """What of the measured total is none of the others."""
    FREE_SPACE = "Free space"
    AUTOCOMPACT_BUFFER = "Autocompact buffer"


DEFERRED = "(deferred)"
"""How the names of categories end that are no part of the context: tools not loaded."""


class ContextReport(msgspec.Struct, frozen=True):
    """One report; tokens, rounded to hundreds where its text alone was kept."""

    model: str
    total_tokens: int
    window_tokens: int
    """Where the client compacts by a window of its own, that one: not the model's."""
    percent: int
    """Of the window, as the client rounded it; it may exceed 100."""
    categories: dict[str, int]
    """What is in the context, by the client's names."""
    autocompact_buffer: int | None = None
    """Tokens that the client keeps free; None where it compacts only when it must."""
