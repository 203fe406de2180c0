"""S4: lists of things to do that a newer list took the place of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..changes import Intent, input_of, json_text, replace_inputs
from ..notes import overtaken
from ..plan import Harm
from ..stubs import is_stubbed, is_worth
from .finding import inputs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..plan import Operation
    from ..view import View

NAME: Final = "old-todos"
LEVEL: Final = Harm.SUPERSEDED


def find(view: View) -> Iterator[Operation]:
    """Find every TodoWrite but the last, which protection keeps."""
    for slot in inputs(view, frozenset({"TodoWrite"})):
        todos = input_of(view, slot).get("todos")
        if not isinstance(todos, list):
            continue
        text = json_text(todos)
        short = overtaken(view, text, "old: a newer list of todos follows")
        item = {"content": short, "status": "completed", "activeForm": "old"}
        if not is_worth(text, json_text([item])) or is_stubbed(text):
            continue
        intent = Intent(NAME, LEVEL, "a newer list follows")
        made = replace_inputs(view, slot, intent, {"/todos": [item]})
        if made:
            yield made
