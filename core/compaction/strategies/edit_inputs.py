"""I2: what an Edit took out and put in: the file has the outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..changes import Intent, input_of, replace_inputs
from ..notes import note
from ..plan import Harm
from ..stubs import is_worth
from .edit_texts import edit_texts
from .finding import EDITS, inputs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..plan import Operation
    from ..view import View

NAME: Final = "edit-inputs"
LEVEL: Final = Harm.INPUTS


def find(view: View) -> Iterator[Operation]:
    """Find the old and new texts of Edits; their names stay, and the path."""
    for slot in inputs(view, EDITS):
        shorter: dict[str, str] = {}
        for name, text in edit_texts(input_of(view, slot)):
            what = f"{name.rpartition('/')[2]} in {slot.part.path or 'a file'}"
            short = note(view, text, what, "Read the file.", "\n".join([what, *shorter.values()]))
            if is_worth(text, short):
                shorter[name] = short
        made = replace_inputs(
            view, slot, Intent(NAME, LEVEL, "the file holds the outcome"), shorter
        )
        if made:
            yield made
