"""What a compaction kept and forgot, read from its transcript."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.kept_at import Halves, halves_at
from ..core.store.request_queries import transcript
from .transcripts.conversation import entries_from

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

    from ..core.store.rows import CompactionRow


def read_halves(db: sqlite3.Connection, projects: Path, row: CompactionRow) -> Halves | None:
    """Divide what stood before a compaction; None where the transcript holds it no more.

    Raises OSError where the transcript cannot be read.
    """
    found = transcript(db, row.session_id, row.agent_id)
    if found is None:
        return None
    own = (
        entry
        for entry in entries_from(projects / found[1])
        if row.agent_id is not None or not entry.sidechain
    )
    return halves_at(own, row.uuid)
