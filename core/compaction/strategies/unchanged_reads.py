"""L2: a Read whose text a later Read holds word for word."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..changes import Intent, replace_result, text_of
from ..plan import Harm
from ..stubs import is_worth, pointer
from .finding import may_change, touches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..plan import Operation
    from ..view import View

NAME: Final = "unchanged-reads"
LEVEL: Final = Harm.LOSSLESS


def find(view: View) -> Iterator[Operation]:
    """Find Reads that a later Read of the same lines repeats, with nothing changed."""
    for touched in touches(view).values():
        for number, touch in enumerate(touched):
            if touch.tool != "Read" or not may_change(touch.result):
                continue
            later = next((each for each in touched[number + 1 :] if each.shows(touch)), None)
            if later is None:
                continue
            text = text_of(view, touch.result) or ""
            short = pointer(text, "unchanged in a later Read of this file")
            if not is_worth(text, short) or not _holds(text_of(view, later.result), text):
                continue
            why = f"read again unchanged at line {later.result.line}"
            made = replace_result(view, touch.result, Intent(NAME, LEVEL, why), short)
            if made:
                yield made


def _holds(later: str | None, text: str) -> bool:
    return later is not None and text.rstrip() in later
