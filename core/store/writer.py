"""The one way transcript records enter the store: offset and rows in one transaction."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from msgspec.structs import astuple, replace

from .database import IDLE_CACHE_KIB, move_aside, open_writer, write_transaction
from .inserts import (
    DELETE_ENDED_CALL,
    DELETE_OLD_ADDITIONS,
    INSERT_ADDITION,
    INSERT_AGENT_RETURN,
    INSERT_API_ERROR,
    INSERT_BOUNDARY,
    INSERT_CONTEXT_REPORT,
    INSERT_ESTIMATE,
    INSERT_GIVEN_SKILL,
    INSERT_LAUNCH,
    INSERT_LEAF_TITLE,
    INSERT_LIVE,
    INSERT_MARKER,
    INSERT_MEMORY_NOTE,
    INSERT_MICROCOMPACTION,
    INSERT_OPEN_CALL,
    INSERT_REQUEST,
    INSERT_REQUEST_PART,
    INSERT_STOP_BLOCK,
    INSERT_STOP_FEEDBACK,
    INSERT_STOP_HOOK,
    INSERT_SUMMARY,
    LINE_COUNT_UPSERT,
    MODEL_USE_UPSERT,
    REPLACE_AGENT_META,
    REPLY_UPSERT,
    RESPONSE_UPSERT,
    SELECT_KNOWN_SIDECHAINS,
    SELECT_UNESTIMATED,
    SESSION_UPSERT,
    insert_bad_lines,
    insert_inline_agents,
)
from .store_schema import TABLES_WITH_FILE_ID
from .transcript_records import (
    AgentMeta,
    FileKind,
    LiveSession,
    PeakRecord,
    ResponseRecord,
    SourceFile,
    TailState,
    TranscriptRecords,
    WindowRecord,
)

GONE_SIZE: Final = -1
"""The size of a file that is gone: none has it, so one that comes back is looked at again."""

NO_DEVICE: Final = -1
"""The device of a file that was moved: none has it, so all of the file is read again."""

MAX_PROBLEMS: Final = 200  # how many troubles are kept; each place has one row, the newest


class StaleTailError(Exception):
    """Another ctxtop has read further in this file: what was read here is not stored."""


class StoreReplacedError(Exception):
    """Another ctxtop moved the store aside that this writer has open."""


class OtherFolderError(Exception):
    """The store holds the facts of another Claude Code folder; the message names it."""


class Writer:
    """The store's writing side; it belongs to the thread that made it."""

    def __init__(self, path: Path) -> None:
        self.path: Final = path
        self._connection, self.notice = open_writer(path)
        self._opened_inode = _inode(path)
        self._reported_damage: Exception | None = None

    @property
    def connection(self) -> sqlite3.Connection:
        """The connection, for the store's other modules that write."""
        return self._connection

    def close(self) -> None:
        """Close the connection, after SQLite has updated its table statistics."""
        try:
            self._connection.execute("PRAGMA optimize")
        except sqlite3.Error as error:
            # Only a hint for later plans is lost.
            self.notice = str(error)
        finally:
            self._connection.close()

    def reduce_cache(self) -> None:
        """Hold fewer pages from now on: everything is read, and only what is new will come."""
        self._connection.execute(f"PRAGMA cache_size = -{IDLE_CACHE_KIB}")
        self._connection.execute("PRAGMA shrink_memory")

    def report_damage(self, error: Exception) -> None:
        """Record that a reader in another thread found the store damaged; see `check_usable`."""
        self._reported_damage = error

    def check_usable(self) -> None:
        """Raise what a reader has found: the writer itself may never come by that page."""
        error, self._reported_damage = self._reported_damage, None
        if error is not None:
            raise error
        if _inode(self.path) != self._opened_inode:
            raise StoreReplacedError

    def reopen(self) -> None:
        """Open the store that stands where the one was that this writer has open."""
        self._connection.close()
        self._connection, _ = open_writer(self.path)
        self._opened_inode = _inode(self.path)

    def rebuild(self) -> str:
        """Move a damaged store aside, make a new one, and say so in one sentence."""
        self._connection.close()
        how = "made again by another ctxtop"
        if _inode(self.path) == self._opened_inode:
            how = f"moved to {move_aside(self.path).name}, made again"
        self._connection, _ = open_writer(self.path)
        self._opened_inode = _inode(self.path)
        return f"the store {self.path} was damaged: {how}"

    def claim_folder(self, root: Path) -> None:
        """Note whose facts these are; raise OtherFolderError where they are another folder's."""
        with self.transaction():
            row = self._connection.execute("SELECT value FROM about WHERE key = 'root'").fetchone()
            if row is None:
                self._connection.execute("INSERT INTO about VALUES ('root', ?)", [str(root)])
            elif row[0] != str(root):
                raise OtherFolderError(row[0])

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Group several writes; a failure undoes all of them."""
        if self._connection.in_transaction:
            yield
            return
        with write_transaction(self._connection):
            yield

    def files(self) -> dict[str, tuple[SourceFile, TailState]]:
        """Every transcript that the store knows, by path, with how far it was read.

        Without `TailState.places`.
        """
        rows = self._connection.execute(
            "SELECT path, kind, project, session_id, agent_id,"
            f" device, inode, offset, anchor, IIF(gone, {GONE_SIZE}, size), mtime_ns, ctime_ns"
            " FROM file"
        )
        return {
            row[0]: (
                SourceFile(row[0], FileKind(row[1]), row[2], row[3], row[4]),
                TailState(_unsigned(row[5]), _unsigned(row[6]), *row[7:]),
            )
            for row in rows
        }

    def read_places(self, path: str) -> str:
        """`TailState.places` of a file, which `files` leaves out: there may be 100,000 files."""
        row = self._connection.execute("SELECT places FROM file WHERE path = ?", [path]).fetchone()
        return str(row[0]) if row else ""

    def append(
        self, source: SourceFile, before: TailState, after: TailState, facts: TranscriptRecords
    ) -> None:
        """Add what was read from `before.offset` to `after.offset`.

        Raises StaleTailError where the store stands elsewhere than `before`.
        """
        with self.transaction():
            file_id = self._advance(source, before, after, facts)
            self._insert(file_id, facts)
            if facts.additions and (before.offset or facts.boundaries):
                self._connection.execute(DELETE_OLD_ADDITIONS, [file_id])

    def restart(self, source: SourceFile, before: TailState) -> None:
        """Forget what was read of a file that was rewritten; it is read again from its start."""
        with self.transaction():
            file_id = self._find_file(source, before)
            if file_id is None:
                return
            for table in TABLES_WITH_FILE_ID:
                self._connection.execute(f"DELETE FROM {table} WHERE file_id = ?", [file_id])
            self._update_tail(file_id, TailState(), 0)

    def rename(self, before: SourceFile, tail: TailState, after: SourceFile) -> TailState:
        """Move a transcript's rows to its new path; return its state, which is out of date.

        Some facts depend on the file's folder, so the file must be read again. The row says so
        too, because the process may exit first. Raises StaleTailError if another ctxtop was faster.
        """
        with self.transaction():
            file_id = self._find_file(before, tail)
            renamed = self._connection.execute(
                "UPDATE OR IGNORE file SET path = ?, project = ?, device = ? WHERE file_id = ?",
                [after.path, after.project, NO_DEVICE, file_id],
            )
            if not renamed.rowcount:
                raise StaleTailError(after.path)
        return replace(tail, device=NO_DEVICE)

    def mark_gone(self, path: str) -> None:
        """Note that a file is gone; what it said is kept."""
        self._connection.execute("UPDATE file SET gone = 1 WHERE path = ?", [path])

    def save_agent_metas(self, metas: Iterable[AgentMeta]) -> None:
        """Keep what agents' meta.json files say, one for each agent: a file may have moved."""
        kept = [astuple(meta) for meta in metas]
        with self.transaction():
            self._connection.executemany(
                "DELETE FROM agent_meta WHERE session_id = ?2 AND agent_id = ?3 AND path <> ?1",
                [each[:3] for each in kept],
            )
            self._connection.executemany(REPLACE_AGENT_META, kept)

    def agent_meta_times(self) -> dict[str, int]:
        """When each meta.json that is kept was written, in nanoseconds."""
        return dict(self._connection.execute("SELECT path, mtime_ns FROM agent_meta").fetchall())

    def save_open_sessions(self, sessions: Iterable[LiveSession]) -> None:
        """Replace the list of sessions that are open now."""
        with self.transaction():
            self._connection.execute("DELETE FROM live")
            self._connection.executemany(INSERT_LIVE, map(astuple, sessions))

    def read_registry_state(self) -> tuple[frozenset[str], bool] | None:
        """What `save_registry_state` saved last; None where it never did."""
        kept = self._connection.execute("SELECT value FROM about WHERE key = 'registry'").fetchone()
        rows = self._connection.execute("SELECT session_id FROM left_open")
        return None if kept is None else (frozenset(row[0] for row in rows), kept[0] == "1")

    def save_registry_state(self, stale_ids: Iterable[str], *, exists: bool) -> None:
        """Replace the sessions whose entries were left behind; `is_kept`: there is a registry."""
        with self.transaction():
            self._connection.execute("DELETE FROM left_open")
            self._connection.executemany(
                "INSERT INTO left_open VALUES (?)", [(each,) for each in stale_ids]
            )
            self._connection.execute(
                "INSERT INTO about VALUES ('registry', ?)"
                " ON CONFLICT DO UPDATE SET value = excluded.value",
                [str(int(exists))],
            )

    def save_changed_sessions(self, changes: Mapping[str, int]) -> None:
        """Replace when ctxtop changed or made a session last, in ms since 1970."""
        with self.transaction():
            self._connection.execute("DELETE FROM changed_session")
            self._connection.executemany(
                "INSERT INTO changed_session VALUES (?, ?)", changes.items()
            )

    def read_changed_sessions(self) -> dict[str, int]:
        """When ctxtop changed or made a session last, as it is kept."""
        return dict(self._connection.execute("SELECT session_id, at FROM changed_session"))

    def save_environment(self, session_id: str, variables: Mapping[str, str]) -> None:
        """Replace what is known of the environment of a session's client."""
        with self.transaction():
            self._connection.execute(
                "DELETE FROM client_environment WHERE session_id = ?", [session_id]
            )
            self._connection.executemany(
                "INSERT INTO client_environment VALUES (?, ?, ?)",
                [(session_id, *item) for item in variables.items()],
            )

    def save_windows(self, windows: Iterable[WindowRecord]) -> None:
        """Keep the newest window that the client told, by session and model."""
        with self.transaction():
            self._connection.executemany(
                "INSERT INTO window_seen VALUES (?, ?, ?, ?, ?)"
                " ON CONFLICT DO UPDATE SET window_tokens = excluded.window_tokens,"
                " at = excluded.at, measured = excluded.measured"
                " WHERE excluded.at >= window_seen.at",
                [astuple(window) for window in windows],
            )

    def estimate_summaries(self, estimate: Callable[[str, str | None], int]) -> frozenset[str]:
        """Estimate the tokens of texts that nobody has counted; name the sessions they are of.

        A text is counted as the model does that answered before it.
        """
        sessions: set[str] = set()
        while True:
            rows = self._connection.execute(SELECT_UNESTIMATED).fetchall()
            if not rows:
                return frozenset(sessions)
            counted = [
                (row, _scaled_tokens(text, chars, estimate(text, model)))
                for row, text, chars, _, model in rows
            ]
            sessions |= {session_id for *_, session_id, _ in rows}
            with self.transaction():
                self._connection.executemany(INSERT_ESTIMATE, counted)

    def save_problem(self, where: str, what: str, fix: str) -> None:
        """Keep the newest trouble of a place, for the status line and doctor."""
        with self.transaction():
            self._connection.execute(
                "INSERT OR REPLACE INTO trouble VALUES (?, ?, ?, ?)", [where, _now(), what, fix]
            )
            self._connection.execute(
                "DELETE FROM trouble WHERE place NOT IN"
                " (SELECT place FROM trouble ORDER BY at DESC LIMIT ?)",
                [MAX_PROBLEMS],
            )

    def problem_places(self) -> set[str]:
        """Name the places whose trouble is kept, also of an earlier run."""
        return {row[0] for row in self._connection.execute("SELECT place FROM trouble")}

    def resolve_problem(self, where: str) -> None:
        """Forget a trouble that has ended."""
        self._connection.execute("DELETE FROM trouble WHERE place = ?", [where])

    def _find_file(self, source: SourceFile, before: TailState) -> int | None:
        row = self._connection.execute(
            "SELECT file_id, offset, anchor FROM file WHERE path = ?", [source.path]
        ).fetchone()
        stands = (row[1], row[2]) if row else (0, "")
        if stands != (before.offset, before.anchor):
            raise StaleTailError(source.path)
        return int(row[0]) if row else None

    def _advance(
        self, source: SourceFile, before: TailState, after: TailState, facts: TranscriptRecords
    ) -> int:
        file_id = self._find_file(source, before)
        if file_id is None:
            row = self._connection.execute(
                "INSERT INTO file (path, kind, project, session_id, agent_id)"
                " VALUES (?, ?, ?, ?, ?) RETURNING file_id",
                [*astuple(source)],
            )
            file_id = int(row.fetchone()[0])
        elif before.offset == 0:
            # An old agent's file names its session in its first line, which may be another now.
            self._connection.execute(
                "UPDATE file SET session_id = ? WHERE file_id = ?", [source.session_id, file_id]
            )
        self._update_tail(file_id, after, facts.lines)
        return file_id

    def _update_tail(self, file_id: int, tail: TailState, lines: int) -> None:
        # A restart stands at 0 and counts its lines anew.
        self._connection.execute(
            "UPDATE file SET device = ?, inode = ?, offset = ?, anchor = ?, size = ?,"
            " mtime_ns = ?, ctime_ns = ?, places = ?,"
            " lines = CASE WHEN ? = 0 THEN 0 ELSE lines + ? END,"
            " bad_lines = CASE WHEN ? = 0 THEN 0 ELSE bad_lines END, gone = 0 WHERE file_id = ?",
            [
                _signed(tail.device),
                _signed(tail.inode),
                tail.offset,
                tail.anchor,
                tail.size,
                tail.mtime_ns,
                tail.ctime_ns,
                tail.places,
                tail.offset,
                lines,
                tail.offset,
                file_id,
            ],
        )

    def _insert(self, file_id: int, facts: TranscriptRecords) -> None:
        session = astuple(facts.session)
        if any(value is not None for value in session):
            self._connection.execute(SESSION_UPSERT, (file_id, *session))
        self._connection.executemany(
            DELETE_ENDED_CALL, [(file_id, call) for call in facts.ended_calls]
        )
        for sql, rows in (
            (RESPONSE_UPSERT, facts.responses),
            (INSERT_BOUNDARY, facts.boundaries),
            (INSERT_MICROCOMPACTION, facts.microcompactions),
            (INSERT_API_ERROR, facts.api_errors),
            (INSERT_LAUNCH, facts.launches),
            (INSERT_AGENT_RETURN, facts.returns),
            (INSERT_SUMMARY, facts.summaries),
            (REPLY_UPSERT, facts.replies),
            (INSERT_LEAF_TITLE, facts.leaf_titles),
            (INSERT_REQUEST, facts.requests),
            (INSERT_REQUEST_PART, facts.request_parts),
            (INSERT_ADDITION, facts.additions),
            (INSERT_CONTEXT_REPORT, facts.context_reports),
            (INSERT_MARKER, facts.markers),
            (INSERT_STOP_FEEDBACK, facts.stop_feedback),
            (INSERT_GIVEN_SKILL, facts.given_skills),
            (INSERT_STOP_BLOCK, facts.stop_blocks),
            (INSERT_STOP_HOOK, facts.stop_hooks),
            (INSERT_MEMORY_NOTE, facts.memory_notes),
            (INSERT_OPEN_CALL, facts.open_calls),
        ):
            if rows:
                self._connection.executemany(sql, [(file_id, *astuple(row)) for row in rows])
        insert_inline_agents(self._connection, file_id, facts)
        insert_bad_lines(self._connection, file_id, facts.bad, facts.bad_lines)
        begun = self._known_sidechains(file_id, facts)
        self._connection.executemany(MODEL_USE_UPSERT, _peaks(file_id, facts, begun))
        self._connection.executemany(LINE_COUNT_UPSERT, _line_counts(file_id, facts))

    def _known_sidechains(self, file_id: int, facts: TranscriptRecords) -> dict[str, bool]:
        """Return by id whether answers that began on earlier lines are in a sidechain."""
        if not facts.responses:
            return {}
        names = json.dumps([each.message_id for each in facts.responses])
        first = min(each.offset for each in facts.responses)
        rows = self._connection.execute(SELECT_KNOWN_SIDECHAINS, (file_id, first, names))
        return {row[0]: bool(row[1]) for row in rows}


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None


def _scaled_tokens(text: str, chars: int, counted: int) -> int:
    # Of a text that was cut the rest counts as what is kept.
    return round(counted * max(1.0, chars / len(text))) if text else 0


def _peaks(
    file_id: int, facts: TranscriptRecords, begun: Mapping[str, bool]
) -> list[tuple[int, str, bool, int]]:
    peaks: dict[tuple[str, bool], int] = {}
    # However the lines are cut into readings, each has its part in the peak.
    said: tuple[ResponseRecord | PeakRecord, ...] = (*facts.responses, *facts.peaks)
    for seen in said:
        key = seen.model, begun.get(seen.message_id, seen.sidechain)
        peaks[key] = max(peaks.get(key, 0), seen.context_tokens)
    return [(file_id, *key, tokens) for key, tokens in peaks.items()]


def _line_counts(file_id: int, facts: TranscriptRecords) -> list[tuple[int, str, int, int]]:
    return [
        (file_id, name, known, lines)
        for known, counts in ((1, facts.ignored_types), (0, facts.unknown_types))
        for name, lines in counts.items()
    ]


def _signed(number: int) -> int:
    """Fit an unsigned 64-bit inode (some network mounts) into SQLite's integer."""
    return number - (1 << 64) if number >= 1 << 63 else number


def _unsigned(number: int) -> int:
    return number + (1 << 64) if number < 0 else number


def _now() -> int:
    return time.time_ns() // 1_000_000
