"""The one way transcript records enter the store: offset and rows in one transaction."""

import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from msgspec.structs import asdict, astuple, replace

from ..model.problem import Problem
from ..model.transcript_records import (
    AgentMeta,
    FileKind,
    LiveSession,
    SourceFile,
    TailState,
    TranscriptRecords,
    WindowRecord,
)
from .database import (
    IDLE_CACHE_KIB,
    move_aside,
    nested_transaction,
    open_writer,
    owned_tables,
    write_transaction,
)
from .inserts import (
    DELETE_OLD_ADDITIONS,
    insert_bad_lines,
    insert_records,
    insert_sql,
    insert_transcript_records,
)

GONE_SIZE: Final = -1
"""The size of a file that is gone: no file has it, so one that reappears is read again."""

NO_DEVICE: Final = (1 << 64) - 1
"""The device of a file that was moved: none has it, so all of the file is read again."""

MAX_PROBLEMS: Final = 200  # each place has one row, the newest


class StaleTailError(Exception):
    """Another ctxtop has read further in this file, so what was read here is not stored."""


class StoreReplacedError(Exception):
    """Another ctxtop moved the store aside that this writer has open."""


class OtherFolderError(Exception):
    """The store is for another Claude Code folder; the message names it."""


class Writer:
    """Writes to the store; it belongs to the thread that made it."""

    def __init__(self, path: Path) -> None:
        self.path: Final = path
        self._reported_damage: Exception | None = None
        self._open()

    def _open(self) -> None:
        self.connection, self.notice = open_writer(self.path)
        self._opened_inode = _inode(self.path)

    def close(self) -> None:
        """Close the connection, after SQLite has updated its statistics of tables that changed."""
        try:
            if self.connection.total_changes:
                self.connection.execute("PRAGMA optimize")
        except sqlite3.Error as error:
            # Only a hint for later plans is lost.
            self.notice = str(error)
        finally:
            self.connection.close()

    def reduce_cache(self) -> None:
        """Keep fewer pages: everything is read, and only new lines will follow."""
        self.connection.execute(f"PRAGMA cache_size = -{IDLE_CACHE_KIB}")
        self.connection.execute("PRAGMA shrink_memory")

    def report_damage(self, error: Exception) -> None:
        """Record that a reader in another thread found the store damaged; see `check_usable`."""
        self._reported_damage = error

    def check_usable(self) -> None:
        """Raise the error of a reader: the writer itself may never read the damaged page."""
        error, self._reported_damage = self._reported_damage, None
        if error is not None:
            raise error
        if _inode(self.path) != self._opened_inode:
            raise StoreReplacedError

    def reopen(self) -> None:
        """Open the store that replaced the one that this writer has open."""
        self.connection.close()
        self._open()

    def rebuild(self) -> str:
        """Move a damaged store aside, make a new one, and describe that in one sentence."""
        self.connection.close()
        how = "rebuilt by another ctxtop"
        if _inode(self.path) == self._opened_inode:
            how = f"moved to {move_aside(self.path).name}, rebuilt"
        self._open()
        return f"the store {self.path} was damaged: {how}"

    def claim_folder(self, root: Path) -> None:
        """Record which folder the store is for; raises OtherFolderError if it is another one's."""
        if self._claimed_folder() is None:
            with self.transaction():
                sql = "INSERT OR IGNORE INTO about VALUES ('root', ?)"
                self.connection.execute(sql, [str(root)])
        claimed = self._claimed_folder()
        if claimed != str(root):
            raise OtherFolderError(claimed)

    def _claimed_folder(self) -> str | None:
        row = self.connection.execute("SELECT value FROM about WHERE key = 'root'").fetchone()
        return row and str(row[0])

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Group several writes; a failure undoes all of them.

        Inside another transaction it undoes these alone: the outer one can continue.
        """
        with (nested_transaction if self.connection.in_transaction else write_transaction)(
            self.connection
        ):
            yield

    def files(self) -> dict[str, tuple[SourceFile, TailState]]:
        """Return every stored transcript by path, and how far it was read, without `places`."""
        rows = self.connection.execute(
            "SELECT path, kind, project, session_id, agent_id,"
            f" device, inode, offset, anchor, IIF(gone, {GONE_SIZE}, size), mtime_ns, ctime_ns"
            " FROM file"
        )
        return {
            row[0]: (
                SourceFile(row[0], FileKind(row[1]), *row[2:5]),
                TailState(_unsigned(row[5]), _unsigned(row[6]), *row[7:]),
            )
            for row in rows
        }

    def read_places(self, path: str) -> str:
        """Return `TailState.places` of a file, which `files` leaves out."""
        row = self.connection.execute("SELECT places FROM file WHERE path = ?", [path]).fetchone()
        return str(row[0]) if row else ""

    def append(
        self, source: SourceFile, before: TailState, after: TailState, facts: TranscriptRecords
    ) -> None:
        """Add what was read from `before.offset` to `after.offset`; may raise StaleTailError."""
        with self.transaction():
            file_id = self._advance(source, before, after, facts)
            self._insert(file_id, facts)
            if facts.additions and (before.offset or facts.boundaries):
                self.connection.execute(DELETE_OLD_ADDITIONS, [file_id])

    def add_unread_file(self, source: SourceFile, mtime_ns: int) -> None:
        """List a file of which nothing could be read yet."""
        with self.transaction():
            self.connection.execute(insert_sql("file", SourceFile), astuple(source))
            sql = "UPDATE file SET mtime_ns = ? WHERE path = ?"
            self.connection.execute(sql, [mtime_ns, source.path])

    def restart(self, source: SourceFile, before: TailState) -> None:
        """Delete the rows of a file that was rewritten; it is read again from its start."""
        with self.transaction():
            file_id = self._find_file(source, before)
            if file_id is None:
                return
            for table in owned_tables(self.connection, "file", "file_id"):
                self.connection.execute(f"DELETE FROM {table} WHERE file_id = ?", [file_id])
            self._update_tail(file_id, TailState(), 0)

    def rename(self, before: SourceFile, tail: TailState, after: SourceFile) -> TailState:
        """Move a transcript's rows to its new path; return its state, which is out of date.

        Some facts depend on the file's folder, so the file must be read again. The row records
        that, because the process may exit first. May raise StaleTailError.
        """
        with self.transaction():
            file_id = self._find_file(before, tail)
            renamed = self.connection.execute(
                "UPDATE OR IGNORE file SET path = ?, project = ?, device = ? WHERE file_id = ?",
                [after.path, after.project, _signed(NO_DEVICE), file_id],
            )
            if not renamed.rowcount:
                raise StaleTailError(after.path)
        return replace(tail, device=NO_DEVICE)

    def mark_gone(self, path: str) -> None:
        self.connection.execute("UPDATE file SET gone = 1 WHERE path = ?", [path])

    def archived_files(self) -> dict[str, str]:
        """Return how much the archive has of each transcript whose file no longer exists."""
        rows = self.connection.execute("SELECT path, archived FROM file WHERE archived <> ''")
        return dict(rows.fetchall())

    def mark_archived(self, paths: Mapping[str, str]) -> frozenset[str]:
        """Save how much the archive has of transcripts; return their sessions' ids."""
        sessions: set[str] = set()
        with self.transaction():
            for path, archived in paths.items():
                sql = "UPDATE file SET archived = ? WHERE path = ? RETURNING session_id"
                rows = self.connection.execute(sql, [archived, path]).fetchall()
                sessions |= {row[0] for row in rows}
        return frozenset(sessions)

    def save_agent_metas(self, metas: Sequence[AgentMeta]) -> None:
        """Save agents' meta.json files, one for each agent: a file may have moved."""
        with self.transaction():
            self.connection.executemany(
                "DELETE FROM agent_meta WHERE session_id = ? AND agent_id = ? AND path <> ?",
                [(meta.session_id, meta.agent_id, meta.path) for meta in metas],
            )
            insert_records(self.connection, "agent_meta", metas, "OR REPLACE")

    def agent_meta_times(self) -> dict[str, int]:
        """Return when each stored meta.json was written, in nanoseconds."""
        return dict(self.connection.execute("SELECT path, mtime_ns FROM agent_meta").fetchall())

    def save_open_sessions(self, sessions: Sequence[LiveSession]) -> None:
        self._replace("live", [astuple(each) for each in sessions])

    def read_registry_state(self) -> tuple[frozenset[str], bool] | None:
        """Return what `save_registry_state` saved last; None if it never did."""
        run = self.connection.execute
        exists = run("SELECT value FROM about WHERE key = 'registry'").fetchone()
        stale_ids = frozenset(row[0] for row in run("SELECT session_id FROM left_open"))
        return None if exists is None else (stale_ids, exists[0] == "1")

    def save_registry_state(self, stale_ids: Iterable[str], *, exists: bool) -> None:
        """Replace the sessions whose registry entries were left behind; `exists`: a registry is."""
        with self.transaction():
            self._replace("left_open", [(each,) for each in stale_ids])
            sql = "INSERT OR REPLACE INTO about VALUES ('registry', ?)"
            self.connection.execute(sql, [str(int(exists))])

    def save_changed_sessions(self, changes: Iterable[tuple[str, int, str | None]]) -> None:
        """Replace when ctxtop last changed each session (ms since 1970), and the fork it made."""
        self._replace("changed_session", [*changes])

    def save_own_forks(self, forks: Iterable[tuple[str, str, bool]]) -> None:
        """Replace the sessions that ctxtop made: id, how, and whether that was undone."""
        self._replace("own_fork", [*forks])

    def read_own_forks(self) -> set[tuple[str, str, bool]]:
        sql = "SELECT session_id, kind, is_undone FROM own_fork"
        return {(row[0], row[1], bool(row[2])) for row in self.connection.execute(sql)}

    def read_changed_sessions(self) -> set[tuple[str, int, str | None]]:
        sql = "SELECT session_id, at, fork_id FROM changed_session"
        return {(row[0], row[1], row[2]) for row in self.connection.execute(sql)}

    def save_environment(self, session_id: str, variables: Mapping[str, str]) -> None:
        rows = [(session_id, *item) for item in variables.items()]
        self._replace("client_environment", rows, "session_id = ?", session_id)

    def _replace(
        self, table: str, rows: Sequence[tuple[object, ...]], where: str = "1", *values: object
    ) -> None:
        """Replace rows of a table, unless it has these already: then no lock is needed."""
        run = self.connection.execute
        if set(run(f"SELECT * FROM {table} WHERE {where}", values).fetchall()) == set(rows):
            return
        with self.transaction():
            run(f"DELETE FROM {table} WHERE {where}", values)
            for row in rows:
                run(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)

    def save_windows(self, windows: Iterable[WindowRecord]) -> None:
        """Keep the newest window that the client reported, by session and model."""
        with self.transaction():
            self.connection.executemany(
                "INSERT INTO window_seen VALUES (?, ?, ?, ?, ?)"
                " ON CONFLICT DO UPDATE SET window_tokens = excluded.window_tokens,"
                " at = excluded.at, measured = excluded.measured"
                " WHERE excluded.at >= window_seen.at",
                map(astuple, windows),
            )

    def estimate_summaries(self, estimate: Callable[[str, str | None], int]) -> frozenset[str]:
        """Estimate the tokens of texts that were not counted yet; return their sessions' ids.

        `estimate` gets a text and the model that answered before it.
        """
        sessions: set[str] = set()
        while rows := self.connection.execute(_UNESTIMATED_SUMMARIES).fetchall():
            estimates = [
                (summary_id, _scaled_tokens(text, chars, estimate(text, model)))
                for summary_id, text, chars, _, model in rows
            ]
            sessions |= {session_id for *_, session_id, _ in rows}
            with self.transaction():
                sql = "INSERT INTO estimate (summary_id, tokens) VALUES (?, ?)"
                self.connection.executemany(sql, estimates)
        return frozenset(sessions)

    def save_problem(self, problem: Problem) -> None:
        """Keep the newest problem of a place, for the status line, doctor and the log."""
        with self.transaction():
            now_ms = time.time_ns() // 1_000_000
            self.connection.execute(
                "INSERT OR REPLACE INTO trouble VALUES (?, ?, ?, ?, ?)",
                [problem.where, now_ms, problem.what, problem.fix, problem.traceback],
            )
            self.connection.execute(
                "DELETE FROM trouble WHERE place NOT IN"
                " (SELECT place FROM trouble ORDER BY at DESC LIMIT ?)",
                [MAX_PROBLEMS],
            )

    def problem_places(self) -> set[str]:
        """Return the places with a problem, including those of an earlier run."""
        return {row[0] for row in self.connection.execute("SELECT place FROM trouble")}

    def resolve_problem(self, where: str) -> None:
        self.connection.execute("DELETE FROM trouble WHERE place = ?", [where])

    def _find_file(self, source: SourceFile, before: TailState) -> int | None:
        row = self.connection.execute(
            "SELECT file_id, offset, anchor FROM file WHERE path = ?", [source.path]
        ).fetchone()
        file_id, offset, anchor = row or (None, 0, "")
        if (offset, anchor) != (before.offset, before.anchor):
            raise StaleTailError(source.path)
        return file_id

    def _advance(
        self, source: SourceFile, before: TailState, after: TailState, facts: TranscriptRecords
    ) -> int:
        file_id = self._find_file(source, before)
        if file_id is None:
            sql = f"{insert_sql('file', SourceFile, how='')} RETURNING file_id"
            file_id = int(self.connection.execute(sql, astuple(source)).fetchone()[0])
        elif before.offset == 0:
            # An old agent's file names its session in its first line, which may be another now.
            sql = "UPDATE file SET session_id = ? WHERE file_id = ?"
            self.connection.execute(sql, [source.session_id, file_id])
        self._update_tail(file_id, after, facts.lines)
        return file_id

    def _update_tail(self, file_id: int, tail: TailState, lines: int) -> None:
        # A restart begins at 0 and counts its lines again.
        row = asdict(tail) | {"device": _signed(tail.device), "inode": _signed(tail.inode)}
        self.connection.execute(
            f"UPDATE file SET {', '.join(f'{name} = :{name}' for name in row)},"
            " lines = IIF(:offset = 0, 0, lines + :new_lines),"
            " bad_lines = IIF(:offset = 0, 0, bad_lines),"
            " search_offset = IIF(:offset = 0, 0, search_offset), gone = 0"
            " WHERE file_id = :file_id",
            row | {"new_lines": lines, "file_id": file_id},
        )

    def _insert(self, file_id: int, facts: TranscriptRecords) -> None:
        insert_transcript_records(self.connection, file_id, facts)
        insert_bad_lines(self.connection, "file_id", file_id, facts.bad, facts.bad_lines)


# A hundred at a time, so that a transaction is short.
_UNESTIMATED_SUMMARIES: Final = """
SELECT summary_id, text, chars, session_id,
    (SELECT r.model FROM response r WHERE r.file_id = s.file_id AND r.offset < s.offset
        ORDER BY r.offset DESC LIMIT 1)
FROM summary s JOIN file USING (file_id)
WHERE NOT EXISTS (SELECT 1 FROM estimate e WHERE e.summary_id = s.summary_id) LIMIT 100
"""


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None


def _scaled_tokens(text: str, chars: int, counted: int) -> int:
    # The part that was cut off a text counts like the part that was kept.
    return round(counted * max(1.0, chars / len(text))) if text else 0


def _signed(number: int) -> int:
    """Fit an unsigned 64-bit inode (some network mounts) into SQLite's integer."""
    return number - (1 << 64) if number >= 1 << 63 else number


def _unsigned(number: int) -> int:
    return number + (1 << 64) if number < 0 else number
