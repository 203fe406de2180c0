"""Stores the records of ctxtop's own logs: offset and rows in one transaction."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from .inserts import insert_bad_lines
from .log_records import (
    AnswerItemRecord,
    HookEventRecord,
    LogKind,
    LogPart,
    LogRecords,
    MeasurementRecord,
    StatusSnapshotRecord,
)
from .transcript_records import TailState
from .writer import StaleTailError, Writer

MAX_SNAPSHOTS: Final = 500
"""By session: one an answer, and no chart has more columns; the newest of a model stays."""

MAX_MEASUREMENTS: Final = 2000  # by session: two a turn, a thousand turns
LogPartKey = tuple[LogKind, str]  # a part's log and mark
_TABLES_WITH_PART_ID: Final = (
    "hook_event",
    "status_snapshot",
    "answer_item",
    "measurement",
    "log_bad_line",
)


class LogWriter:
    """The writing side of the logs' tables; it belongs to the writer's thread."""

    def __init__(self, writer: Writer) -> None:
        self._writer: Final = writer

    def parts(self) -> dict[LogPartKey, tuple[LogPart, TailState]]:
        """Every part that the store knows, with how far it was read."""
        rows = self._writer.connection.execute(
            "SELECT log, mark, name, offset, anchor, size, mtime_ns FROM log_part"
        )
        return {
            (LogKind(row[0]), row[1]): (
                LogPart(LogKind(row[0]), row[1], row[2]),
                TailState(offset=row[3], anchor=row[4], size=row[5], mtime_ns=row[6]),
            )
            for row in rows
        }

    def append(self, part: LogPart, before: TailState, after: TailState, facts: LogRecords) -> None:
        """Add what was read from `before.offset` to `after.offset`.

        Raises StaleTailError where the store stands elsewhere than `before`.
        """
        with self._writer.transaction():
            part_id = self._find_part(part, before)
            self._insert("hook_event", part_id, facts.events)
            self._insert("answer_item", part_id, facts.answer_items)
            insert_bad_lines(self._writer.connection, "part_id", part_id, facts.bad, len(facts.bad))
            self._insert("measurement", part_id, facts.measurements)
            for snapshot in facts.snapshots:
                self._save_snapshot(part_id, snapshot)
            for session_id in {snapshot.session_id for snapshot in facts.snapshots}:
                self._delete_old(_DELETE_OLD_SNAPSHOTS, session_id, MAX_SNAPSHOTS)
            for session_id in {each.session_id for each in facts.measurements}:
                self._delete_old(_DELETE_OLD_MEASUREMENTS, session_id, MAX_MEASUREMENTS)
            if facts.windows:
                self._writer.save_windows(facts.windows)
            self._save_position(part_id, part, after)

    def restart(self, part: LogPart, before: TailState) -> None:
        """Forget what was read of a part that was rewritten; it is read again from its start."""
        with self._writer.transaction():
            part_id = self._find_part(part, before)
            for name in _TABLES_WITH_PART_ID:
                self._writer.connection.execute(f"DELETE FROM {name} WHERE part_id = ?", [part_id])
            self._save_position(part_id, part, TailState())

    def _find_part(self, part: LogPart, before: TailState) -> int:
        run = self._writer.connection.execute
        key = [part.log, part.mark]
        run("INSERT OR IGNORE INTO log_part (log, mark, name) VALUES (?, ?, ?)", [*key, part.name])
        row = run(
            "SELECT part_id, offset, anchor FROM log_part WHERE log = ? AND mark = ?", key
        ).fetchone()
        if (row[1], row[2]) != (before.offset, before.anchor):
            raise StaleTailError(part.name)
        return int(row[0])

    def _save_position(self, part_id: int, part: LogPart, after: TailState) -> None:
        self._writer.connection.execute(
            "UPDATE log_part SET name = ?1, offset = ?2, anchor = ?3, size = ?4, mtime_ns = ?5,"
            " bad_lines = CASE WHEN ?2 = 0 THEN 0 ELSE bad_lines END WHERE part_id = ?6",
            [part.name, after.offset, after.anchor, after.size, after.mtime_ns, part_id],
        )

    def _insert(
        self,
        table: str,
        part_id: int,
        facts: Iterable[HookEventRecord | AnswerItemRecord | MeasurementRecord],
    ) -> None:
        rows = [(part_id, *msgspec.structs.astuple(fact)) for fact in facts]
        if rows:
            places = ", ".join("?" * len(rows[0]))
            self._writer.connection.executemany(
                f"INSERT OR IGNORE INTO {table} VALUES ({places})", rows
            )

    def _save_snapshot(self, part_id: int, snapshot: StatusSnapshotRecord) -> None:
        run = self._writer.connection.execute
        values = msgspec.structs.asdict(snapshot) | {"part_id": part_id, "last_at": snapshot.at}
        if not run(_EXTEND_SAME_SNAPSHOT, values).rowcount:
            run(_SNAPSHOT_INSERT, values)

    def _delete_old(self, forget: str, session_id: str, kept: int) -> None:
        self._writer.connection.execute(forget, {"session_id": session_id, "kept": kept})


_POSITION_COLUMNS: Final = ("part_id", "offset", "at", "last_at")
_SHOWN_COLUMNS: Final = tuple(
    name for name in StatusSnapshotRecord.__struct_fields__ if name not in _POSITION_COLUMNS
)
_COLUMNS: Final = (*_POSITION_COLUMNS, *_SHOWN_COLUMNS)

# The client shows the same again and again: one row, from when until when.
_EXTEND_SAME_SNAPSHOT: Final = (
    "UPDATE status_snapshot SET last_at = MAX(last_at, :at) WHERE (part_id, offset) ="
    " (SELECT part_id, offset FROM status_snapshot WHERE session_id = :session_id"
    "  ORDER BY at DESC, part_id DESC, offset DESC LIMIT 1)"
    + "".join(f" AND {name} IS :{name}" for name in _SHOWN_COLUMNS)
)

_SNAPSHOT_INSERT: Final = (
    f"INSERT OR IGNORE INTO status_snapshot ({', '.join(_COLUMNS)})"
    f" VALUES ({', '.join(f':{name}' for name in _COLUMNS)})"
)

_DELETE_OLD_SNAPSHOTS: Final = """
DELETE FROM status_snapshot WHERE session_id = :session_id AND (part_id, offset) IN (
    SELECT part_id, offset FROM (
        SELECT part_id, offset,
            ROW_NUMBER() OVER (ORDER BY at DESC, part_id DESC, offset DESC) AS place,
            ROW_NUMBER() OVER (PARTITION BY model ORDER BY at DESC, part_id DESC, offset DESC)
                AS place_of_model
        FROM status_snapshot WHERE session_id = :session_id)
    WHERE place > :kept AND place_of_model > 1)
"""

_DELETE_OLD_MEASUREMENTS: Final = """
DELETE FROM measurement WHERE session_id = :session_id AND (part_id, offset) IN (
    SELECT part_id, offset FROM measurement WHERE session_id = :session_id
    ORDER BY at DESC, part_id DESC, offset DESC LIMIT -1 OFFSET :kept)
"""
