"""Answers that the API refused, as the client writes them down."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ...core.store.facts import ErrorFact
from ..clean import clean_title
from .lines import decode_blocks, decode_value

if TYPE_CHECKING:
    from .lines import Block, Line

TOO_LONG: Final = "too_long"
"""Kind of a refusal because the prompt is larger than the window."""

# Seen on 2.1.329: "prompt is too long: 210000 tokens > 200000 maximum".
_TOO_LONG: Final = re.compile(
    r"prompt is too long(?:: (?P<prompt>\d{1,12}) tokens > (?P<limit>\d{1,12}) maximum)?",
    re.IGNORECASE,
)


def read_refusal(offset: int, line: Line, at: int | None) -> ErrorFact | None:
    """Read an API error's line; None for another text that the client made up."""
    if not line.is_api_error_message:
        return None
    shown = " ".join(block.text or "" for block in _content(line) if block.type == "text")
    details = decode_value(line.error_details)
    detail = clean_title(details if isinstance(details, str) else shown)
    found = _TOO_LONG.search(f"{details} {shown}")
    if found:
        sizes = _number(found, "prompt"), _number(found, "limit")
        return ErrorFact(offset, at, TOO_LONG, detail, line.uuid, *sizes)
    error = decode_value(line.error)
    return ErrorFact(offset, at, clean_title(str(error or "unknown")), detail, line.uuid)


def _content(line: Line) -> list[Block]:
    return decode_blocks(line.message.content) if line.message else []


def _number(found: re.Match[str], name: str) -> int | None:
    return int(found[name]) if found[name] else None
