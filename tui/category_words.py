"""What each category of a context is, and what can be done about it, in a sentence."""

from __future__ import annotations

from typing import Final

from ..core.composition_kinds import Category

MEANINGS: Final[dict[str, str]] = {
    Category.SYSTEM_PROMPT: "What the client tells the model before anything else.",
    Category.SYSTEM_TOOLS: "The descriptions of the client's own tools.",
    Category.MCP_TOOLS: "The descriptions of MCP servers' tools: a server that is not needed costs"
    " its tokens with every request.",
    Category.OVERHEAD: "What stands before the conversation; the transcript tells no more of it"
    " than its size.",
    Category.MCP_INSTRUCTIONS: "What MCP servers say of themselves.",
    Category.MEMORY: "CLAUDE.md and what it includes: read again after each compaction.",
    Category.SKILLS: "The list of skills, and those that were called.",
    Category.AGENT_LISTINGS: "The list of agents that can be started.",
    Category.ATTACHMENTS: "What the client put in by itself: files, diagnostics, reminders.",
    Category.HOOKS: "What hooks added.",
    Category.SUMMARIES: "What compactions kept.",
    Category.USER_TEXT: "Your words, and what the client said in your place.",
    Category.ASSISTANT_TEXT: "The model's words.",
    Category.THINKING: "The model's thinking, as far as it is sent again.",
    Category.TOOL_INPUTS: "What the model asked of its tools: commands, edits, whole files that"
    " it wrote.",
    Category.TOOL_RESULTS: "What the tools gave back. The old ones can mostly go: c compacts.",
    Category.AGENT_RETURNS: "What agents gave back: small where they compress their results.",
    Category.UNEXPLAINED: "Measured by the API, and of nothing that the transcript holds.",
}
"""By the category's name."""
