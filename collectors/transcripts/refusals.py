"""Answers that the API refused, as the client writes them down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...core.compaction.limit_errors import parse_anthropic_token_limit_error
from ...core.store.facts import ErrorFact
from ..clean import clean_title
from .lines import decode_blocks, decode_value

if TYPE_CHECKING:
    from .lines import Block, Line

TOO_LONG: Final = "too_long"
"""Kind of a refusal because the prompt is larger than the window."""


def read_refusal(offset: int, line: Line, at: int | None) -> ErrorFact | None:
    """Read an API error's line; None for another text that the client made up."""
    if not line.is_api_error_message:
        return None
    shown = " ".join(block.text or "" for block in _content(line) if block.type == "text")
    details = decode_value(line.error_details)
    detail = clean_title(details if isinstance(details, str) else shown)
    refused = parse_anthropic_token_limit_error({"details": details, "message": shown})
    if refused and refused.exceeds_window:
        sizes = refused.current_tokens, refused.max_tokens
        return ErrorFact(offset, at, TOO_LONG, detail, line.uuid, *sizes)
    error = decode_value(line.error)
    return ErrorFact(offset, at, clean_title(str(error or "unknown")), detail, line.uuid)


def _content(line: Line) -> list[Block]:
    return decode_blocks(line.message.content) if line.message else []
