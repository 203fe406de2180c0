"""What an earlier compaction's summary still has to say."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ..conversation import PieceKind
from .fact import Fact, Part, fact
from .words import OPENING, read_back

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..conversation import Entry

QUOTED_CHARS: Final = 6_000
"""Of a summary of the client's own: its beginning, where it says what was asked for and why."""

_PREFACE: Final = re.compile(
    r"This session is being continued from .*?^Summary:\s*", re.DOTALL | re.M
)
_EPILOGUE: Final = "If you need specific details from before compaction"
"""What the client says around a summary of its own (2.1.170 to 2.1.329), and again each time."""


def earlier_facts(history: Sequence[Entry]) -> tuple[Fact, ...]:
    """Give what the newest earlier summary holds and nothing else does.

    Of one of ours its facts, where the lines that it was made of are gone (while they are
    there they are read themselves); one of the client's own is quoted, never summed up again,
    and matters more where it is all that is left.
    """
    for place in range(len(history) - 1, -1, -1):
        entry = history[place]
        text = next((each.text for each in entry.parts if each.kind is PieceKind.SUMMARY), None)
        if text is None:
            continue
        is_all = not any(each.role for each in history[:place] if each.offset < entry.offset)
        if text.startswith(OPENING):
            return read_back(text) if is_all else ()
        text = _PREFACE.sub("", text, count=1).partition(_EPILOGUE)[0].strip()
        clipped = text if len(text) <= QUOTED_CHARS else f"{text[:QUOTED_CHARS]}…"
        weight = 0.92 if is_all else 0.3
        return (fact(Part.EARLIER, clipped, entry.line, weight, "the client's summary"),)
    return ()
