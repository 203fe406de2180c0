"""F3: who wrote which character, and the queue of prompts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..changes import Intent, at, file_only
from ..plan import Harm
from .file_lines import blanked, long_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..plan import Operation
    from ..view import View

NAME: Final = "attribution"
LEVEL: Final = Harm.FILE_ONLY

_PAYLOADS: Final = ("/snapshot", "/fileStates", "/content")


def find(view: View) -> Iterator[Operation]:
    """Find the payloads of attribution snapshots and of the queue's operations."""
    intent = Intent(NAME, LEVEL, "bookkeeping of the client, which no request holds")
    for line in long_lines(view, "attribution-snapshot", "queue-operation"):
        value = view.decoded_line(line.number)
        changes = {
            place: note
            for root in _PAYLOADS
            for place, note in blanked(at(value, root), root).items()
        }
        made = file_only(view, line.number, intent, line.type, changes)
        if made:
            yield made
