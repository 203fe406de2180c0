"""F2: copies of files that the client takes for its rewind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..changes import Intent, at, file_only
from ..plan import Harm
from .file_lines import blanked, long_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..plan import Operation
    from ..view import View

NAME: Final = "file-history"
LEVEL: Final = Harm.FILE_ONLY

OPT_IN: Final = True
"""Only where it is named: what it takes is a way back."""


def find(view: View) -> Iterator[Operation]:
    """Find long texts in snapshots of files; rewinding over them is lost."""
    intent = Intent(NAME, LEVEL, "an old copy of a file")
    for line in long_lines(view, "file-history-snapshot", "file-history-delta"):
        changes = blanked(at(view.decoded_line(line.number), "/snapshot"), "/snapshot")
        made = file_only(view, line.number, intent, line.type, changes)
        if made:
            yield made
