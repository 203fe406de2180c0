"""S3: what an Edit was given, where the whole file was read or written later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..changes import Intent, input_of, replace_inputs
from ..notes import overtaken
from ..plan import Harm
from ..stubs import is_worth
from .edit_texts import edit_texts
from .finding import EDITS, may_change, touches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..plan import Operation
    from ..view import View
    from .finding import Touch

NAME: Final = "reread-edits"
LEVEL: Final = Harm.SUPERSEDED


def find(view: View) -> Iterator[Operation]:
    """Find Edits whose outcome a later Read of the whole file shows, or a Write replaced."""
    for touched in touches(view).values():
        for number, touch in enumerate(touched):
            if touch.tool not in EDITS or not may_change(view, touch.call):
                continue
            later = next((each for each in touched[number + 1 :] if _is_whole(each)), None)
            if later is None:
                continue
            shorter = {
                name: short
                for name, text in edit_texts(input_of(view, touch.call))
                if is_worth(
                    text, short := overtaken(view, text, "old: this file was read again later")
                )
            }
            intent = Intent(NAME, LEVEL, f"its outcome stands at line {later.result.line}")
            made = replace_inputs(view, touch.call, intent, shorter)
            if made:
                yield made


def _is_whole(touch: Touch) -> bool:
    asked = touch.read_range
    whole = touch.tool == "Read" and asked.offset in {None, 0, 1} and asked.limit is None
    return whole or touch.tool == "Write"
