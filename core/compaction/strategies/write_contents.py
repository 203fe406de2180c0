"""I1: what a Write was given: the file has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..changes import Intent, input_of, replace_inputs
from ..notes import note
from ..plan import Harm
from ..stubs import is_worth
from .finding import inputs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..plan import Operation
    from ..view import View

NAME: Final = "write-contents"
LEVEL: Final = Harm.INPUTS


def find(view: View) -> Iterator[Operation]:
    """Find the contents of files that were written; their names stay, and the path."""
    for slot in inputs(view, frozenset({"Write"})):
        text = input_of(view, slot).get("content")
        if not isinstance(text, str):
            continue
        path = slot.part.path or "a file"
        short = note(view, text, f"content written to {path}", "Read the file.", path)
        if not is_worth(text, short):
            continue
        intent = Intent(NAME, LEVEL, "the file holds what was written")
        made = replace_inputs(view, slot, intent, {"/content": short})
        if made:
            yield made
