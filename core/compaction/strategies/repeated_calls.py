"""S6: a retry or poll with the same input: the newest answer counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...conversation import PieceKind
from ..changes import Intent, replace_result, text_of
from ..notes import overtaken
from ..plan import Harm
from ..stubs import is_worth
from .finding import EDITS, results, says

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..plan import Operation
    from ..view import Slot, View

NAME: Final = "repeated-calls"
LEVEL: Final = Harm.SUPERSEDED

_WRITERS: Final = EDITS | {"Write"}


def find(view: View) -> Iterator[Operation]:
    """Find results of calls that were made again later with the same input, and succeeded."""
    last: dict[tuple[str, str], Slot] = {}
    for slot in view.blocks:
        call = view.call_of(slot)
        answers = slot.part.kind is PieceKind.TOOL_RESULT and not slot.part.failed
        if call and answers and says(slot):
            last[slot.part.name, call.digest] = slot
    for slot in results(view):
        call = view.call_of(slot)
        later = last.get((slot.part.name, call.digest)) if call else None
        if later is None or later.index <= slot.index or slot.part.name in _WRITERS:
            continue
        text = text_of(view, slot) or ""
        short = overtaken(view, text, "old: the same call was made again later")
        intent = Intent(NAME, LEVEL, f"same call again at line {later.line}")
        made = is_worth(text, short) and replace_result(view, slot, intent, short)
        if made:
            yield made
