"""All that was ever in the context of a session, through its compactions, in its order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..compaction.project import project

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..conversation import Entry


def history(entries: Sequence[Entry]) -> list[Entry]:
    """List what the model saw before each compaction and sees now, each line once.

    So no summary is ever summarised again: what it was made of is still in the file. Prompts
    that were taken back are on no way to the newest line, and are not listed.
    """
    ends = [place for place, entry in enumerate(entries) if entry.boundary]
    seen: dict[int, Entry] = {}
    for end in (*ends, len(entries)):
        for entry in project(entries[:end]):
            seen.setdefault(entry.offset, entry)
    return list(seen.values())
