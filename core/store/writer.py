"""The one way facts enter the store: offset and rows in one transaction."""

from __future__ import annotations

import sqlite3
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import msgspec

from .database import open_writer, set_aside, write
from .facts import FileKind, SourceFile, TailState
from .schema import FACT_TABLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from typing import Any

    from .facts import AgentMeta, Facts, LiveSession, ReplyFact, WindowSeen

GONE: Final = -1
"""The size of a file that is gone: none has it, so one that comes back is looked at again."""

TROUBLE_ROWS: Final = 200
"""How many troubles are kept; each place has one row, the newest."""


class StaleTailError(Exception):
    """Another ctxtop has read further in this file: what was read here is not stored."""


class OtherFolderError(Exception):
    """The store holds the facts of another Claude Code folder; the message names it."""


class Writer:
    """The store's writing side; it belongs to the thread that made it."""

    def __init__(self, path: Path) -> None:
        self.path: Final = path
        self._db, self.notice = open_writer(path)
        self._doubt: sqlite3.Error | None = None

    @property
    def _connection(self) -> sqlite3.Connection:
        return self._db.conn

    @property
    def connection(self) -> sqlite3.Connection:
        """For the modules beside, which write tables of their own inside `transaction()`."""
        return self._db.conn

    def close(self) -> None:
        """Let SQLite note what it learnt of the tables, and close."""
        try:
            self._connection.execute("PRAGMA optimize")
        except sqlite3.Error as error:
            # Only a hint for later plans is lost.
            self.notice = str(error)
        finally:
            self._db.close()

    def distrust(self, error: sqlite3.Error) -> None:
        """Hear from a reader in another thread that the store is damaged."""
        self._doubt = error

    def check(self) -> None:
        """Raise what a reader has found: the writer itself may never come by that page."""
        error, self._doubt = self._doubt, None
        if error is not None:
            raise error

    def start_again(self) -> str:
        """Move a damaged store aside, make a new one, and say so in one sentence."""
        self._db.close()
        aside = set_aside(self.path)
        self._db, _ = open_writer(self.path)
        return f"the store {self.path} was damaged: moved to {aside.name}, made again"

    def claim(self, root: Path) -> None:
        """Note whose facts these are; raise OtherFolderError where they are another folder's."""
        with self.transaction():
            row = self._connection.execute("SELECT value FROM about WHERE key = 'root'").fetchone()
            if row is None:
                self._db.table("about").insert({"key": "root", "value": str(root)})
            elif row[0] != str(root):
                raise OtherFolderError(row[0])

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Group several writes; a failure undoes all of them."""
        if self._connection.in_transaction:
            yield
            return
        with write(self._db):
            yield

    def files(self) -> dict[str, tuple[SourceFile, TailState]]:
        """Every transcript that the store knows, by path, with how far it was read."""
        rows = self._connection.execute(
            "SELECT path, kind, project, session_id, agent_id,"
            f" device, inode, offset, anchor, IIF(gone, {GONE}, size), mtime_ns FROM file"
        )
        return {
            row[0]: (
                SourceFile(row[0], FileKind(row[1]), row[2], row[3], row[4]),
                TailState(_unsigned(row[5]), _unsigned(row[6]), *row[7:]),
            )
            for row in rows
        }

    def append(self, source: SourceFile, before: TailState, after: TailState, facts: Facts) -> None:
        """Add what was read from `before.offset` to `after.offset`.

        Raises StaleTailError where the store stands elsewhere than `before`.
        """
        with self.transaction():
            file_id = self._advance(source, before, after, facts)
            self._insert(file_id, facts)

    def restart(self, source: SourceFile, before: TailState) -> None:
        """Forget what was read of a file that was rewritten; it is read again from its start."""
        with self.transaction():
            file_id = self._at(source, before)
            if file_id is None:
                return
            for table in FACT_TABLES:
                self._connection.execute(f"DELETE FROM {table} WHERE file_id = ?", [file_id])
            self._update_tail(file_id, TailState(), 0)

    def mark_gone(self, path: str) -> None:
        """Note that a file is gone; what it said is kept."""
        self._connection.execute("UPDATE file SET gone = 1 WHERE path = ?", [path])

    def save_meta(self, metas: Iterable[AgentMeta]) -> None:
        """Keep what agents' meta.json files say."""
        rows = [msgspec.structs.asdict(meta) for meta in metas]
        if rows:
            with self.transaction():
                self._db.table("agent_meta").upsert_all(rows, pk="path")

    def meta_times(self) -> dict[str, int]:
        """When each meta.json that is kept was written, in nanoseconds."""
        return dict(self._connection.execute("SELECT path, mtime_ns FROM agent_meta").fetchall())

    def save_live(self, sessions: Iterable[LiveSession]) -> None:
        """Replace the list of sessions that are open now."""
        rows = [msgspec.structs.asdict(session) for session in sessions]
        with self.transaction():
            self._connection.execute("DELETE FROM live")
            if rows:
                self._db.table("live").insert_all(rows, pk="session_id", replace=True)

    def save_windows(self, windows: Iterable[WindowSeen]) -> None:
        """Keep the newest window that a status line showed, by session and model."""
        with self.transaction():
            self._connection.executemany(
                "INSERT INTO window_seen VALUES (?, ?, ?, ?)"
                " ON CONFLICT DO UPDATE SET window_tokens = excluded.window_tokens,"
                " at = excluded.at WHERE excluded.at >= window_seen.at",
                [(w.session_id, w.model, w.window_tokens, w.at) for w in windows],
            )

    def save_trouble(self, place: str, what: str, remedy: str) -> None:
        """Keep the newest trouble of a place, for the status line and doctor."""
        with self.transaction():
            self._db.table("trouble").upsert(
                {"place": place, "at": _now(), "what": what, "remedy": remedy}, pk="place"
            )
            self._connection.execute(
                "DELETE FROM trouble WHERE place NOT IN"
                " (SELECT place FROM trouble ORDER BY at DESC LIMIT ?)",
                [TROUBLE_ROWS],
            )

    def troubled_places(self) -> set[str]:
        """Name the places whose trouble is kept, also of an earlier run."""
        return {row[0] for row in self._connection.execute("SELECT place FROM trouble")}

    def clear_trouble(self, place: str) -> None:
        """Forget a trouble that has ended."""
        self._connection.execute("DELETE FROM trouble WHERE place = ?", [place])

    def _file_id(self, path: str) -> int:
        row = self._connection.execute("SELECT file_id FROM file WHERE path = ?", [path])
        return int(row.fetchone()[0])

    def _at(self, source: SourceFile, before: TailState) -> int | None:
        row = self._connection.execute(
            "SELECT file_id, offset, anchor FROM file WHERE path = ?", [source.path]
        ).fetchone()
        stands = (row[1], row[2]) if row else (0, "")
        if stands != (before.offset, before.anchor):
            raise StaleTailError(source.path)
        return int(row[0]) if row else None

    def _advance(
        self, source: SourceFile, before: TailState, after: TailState, facts: Facts
    ) -> int:
        file_id = self._at(source, before)
        if file_id is None:
            row = msgspec.structs.asdict(source) | {"kind": str(source.kind)}
            self._db.table("file").insert(row)
            file_id = self._file_id(source.path)
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
            " mtime_ns = ?, lines = CASE WHEN ? = 0 THEN 0 ELSE lines + ? END,"
            " gone = 0 WHERE file_id = ?",
            [
                _signed(tail.device),
                _signed(tail.inode),
                tail.offset,
                tail.anchor,
                tail.size,
                tail.mtime_ns,
                tail.offset,
                lines,
                file_id,
            ],
        )

    def _insert(self, file_id: int, facts: Facts) -> None:
        run = self._connection.executemany
        session = msgspec.structs.asdict(facts.session)
        if any(value is not None for value in session.values()):
            self._connection.execute(_SESSION_UPSERT, {"file_id": file_id} | session)
        run(_RESPONSE_UPSERT, _rows(file_id, facts.responses))
        for name, rows in (
            ("boundary", facts.boundaries),
            ("api_error", facts.errors),
            ("launch", facts.launches),
            ("agent_return", facts.returns),
            ("summary", facts.texts),
            ("bad_line", facts.bad),
        ):
            if rows:
                self._db.table(name).insert_all(_rows(file_id, rows), ignore=True)
        run(_LINE_COUNT_UPSERT, _counts(file_id, facts))
        for reply in facts.replies:
            self._save_reply(file_id, reply)

    def _save_reply(self, file_id: int, reply: ReplyFact) -> None:
        self._connection.execute(_REPLY_UPSERT, _row(file_id, reply))


def _row(file_id: int, fact: msgspec.Struct) -> dict[str, Any]:
    return {"file_id": file_id} | msgspec.structs.asdict(fact)


def _rows(file_id: int, facts: Iterable[msgspec.Struct]) -> list[dict[str, Any]]:
    return [_row(file_id, fact) for fact in facts]


def _counts(file_id: int, facts: Facts) -> list[tuple[int, str, int, int]]:
    return [
        (file_id, name, known, lines)
        for known, counts in ((1, facts.ignored), (0, facts.unknown))
        for name, lines in counts.items()
    ]


def _signed(number: int) -> int:
    """Fit an unsigned 64-bit inode (some network mounts) into SQLite's integer."""
    return number - (1 << 64) if number >= 1 << 63 else number


def _unsigned(number: int) -> int:
    return number + (1 << 64) if number < 0 else number


def _now() -> int:
    return time.time_ns() // 1_000_000


# A message's place is where it was first written (a second compaction appends old
# history again); its numbers are those of its last line (early lines of clients
# before 2.1.97 hold a placeholder). A line read twice changes nothing.
_RESPONSE_UPSERT: Final = """
INSERT INTO response VALUES (:file_id, :message_id, :offset, :at, :model, :input_tokens,
    :cache_creation_tokens, :cache_read_tokens, :output_tokens, :context_tokens,
    :sidechain, :tool_uses, :offset)
ON CONFLICT (file_id, message_id) DO UPDATE SET
    model = excluded.model,
    input_tokens = excluded.input_tokens,
    cache_creation_tokens = excluded.cache_creation_tokens,
    cache_read_tokens = excluded.cache_read_tokens,
    output_tokens = MAX(output_tokens, excluded.output_tokens),
    context_tokens = excluded.context_tokens,
    tool_uses = tool_uses + excluded.tool_uses,
    last_offset = excluded.last_offset
WHERE excluded.last_offset > last_offset
"""

_FIRST: Final = ("opened_at", "forked_from", "first_prompt")
_NEWEST: Final = (
    "cwd",
    "client_version",
    "custom_title",
    "ai_title",
    "summary_title",
    "last_prompt",
    "model",
)

_SESSION_UPSERT: Final = (
    "INSERT INTO session VALUES (:file_id, :started_at, :last_at, :opened_at, :forked_from,"
    " :cwd, :client_version, :custom_title, :ai_title, :summary_title, :first_prompt,"
    " :last_prompt, :model)"
    " ON CONFLICT (file_id) DO UPDATE SET "
    + ", ".join(f"{name} = COALESCE(excluded.{name}, {name})" for name in _NEWEST)
    + "".join(f", {name} = COALESCE({name}, excluded.{name})" for name in _FIRST)
    # Lines do not stand in the order of their times; where neither is known it stays NULL.
    + "".join(
        f", {name} = {choose}(COALESCE({name}, excluded.{name}), COALESCE(excluded.{name}, {name}))"
        for name, choose in (("started_at", "MIN"), ("last_at", "MAX"))
    )
)

_LINE_COUNT_UPSERT: Final = (
    "INSERT INTO line_count VALUES (?, ?, ?, ?)"
    " ON CONFLICT DO UPDATE SET lines = lines + excluded.lines"
)

_REPLY_UPSERT: Final = """
INSERT INTO reply (file_id, message_id, offset, at, text)
VALUES (:file_id, :message_id, :offset, :at, :text)
ON CONFLICT (file_id) DO UPDATE SET
    text = CASE WHEN message_id = excluded.message_id
        THEN text || char(10) || excluded.text ELSE excluded.text END,
    message_id = excluded.message_id, offset = excluded.offset, at = excluded.at
"""
