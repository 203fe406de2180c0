"""F1: what a tool said while it ran."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..changes import Intent, at, file_only
from ..plan import Harm
from .file_lines import blanked, long_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..plan import Operation
    from ..view import View

NAME: Final = "progress-payloads"
LEVEL: Final = Harm.FILE_ONLY


def find(view: View) -> Iterator[Operation]:
    """Find the payloads of progress lines; the lines stay, for others hang on them."""
    intent = Intent(NAME, LEVEL, "the result says what came of it")
    for line in long_lines(view, "progress"):
        changes = blanked(at(view.decoded_line(line.number), "/data"), "/data")
        made = file_only(view, line.number, intent, line.type, changes)
        if made:
            yield made
