"""What contexts' growth showed about token counts, and the texts that were counted."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from sqlite3 import Connection
from typing import Final

import msgspec

from ..measure.token_estimate import CalibrationSample, CharactersCounter, Estimator, GrowthStep
from ..measure.tokens import CACHED_FROM_CHARS, ContentKind, PartCounter, TextCount, count_text
from ..model.counting_rule import CountingRule, TextEstimator
from ..transcript.raw_lines import text_key
from .queries.query_rows import fetch_records
from .writer import Writer

MAX_SAMPLES: Final = 250  # by model: half of them give the same factors within 1.2 %
MAX_TEXT_COUNTS: Final = 50_000  # about 2 MB, more than the newest 50 sessions hold

LearnedStep = tuple[GrowthStep, CalibrationSample]  # a step and what it showed


class UnlearnedTranscript(msgspec.Struct, frozen=True):
    """A transcript that has more to learn from; offsets in bytes."""

    file_id: int
    path: str  # below the folder of transcripts
    session_id: str
    resume_offset: int  # where to continue reading
    examined_to: int  # past `resume_offset`, by an answer that has no successor yet
    size: int  # how far it was read into the store


def read_samples(db: Connection) -> dict[str, list[CalibrationSample]]:
    """Return the samples by model, newest first; an answer that files share counts once."""
    samples: dict[str, list[CalibrationSample]] = defaultdict(list)
    sql = """SELECT model, prose, code, json, other, fixed, growth FROM growth
        GROUP BY answer HAVING file_id = MIN(file_id) ORDER BY at DESC, answer"""
    for model, *by_kind, fixed, growth in db.execute(sql):
        samples[model].append(CalibrationSample(model, tuple(by_kind), fixed, growth))
    return dict(samples)


def unlearned_transcripts(db: Connection, limit: int) -> list[UnlearnedTranscript]:
    """List sessions to learn from, newest first, except those too old for any sample to be kept."""
    sql = """WITH full AS MATERIALIZED (
            SELECT model, MIN(at) AS since FROM growth GROUP BY model HAVING COUNT(*) >= :kept
        )
        SELECT f.file_id, f.path, f.session_id, COALESCE(l.offset, 0), COALESCE(l.seen, 0), f.offset
        FROM file f LEFT JOIN learnt l USING (file_id)
        WHERE f.kind = 'session' AND NOT f.gone AND f.offset > COALESCE(l.seen, 0)
            AND EXISTS (
                SELECT 1 FROM model_use u LEFT JOIN full USING (model)
                WHERE u.file_id = f.file_id AND f.mtime_ns / 1000000 > COALESCE(full.since, -1))
        ORDER BY f.mtime_ns DESC, f.path LIMIT :limit"""
    return fetch_records(UnlearnedTranscript, db, sql, {"kept": MAX_SAMPLES, "limit": limit})


def read_estimator(db: Connection) -> Estimator:
    """Make an estimator from the samples; it uses the connection for as long as it is used."""
    return Estimator(read_samples(db), partial(_count_text_with_store, db))


def read_part_counters(
    db: Connection, counting: CountingRule
) -> Callable[[str | None], PartCounter]:
    """Return what makes the counter of a model that a policy asks for."""
    if counting.estimator is TextEstimator.TIKTOKEN:
        return read_estimator(db).for_model
    return lambda _model: CharactersCounter(counting)


def _count_text_with_store(db: Connection, text: str) -> TextCount:
    if len(text) < CACHED_FROM_CHARS:
        return count_text(text)
    return _read_text_count(db, text_key(text)) or count_text(text)


def _read_text_count(db: Connection, key: int) -> TextCount | None:
    sql = "SELECT kind, plain, older, newer FROM text_count WHERE key = ?"
    row = db.execute(sql, [key]).fetchone()
    return TextCount(ContentKind(row[0]), *row[1:]) if row else None


class SampleWriter:
    def __init__(self, writer: Writer, count: Callable[[str], TextCount] = count_text) -> None:
        self._writer: Final = writer
        self._count: Final = count
        self._new: dict[int, TextCount] = {}

    def count(self, text: str) -> TextCount:
        """Count a text that was not counted before; the next `save` stores the count."""
        if len(text) < CACHED_FROM_CHARS:
            return self._count(text)
        key = text_key(text)
        known = self._new.get(key) or _read_text_count(self._writer.connection, key)
        if known is None:
            known = self._new[key] = self._count(text)
        return known

    def save(
        self,
        source: UnlearnedTranscript,
        steps: Sequence[LearnedStep],
        offset: int,
        examined_to: int,
    ) -> bool:
        """Store what a file showed from `source.resume_offset` on, and where to continue.

        False if the file was learned from, or read again from the start, meanwhile.
        """
        db = self._writer.connection
        with self._writer.transaction():
            row = db.execute(_SELECT_PROGRESS, [source.file_id]).fetchone()
            if row is None or tuple(row) != (source.resume_offset, source.examined_to):
                return False
            db.executemany(
                f"INSERT OR REPLACE INTO growth VALUES ({', '.join('?' * 11)})",
                [_sample_row(source.file_id, *step) for step in steps],
            )
            db.execute(
                "INSERT OR REPLACE INTO learnt VALUES (?, ?, ?)",
                [source.file_id, offset, examined_to],
            )
            if steps:
                db.execute(_DELETE_OLD_SAMPLES, [MAX_SAMPLES])
            self._save_counts(db)
        return True

    def _save_counts(self, db: Connection) -> None:
        (turn,) = db.execute("SELECT COALESCE(MAX(turn), 0) + 1 FROM text_count").fetchone()
        db.executemany(
            "INSERT OR IGNORE INTO text_count VALUES (?, ?, ?, ?, ?, ?)",
            [(key, turn, *msgspec.structs.astuple(count)) for key, count in self._new.items()],
        )
        self._new.clear()
        (stored,) = db.execute("SELECT COUNT(*) FROM text_count").fetchone()
        db.execute(
            "DELETE FROM text_count WHERE key IN"
            " (SELECT key FROM text_count ORDER BY turn, key LIMIT ?)",
            [max(0, stored - MAX_TEXT_COUNTS)],
        )


def _sample_row(file_id: int, step: GrowthStep, sample: CalibrationSample) -> tuple[object, ...]:
    key = text_key(step.message_id)
    row = (file_id, step.offset, key, step.at or 0, sample.model)
    return (*row, *sample.by_kind, sample.fixed, sample.growth)


_SELECT_PROGRESS: Final = """
SELECT COALESCE(l.offset, 0), COALESCE(l.seen, 0)
FROM file f LEFT JOIN learnt l USING (file_id) WHERE f.file_id = ?
"""

_DELETE_OLD_SAMPLES: Final = """
DELETE FROM growth WHERE (file_id, offset) IN (
    SELECT file_id, offset FROM (
        SELECT file_id, offset, ROW_NUMBER() OVER (
            PARTITION BY model ORDER BY at DESC, file_id DESC, offset DESC) AS place
        FROM growth)
    WHERE place > ?)
"""
