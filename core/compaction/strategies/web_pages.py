"""M4: old pages of the web."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..changes import Intent
from ..plan import Harm
from .finding import WEB, results
from .masking import mask

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..plan import Operation
    from ..view import View

NAME: Final = "old-web-pages"
LEVEL: Final = Harm.MASKED


def find(view: View) -> Iterator[Operation]:
    """Find old results of these tools; a digest of their names stays."""
    for slot in results(view, WEB):
        made = mask(
            view, slot, Intent(NAME, LEVEL, "a page that is old"), "Fetch it again for more."
        )
        if made:
            yield made
