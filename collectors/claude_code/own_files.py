"""Reads ctxtop's own files beside its store: logs, each record once, and receipts."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO, Final

import msgspec
from msgspec.structs import replace

from ...core.files.safe_open import open_regular
from ...core.model.problem import Problem, unreadable_problem
from ...core.store.database import state_folder
from ...core.store.log_records import LogKind, LogPart, LogRecords
from ...core.store.log_writer import LogWriter
from ...core.store.transcript_records import BadLine, TailState
from ...core.store.writer import StaleTailError, Writer
from ..plugin.plugin_log import ROTATE_BYTES, log_folder
from .own_log_records import (
    read_answer_items,
    read_hook_events,
    read_measurements,
    read_status_snapshots,
)
from .tail import RawLine, TailChange, read_open_tail, split_lines

DecodeLog = Callable[[Iterable[RawLine], int], LogRecords]


class ReceiptFollower:
    """Keeps the store's copy of when sessions were changed last; it belongs to one thread."""

    def __init__(self, writer: Writer) -> None:
        self._writer: Final = writer
        self._state: Final = state_folder(writer.path)
        self._known = writer.read_changed_sessions()
        self._written_at: int | None = None
        """When the folder of receipts was written last, in nanoseconds."""

    def read(self) -> set[str]:
        """Read the receipts where there are other ones; return the sessions that they concern."""
        folder = self._state / "receipts"
        try:
            written_at = folder.stat().st_mtime_ns
        except OSError:
            written_at = None
        if written_at is None and not self._known:
            return set()
        if written_at is not None and written_at == self._written_at:
            return set()
        from ...core.compaction.receipts import ReceiptStore  # most people have changed nothing yet

        self._written_at = written_at
        found = {name: each.at for name, each in ReceiptStore(self._state).last_changes().items()}
        touched = {name for name, _ in found.items() ^ self._known.items()}
        if touched:
            self._writer.save_changed_sessions(found)
            self._known = found
        return touched


MAX_FIRST_LINE_BYTES: Final = 64 * 1024
"""Where the first line stands, by which a file is known under any name."""

WRITER_GRACE_S: Final = 3600.0
"""How long a writer may still come to a renamed file: six times a hook's longest life
(reference: claude-code-formats 4.1)."""

KEEP_ROTATED_S: Final = 14 * 24 * 3600.0
"""A part that was read stays this long: a store that is made again reads it again."""

MAX_KEPT_LOG_BYTES: Final = 16 * ROTATE_BYTES  # of one log at the most; the oldest go first
_ROTATED_SUFFIX: Final = re.compile(r"\.\d{20}-\d+")


class LogFile(msgspec.Struct, frozen=True):
    """A file of a log, and what the folder says of it."""

    path: Path
    is_rotated: bool
    size: int
    mtime_ns: int

    @property
    def key(self) -> tuple[str, int, int]:
        """What changes when there is something to read."""
        return (self.path.name, self.size, self.mtime_ns)


def find_log_files(folder: Path, log: LogKind) -> list[LogFile]:
    """List a log's files, oldest first.

    Raises OSError where the folder cannot be read; one that is not there has none.
    """
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
    if ending and not _ROTATED_SUFFIX.fullmatch(ending):
        return None
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        # Renamed meanwhile: the next look finds it under its new name.
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return LogFile(Path(entry.path), bool(ending), status.st_size, status.st_mtime_ns)


def first_line_hash(file: BinaryIO) -> str | None:
    """Hash a file's first line; None while there is none."""
    head = file.read(MAX_FIRST_LINE_BYTES)
    line, end, _ = head.lstrip(b"\r\n").partition(b"\n")
    if not end and len(head) < MAX_FIRST_LINE_BYTES:
        return None
    return hashlib.blake2b(line, digest_size=16).hexdigest()


def removable_log_files(parts: Iterable[LogFile], now_s: float) -> list[LogFile]:
    """Choose the renamed files that may be removed, where all of them were read."""
    gone: list[LogFile] = []
    newer = 0
    for part in sorted(parts, key=lambda part: part.path.name, reverse=True):
        newer += part.size
        quiet_s = now_s - part.mtime_ns / 1e9
        if quiet_s > KEEP_ROTATED_S or (quiet_s > WRITER_GRACE_S and newer > MAX_KEPT_LOG_BYTES):
            gone.append(part)
    return gone


CUT_OFF_REASON: Final = "cut off: its writer was stopped, or the disk was full"

_DECODERS: Final[dict[LogKind, DecodeLog]] = {
    LogKind.HOOKS: read_hook_events,
    LogKind.STATUS_LINE: read_status_snapshots,
    LogKind.PLUGIN: read_measurements,
    LogKind.ANSWERS: read_answer_items,
}


class LogReader:
    """Brings the store up to date with its logs; it belongs to the collector's thread."""

    def __init__(
        self, writer: Writer, report: Callable[[Problem], None], resolve: Callable[[str], None]
    ) -> None:
        self.folder: Final = own_log_folder(writer.path)
        self._writer: Final = LogWriter(writer)
        self._report: Final = report
        self._resolve: Final = resolve
        self._known = self._writer.parts()
        self._read = {
            (log, (part.name, tail.size, tail.mtime_ns))
            for (log, _), (part, tail) in self._known.items()
        }

    def read(self) -> set[str]:
        """Read what was added; give back the sessions that it touches."""
        touched: set[str] = set()
        for log in LogKind:
            try:
                found = find_log_files(self.folder, log)
            except OSError as error:
                self._report(unreadable_problem(str(self.folder), error))
                continue
            self._resolve(str(self.folder))
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
            self._report(unreadable_problem(place, error))
            return set()
        except StaleTailError:
            # Another ctxtop was faster: what it stored is what we would have.
            self._known = self._writer.parts()
            return set()
        self._resolve(place)
        return touched

    def _read_part(self, log: LogKind, found: LogFile) -> set[str]:
        touched: set[str] = set()
        with open_regular(found.path) as file:
            mark = first_line_hash(file)
            status = os.fstat(file.fileno())
            if mark is None:
                if not status.st_size:
                    # Made for a file that is about to get this name, or never will.
                    self._read.add((log, found.key))
                return touched
            part = LogPart(log, mark, found.path.name)
            before = self._known.get((log, mark), (part, TailState()))[1]
            while True:
                # The first line says which file it is; its numbers may be others by now.
                same = replace(before, device=status.st_dev, inode=status.st_ino)
                read = read_open_tail(file, same)
                if read.change is TailChange.REWRITTEN:
                    self._writer.restart(part, before)
                    before = TailState()
                    continue
                facts = _DECODERS[log](split_lines(read.block), read.after.mtime_ns // 1_000_000)
                facts = replace(facts, bad=facts.bad + read.bad_lines)
                self._writer.append(part, before, read.after, facts)
                touched |= _session_ids_in(facts)
                before = read.after
                self._known[log, mark] = (part, before)
                if not read.has_more:
                    self._read.add((log, (part.name, before.size, before.mtime_ns)))
                    return touched

    def _remove(self, log: LogKind, found: Iterable[LogFile]) -> None:
        """Remove renamed files that were read, long after anybody can write into them."""
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
                self._report(Problem(str(part.path), what, "it was read; remove it yourself"))

    def _set_rest_aside(self, log: LogKind, found: LogFile) -> None:
        """Set the rest of a file aside that nobody will complete."""
        for part, tail in list(self._known.values()):
            if part.log is log and part.name == found.path.name and tail.offset < found.size:
                rest = BadLine(tail.offset, found.size - tail.offset, CUT_OFF_REASON)
                after = replace(tail, offset=found.size, anchor=CUT_OFF_REASON)
                self._writer.append(part, tail, after, LogRecords(bad=(rest,)))
                self._known[log, part.mark] = (part, after)


def own_log_folder(store: Path) -> Path:
    """Name the folder of a store's logs."""
    return Path(log_folder(str(store)))


def _session_ids_in(facts: LogRecords) -> set[str]:
    named = {event.session_id for event in facts.events if event.session_id}
    named |= {snapshot.session_id for snapshot in facts.snapshots}
    named |= {item.session_id for item in facts.answer_items}
    return named | {measured.session_id for measured in facts.measurements}
