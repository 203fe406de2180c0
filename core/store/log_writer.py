"""How facts of ctxtop's own logs enter the store: offset and rows in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from .bad_rows import add_bad_records
from .facts import TailState
from .log_facts import Log, LogPart, StatusSnapshot
from .writer import StaleTailError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .log_facts import AnswerItem, HookEvent, LogFacts, Measurement
    from .writer import Writer

SNAPSHOTS_KEPT: Final = 500
"""By session: one an answer, and no chart has more columns; the newest of a model stays."""

MEASUREMENTS_KEPT: Final = 2000
"""By session: two a turn, a thousand turns."""

PartKey = tuple[Log, str]
"""A part's log and mark."""

_TABLES: Final = (
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

    def parts(self) -> dict[PartKey, tuple[LogPart, TailState]]:
        """Every part that the store knows, with how far it was read."""
        rows = self._writer.connection.execute(
            "SELECT log, mark, name, offset, anchor, size, mtime_ns FROM log_part"
        )
        return {
            (Log(row[0]), row[1]): (
                LogPart(Log(row[0]), row[1], row[2]),
                TailState(offset=row[3], anchor=row[4], size=row[5], mtime_ns=row[6]),
            )
            for row in rows
        }

    def append(self, part: LogPart, before: TailState, after: TailState, facts: LogFacts) -> None:
        """Add what was read from `before.offset` to `after.offset`.

        Raises StaleTailError where the store stands elsewhere than `before`.
        """
        with self._writer.transaction():
            part_id = self._find_part(part, before)
            self._insert("hook_event", part_id, facts.events)
            self._insert("answer_item", part_id, facts.answer_items)
            add_bad_records(self._writer.connection, part_id, facts.bad)
            self._insert("measurement", part_id, facts.measurements)
            for snapshot in facts.snapshots:
                self._save_snapshot(part_id, snapshot)
            for session_id in {snapshot.session_id for snapshot in facts.snapshots}:
                self._delete_old(_SNAPSHOTS_FORGET, session_id, SNAPSHOTS_KEPT)
            for session_id in {each.session_id for each in facts.measurements}:
                self._delete_old(_MEASUREMENTS_FORGET, session_id, MEASUREMENTS_KEPT)
            if facts.windows:
                self._writer.save_windows(facts.windows)
            self._save_position(part_id, part, after)

    def restart(self, part: LogPart, before: TailState) -> None:
        """Forget what was read of a part that was rewritten; it is read again from its start."""
        with self._writer.transaction():
            part_id = self._find_part(part, before)
            for name in _TABLES:
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
        facts: Iterable[HookEvent | AnswerItem | Measurement],
    ) -> None:
        rows = [(part_id, *msgspec.structs.astuple(fact)) for fact in facts]
        if rows:
            places = ", ".join("?" * len(rows[0]))
            self._writer.connection.executemany(
                f"INSERT OR IGNORE INTO {table} VALUES ({places})", rows
            )

    def _save_snapshot(self, part_id: int, snapshot: StatusSnapshot) -> None:
        run = self._writer.connection.execute
        values = msgspec.structs.asdict(snapshot) | {"part_id": part_id, "last_at": snapshot.at}
        if not run(_SAME_AGAIN, values).rowcount:
            run(_SNAPSHOT_INSERT, values)

    def _delete_old(self, forget: str, session_id: str, kept: int) -> None:
        self._writer.connection.execute(forget, {"session_id": session_id, "kept": kept})


_PLACE: Final = ("part_id", "offset", "at", "last_at")
_SHOWN: Final = tuple(name for name in StatusSnapshot.__struct_fields__ if name not in _PLACE)
_COLUMNS: Final = (*_PLACE, *_SHOWN)

# The client shows the same again and again: one row, from when until when.
_SAME_AGAIN: Final = (
    "UPDATE status_snapshot SET last_at = MAX(last_at, :at) WHERE (part_id, offset) ="
    " (SELECT part_id, offset FROM status_snapshot WHERE session_id = :session_id"
    "  ORDER BY at DESC, part_id DESC, offset DESC LIMIT 1)"
    + "".join(f" AND {name} IS :{name}" for name in _SHOWN)
)

_SNAPSHOT_INSERT: Final = (
    f"INSERT OR IGNORE INTO status_snapshot ({', '.join(_COLUMNS)})"
    f" VALUES ({', '.join(f':{name}' for name in _COLUMNS)})"
)

_SNAPSHOTS_FORGET: Final = """
DELETE FROM status_snapshot WHERE session_id = :session_id AND (part_id, offset) IN (
    SELECT part_id, offset FROM (
        SELECT part_id, offset,
            ROW_NUMBER() OVER (ORDER BY at DESC, part_id DESC, offset DESC) AS place,
            ROW_NUMBER() OVER (PARTITION BY model ORDER BY at DESC, part_id DESC, offset DESC)
                AS place_of_model
        FROM status_snapshot WHERE session_id = :session_id)
    WHERE place > :kept AND place_of_model > 1)
"""

_MEASUREMENTS_FORGET: Final = """
DELETE FROM measurement WHERE session_id = :session_id AND (part_id, offset) IN (
    SELECT part_id, offset FROM measurement WHERE session_id = :session_id
    ORDER BY at DESC, part_id DESC, offset DESC LIMIT -1 OFFSET :kept)
"""
