"""Reading ctxtop's own logs: each record once, whatever its file is called by then."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from ...core.store.facts import BadLine, TailState
from ...core.store.log_facts import Log, LogFacts, LogPart
from ...core.store.log_writer import LogWriter
from ...core.store.writer import StaleTailError
from ..folder import Trouble, unreadable
from ..plugin.log import log_folder
from ..regular import open_regular
from ..tail import Change, lines_of, read_open
from .answer_log import read_answers
from .hook_log import read_events
from .log_parts import LATE_S, done_with, find_parts, head_mark
from .measurements import read_measurements
from .status_line import read_snapshots

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ...core.store.writer import Writer
    from ..tail import RawLine
    from .log_parts import FoundPart

    Decode = Callable[[Iterable[RawLine], int], LogFacts]

CUT_OFF: Final = "cut off: its writer was stopped, or the disk was full"

_DECODERS: Final[dict[Log, Decode]] = {
    Log.HOOKS: read_events,
    Log.STATUS_LINE: read_snapshots,
    Log.PLUGIN: read_measurements,
    Log.ANSWERS: read_answers,
}


class LogReader:
    """Brings the store up to date with its logs; it belongs to the collector's thread."""

    def __init__(
        self, writer: Writer, report: Callable[[Trouble], None], resolve: Callable[[str], None]
    ) -> None:
        self.folder: Final = logs_of(writer.path)
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
        for log in Log:
            try:
                found = find_parts(self.folder, log)
            except OSError as error:
                self._report(unreadable(str(self.folder), error))
                continue
            self._resolve(str(self.folder))
            for part in found:
                touched |= self._read_if_changed(log, part)
            self._remove(log, found)
        return touched

    def _read_if_changed(self, log: Log, found: FoundPart) -> set[str]:
        if (log, found.key) in self._read:
            return set()
        place = str(found.path)
        try:
            touched = self._read_part(log, found)
        except FileNotFoundError:
            return set()
        except OSError as error:
            self._report(unreadable(place, error))
            return set()
        except StaleTailError:
            # Another ctxtop was faster: what it stored is what we would have.
            self._known = self._writer.parts()
            return set()
        self._resolve(place)
        return touched

    def _read_part(self, log: Log, found: FoundPart) -> set[str]:
        touched: set[str] = set()
        with open_regular(found.path) as file:
            mark = head_mark(file)
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
                read = read_open(file, same)
                if read.change is Change.REWRITTEN:
                    self._writer.restart(part, before)
                    before = TailState()
                    continue
                facts = _DECODERS[log](lines_of(read.block), read.after.mtime_ns // 1_000_000)
                facts = replace(facts, bad=facts.bad + read.bad_lines)
                self._writer.append(part, before, read.after, facts)
                touched |= _sessions(facts)
                before = read.after
                self._known[log, mark] = (part, before)
                if not read.has_more:
                    self._read.add((log, (part.name, before.size, before.mtime_ns)))
                    return touched

    def _remove(self, log: Log, found: Iterable[FoundPart]) -> None:
        """Remove renamed files that were read, long after anybody can write into them."""
        now = time.time()
        read = [part for part in found if part.is_rotated and (log, part.key) in self._read]
        for part in read:
            if now - part.mtime_ns / 1e9 > LATE_S:
                self._set_rest_aside(log, part)
        for part in done_with(read, now):
            try:
                part.path.unlink(missing_ok=True)
            except OSError as error:
                what = f"cannot be removed ({error.strerror})"
                self._report(Trouble(str(part.path), what, "it was read; remove it yourself"))

    def _set_rest_aside(self, log: Log, found: FoundPart) -> None:
        """Set the rest of a file aside that nobody will complete."""
        for part, tail in list(self._known.values()):
            if part.log is log and part.name == found.path.name and tail.offset < found.size:
                rest = BadLine(tail.offset, found.size - tail.offset, CUT_OFF)
                after = replace(tail, offset=found.size, anchor=CUT_OFF)
                self._writer.append(part, tail, after, LogFacts(bad=(rest,)))
                self._known[log, part.mark] = (part, after)


def logs_of(store: Path) -> Path:
    """Name the folder of a store's logs."""
    return Path(log_folder(str(store)))


def _sessions(facts: LogFacts) -> set[str]:
    named = {event.session_id for event in facts.events if event.session_id}
    named |= {snapshot.session_id for snapshot in facts.snapshots}
    named |= {item.session_id for item in facts.answer_items}
    return named | {measured.session_id for measured in facts.measurements}
