"""What the growth of contexts taught about token counts, and the texts that were counted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from ..measure.token_estimate import CalibrationSample, Estimator, GrowthStep
from ..measure.tokens import CACHED_FROM_CHARS, ContentKind, TextCount, count_text
from ..transcript.raw_lines import text_key
from .queries.query_rows import fetch_records

if TYPE_CHECKING:
    import sqlite3

    from .writer import Writer


MAX_SAMPLES: Final = 250
"""By model, the newest: on real sessions half of them give the same factors within 1.2 %."""


class UnlearnedTranscript(msgspec.Struct, frozen=True):
    """A transcript that says more than was learnt from it; bytes."""

    file_id: int
    path: str  # below the folder of transcripts
    session_id: str
    resume_offset: int  # where to read on
    examined_to: int
    """How far it was looked at: beyond `offset` by the answer whose successor is to come."""
    size: int  # how far it was read into the store


def read_samples(db: sqlite3.Connection) -> dict[str, list[CalibrationSample]]:
    """Return the samples by model, newest first; an answer that files share counts once."""
    found: dict[str, list[CalibrationSample]] = defaultdict(list)
    for model, prose, code, json, other, fixed, growth in db.execute(_SAMPLES):
        found[model].append(CalibrationSample(model, (prose, code, json, other), fixed, growth))
    return dict(found)


def unlearned_transcripts(db: sqlite3.Connection, limit: int) -> list[UnlearnedTranscript]:
    """List sessions to learn from, newest first.

    Left out is what is older than all that would be kept of its models.
    """
    return fetch_records(UnlearnedTranscript, db, _UNLEARNED, {"kept": MAX_SAMPLES, "limit": limit})


def count_text_with_store(db: sqlite3.Connection, text: str) -> TextCount:
    """Return a text's stored token count; if there is none, count it now without storing it."""
    if len(text) < CACHED_FROM_CHARS:
        return count_text(text)
    return read_text_count(db, text_key(text)) or count_text(text)


def read_text_count(db: sqlite3.Connection, key: int) -> TextCount | None:
    """Look up the count of a text by its key."""
    row = db.execute(
        "SELECT kind, plain, older, newer FROM text_count WHERE key = ?", [key]
    ).fetchone()
    return TextCount(ContentKind(row[0]), *row[1:]) if row else None


_SAMPLES: Final = """
SELECT model, prose, code, json, other, fixed, growth FROM growth
GROUP BY answer HAVING file_id = MIN(file_id) ORDER BY at DESC, answer
"""

_UNLEARNED: Final = """
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


MAX_TEXT_COUNTS: Final = 50_000
"""Counts of texts, those counted last: about 2 MB, and more than the newest 50 sessions hold."""


class LearnedStep(msgspec.Struct, frozen=True):
    """A step and what it taught."""

    step: GrowthStep
    sample: CalibrationSample


class SampleWriter:
    """The writing side of what was learnt; it belongs to the writer's thread."""

    def __init__(self, writer: Writer, count: Callable[[str], TextCount] = count_text) -> None:
        self._writer: Final = writer
        self._count: Final = count
        self._new: dict[int, TextCount] = {}

    def count(self, text: str) -> TextCount:
        """Count a text that was not counted before; it is kept from the next `save` on."""
        if len(text) < CACHED_FROM_CHARS:
            return self._count(text)
        key = text_key(text)
        found = self._new.get(key) or read_text_count(self._writer.connection, key)
        if found is None:
            found = self._new[key] = self._count(text)
        return found

    def save(
        self,
        source: UnlearnedTranscript,
        steps: Sequence[LearnedStep],
        offset: int,
        examined_to: int,
    ) -> bool:
        """Store what a file taught from `source.offset` on, and where it goes on.

        False where the file was learnt from, or began anew, elsewhere meanwhile.
        """
        run = self._writer.connection.execute
        with self._writer.transaction():
            row = run(_SELECT_PROGRESS, [source.file_id]).fetchone()
            if row is None or tuple(row) != (source.resume_offset, source.examined_to):
                return False
            self._writer.connection.executemany(
                _INSERT_SAMPLE, [_sample_row(source.file_id, each) for each in steps]
            )
            run(
                "INSERT OR REPLACE INTO learnt VALUES (?, ?, ?)",
                [source.file_id, offset, examined_to],
            )
            if steps:
                run(_DELETE_OLD_SAMPLES, [MAX_SAMPLES])
            self._save_counts()
        return True

    def _save_counts(self) -> None:
        run = self._writer.connection.execute
        (turn,) = run("SELECT COALESCE(MAX(turn), 0) + 1 FROM text_count").fetchone()
        self._writer.connection.executemany(
            "INSERT OR IGNORE INTO text_count VALUES (?, ?, ?, ?, ?, ?)",
            [(key, turn, *msgspec.structs.astuple(count)) for key, count in self._new.items()],
        )
        self._new.clear()
        (kept,) = run("SELECT COUNT(*) FROM text_count").fetchone()
        if kept > MAX_TEXT_COUNTS:
            run(_DELETE_OLD_TEXT_COUNTS, [kept - MAX_TEXT_COUNTS])


def _sample_row(file_id: int, learnt: LearnedStep) -> tuple[object, ...]:
    step, sample = learnt.step, learnt.sample
    return (
        file_id,
        step.offset,
        text_key(step.message_id),
        step.at or 0,
        sample.model,
        *sample.by_kind,
        sample.fixed,
        sample.growth,
    )


_SELECT_PROGRESS: Final = """
SELECT COALESCE(l.offset, 0), COALESCE(l.seen, 0)
FROM file f LEFT JOIN learnt l USING (file_id) WHERE f.file_id = ?
"""

_INSERT_SAMPLE: Final = "INSERT OR REPLACE INTO growth VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"

_DELETE_OLD_SAMPLES: Final = """
DELETE FROM growth WHERE (file_id, offset) IN (
    SELECT file_id, offset FROM (
        SELECT file_id, offset, ROW_NUMBER() OVER (
            PARTITION BY model ORDER BY at DESC, file_id DESC, offset DESC) AS place
        FROM growth)
    WHERE place > ?)
"""

_DELETE_OLD_TEXT_COUNTS: Final = """
DELETE FROM text_count WHERE key IN (SELECT key FROM text_count ORDER BY turn, key LIMIT ?)
"""


def read_estimator(db: sqlite3.Connection) -> Estimator:
    """Make an estimator of what the store knows; it reads from the connection as long as used."""
    return Estimator(read_samples(db), partial(count_text_with_store, db))
