"""Stores what was read of ctxtop's own logs."""

from typing import Final

from msgspec.structs import asdict

from ..model.log_records import LimitReadingRecord, LogPart, LogRecords, StatusSnapshotRecord
from ..model.transcript_records import ClientReportRecord, LogKind, TailState
from .database import owned_tables
from .inserts import insert_bad_lines, insert_records
from .writer import StaleTailError, Writer

MAX_SNAPSHOTS: Final = 500  # by session: no chart has more columns; the newest of a model is kept
MAX_LIMIT_READINGS: Final = 5000  # by window: a week's, one each two minutes
MAX_MEASUREMENTS: Final = 2000  # by session: two a turn, a thousand turns


class LogWriter:
    def __init__(self, writer: Writer) -> None:
        self._writer: Final = writer

    def parts(self) -> dict[tuple[LogKind, str], tuple[LogPart, TailState]]:
        """Return every part that was read and how far, by its log and mark."""
        sql = "SELECT log, mark, name, offset, anchor, size, mtime_ns FROM log_part"
        return {
            (LogKind(log), mark): (
                LogPart(LogKind(log), mark, name),
                TailState(offset=offset, anchor=anchor, size=size, mtime_ns=mtime_ns),
            )
            for log, mark, name, offset, anchor, size, mtime_ns in self._writer.connection.execute(
                sql
            )
        }

    def append(self, part: LogPart, before: TailState, after: TailState, facts: LogRecords) -> None:
        """Add what was read from `before.offset` to `after.offset`; may raise StaleTailError."""
        db = self._writer.connection
        with self._writer.transaction():
            part_id = self._find_part(part, before)
            insert_records(db, "hook_event", facts.events, part_id=part_id)
            insert_records(db, "answer_item", facts.answer_items, part_id=part_id)
            insert_records(db, "measurement", facts.measurements, part_id=part_id)
            insert_bad_lines(db, "part_id", part_id, facts.bad, len(facts.bad))
            for snapshot in facts.snapshots:
                # The client shows the same again and again: that is one row, with a first and
                # a last time.
                if not db.execute(_EXTEND_SAME_SNAPSHOT, asdict(snapshot)).rowcount:
                    owner = {"part_id": part_id, "last_at": snapshot.at}
                    insert_records(db, "status_snapshot", [snapshot], **owner)
            self._save_limit_readings(part_id, facts.limit_readings)
            db.executemany(_SAVE_CLIENT_REPORT, map(asdict, facts.client_reports))
            db.executemany(
                _DELETE_OLD_SNAPSHOTS,
                [(each, MAX_SNAPSHOTS) for each in {row.session_id for row in facts.snapshots}],
            )
            db.executemany(
                _DELETE_OLD_MEASUREMENTS,
                [
                    (each, MAX_MEASUREMENTS)
                    for each in {row.session_id for row in facts.measurements}
                ],
            )
            self._writer.save_windows(facts.windows)
            self._save_position(part_id, part, after)

    def restart(self, part: LogPart, before: TailState) -> None:
        """Delete the rows of a part that was rewritten; it is read again from its start."""
        with self._writer.transaction():
            part_id = self._find_part(part, before)
            for name in owned_tables(self._writer.connection, "log_part", "part_id"):
                self._writer.connection.execute(f"DELETE FROM {name} WHERE part_id = ?", [part_id])
            self._save_position(part_id, part, TailState())

    def _save_limit_readings(self, part_id: int, readings: tuple[LimitReadingRecord, ...]) -> None:
        db = self._writer.connection
        for reading in readings:
            if not db.execute(_EXTEND_SAME_READING, asdict(reading)).rowcount:
                owner = {"part_id": part_id, "last_at": reading.at}
                insert_records(db, "limit_reading", [reading], **owner)
        windows = {reading.window for reading in readings}
        db.executemany(_DELETE_OLD_READINGS, [(each, MAX_LIMIT_READINGS) for each in windows])

    def _find_part(self, part: LogPart, before: TailState) -> int:
        run, key = self._writer.connection.execute, [part.log, part.mark]
        run("INSERT OR IGNORE INTO log_part (log, mark, name) VALUES (?, ?, ?)", [*key, part.name])
        part_id, offset, anchor = run(
            "SELECT part_id, offset, anchor FROM log_part WHERE log = ? AND mark = ?", key
        ).fetchone()
        if (offset, anchor) != (before.offset, before.anchor):
            raise StaleTailError(part.name)
        return int(part_id)

    def _save_position(self, part_id: int, part: LogPart, after: TailState) -> None:
        self._writer.connection.execute(
            "UPDATE log_part SET name = ?1, offset = ?2, anchor = ?3, size = ?4, mtime_ns = ?5,"
            " bad_lines = IIF(?2 = 0, 0, bad_lines) WHERE part_id = ?6",
            [part.name, after.offset, after.anchor, after.size, after.mtime_ns, part_id],
        )


_EXTEND_SAME_SNAPSHOT: Final = (
    "UPDATE status_snapshot SET last_at = MAX(last_at, :at) WHERE (part_id, offset) ="
    " (SELECT part_id, offset FROM status_snapshot WHERE session_id = :session_id"
    "  ORDER BY at DESC, part_id DESC, offset DESC LIMIT 1)"
    + "".join(
        f" AND {name} IS :{name}"
        for name in StatusSnapshotRecord.__struct_fields__
        if name not in {"offset", "at"}
    )
)

_EXTEND_SAME_READING: Final = """
UPDATE limit_reading SET last_at = MAX(last_at, :at) WHERE (part_id, offset, window) = (
    SELECT part_id, offset, window FROM limit_reading
    WHERE session_id = :session_id AND window = :window
    ORDER BY at DESC, part_id DESC, offset DESC LIMIT 1)
AND used_percentage = :used_percentage AND resets_at IS :resets_at
"""

_SAVE_CLIENT_REPORT: Final = """
INSERT INTO client_report ({names}) VALUES ({values})
ON CONFLICT DO UPDATE SET {changes} WHERE excluded.at >= client_report.at
""".format(
    names=", ".join(ClientReportRecord.__struct_fields__),
    values=", ".join(f":{name}" for name in ClientReportRecord.__struct_fields__),
    changes=", ".join(
        f"{name} = excluded.{name}" for name in ClientReportRecord.__struct_fields__[1:]
    ),
)

_DELETE_OLD_READINGS: Final = """
DELETE FROM limit_reading WHERE window = ?1 AND (part_id, offset) IN (
    SELECT part_id, offset FROM limit_reading WHERE window = ?1
    ORDER BY at DESC, part_id DESC, offset DESC LIMIT -1 OFFSET ?2)
"""

_DELETE_OLD_SNAPSHOTS: Final = """
DELETE FROM status_snapshot WHERE session_id = ?1 AND (part_id, offset) IN (
    SELECT part_id, offset FROM (
        SELECT part_id, offset,
            ROW_NUMBER() OVER (ORDER BY at DESC, part_id DESC, offset DESC) AS place,
            ROW_NUMBER() OVER (PARTITION BY model ORDER BY at DESC, part_id DESC, offset DESC)
                AS place_of_model
        FROM status_snapshot WHERE session_id = ?1)
    WHERE place > ?2 AND place_of_model > 1)
"""

_DELETE_OLD_MEASUREMENTS: Final = """
DELETE FROM measurement WHERE session_id = ?1 AND (part_id, offset) IN (
    SELECT part_id, offset FROM measurement WHERE session_id = ?1
    ORDER BY at DESC, part_id DESC, offset DESC LIMIT -1 OFFSET ?2)
"""
