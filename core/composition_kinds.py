"""Which category of a context's content a piece belongs to, and its place in that."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from .conversation import PieceKind

if TYPE_CHECKING:
    from .conversation import Piece


class Category(StrEnum):
    """What fills a context."""

    SYSTEM_PROMPT = "system prompt"
    SYSTEM_TOOLS = "system tools"
    MCP_TOOLS = "MCP tools"
    OVERHEAD = "system prompt and tools"
    """Both, where a transcript tells no more than their size."""
    MCP_INSTRUCTIONS = "MCP instructions"
    MEMORY = "memory files"
    SKILLS = "skills"
    AGENT_LISTINGS = "agent listings"
    ATTACHMENTS = "attachments"
    HOOKS = "hook additions"
    SUMMARIES = "summaries"
    USER_TEXT = "user text"
    ASSISTANT_TEXT = "assistant text"
    THINKING = "thinking"
    TOOL_INPUTS = "tool inputs"
    TOOL_RESULTS = "tool results"
    AGENT_RETURNS = "agent returns"
    UNEXPLAINED = "unexplained"


MCP_PREFIX: Final = "mcp__"
"""How the tools of MCP servers are named (claude-code-formats 2.4)."""

_ATTACHED: Final = {
    "instructions": Category.MEMORY,
    "nested_memory": Category.MEMORY,
    "skill_listing": Category.SKILLS,
    "invoked_skills": Category.SKILLS,
    "dynamic_skill": Category.SKILLS,
    "agent_listing_delta": Category.AGENT_LISTINGS,
    "mcp_instructions_delta": Category.MCP_INSTRUCTIONS,
}

_SAID: Final = {
    PieceKind.PROMPT: Category.USER_TEXT,
    PieceKind.META: Category.USER_TEXT,
    PieceKind.TEXT: Category.ASSISTANT_TEXT,
    PieceKind.THINKING: Category.THINKING,
    PieceKind.TOOL_INPUT: Category.TOOL_INPUTS,
    PieceKind.TOOL_RESULT: Category.TOOL_RESULTS,
    PieceKind.AGENT_RETURN: Category.AGENT_RETURNS,
    PieceKind.SUMMARY: Category.SUMMARIES,
}

_SKILL: Final = re.compile(r"Base directory for this skill: \S*?([\w.:@-]+)\s*$", re.MULTILINE)
"""How the body of a skill begins when it is called (client 2.1.205 and later)."""

_HOOK: Final = re.compile(r"\w+ hook feedback:|<user-prompt-submit-hook>")

LISTING: Final = "listing"


def place_of(part: Piece) -> tuple[str, ...]:
    """Name the category of a piece, then what it belongs to within it, from large to small."""
    if part.kind is PieceKind.ATTACHMENT:
        return _attached(part)
    category = _SAID[part.kind]
    if part.kind is PieceKind.META:
        return _meta(part)
    if part.kind is PieceKind.TOOL_INPUT:
        return (category, part.name)
    if part.kind is PieceKind.TOOL_RESULT:
        return _below(category, part.name, part.path)
    return (category,)


def _below(category: Category, name: str, path: str | None) -> tuple[str, ...]:
    return (category, name, path) if path else (category, name)


def tool_place(name: str) -> tuple[str, ...]:
    """Name the category of a tool's description; of an MCP server's its server, then itself."""
    if not name.startswith(MCP_PREFIX):
        return (Category.SYSTEM_TOOLS, name)
    server, _, tool = name.removeprefix(MCP_PREFIX).partition("__")
    return (Category.MCP_TOOLS, server, tool or server)


def _attached(piece: Piece) -> tuple[str, ...]:
    if piece.name.startswith(("hook_", "async_hook_")):
        return (Category.HOOKS, piece.name)
    category = _ATTACHED.get(piece.name)
    if category is None:
        return _below(Category.ATTACHMENTS, piece.name or "reminder", piece.path)
    if category is Category.MEMORY:
        return (category, piece.path or "around them")
    if category is Category.SKILLS:
        return (category, LISTING if piece.name == "skill_listing" else piece.name)
    return (category,)


def _meta(piece: Piece) -> tuple[str, ...]:
    skill = _SKILL.match(piece.text)
    if skill:
        return (Category.SKILLS, skill[1])
    if _HOOK.match(piece.text):
        return (Category.HOOKS, "feedback")
    return (Category.USER_TEXT, "said by the client")
