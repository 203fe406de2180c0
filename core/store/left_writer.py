"""How estimates of what compactions left enter the store: one a file, until an answer comes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from .facts import FileKind
from .records import only_in

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .writer import Writer


class Unanswered(msgspec.Struct, frozen=True):
    """A file whose last compaction no answer follows, and that was not estimated as it is now."""

    file_id: int
    path: str
    """Below projects/."""
    kind: FileKind
    session_id: str
    read_to: int
    """How far the store has read it, in bytes."""
    offset: int
    """Of the boundary, in bytes."""
    post_tokens: int | None


class LeftWriter:
    """The writing side of the table; it belongs to the writer's thread."""

    def __init__(self, writer: Writer) -> None:
        self._writer: Final = writer

    def pending(self, session_ids: Iterable[str] | None = None) -> list[Unanswered]:
        """List the files to estimate, of all sessions or of those named."""
        where, values = only_in("f.session_id", session_ids)
        rows = self._writer.connection.execute(_UNANSWERED.format(where=where), values)
        return [
            Unanswered(row[0], row[1], FileKind(row[2]), row[3], row[4], row[5], row[6])
            for row in rows
        ]

    def save(self, found: Iterable[tuple[Unanswered, int | None]]) -> None:
        """Keep estimates in tokens."""
        rows = [(each.file_id, each.offset, each.read_to, tokens) for each, tokens in found]
        with self._writer.transaction():
            self._writer.connection.executemany(_SAVE, rows)

    def delete_answered(self) -> None:
        """Forget the estimates that an answer has overtaken; most of the time there is none."""
        if self._writer.connection.execute(f"SELECT 1 {_OVERTAKEN} LIMIT 1").fetchone():
            with self._writer.transaction():
                self._writer.connection.execute(f"DELETE {_OVERTAKEN}")


_ANSWERED: Final = """EXISTS (SELECT 1 FROM response r JOIN file o USING (file_id)
    WHERE r.file_id = {file_id} AND r.offset > {offset}
    AND (r.sidechain = 0 OR o.kind = 'agent'))"""

_UNANSWERED: Final = """
SELECT f.file_id, f.path, f.kind, f.session_id, f.offset, b.offset, b.post_tokens
FROM boundary b JOIN file f USING (file_id)
LEFT JOIN compaction_left l ON l.file_id = b.file_id
WHERE {where} AND f.gone = 0 AND (l.offset IS NOT b.offset OR l.read_to <> f.offset)
AND b.offset = (SELECT MAX(x.offset) FROM boundary x WHERE x.file_id = b.file_id)
AND NOT """ + _ANSWERED.format(file_id="b.file_id", offset="b.offset")

_OVERTAKEN: Final = "FROM compaction_left WHERE " + _ANSWERED.format(
    file_id="compaction_left.file_id", offset="compaction_left.offset"
)

_SAVE: Final = """
INSERT OR REPLACE INTO compaction_left (file_id, offset, read_to, tokens) VALUES (?, ?, ?, ?)
"""
