"""ctxtop's own files beside its store: reads logs and receipts, writes status line files."""

import os
import re
import stat
import time
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, Final

import msgspec
from msgspec.structs import replace

from ...core.files.digests import blake2b
from ...core.files.safe_open import open_regular
from ...core.model.log_records import LogPart, LogRecords
from ...core.model.outlook import Interval
from ...core.model.problem import Problem, ProblemReporter
from ...core.model.session import Session
from ...core.model.transcript_records import BadLine, LogKind, TailState
from ...core.store.bulkhead import FAILED, bulkhead
from ...core.store.database import state_folder
from ...core.store.log_writer import LogWriter
from ...core.store.queries.log_queries import shown_sessions
from ...core.store.writer import StaleTailError, Writer
from ...core.transcript.raw_lines import ms_to_timestamp
from ..locations.policy_files import PolicyFiles
from ..plugin_files.plugin_log import (
    FOLDER_MODE,
    ROTATE_BYTES,
    STATUS_FILE_VERSION,
    log_folder,
    status_folder,
    status_path,
)
from ..plugin_files.state_files import write_atomically
from .tail import TailChange, read_open_tail, split_lines


class ReceiptFollower:
    """Keeps the store's record of when ctxtop changed sessions, and which it made.

    Used by one thread.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer: Final = writer
        self._state: Final = state_folder(writer.path)
        self._known = writer.read_changed_sessions()
        self._forks = writer.read_own_forks()
        self._written_at: int | None = None  # mtime of the folder of receipts, in ns

    def read(self) -> set[str]:
        folder = self._state / "receipts"
        try:
            written_at = folder.stat().st_mtime_ns
        except OSError:
            written_at = None
        if written_at is None and not self._known and not self._forks:
            return set()
        if written_at is not None and written_at == self._written_at:
            return set()
        from ...core.compaction.receipts import ReceiptStore  # most people have no receipts yet

        self._written_at = written_at
        receipts = ReceiptStore(self._state)
        changes = receipts.last_changes()
        known = {(session_id, each.at, each.fork_id) for session_id, each in changes.items()}
        touched = {session_id for session_id, *_ in known ^ self._known}
        if touched:
            self._writer.save_changed_sessions(known)
            self._known = known
        forks: set[tuple[str, str, bool]] = {*receipts.forks()}
        if forks != self._forks:
            touched |= {session_id for session_id, *_ in forks ^ self._forks}
            self._writer.save_own_forks(forks)
            self._forks = forks
        return touched


MAX_FIRST_LINE_BYTES: Final = 64 * 1024  # of the first line, which identifies a file
WRITER_GRACE_S: Final = 3600.0
"""How long a writer may still append to a renamed file: six times a hook's longest life
(reference: claude-code-formats 4.1)."""

KEEP_ROTATED_S: Final = 14 * 24 * 3600.0  # a rebuilt store reads rotated files again
MAX_KEPT_LOG_BYTES: Final = 16 * ROTATE_BYTES  # kept of one log; the oldest go first


class LogFile(msgspec.Struct, frozen=True):
    path: Path
    is_rotated: bool
    size: int
    mtime_ns: int

    @property
    def key(self) -> tuple[str, int, int]:
        return (self.path.name, self.size, self.mtime_ns)


def find_log_files(folder: Path, log: LogKind) -> list[LogFile]:
    """List a log's files, oldest first; raises OSError if the folder cannot be read."""
    try:
        with os.scandir(folder) as entries:
            found = [part for entry in entries if (part := _to_log_file(entry, log))]
    except FileNotFoundError:
        return []
    return sorted(found, key=lambda part: (not part.is_rotated, part.path.name))


def _to_log_file(entry: os.DirEntry[str], log: LogKind) -> LogFile | None:
    if not entry.name.startswith(log):
        return None
    ending = entry.name[len(log) :]
    if ending and not re.fullmatch(r"\.\d{20}-\d+", ending):
        return None
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        # Renamed meanwhile: the next read finds it under its new name.
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return LogFile(Path(entry.path), bool(ending), status.st_size, status.st_mtime_ns)


def first_line_hash(file: BinaryIO) -> str | None:
    head = file.read(MAX_FIRST_LINE_BYTES)
    line, end, _ = head.lstrip(b"\r\n").partition(b"\n")
    if not end and len(head) < MAX_FIRST_LINE_BYTES:
        return None
    return blake2b(line, digest_size=16).hexdigest()


def removable_log_files(parts: Iterable[LogFile], now_s: float) -> list[LogFile]:
    removable: list[LogFile] = []
    newer = 0
    for part in sorted(parts, key=lambda part: part.path.name, reverse=True):
        newer += part.size
        quiet_s = now_s - part.mtime_ns / 1e9
        if quiet_s > KEEP_ROTATED_S or (quiet_s > WRITER_GRACE_S and newer > MAX_KEPT_LOG_BYTES):
            removable.append(part)
    return removable


CUT_OFF_REASON: Final = "incomplete: its writer was interrupted, or the disk was full"


class LogReader:
    """Brings the store up to date with its logs; used by the collector's thread alone."""

    def __init__(self, writer: Writer, problems: ProblemReporter) -> None:
        self.folder: Final = own_log_folder(writer.path)
        self._writer: Final = LogWriter(writer)
        self._problems: Final = problems
        self._known = self._writer.parts()
        self._read = {
            (log, (part.name, tail.size, tail.mtime_ns))
            for (log, _), (part, tail) in self._known.items()
        }

    def read(self) -> set[str]:
        touched: set[str] = set()
        for log in LogKind:
            try:
                found = find_log_files(self.folder, log)
            except OSError as error:
                self._problems.report_unreadable(str(self.folder), error)
                continue
            self._problems.resolve(str(self.folder))
            for part in found:
                touched |= self._read_if_changed(log, part)
            self._remove(log, found)
        return touched

    def _read_if_changed(self, log: LogKind, found: LogFile) -> set[str]:
        if (log, found.key) in self._read:
            return set()
        place = str(found.path)
        try:
            touched = self._read_part(log, found)
        except FileNotFoundError:
            return set()
        except OSError as error:
            self._problems.report_unreadable(place, error)
            return set()
        except StaleTailError:
            # Another ctxtop was faster and stored the same.
            self._known = self._writer.parts()
            return set()
        self._problems.resolve(place)
        return touched

    def _read_part(self, log: LogKind, found: LogFile) -> set[str]:
        from .changed_files import own_log_records

        touched: set[str] = set()
        with open_regular(found.path) as file:
            mark = first_line_hash(file)
            status = os.fstat(file.fileno())
            if mark is None:
                if not status.st_size:
                    # Created for a log that is about to get this name, or never will.
                    self._read.add((log, found.key))
                return touched
            part = LogPart(log, mark, found.path.name)
            before = self._known.get((log, mark), (part, TailState()))[1]
            while True:
                # The first line identifies the file; its device and inode may have changed.
                same = replace(before, device=status.st_dev, inode=status.st_ino)
                read = read_open_tail(file, same)
                if read.change is TailChange.REWRITTEN:
                    self._writer.restart(part, before)
                    before = TailState()
                    continue
                lines, read_at = split_lines(read.block), read.after.mtime_ns // 1_000_000
                records = own_log_records.read_log(log, lines, read_at)
                records = replace(records, bad=records.bad + read.bad_lines)
                self._writer.append(part, before, read.after, records)
                touched |= _session_ids_in(records)
                before = read.after
                self._known[log, mark] = (part, before)
                if not read.has_more:
                    self._read.add((log, (part.name, before.size, before.mtime_ns)))
                    return touched

    def _remove(self, log: LogKind, found: Iterable[LogFile]) -> None:
        """Remove rotated files that were read, long after the last possible write to them."""
        now = time.time()
        read = [part for part in found if part.is_rotated and (log, part.key) in self._read]
        for part in read:
            if now - part.mtime_ns / 1e9 > WRITER_GRACE_S:
                self._set_rest_aside(log, part)
        for part in removable_log_files(read, now):
            try:
                part.path.unlink(missing_ok=True)
            except OSError as error:
                what = f"cannot be removed ({error.strerror})"
                self._problems.report(
                    Problem(str(part.path), what, "its data was read; delete the file yourself")
                )

    def _set_rest_aside(self, log: LogKind, found: LogFile) -> None:
        """Record an incomplete last line, which no writer will complete, as a bad line."""
        for part, tail in list(self._known.values()):
            if part.log is log and part.name == found.path.name and tail.offset < found.size:
                rest = BadLine(tail.offset, found.size - tail.offset, CUT_OFF_REASON)
                after = replace(tail, offset=found.size, anchor=CUT_OFF_REASON)
                self._writer.append(part, tail, after, LogRecords(bad=(rest,)))
                self._known[log, part.mark] = (part, after)


def own_log_folder(store: Path) -> Path:
    return Path(log_folder(str(store)))


def _session_ids_in(records: LogRecords) -> set[str]:
    lists = (records.events, records.snapshots, records.answer_items, records.measurements)
    return {each.session_id for listed in lists for each in listed if each.session_id}


STATUS_LINE_ACTIVE_MS: Final = 24 * 3600 * 1000  # then nobody sees the status line any more


class StatusLineFiles:
    """Writes the files that the status line reads; used by the collector's thread alone."""

    def __init__(self, writer: Writer, files: PolicyFiles, problems: ProblemReporter) -> None:
        self._writer: Final = writer
        self._files: Final = files
        self._problems: Final = problems
        self._written: dict[str, bytes] = {}
        self._store: Final = str(writer.path)

    def update(self, session_ids: Iterable[str] | None = None) -> None:
        now_ms = time.time_ns() // 1_000_000
        shown = shown_sessions(self._writer.connection, now_ms - STATUS_LINE_ACTIVE_MS, session_ids)
        folder = status_folder(self._store)
        try:
            if session_ids is None:
                _remove_others(Path(folder), shown)
            if shown:
                self._write(sorted(shown), now_ms)
        except OSError as error:
            what = f"cannot be written ({error.strerror})"
            self._problems.report(Problem(folder, what, "the status line shows no forecast"))
            return
        self._problems.resolve(folder)

    def _write(self, sessions: list[str], now_ms: int) -> None:
        from ...core.readers import fleet_reader

        db, policies = self._writer.connection, self._files.policies
        for session in fleet_reader.read_sessions(db, now_ms, sessions, policies):
            place = f"status line of {fleet_reader.session_place(session.session_id)}"
            with bulkhead(place, FAILED, self._writer.path, expected=(OSError,)):
                path = status_path(self._store, session.session_id)
                data = msgspec.json.encode(status_line_record(session))
                if path and self._written.get(path) != data:
                    _write_whole(path, data)
                    self._written[path] = data


def _remove_others(folder: Path, shown: set[str]) -> None:
    try:
        found = [Path(entry.path) for entry in os.scandir(folder) if entry.is_file()]
    except FileNotFoundError:
        return
    for path in found:
        if path.name.partition(".")[0] not in shown:
            path.unlink(missing_ok=True)


def _status_turns(turns: Interval) -> dict[str, int]:
    """Return two bounds, or far away the one that is known."""
    if turns.is_open:
        return {"low": int(turns.low)}
    return {"p50": int(turns.p50), "p80": int(turns.p80)}


def status_line_record(session: Session) -> dict[str, object]:
    """Build the status line's record of a session; named as in `ctxtop sessions --json`."""
    context, forecast, cache = session.context, session.outlook.end, session.cache
    cost, compacted_at = session.rewrite_cost, session.last_compaction_at
    turns = forecast and _status_turns(forecast.turns)
    return {
        "v": STATUS_FILE_VERSION,
        "model": session.model,
        "context_tokens": context.tokens,
        "context_state": context.state.value,
        "context_source": context.counting.source.value,
        # As in the transcript: the status line compares the texts.
        "compacted_at": compacted_at and ms_to_timestamp(compacted_at),
        "counter_tokens": context.token_counts.counter,
        "window_tokens": context.window.tokens,
        "window_source": context.window.source.value,
        "trigger_tokens": context.trigger_tokens,
        "turns_left": turns,
        "agents_noncompliant": session.agents_noncompliant,
        "cache_expires_at": cache.expires_at and cache.expires_at // 1000,
        "cold_tokens": cache.tokens,
        "cold_usd": cost.usd if cost else None,
        "cold_min_tokens": session.cold_limits.min_tokens,
    }


def _write_whole(path: str, data: bytes) -> None:
    try:
        write_atomically(path, data)
    except FileNotFoundError:
        Path(path).parent.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
        write_atomically(path, data)
