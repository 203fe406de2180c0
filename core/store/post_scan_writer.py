"""What the jobs after a scan still have to compute, and how their results are stored."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import msgspec

from .queries.query_rows import fetch_records, in_condition
from .transcript_records import FileKind

if TYPE_CHECKING:
    from .writer import Writer


class PendingReports(msgspec.Struct, frozen=True):
    """A file with compactions of which nothing is told yet, or by older rules."""

    file_id: int
    path: str
    kind: FileKind
    session_id: str
    read_to: int  # how far the store has read it, in bytes
    boundaries: tuple[tuple[int, str], ...]  # byte offset and uuid of each


class CompactionReportRow(msgspec.Struct, frozen=True):
    """What is told of the boundary at an offset."""

    offset: int
    uuid: str
    told: str


class CompactionReportWriter:
    """The writing side of the table; it belongs to the writer's thread."""

    def __init__(self, writer: Writer) -> None:
        self._writer: Final = writer

    def pending(self, version: int) -> list[PendingReports]:
        """List the files with compactions to tell of, the one with the newest first.

        A boundary whose summary is still being written is left out, until that is there or
        the session goes on without it. One that was told of before an answer followed is told
        of again when one does: what the client attached to it is all there then.
        """
        files: dict[int, PendingReports] = {}
        for (
            file_id,
            path,
            kind,
            session_id,
            read_to,
            offset,
            uuid,
        ) in self._writer.connection.execute(_PENDING_REPORTS, [version]):
            found = files.get(file_id)
            places = (*(found.boundaries if found else ()), (offset, uuid))
            files[file_id] = PendingReports(
                file_id, path, FileKind(kind), session_id, read_to, places
            )
        return list(files.values())

    def save(self, file_id: int, version: int, rows: Iterable[CompactionReportRow]) -> None:
        """Keep what is told, unless the boundary went meanwhile or newer rules told of it."""
        with self._writer.transaction():
            self._writer.connection.executemany(
                _SAVE_REPORT,
                [
                    {"file_id": file_id, "version": version} | msgspec.structs.asdict(row)
                    for row in rows
                ],
            )


_HAS_LATER_LINES: Final = """(
    EXISTS (SELECT 1 FROM response r WHERE r.file_id = {0}.file_id AND r.offset > {0}.offset)
    OR EXISTS (SELECT 1 FROM boundary n WHERE n.file_id = {0}.file_id AND n.offset > {0}.offset))"""

_PENDING_REPORTS: Final = f"""
SELECT f.file_id, f.path, f.kind, f.session_id, f.offset, b.offset, b.uuid
FROM boundary b JOIN file f USING (file_id)
LEFT JOIN compaction_told t ON t.file_id = b.file_id AND t.offset = b.offset
WHERE COALESCE(t.version, -1) < 2 * ? + {_HAS_LATER_LINES.format("b")} AND f.gone = 0 AND (
    EXISTS (SELECT 1 FROM summary s
        WHERE s.file_id = b.file_id AND s.kind = 'boundary' AND s.offset > b.offset)
    OR {_HAS_LATER_LINES.format("b")})
ORDER BY b.at DESC, f.path, b.offset DESC
"""

# Rules of one version tell twice at the most: before an answer, and for good.
_SAVE_REPORT: Final = f"""
INSERT INTO compaction_told (file_id, offset, version, told)
SELECT :file_id, b.offset, 2 * :version + {_HAS_LATER_LINES.format("b")}, :told FROM boundary b
WHERE b.file_id = :file_id AND b.offset = :offset AND b.uuid = :uuid
ON CONFLICT DO UPDATE SET version = excluded.version, told = excluded.told
    WHERE excluded.version > compaction_told.version
"""


class UnansweredCompaction(msgspec.Struct, frozen=True):
    """A file whose last compaction no answer follows, and that was not estimated as it is now."""

    file_id: int
    path: str  # below projects/
    kind: FileKind
    session_id: str
    read_to: int  # how far the store has read it, in bytes
    offset: int  # of the boundary, in bytes
    post_tokens: int | None


class NextContextWriter:
    """The writing side of the table; it belongs to the writer's thread."""

    def __init__(self, writer: Writer) -> None:
        self._writer: Final = writer

    def pending(self, session_ids: Iterable[str] | None = None) -> list[UnansweredCompaction]:
        """List the files to estimate, of all sessions or of those named."""
        where, values = in_condition("f.session_id", session_ids)
        rows = self._writer.connection.execute(_UNANSWERED.format(where=where), values)
        return [
            UnansweredCompaction(row[0], row[1], FileKind(row[2]), row[3], row[4], row[5], row[6])
            for row in rows
        ]

    def save(self, found: Iterable[tuple[UnansweredCompaction, int | None]]) -> None:
        """Keep estimates in tokens."""
        rows = [(each.file_id, each.offset, each.read_to, tokens) for each, tokens in found]
        with self._writer.transaction():
            self._writer.connection.executemany(_SAVE_NEXT_CONTEXT, rows)

    def delete_answered(self) -> None:
        """Forget the estimates that an answer has overtaken; most of the time there is none."""
        if self._writer.connection.execute(f"SELECT 1 {_FROM_ANSWERED} LIMIT 1").fetchone():
            with self._writer.transaction():
                self._writer.connection.execute(f"DELETE {_FROM_ANSWERED}")


_HAS_ANSWER: Final = """EXISTS (SELECT 1 FROM response r JOIN file o USING (file_id)
    WHERE r.file_id = {file_id} AND r.offset > {offset}
    AND (r.sidechain = 0 OR o.kind = 'agent'))"""

_UNANSWERED: Final = """
SELECT f.file_id, f.path, f.kind, f.session_id, f.offset, b.offset, b.post_tokens
FROM boundary b JOIN file f USING (file_id)
LEFT JOIN compaction_left l ON l.file_id = b.file_id
WHERE {where} AND f.gone = 0 AND (l.offset IS NOT b.offset OR l.read_to <> f.offset)
AND b.offset = (SELECT MAX(x.offset) FROM boundary x WHERE x.file_id = b.file_id)
AND NOT """ + _HAS_ANSWER.format(file_id="b.file_id", offset="b.offset")

_FROM_ANSWERED: Final = "FROM compaction_left WHERE " + _HAS_ANSWER.format(
    file_id="compaction_left.file_id", offset="compaction_left.offset"
)

_SAVE_NEXT_CONTEXT: Final = """
INSERT OR REPLACE INTO compaction_left (file_id, offset, read_to, tokens) VALUES (?, ?, ?, ?)
"""


class UnmeasuredSave(msgspec.Struct, frozen=True):
    """A block of a Stop hook of which it is not known yet, or not for good, what it cost."""

    file_id: int
    path: str
    session_id: str
    read_to: int  # how far the store has read the file, in bytes
    offset: int
    model: str | None  # of the last answer before it
    before_tokens: int | None  # what that answer saw and wrote, where no compaction lies between


class SaveNoiseWriter:
    """The writing side of the table; it belongs to the writer's thread."""

    def __init__(self, writer: Writer) -> None:
        self._writer: Final = writer

    def pending(self, version: int) -> list[UnmeasuredSave]:
        """List the blocks to measure, the newest first: new, open and grown, or by older rules."""
        return fetch_records(UnmeasuredSave, self._writer.connection, _UNMEASURED, [version])

    def save(
        self, block: UnmeasuredSave, version: int, noise: str | None, *, is_final: bool
    ) -> None:
        """Keep what was measured, unless the block went meanwhile."""
        with self._writer.transaction():
            self._writer.connection.execute(
                _SAVE_NOISE,
                {
                    "file_id": block.file_id,
                    "offset": block.offset,
                    "version": version,
                    "read_to": block.read_to,
                    "closed": is_final,
                    "noise": noise,
                },
            )


_ANSWER_BEFORE: Final = """FROM response r WHERE r.file_id = b.file_id AND r.offset < b.offset
    AND r.sidechain = 0 ORDER BY r.offset DESC LIMIT 1"""

_UNMEASURED: Final = f"""
SELECT f.file_id, f.path, f.session_id, f.offset AS read_to, b.offset,
    (SELECT r.model {_ANSWER_BEFORE}) AS model,
    (SELECT IIF(EXISTS (SELECT 1 FROM boundary c WHERE c.file_id = b.file_id
            AND c.offset BETWEEN r.offset AND b.offset),
        NULL, r.context_tokens + COALESCE(r.last_output_tokens, r.output_tokens))
        {_ANSWER_BEFORE}) AS before_tokens
FROM stop_block b JOIN file f USING (file_id)
LEFT JOIN save_noise n ON n.file_id = b.file_id AND n.offset = b.offset
WHERE f.gone = 0 AND (n.version IS NULL OR n.version < ?
    OR (n.closed = 0 AND n.read_to <> f.offset))
ORDER BY b.at DESC, f.path, b.offset DESC
"""

_SAVE_NOISE: Final = """
INSERT INTO save_noise (file_id, offset, version, read_to, closed, noise)
SELECT :file_id, :offset, :version, :read_to, :closed, :noise WHERE EXISTS (
    SELECT 1 FROM stop_block WHERE file_id = :file_id AND offset = :offset)
ON CONFLICT DO UPDATE SET version = excluded.version, read_to = excluded.read_to,
    closed = excluded.closed, noise = excluded.noise
    WHERE excluded.version >= save_noise.version
"""
