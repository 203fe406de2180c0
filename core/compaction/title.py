"""What a fork is called: the client lists it beside the session that it comes from.

As the client's own branch command does it (2.1.329): the title that was given by hand, else the
generated one, else how the first prompt begins; and a word in brackets.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from ..conversation import PieceKind
from .files import reading

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from ..conversation import Entry

TITLE_CHARS: Final = 100
"""Of a first prompt that stands for a title (client 2.1.329)."""

_TITLES: Final = {"custom-title": "customTitle", "ai-title": "aiTitle"}
"""Types of lines, and where they say a title; the first one that there is counts."""

_TITLE_LINE: Final = re.compile(rb'\{"type":\s*"(custom-title|ai-title)"')

_COUNTED: Final = re.compile(r" \(compacted(?: (\d+))?\)$")


def fork_title(transcript: Path, entries: Sequence[Entry]) -> str | None:
    """Name a session's fork; None where nothing names the session. Raises OSError."""
    with reading(transcript) as file:
        title = _said(file) or _first_prompt(entries)
    if title is None:
        return None
    counted = _COUNTED.search(title)
    if counted is None:
        return f"{title} (compacted)"
    return f"{title[: counted.start()]} (compacted {int(counted[1] or 1) + 1})"


def title_lines(title: str | None, session_id: str) -> tuple[bytes, ...]:
    """Write the two lines by which the client learns a title: for its list, and its prompt."""
    if title is None:
        return ()
    return tuple(
        json.dumps(
            {"type": type_, name: title, "sessionId": session_id},
            ensure_ascii=False,
            separators=(",", ":"),
        ).encode("utf-8", "backslashreplace")
        + b"\n"
        for type_, name in (("custom-title", "customTitle"), ("agent-name", "agentName"))
    )


def _said(lines: Iterable[bytes]) -> str | None:
    found: dict[str, str] = {}
    for line in lines:
        if _TITLE_LINE.match(line):
            try:
                said = json.loads(line)
            except (ValueError, RecursionError):
                continue
            title = said.get(_TITLES[said["type"]])
            if isinstance(title, str) and title.strip():
                found[said["type"]] = " ".join(title.split())
    return next((found[type_] for type_ in _TITLES if type_ in found), None)


def _first_prompt(entries: Sequence[Entry]) -> str | None:
    said = (
        " ".join(piece.text.split())
        for each in entries
        for piece in each.parts
        if piece.kind is PieceKind.PROMPT and not each.sidechain
    )
    return next((text[:TITLE_CHARS].rstrip() for text in said if text), None)
