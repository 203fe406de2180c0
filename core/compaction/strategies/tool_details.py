"""F4: long texts in `toolUseResult`, which the client shows and never sends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..changes import Intent, at, file_only
from ..plan import Harm
from .file_lines import blanked, long_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..plan import Operation
    from ..view import View

NAME: Final = "tool-details"
LEVEL: Final = Harm.FILE_ONLY

_ROOT: Final = "/toolUseResult"

_STATES: Final = frozenset({"agentId", "newTodos", "oldTodos", "plan", "filePlan", "task", "tasks"})
"""Fields of results that the client goes on from: an agent's, the todos', a plan's (2.6)."""

_PICTURES: Final = ("/base64", "/data")


def find(view: View) -> Iterator[Operation]:
    """Find long texts in what the client keeps of a result; its shape stays, and its keys."""
    intent = Intent(NAME, LEVEL, "the model reads the result itself, not this copy")
    for line in long_lines(view):
        details = at(view.decoded_line(line.number), _ROOT) if line.has_result else None
        if not isinstance(details, dict) or _STATES & details.keys():
            continue
        changes = {
            place: note
            for place, note in blanked(details, _ROOT).items()
            if not place.endswith(_PICTURES)
        }
        made = file_only(view, line.number, intent, line.type, changes)
        if made:
            yield made
