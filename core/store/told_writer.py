"""How what is told of compactions enters the store: once a boundary, by the newest rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from .facts import FileKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .writer import Writer


class Untold(msgspec.Struct, frozen=True):
    """A file with compactions of which nothing is told yet, or by older rules."""

    file_id: int
    path: str
    kind: FileKind
    session_id: str
    read_to: int
    """How far the store has read it, in bytes."""
    boundaries: tuple[tuple[int, str], ...]
    """Byte offset and uuid of each."""


class ToldRow(msgspec.Struct, frozen=True):
    """What is told of the boundary at an offset."""

    offset: int
    uuid: str
    told: str


class ToldWriter:
    """The writing side of the table; it belongs to the writer's thread."""

    def __init__(self, writer: Writer) -> None:
        self._writer: Final = writer

    def pending(self, version: int) -> list[Untold]:
        """List the files with compactions to tell of, the one with the newest first.

        A boundary whose summary is still being written is left out, until that is there or
        the session goes on without it. One that was told of before an answer followed is told
        of again when one does: what the client attached to it is all there then.
        """
        files: dict[int, Untold] = {}
        for (
            file_id,
            path,
            kind,
            session_id,
            read_to,
            offset,
            uuid,
        ) in self._writer.connection.execute(_UNTOLD, [version]):
            found = files.get(file_id)
            places = (*(found.boundaries if found else ()), (offset, uuid))
            files[file_id] = Untold(file_id, path, FileKind(kind), session_id, read_to, places)
        return list(files.values())

    def save(self, file_id: int, version: int, rows: Iterable[ToldRow]) -> None:
        """Keep what is told, unless the boundary went meanwhile or newer rules told of it."""
        with self._writer.transaction():
            self._writer.connection.executemany(
                _SAVE,
                [
                    {"file_id": file_id, "version": version} | msgspec.structs.asdict(row)
                    for row in rows
                ],
            )


_GOES_ON: Final = """(
    EXISTS (SELECT 1 FROM response r WHERE r.file_id = {0}.file_id AND r.offset > {0}.offset)
    OR EXISTS (SELECT 1 FROM boundary n WHERE n.file_id = {0}.file_id AND n.offset > {0}.offset))"""

_UNTOLD: Final = f"""
SELECT f.file_id, f.path, f.kind, f.session_id, f.offset, b.offset, b.uuid
FROM boundary b JOIN file f USING (file_id)
LEFT JOIN compaction_told t ON t.file_id = b.file_id AND t.offset = b.offset
WHERE COALESCE(t.version, -1) < 2 * ? + {_GOES_ON.format("b")} AND f.gone = 0 AND (
    EXISTS (SELECT 1 FROM summary s
        WHERE s.file_id = b.file_id AND s.kind = 'boundary' AND s.offset > b.offset)
    OR {_GOES_ON.format("b")})
ORDER BY b.at DESC, f.path, b.offset DESC
"""

# Rules of one version tell twice at the most: before an answer, and for good.
_SAVE: Final = f"""
INSERT INTO compaction_told (file_id, offset, version, told)
SELECT :file_id, b.offset, 2 * :version + {_GOES_ON.format("b")}, :told FROM boundary b
WHERE b.file_id = :file_id AND b.offset = :offset AND b.uuid = :uuid
ON CONFLICT DO UPDATE SET version = excluded.version, told = excluded.told
    WHERE excluded.version > compaction_told.version
"""
