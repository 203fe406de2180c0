"""P1: old words of the model: what it decided, found and named stays."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ...conversation import PieceKind
from ...summaries.cues import CONSTRAINT, DECISION, REASON
from ..changes import Intent, replace_text, text_of
from ..notes import note
from ..plan import Harm
from ..stubs import SHORTEST_CHARS, is_worth

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..plan import Operation
    from ..view import View

NAME: Final = "old-prose"
LEVEL: Final = Harm.PROSE

_SENTENCE: Final = re.compile(r"[^\n]+?(?:[.!?](?=\s)|$)", re.MULTILINE)
_CUES: Final = (DECISION, CONSTRAINT, REASON)


def find(view: View) -> Iterator[Operation]:
    """Find long answers; sentences that decide, forbid or give a reason stay as they are."""
    for slot in view.changeable_blocks():
        if slot.part.kind is not PieceKind.TEXT or slot.chars < SHORTEST_CHARS:
            continue
        text = text_of(view, slot) or ""
        kept = extract(text)
        short = f"{kept}\n{note(view, text, 'the rest of this answer', '', kept)}"
        if not is_worth(text, short):
            continue
        intent = Intent(NAME, LEVEL, "words that are old: decisions and names stay")
        made = replace_text(view, slot, intent, short)
        if made:
            yield made


def extract(text: str) -> str:
    """Keep the first sentence and those with a cue."""
    sentences = [found[0].strip() for found in _SENTENCE.finditer(text) if found[0].strip()]
    return "\n".join(
        each
        for number, each in enumerate(sentences)
        if number == 0 or any(cue.search(each) for cue in _CUES)
    )
