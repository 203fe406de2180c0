"""T2: every thought but those of an answer that is not at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..changes import Intent
from ..plan import Harm
from ..thoughts import drop_thoughts, is_open, thoughts_after

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..plan import Operation
    from ..view import View

NAME: Final = "all-thinking"
LEVEL: Final = Harm.REASONING


def find(view: View) -> Iterator[Operation]:
    """Find all thoughts; none while calls wait for the model (compaction.md 2.5, rule 2)."""
    if is_open(view):
        return
    intent = Intent(NAME, LEVEL, "thoughts of earlier turns")
    made = drop_thoughts(view, thoughts_after(view, -1), intent)
    # A model that sees no earlier turn's thoughts gains nothing.
    if made and made.tokens_saved:
        yield made
