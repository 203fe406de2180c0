"""T1: thoughts behind a change, which models that bind them refuse (rule T)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ..changes import Intent
from ..plan import Harm
from ..thoughts import drop_thoughts, thoughts_after

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..plan import Operation
    from ..view import View

NAME: Final = "thinking-after"
LEVEL: Final = Harm.REASONING

_FREE: Final = re.compile(r"claude-(?:3-|(?:opus|sonnet|haiku)-4(?:\D|$))")
"""Models known to take thoughts behind a changed text: all before the fifth generation. What
is not known binds them (compaction.md 2.5: the preserved-thinking pages name Fable 5.1 and
later, Opus, Sonnet and Haiku 5.5)."""


def binds_thinking(model: str | None) -> bool:
    """Say whether a model's thoughts hold only behind what they were thought of."""
    return model is None or _FREE.match(model) is None


def find(view: View) -> Iterator[Operation]:
    """Find nothing of its own: it follows from what others change."""
    yield from find_after(view, len(view.blocks))


def find_after(view: View, index: int) -> Iterator[Operation]:
    """Drop every thought behind a place, whole: also the newest ones, or none would hold."""
    intent = Intent(NAME, LEVEL, "bound to what stands before it, which is changed")
    made = drop_thoughts(view, thoughts_after(view, index), intent)
    if made:
        yield made
