"""What the jobs after a scan still have to compute, and how their results are stored."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import msgspec

from ..model.transcript_records import FileKind
from .queries.query_rows import PROJECT_ROOT, SessionIds, fetch_records, in_condition
from .writer import Writer

if TYPE_CHECKING:
    from ..measure.text_context import CountedText


class PendingFile(msgspec.Struct, frozen=True):
    """A transcript that a job is to read."""

    file_id: int
    path: str  # below projects/
    kind: FileKind
    session_id: str
    read_to: int  # how far the store has read it, in bytes


class PendingReports(PendingFile, frozen=True):
    """A file with compactions that are not reported yet, or only by older rules."""

    boundaries: tuple[tuple[int, str], ...]  # byte offset and uuid of each


def pending_reports(writer: Writer, version: int) -> list[PendingReports]:
    """List the files with unreported compactions, the one with the newest first.

    A boundary whose summary is still being written is left out until the summary is there or
    the session continues without it. A boundary that was reported before an answer followed is
    reported again when one does: by then everything that the client attached to it is there.
    """
    files: dict[int, PendingReports] = {}
    sql = f"""SELECT f.file_id, f.path, f.kind, f.session_id, f.offset, b.offset, b.uuid
        FROM boundary b JOIN file f USING (file_id)
        LEFT JOIN compaction_told t ON t.file_id = b.file_id AND t.offset = b.offset
        WHERE COALESCE(t.version, -1) < 2 * ? + {_HAS_LATER_LINES.format("b")} AND f.gone = 0 AND (
            EXISTS (SELECT 1 FROM summary s
                WHERE s.file_id = b.file_id AND s.kind = 'boundary' AND s.offset > b.offset)
            OR {_HAS_LATER_LINES.format("b")})
        ORDER BY b.at DESC, f.path, b.offset DESC"""
    for *file, offset, uuid in writer.connection.execute(sql, [version]):
        file_id, path, kind, session_id, read_to = file
        earlier = files[file_id].boundaries if file_id in files else ()
        files[file_id] = PendingReports(
            file_id, path, FileKind(kind), session_id, read_to, (*earlier, (offset, uuid))
        )
    return list(files.values())


def save_reports(
    writer: Writer, file_id: int, version: int, reports: Iterable[tuple[int, str, str]]
) -> None:
    """Save reports, each with its boundary's offset and uuid.

    Left out are those whose boundary is gone or was reported by newer rules.
    """
    with writer.transaction():
        # Rules of one version report a boundary at most twice: before an answer, and for good.
        sql = f"""INSERT INTO compaction_told (file_id, offset, version, told)
            SELECT ?1, b.offset, 2 * ?2 + {_HAS_LATER_LINES.format("b")}, ?5 FROM boundary b
            WHERE b.file_id = ?1 AND b.offset = ?3 AND b.uuid = ?4
            ON CONFLICT DO UPDATE SET version = excluded.version, told = excluded.told
                WHERE excluded.version > compaction_told.version"""
        writer.connection.executemany(sql, [(file_id, version, *report) for report in reports])


_HAS_LATER_LINES: Final = """(
    EXISTS (SELECT 1 FROM response r WHERE r.file_id = {0}.file_id AND r.offset > {0}.offset)
    OR EXISTS (SELECT 1 FROM boundary n WHERE n.file_id = {0}.file_id AND n.offset > {0}.offset))"""


class UnansweredCompaction(PendingFile, frozen=True):
    """A file whose last compaction has no answer yet and no up-to-date estimate."""

    offset: int  # of the boundary, in bytes
    post_tokens: int | None


def unanswered_compactions(
    writer: Writer, session_ids: SessionIds = None
) -> list[UnansweredCompaction]:
    where, values = in_condition("f.session_id", session_ids)
    rows = writer.connection.execute(_UNANSWERED.format(where=where), values)
    return [
        UnansweredCompaction(file_id, path, FileKind(kind), *rest)
        for file_id, path, kind, *rest in rows
    ]


def save_next_contexts(
    writer: Writer, estimates: Iterable[tuple[UnansweredCompaction, int | None]]
) -> None:
    rows = [(each.file_id, each.offset, each.read_to, tokens) for each, tokens in estimates]
    with writer.transaction():
        writer.connection.executemany(
            "INSERT OR REPLACE INTO compaction_left (file_id, offset, read_to, tokens)"
            " VALUES (?, ?, ?, ?)",
            rows,
        )


def delete_answered_estimates(writer: Writer) -> None:
    """Delete the estimates that an answer replaced; most of the time there are none."""
    if writer.connection.execute(f"SELECT 1 {_FROM_ANSWERED} LIMIT 1").fetchone():
        with writer.transaction():
            writer.connection.execute(f"DELETE {_FROM_ANSWERED}")


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


class UnmeasuredSave(msgspec.Struct, frozen=True):
    """A block of a Stop hook whose cost is not known yet, or not finally."""

    file_id: int
    path: str
    session_id: str
    read_to: int  # how far the store has read the file, in bytes
    offset: int
    model: str | None  # of the last answer before it
    before_tokens: int | None  # that answer's context and output; None if compacted since


def unmeasured_saves(writer: Writer, version: int) -> list[UnmeasuredSave]:
    """List the blocks to measure, newest first: new, grown while open, or by older rules."""
    sql = f"""SELECT f.file_id, f.path, f.session_id, f.offset AS read_to, b.offset,
            (SELECT r.model {_ANSWER_BEFORE}) AS model,
            (SELECT IIF(EXISTS (SELECT 1 FROM boundary c WHERE c.file_id = b.file_id
                    AND c.offset BETWEEN r.offset AND b.offset),
                NULL, r.context_tokens + COALESCE(r.last_output_tokens, r.output_tokens))
                {_ANSWER_BEFORE}) AS before_tokens
        FROM stop_block b JOIN file f USING (file_id)
        LEFT JOIN save_noise n ON n.file_id = b.file_id AND n.offset = b.offset
        WHERE f.gone = 0 AND (n.version IS NULL OR n.version < ?
            OR (n.closed = 0 AND n.read_to <> f.offset))
        ORDER BY b.at DESC, f.path, b.offset DESC"""
    return fetch_records(UnmeasuredSave, writer.connection, sql, [version])


def save_noise(
    writer: Writer, block: UnmeasuredSave, version: int, noise: str | None, *, is_final: bool
) -> None:
    """Save what was measured, unless the block is gone."""
    with writer.transaction():
        sql = """INSERT INTO save_noise (file_id, offset, version, read_to, closed, noise)
            SELECT ?1, ?2, ?3, ?4, ?5, ?6 WHERE EXISTS (
                SELECT 1 FROM stop_block WHERE file_id = ?1 AND offset = ?2)
            ON CONFLICT DO UPDATE SET version = excluded.version, read_to = excluded.read_to,
                closed = excluded.closed, noise = excluded.noise
                WHERE excluded.version >= save_noise.version"""
        place = (block.file_id, block.offset)
        writer.connection.execute(sql, (*place, version, block.read_to, is_final, noise))


_ANSWER_BEFORE: Final = """FROM response r WHERE r.file_id = b.file_id AND r.offset < b.offset
    AND r.sidechain = 0 ORDER BY r.offset DESC LIMIT 1"""


class TextFile(PendingFile, frozen=True):
    project_root: str | None  # where its session began
    is_unreported: bool  # the API reported no tokens for any answer of some model


class TextCountRow(msgspec.Struct, frozen=True):
    """How far a file's text was counted by a rule; offsets in bytes."""

    counted_to: int  # how far the store had read the file then
    offset: int  # where to count on
    tokens_before: int  # what the model sees before that


def text_files(writer: Writer, session_ids: SessionIds = None) -> list[TextFile]:
    """List the transcripts of all or some sessions, the newest first."""
    where, values = in_condition("f.session_id", session_ids)
    sql = f"""SELECT f.file_id, f.path, f.kind, f.session_id, f.offset,
            {PROJECT_ROOT.format(session="s")},
            EXISTS (SELECT 1 FROM model_use u WHERE u.file_id = f.file_id AND u.peak_tokens = 0)
        FROM file f
        LEFT JOIN session s ON s.file_id = (SELECT o.file_id FROM file o
            WHERE o.session_id = f.session_id AND o.kind = 'session' ORDER BY o.gone LIMIT 1)
        WHERE f.kind IN ('{FileKind.SESSION}', '{FileKind.AGENT}') AND f.gone = 0 AND {where}
        ORDER BY f.mtime_ns DESC, f.path"""
    return [
        TextFile(file_id, path, FileKind(kind), *rest)
        for file_id, path, kind, *rest in writer.connection.execute(sql, values)
    ]


def has_unreported_usage(writer: Writer) -> bool:
    sql = "SELECT EXISTS (SELECT 1 FROM model_use WHERE peak_tokens = 0)"
    return bool(writer.connection.execute(sql).fetchone()[0])


def text_counts(
    writer: Writer, session_ids: SessionIds, rules: Iterable[str]
) -> dict[tuple[int, str], TextCountRow]:
    """Return how far the files of all or some sessions were counted, by file id and rule."""
    by_rule, rule_names = in_condition("p.rule", rules)
    where, session_names = in_condition("f.session_id", session_ids)
    sql = f"""SELECT p.file_id, p.rule, p.read_to, p.offset, p.tokens_before
        FROM context_text_progress p JOIN file f USING (file_id) WHERE {by_rule} AND {where}"""
    rows = writer.connection.execute(sql, [*rule_names, *session_names])
    return {(file_id, rule): TextCountRow(*rest) for file_id, rule, *rest in rows}


def save_counted_text(writer: Writer, file: TextFile, rule: str, counted: CountedText) -> None:
    """Save what was counted of a file, unless another ctxtop has read more of it meanwhile."""
    db, progress = writer.connection, counted.progress
    with writer.transaction():
        row = db.execute("SELECT offset FROM file WHERE file_id = ?", [file.file_id]).fetchone()
        if row is None or row[0] != file.read_to:
            return
        db.execute(
            "DELETE FROM context_text WHERE file_id = ? AND rule = ? AND offset >= ?",
            [file.file_id, rule, counted.begins_at],
        )
        db.executemany(
            "INSERT INTO context_text (file_id, rule, offset, tokens) VALUES (?, ?, ?, ?)",
            [(file.file_id, rule, offset, tokens) for offset, tokens in counted.sizes],
        )
        db.execute(
            "INSERT OR REPLACE INTO context_text_progress"
            " (file_id, rule, read_to, offset, tokens_before) VALUES (?, ?, ?, ?, ?)",
            [file.file_id, rule, file.read_to, progress.offset, progress.tokens_before],
        )
