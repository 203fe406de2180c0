"""Whether a session ended in a refusal that recovery can mend, and what the API said.

A request that does not fit ends as an answer that the client makes up: "Prompt is too long",
with the API's own words beside it (client 2.1.329, reference: claude-code-live, "Too long").
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...conversation import Role
from ..limit_errors import (
    LimitErrorType,
    ParsedTokenLimitError,
    parse_anthropic_token_limit_error,
)
from .run import Found

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...conversation import Entry


def mendable(error: object) -> ParsedTokenLimitError | None:
    """Read an error that recovery is for: of a request's size, or of an empty message."""
    parsed = parse_anthropic_token_limit_error(error)
    if parsed is None:
        return None
    is_empty = parsed.error_type is LimitErrorType.NON_EMPTY_CONTENT
    return parsed if is_empty or parsed.exceeds_window else None


def ended_in(entries: Sequence[Entry]) -> Entry | None:
    """Give the refusal that nothing but prompts follows; None where the session went on."""
    for entry in reversed(entries):
        if entry.boundary is not None:
            return None
        if entry.role is Role.ASSISTANT and not entry.sidechain:
            return entry if entry.hidden else None
    return None


def find_refusal(
    session_id: str, entries: Sequence[Entry], decode_line: Callable[[int], Any]
) -> Found | None:
    """Read what a session ended in; `value` decodes a line by its number.

    None where it did not end in a refusal for its size or for an empty message.
    """
    entry = ended_in(entries)
    line = decode_line(entry.line) if entry else None
    if entry is None or not isinstance(line, dict):
        return None
    said = {
        "message": "\n".join(piece.text for piece in entry.parts),
        "error": line.get("error"),
        "details": line.get("errorDetails"),
    }
    parsed = mendable(said)
    if parsed is None:
        return None
    return Found(
        session_id=session_id,
        key=entry.uuid or f"line {entry.line}",
        error_type=parsed.error_type,
        current_tokens=parsed.current_tokens,
        max_tokens=parsed.max_tokens,
        message_index=parsed.message_index,
        line=entry.line,
    )
