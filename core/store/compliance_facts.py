"""Facts by which an agent's result is judged: where the marker stands, blocks, skills given."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class MarkerOrigin(StrEnum):
    """Where in an agent's transcript the marker of compressed results stands (R000-01)."""

    ASSISTANT = "assistant"
    TASK_PROMPT = "task_prompt"
    HOOK_FEEDBACK = "hook_feedback"
    TOOL_RESULT = "tool_result"
    SKILL_TEXT = "skill_text"
    INJECTED_CONTEXT = "injected_context"
    """What a hook gave the agent, often an earlier agent's result."""
    REQUEST_COPY = "request_copy"
    """The client's own record of what it sent: what stands elsewhere too."""
    OTHER = "other"


class MarkerFact(msgspec.Struct, frozen=True, array_like=True):
    """A line of an agent's transcript that holds the marker."""

    offset: int
    line: str
    """Its uuid, or its place where it has none."""
    at: int | None
    origin: MarkerOrigin
    message_id: str | None = None
    """Of an assistant's line."""
    text: str | None = None
    """Of an assistant's line: it may have been the compressed result."""


class FeedbackFact(msgspec.Struct, frozen=True, array_like=True):
    """What a hook told an agent that wanted to stop: it was blocked."""

    offset: int
    line: str
    at: int | None
    text: str


class SkillFact(msgspec.Struct, frozen=True, array_like=True):
    """A skill whose text an agent was given."""

    offset: int
    line: str
    at: int | None
    name: str
