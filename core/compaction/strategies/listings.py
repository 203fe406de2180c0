"""M2: old listings and searches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..changes import Intent
from ..plan import Harm
from .finding import LISTINGS, results
from .masking import mask

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..plan import Operation
    from ..view import View

NAME: Final = "old-listings"
LEVEL: Final = Harm.MASKED


def find(view: View) -> Iterator[Operation]:
    """Find old results of these tools; a digest of their names stays."""
    for slot in results(view, LISTINGS):
        made = mask(
            view, slot, Intent(NAME, LEVEL, "a listing that is old"), "Search again for more."
        )
        if made:
            yield made
