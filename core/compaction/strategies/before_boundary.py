"""F5: what stands before the last compaction and was not kept by it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..changes import Intent, at, file_only
from ..plan import Harm
from .file_lines import blanked, long_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..plan import Operation
    from ..view import View

NAME: Final = "before-boundary"
LEVEL: Final = Harm.FILE_ONLY

OPT_IN: Final = True
"""Only where it is named: the summary points the model to these lines."""

_ROOTS: Final = ("/message/content", "/toolUseResult")


def find(view: View) -> Iterator[Operation]:
    """Find long texts before the last boundary; a person's words stay, and every line."""
    boundary = max((n for n, why in view.protected_lines.items() if why == "boundary"), default=0)
    sent = {each.line for each in view.blocks}
    intent = Intent(NAME, LEVEL, "a compaction took it out of the context")
    for line in long_lines(view, "user", "assistant"):
        if line.number >= boundary or line.number in sent:
            continue
        value = view.decoded_line(line.number)
        changes = {
            place: note
            for root in _ROOTS
            for place, note in blanked(at(value, root), root).items()
            if not _must_stay(value, place)
        }
        made = file_only(view, line.number, intent, line.type, changes)
        if made:
            yield made


def _must_stay(value: object, place: str) -> bool:
    """Say whether a text is a person's, a thought, a signature or a picture."""
    if not place.startswith("/message/content"):
        return False
    if place.count("/") == _OF_PROMPT:
        return True
    block = at(value, "/".join(place.split("/")[:4]))
    type_ = block.get("type") if isinstance(block, dict) else None
    said = type_ == "text" and at(value, "/type") == "user"
    return said or type_ not in {"text", "tool_use", "tool_result"} or place.endswith("/data")


_OF_PROMPT: Final = 2
"""Parts of the pointer of a content that is one text."""
