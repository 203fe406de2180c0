"""What the strategies share that only make the file smaller: the model sees none of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..changes import strings
from ..protect import TAIL
from ..stubs import SHORTEST_CHARS, is_stubbed, pointer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..view import Line, View

LEAST_BYTES: Final = 8_192
"""Of a line that is worth an edit (compaction.md 7.5; codeArbiter)."""


def long_lines(view: View, *types: str) -> Iterator[Line]:
    """Give the long lines of some types, or of any; none of the newest turns."""
    newest = {each.line for each in view.blocks if each.protected_reason == TAIL}
    for line in view.lines:
        if (
            line.content_bytes < LEAST_BYTES
            or line.number in view.protected_lines
            or line.number in newest
        ):
            continue
        if not types or line.type in types:
            yield line


def blanked(value: object, root: str) -> dict[str, str]:
    """Give a note for every long text inside a value, by its pointer."""
    return {
        place: pointer(text, "left out of the file")
        for place, text in strings(value, root)
        if len(text) >= SHORTEST_CHARS and not is_stubbed(text)
    }
