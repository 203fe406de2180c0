"""P2: long output that was put in a person's place; a person's own words stay."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ...conversation import PieceKind
from ..changes import Intent, replace_text, text_of
from ..notes import note
from ..plan import Harm
from ..stubs import SHORTEST_CHARS, is_worth

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..plan import Operation
    from ..view import View

NAME: Final = "long-pastes"
LEVEL: Final = Harm.PROSE

KEPT_CHARS: Final = 200
"""Of its beginning, which says what it is."""

_CLOSING: Final = re.compile(r"\s*</[\w-]+>\s*\Z")
"""The tag around an output; what follows it is the person's again."""


def find(view: View) -> Iterator[Operation]:
    """Find what commands of the client and of its shell printed into the conversation."""
    for slot in view.changeable_blocks():
        if slot.part.kind is not PieceKind.META or slot.chars < SHORTEST_CHARS:
            continue
        text = text_of(view, slot) or ""
        closing = _CLOSING.search(text)
        end = closing.start() if closing else len(text)
        kept, rest = text[:KEPT_CHARS], text[KEPT_CHARS:end]
        said = note(view, rest, "the rest of this output", "Ask for it.", kept)
        short = f"{kept}\n{said}{text[end:]}"
        intent = Intent(NAME, LEVEL, "output that is old")
        made = is_worth(text, short) and replace_text(view, slot, intent, short)
        if made:
            yield made
