"""L1: the same result twice: the older ones point to the one that stays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...conversation import PieceKind
from ..changes import Intent, replace_result, text_of
from ..plan import Harm
from ..stubs import is_worth, pointer
from .finding import results

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..plan import Operation
    from ..view import Slot, View

NAME: Final = "duplicate-results"
LEVEL: Final = Harm.LOSSLESS


def find(view: View) -> Iterator[Operation]:
    """Find results whose whole text stands in another result that stays."""
    stays = _stays(view)
    for slot in results(view):
        other = stays[slot.digest]
        if other is slot:
            continue
        text = text_of(view, slot) or ""
        where = "later" if other.index > slot.index else "earlier"
        short = pointer(text, f"same text as the {where} {other.part.name} result")
        if not is_worth(text, short):
            continue
        intent = Intent(NAME, LEVEL, f"the same text stands at line {other.line}")
        made = replace_result(view, slot, intent, short)
        if made:
            yield made


def _stays(view: View) -> dict[str, Slot]:
    """Choose of equal results the one that stays: a protected one, or else the newest."""
    found: dict[str, Slot] = {}
    for slot in view.blocks:
        if slot.is_replaced or not slot.call_id or slot.part.kind is PieceKind.TOOL_INPUT:
            continue
        known = found.get(slot.digest)
        if known is None or known.protected_reason is None or slot.protected_reason is not None:
            found[slot.digest] = slot
    return found
