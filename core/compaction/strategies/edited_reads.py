"""M1: an old Read of a file that was only edited since."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..changes import Intent
from ..plan import Harm
from .finding import EDITS, may_change, touches
from .masking import mask

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..plan import Operation
    from ..view import View

NAME: Final = "edited-reads"
LEVEL: Final = Harm.MASKED


def find(view: View) -> Iterator[Operation]:
    """Find Reads whose text is not the file's any more, though nothing read it again."""
    for touched in touches(view).values():
        for number, touch in enumerate(touched):
            if touch.tool != "Read" or not may_change(touch.result):
                continue
            later = next((each for each in touched[number + 1 :] if each.tool in EDITS), None)
            if later is None:
                continue
            intent = Intent(NAME, LEVEL, f"edited at line {later.result.line}")
            made = mask(view, touch.result, intent, "The file was edited since: read it again.")
            if made:
                yield made
