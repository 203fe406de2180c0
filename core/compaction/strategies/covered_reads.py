"""S1: a Read whose lines were read again later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..changes import Intent, replace_result, text_of
from ..notes import overtaken
from ..plan import Harm
from ..stubs import is_worth
from .finding import may_change, touches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..plan import Operation
    from ..view import View

NAME: Final = "covered-reads"
LEVEL: Final = Harm.SUPERSEDED


def find(view: View) -> Iterator[Operation]:
    """Find Reads of lines that a later Read gives as they were then."""
    for touched in touches(view).values():
        for number, touch in enumerate(touched):
            if touch.tool != "Read" or not may_change(view, touch.result):
                continue
            later = next((each for each in touched[number + 1 :] if each.covers_read(touch)), None)
            if later is None:
                continue
            text = text_of(view, touch.result) or ""
            short = overtaken(view, text, "old: these lines were read again later")
            why = f"read again at line {later.result.line}"
            intent = Intent(NAME, LEVEL, why)
            made = is_worth(text, short) and replace_result(view, touch.result, intent, short)
            if made:
                yield made
