"""S5: what calls were given that failed some turns ago."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..changes import Intent, input_of, replace_inputs, strings
from ..notes import overtaken
from ..plan import Harm
from ..stubs import is_worth
from .finding import inputs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..plan import Operation
    from ..view import View

NAME: Final = "failed-inputs"
LEVEL: Final = Harm.SUPERSEDED

TURNS: Final = 4
"""A call that failed so many answers ago was tried in another way since (DCP purgeErrors)."""

_KEPT: Final = ("path", "url")
"""Ends of the names of fields that stay: the client reads files' paths when it loads."""


def find(view: View) -> Iterator[Operation]:
    """Find the long texts in the inputs of calls that failed; the error itself stays."""
    turns = _turns(view)
    newest = max(turns.values(), default=0)
    for slot in inputs(view):
        result = view.result_of(slot)
        if result is None or not result.part.failed or newest - turns[slot.index] < TURNS:
            continue
        shorter = {
            name: short
            for name, text in strings(input_of(view, slot), "")
            if not name.endswith(_KEPT)
            and is_worth(text, short := overtaken(view, text, "this call failed, see its result"))
        }
        intent = Intent(NAME, LEVEL, f"the call failed at line {result.line}")
        made = replace_inputs(view, slot, intent, shorter)
        if made:
            yield made


def _turns(view: View) -> dict[int, int]:
    """Number the answers, by the place of each of their pieces."""
    numbers: dict[str | None, int] = {}
    found = {}
    for slot in view.blocks:
        answer = slot.entry.message_id
        if answer is not None:
            found[slot.index] = numbers.setdefault(answer, len(numbers))
    return found
