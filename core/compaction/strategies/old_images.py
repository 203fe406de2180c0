"""M5: pictures in old results."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from ...conversation import PieceKind
from ..changes import Intent, replace_images
from ..plan import Harm

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..plan import Operation
    from ..view import View

NAME: Final = "old-images"
LEVEL: Final = Harm.MASKED


def find(view: View) -> Iterator[Operation]:
    """Find results with pictures or documents; a line of text stands in each one's place."""
    intent = Intent(NAME, LEVEL, "a picture that is old")
    for slot in view.changeable_blocks():
        if slot.part.kind is PieceKind.TOOL_RESULT and slot.part.media:
            made = replace_images(view, slot, intent, _note)
            if made:
                yield made


def _note(data: str, kind: str) -> str:
    mark = hashlib.sha256(data.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"[ctxtop {mark}: {kind} left out. Read it again to see it.]"
