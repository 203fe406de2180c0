"""Level 8: back to before a prompt, as a session of its own; files on disk stay as they are."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from ...conversation import PieceKind
from ..plan import Harm, Operation, Refusal, Remove

if TYPE_CHECKING:
    from ..view import Line, View

NAME: Final = "revert"
LEVEL: Final = Harm.CUT

CONVERSATION: Final = frozenset(
    {"user", "assistant", "system", "attachment", "progress", "last-prompt"}
)
"""Types of lines that go; titles, modes and the client's records of requests stay."""


def revert(view: View, line: int) -> Operation | Refusal:
    """Plan to remove a prompt and all of the conversation after it; `line` is the prompt's."""
    prompts = [
        slot.line
        for slot in view.blocks
        if slot.part.kind is PieceKind.PROMPT and slot.entry.type == "user"
    ]
    if line not in prompts:
        known = ", ".join(map(str, prompts[-5:])) or "none"
        return Refusal(
            "no_prompt", f"line {line} is no prompt that is sent", f"choose one of: {known}"
        )
    if line == prompts[0]:
        return Refusal(
            "first_prompt", "nothing would be left before the first prompt", "start a new session"
        )
    gone = [each for each in view.lines if each.number >= line and each.type in CONVERSATION]
    # Half a line follows what leaves, whatever it was to be.
    torn = [view.torn_line] if view.torn_line else []
    return Operation(
        strategy=NAME,
        level=LEVEL,
        line=line,
        kind=PieceKind.PROMPT.value,
        what=f"back to before line {line}: {len(gone)} lines leave",
        why="asked for; files on disk are not reverted",
        tokens_saved=sum(slot.tokens for slot in view.blocks if slot.line >= line),
        bytes_saved=sum(each.total_bytes for each in (*gone, *torn)),
        edits=(
            *(_removal(each, view.line_bytes(each.number)) for each in gone),
            *(_removal(each, view.torn_bytes()) for each in torn),
        ),
    )


def _removal(line: Line, data: bytes) -> Remove:
    return Remove(line.number, line.offset, hashlib.sha256(data).hexdigest())
