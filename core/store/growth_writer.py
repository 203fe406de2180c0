"""How what was learnt of token counts enters the store, and what of it is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from ..keys import text_key
from ..text_count import KEPT_FROM_CHARS, TextCount, count_text
from .growth_queries import SAMPLES_KEPT, stored_count

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..calibration import Sample
    from ..growth import Step
    from .growth_queries import Unlearnt
    from .writer import Writer

TEXTS_KEPT: Final = 50_000
"""Counts of texts, those counted last: about 2 MB, and more than the newest 50 sessions hold."""


class Learnt(msgspec.Struct, frozen=True):
    """A step and what it taught."""

    step: Step
    sample: Sample


class GrowthWriter:
    """The writing side of what was learnt; it belongs to the writer's thread."""

    def __init__(self, writer: Writer, count: Callable[[str], TextCount] = count_text) -> None:
        self._writer: Final = writer
        self._count: Final = count
        self._new: dict[int, TextCount] = {}

    def count(self, text: str) -> TextCount:
        """Count a text that was not counted before; it is kept from the next `save` on."""
        if len(text) < KEPT_FROM_CHARS:
            return self._count(text)
        key = text_key(text)
        found = self._new.get(key) or stored_count(self._writer.connection, key)
        if found is None:
            found = self._new[key] = self._count(text)
        return found

    def save(
        self, source: Unlearnt, steps: Sequence[Learnt], offset: int, examined_to: int
    ) -> bool:
        """Store what a file taught from `source.offset` on, and where it goes on.

        False where the file was learnt from, or began anew, elsewhere meanwhile.
        """
        run = self._writer.connection.execute
        with self._writer.transaction():
            row = run(_STANDS, [source.file_id]).fetchone()
            if row is None or tuple(row) != (source.resume_offset, source.examined_to):
                return False
            self._writer.connection.executemany(
                _INSERT, [_row(source.file_id, each) for each in steps]
            )
            run(
                "INSERT OR REPLACE INTO learnt VALUES (?, ?, ?)",
                [source.file_id, offset, examined_to],
            )
            if steps:
                run(_FORGET, [SAMPLES_KEPT])
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
        if kept > TEXTS_KEPT:
            run(_FORGET_TEXTS, [kept - TEXTS_KEPT])


def _row(file_id: int, learnt: Learnt) -> tuple[object, ...]:
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


_STANDS: Final = """
SELECT COALESCE(l.offset, 0), COALESCE(l.seen, 0)
FROM file f LEFT JOIN learnt l USING (file_id) WHERE f.file_id = ?
"""

_INSERT: Final = "INSERT OR REPLACE INTO growth VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"

_FORGET: Final = """
DELETE FROM growth WHERE (file_id, offset) IN (
    SELECT file_id, offset FROM (
        SELECT file_id, offset, ROW_NUMBER() OVER (
            PARTITION BY model ORDER BY at DESC, file_id DESC, offset DESC) AS place
        FROM growth)
    WHERE place > ?)
"""

_FORGET_TEXTS: Final = """
DELETE FROM text_count WHERE key IN (SELECT key FROM text_count ORDER BY turn, key LIMIT ?)
"""
