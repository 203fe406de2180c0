"""L3: a reminder or attachment that was put in again with the same words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...conversation import PieceKind
from ..changes import Intent, replace_text, text_of
from ..plan import Harm
from ..stubs import SHORTEST_CHARS, is_worth, pointer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..plan import Operation
    from ..view import Slot, View

NAME: Final = "repeated-attachments"
LEVEL: Final = Harm.LOSSLESS

_OPENING: Final = "<system-reminder>"
_CLOSING: Final = "</system-reminder>"


def find(view: View) -> Iterator[Operation]:
    """Find attachments that stand there again; of those that may change the newest stays."""
    stays: dict[str, Slot] = {}
    for slot in view.blocks:
        if slot.part.kind is PieceKind.ATTACHMENT and not slot.is_replaced:
            known = stays.get(slot.digest)
            if known is None or known.protected_reason is None:
                stays[slot.digest] = slot
    for slot in view.changeable_blocks():
        if slot.part.kind is not PieceKind.ATTACHMENT or slot.chars < SHORTEST_CHARS:
            continue
        other = stays[slot.digest]
        text = text_of(view, slot) if other is not slot else None
        if text is None:
            continue
        short = _set_apart(text, pointer(text, "the same text is attached elsewhere here"))
        if not is_worth(text, short):
            continue
        intent = Intent(NAME, LEVEL, f"the same text stands at line {other.line}")
        made = replace_text(view, slot, intent, short)
        if made:
            yield made


def _set_apart(text: str, short: str) -> str:
    """Keep the tags around a reminder: without them it reads as what a tool or a person said."""
    held = text.strip().startswith(_OPENING) and text.strip().endswith(_CLOSING)
    return f"{_OPENING}\n{short}\n{_CLOSING}" if held else short
