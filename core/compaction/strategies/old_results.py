"""M6: any other old result: of Reads that nothing changed, and of unknown tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..changes import Intent
from ..plan import Harm
from .finding import LISTINGS, SHELLS, WEB, results
from .masking import mask

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..plan import Operation
    from ..view import View

NAME: Final = "old-results"
LEVEL: Final = Harm.MASKED

_OTHERS: Final = LISTINGS | SHELLS | WEB
"""Of these other strategies know more."""


def find(view: View) -> Iterator[Operation]:
    """Find results that no other strategy knows better; a digest of their names stays."""
    for slot in results(view):
        if slot.part.name in _OTHERS:
            continue
        back = "Read it again for more." if slot.part.name == "Read" else "Call it again for more."
        made = mask(view, slot, Intent(NAME, LEVEL, "a result that is old"), back)
        if made:
            yield made
