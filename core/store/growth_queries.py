"""What was learnt of token counts, what is still to learn from, and texts that were counted."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

import msgspec

from ..calibration import Sample
from ..content_kind import ContentKind
from ..keys import text_key
from ..text_count import KEPT_FROM_CHARS, TextCount, count_text
from .records import records

if TYPE_CHECKING:
    import sqlite3

SAMPLES_KEPT: Final = 250
"""By model, the newest: on real sessions half of them give the same factors within 1.2 %."""


class Unlearnt(msgspec.Struct, frozen=True):
    """A transcript that says more than was learnt from it; bytes."""

    file_id: int
    path: str
    """Below the folder of transcripts."""
    session_id: str
    resume_offset: int
    """Where to read on."""
    examined_to: int
    """How far it was looked at: beyond `offset` by the answer whose successor is to come."""
    size: int
    """How far it was read into the store."""


def samples(db: sqlite3.Connection) -> dict[str, list[Sample]]:
    """Give what was learnt by model, newest first; an answer that files share counts once."""
    found: dict[str, list[Sample]] = defaultdict(list)
    for model, prose, code, json, other, fixed, growth in db.execute(_SAMPLES):
        found[model].append(Sample(model, (prose, code, json, other), fixed, growth))
    return dict(found)


def unlearnt(db: sqlite3.Connection, limit: int) -> list[Unlearnt]:
    """List sessions to learn from, newest first.

    Left out is what is older than all that would be kept of its models.
    """
    return records(Unlearnt, db, _UNLEARNT, {"kept": SAMPLES_KEPT, "limit": limit})


def text_count(db: sqlite3.Connection, text: str) -> TextCount:
    """Give a text's count as it was stored; one that is not there is made now, and not stored."""
    if len(text) < KEPT_FROM_CHARS:
        return count_text(text)
    return stored_count(db, text_key(text)) or count_text(text)


def stored_count(db: sqlite3.Connection, key: int) -> TextCount | None:
    """Look up the count of a text by its key."""
    row = db.execute(
        "SELECT kind, plain, older, newer FROM text_count WHERE key = ?", [key]
    ).fetchone()
    return TextCount(ContentKind(row[0]), *row[1:]) if row else None


_SAMPLES: Final = """
SELECT model, prose, code, json, other, fixed, growth FROM growth
GROUP BY answer HAVING file_id = MIN(file_id) ORDER BY at DESC, answer
"""

_UNLEARNT: Final = """
WITH full AS MATERIALIZED (
    SELECT model, MIN(at) AS since FROM growth GROUP BY model HAVING COUNT(*) >= :kept
)
SELECT f.file_id, f.path, f.session_id, COALESCE(l.offset, 0), COALESCE(l.seen, 0), f.offset
FROM file f LEFT JOIN learnt l USING (file_id)
WHERE f.kind = 'session' AND NOT f.gone AND f.offset > COALESCE(l.seen, 0)
    AND EXISTS (
        SELECT 1 FROM model_use u LEFT JOIN full USING (model)
        WHERE u.file_id = f.file_id AND f.mtime_ns / 1000000 > COALESCE(full.since, -1))
ORDER BY f.mtime_ns DESC, f.path LIMIT :limit
"""
