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
    from .finding import Touch

NAME: Final = "unchanged-reads"
LEVEL: Final = Harm.LOSSLESS

LOOKED_AT: Final = 2
"""Newest Reads whose text is compared: a file may be read hundreds of times."""


def find(view: View) -> Iterator[Operation]:
    """Find Reads that a later Read of the same lines repeats, with nothing changed."""
    for touched in touches(view).values():
        for number, touch in enumerate(touched):
            if touch.tool != "Read" or not may_change(view, touch.result):
                continue
            text = text_of(view, touch.result) or ""
            short = pointer(text, "unchanged in a later Read of this file")
            shown = [each for each in touched[number + 1 :] if each.covers_read(touch)]
            if not shown or not is_worth(text, short):
                continue
            # The newest one is the one that stays.
            later = next(
                (each for each in shown[: -LOOKED_AT - 1 : -1] if _holds(view, each, text)), None
            )
            if later is None:
                continue
            why = f"read again unchanged at line {later.result.line}"
            made = replace_result(view, touch.result, Intent(NAME, LEVEL, why), short)
            if made:
                yield made


def _holds(view: View, later: Touch, text: str) -> bool:
    return text.rstrip() in (text_of(view, later.result) or "")
