"""Where the marker stands in an agent's transcript, and what a grep over all of it says."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class Origin(StrEnum):
    """Where a marker was found, the best place first (R000-01)."""

    FINAL_ASSISTANT = "final_assistant"
    EARLIER_ASSISTANT = "earlier_assistant"
    TASK_PROMPT = "task_prompt"
    HOOK_FEEDBACK = "hook_feedback"
    TOOL_RESULT = "tool_result"
    SKILL_TEXT = "skill_text"
    INJECTED_CONTEXT = "injected_context"
    OTHER = "other"
    REQUEST_COPY = "request_copy"


_ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True)
class Place:
    """A line of an agent's transcript that holds the marker."""

    offset: int
    """In bytes."""
    origin: str
    """One of the store's MarkerOrigin."""
    message_id: str | None = None
    text: str | None = None
    """Of an assistant's line, its words."""


def origin_of(lines: Iterable[Place], final_message: str | None) -> Origin | None:
    """Name the best place at which the marker stands; None where it stands nowhere."""
    found = {_origin(place, final_message) for place in lines}
    return next((each for each in Origin if each in found), None)


def grep_passes(lines: Iterable[Place], until: int | None) -> bool:
    """Say what a grep over the whole transcript said when the agent first stopped (000-16).

    `until` is the byte offset of the first block; None where there was none.
    """
    return any(until is None or place.offset < until for place in lines)


def _origin(place: Place, final_message: str | None) -> Origin:
    if place.origin != _ASSISTANT:
        return Origin(place.origin)
    is_final = place.message_id is not None and place.message_id == final_message
    return Origin.FINAL_ASSISTANT if is_final else Origin.EARLIER_ASSISTANT
