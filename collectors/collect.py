"""The one thread that reads: everything once, then what changes, into the store."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Final

import msgspec

from ..core.last_line import whole_length
from ..core.store.facts import SourceFile, TailState
from ..core.store.writer import GONE, NO_DEVICE, StaleTailError
from .afterwards import Afterwards
from .agent_meta import read_meta
from .clean import clean_title
from .client_environment import read_environment
from .folder import Trouble, describe, find_files, found_file, is_moved, unreadable
from .listener import Changed, Progress
from .own_changes import OwnChanges
from .own_logs.logs import LogReader
from .registry import open_sessions, read_clients
from .regular import open_regular
from .surroundings.surroundings import SCAN_S, TICK_S, Surroundings
from .surroundings.tell import Tell
from .tail import REST_S, Change, slim
from .work import Task, Work

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ..core.store.facts import LiveSession
    from ..core.store.writer import Writer
    from .folder import ClaudeFolder, Finding, FoundFile
    from .listener import Listener
    from .policy_files import PolicyFiles
    from .readers import Answered, Readers
    from .reading import Reading

COMMIT_BYTES: Final = 64 * 1024 * 1024
COMMIT_S: Final = 0.25
"""A transaction ends after either: rows come in fast batches, and the screen sees them soon."""

HEAD_BYTES: Final = 64 * 1024
"""Where the first line of an old agent's file names its session."""

NANOSECONDS: Final = 1_000_000_000


class _Batch(msgspec.Struct):
    """What waits for the next commit."""

    tails: dict[str, tuple[SourceFile, TailState]] = {}
    touched: set[str] = set()
    rewritten: list[str] = []
    gone: list[str] = []
    newest_ns: int = 0
    bytes: int = 0
    began: float = msgspec.field(default_factory=time.monotonic)

    @property
    def is_full(self) -> bool:
        return self.bytes >= COMMIT_BYTES or time.monotonic() - self.began >= COMMIT_S


class Collector:
    """Brings the store up to date with Claude Code's folder; it belongs to one thread."""

    def __init__(
        self,
        folder: ClaudeFolder,
        writer: Writer,
        listener: Listener,
        policy_files: PolicyFiles | None = None,
    ) -> None:
        self.folder: Final = folder
        self.writer: Final = writer
        self.listener: Final = listener
        self._known = writer.files()
        self._metas = writer.meta_times()
        self._live: list[LiveSession] | None = None
        self._left: tuple[frozenset[str], bool] | None = writer.registry_left()
        """Of the registry: entries that were left behind, and whether there is one."""
        self._own_changes: Final = OwnChanges(writer)
        self._processes: set[tuple[str, int, str | None]] = set()
        self._troubled: dict[str, Trouble | None] = dict.fromkeys(writer.troubled_places())
        tell = Tell(self.report, self._ease, listener.noted)
        self._surroundings: Final = Surroundings(folder, writer, tell)
        self.afterwards: Final = Afterwards(folder, writer, tell, self._say_changed, policy_files)
        # What an earlier run told of is over, unless the first scan finds it again.
        self._unseen: set[str] = set(self._troubled)
        self._unrested: Final[set[str]] = set()
        self.logs: Final = LogReader(writer, self.report, self._ease)

    def scan(self) -> None:
        """Look at everything once: newest first, only what changed is read."""
        finding = find_files(self.folder)
        over = self._unseen - {trouble.place for trouble in finding.troubles}
        for place in over:
            self._ease(place)
        self._unseen = {trouble.place for trouble in finding.troubles}
        self.read_sidecars()
        self.take(finding)
        if self._unrested:
            time.sleep(REST_S)
            self.take_rested()
        self._note_gone(finding)
        # What the client is set up with tells where its levels and its trigger lie.
        self._look_around(SCAN_S)
        self.afterwards.judge_all()
        self.listener.scanned()

    def scan_and_count(self) -> None:
        """Look at everything once, and count the texts that nobody has counted."""
        self.scan()
        self.afterwards.count_texts()

    def scan_and_tell(self) -> None:
        """Look at everything once, and tell of every compaction that nobody has told of."""
        self.scan()
        self.afterwards.tell_compactions(math.inf)

    def scan_and_measure(self) -> None:
        """Look at everything once, and measure every save that nobody has measured."""
        self.scan()
        self.afterwards.measure_saves(math.inf)

    def look_below(self, path: Path) -> None:
        """Look again at one folder of the tree."""
        self.take(find_files(self.folder, path))
        self.afterwards.judge_new()

    def knows(self, relative: str) -> bool:
        """Say whether a path below projects/ is a transcript that was read before."""
        return relative in self._known

    def take(self, finding: Finding) -> None:
        """Read what a look into the folder found."""
        for trouble in finding.troubles:
            self.report(trouble)
        self._take_metas(finding.metas)
        waiting = [found for found in finding.transcripts if self._has_changed(found)]
        if waiting:
            self._take_all(waiting)

    def take_paths(self, paths: Iterable[Path]) -> None:
        """Read known transcripts that are said to have grown."""
        waiting = [found for path in sorted(paths) if (found := self._stat(path))]
        if waiting:
            self._take_all(waiting)
        self.afterwards.judge_new()

    def take_rested(self) -> None:
        """Read again the files whose last line had no line end, and was too new to count."""
        paths = [self.folder.projects / relative for relative in self._unrested]
        self._unrested.clear()
        if paths:
            self.take_paths(paths)

    def read_sidecars(self) -> None:
        """Read the registry, our own receipts, and the logs of hooks and status line."""
        registry = read_clients(self.folder)
        live = open_sessions(registry)
        touched = self._own_changes.read()
        if (registry.left, registry.is_kept) != self._left:
            self.writer.save_registry(registry.left, is_kept=registry.is_kept)
            touched |= registry.left ^ (self._left[0] if self._left else frozenset())
            self._left = (registry.left, registry.is_kept)
        if live != self._live:
            self.writer.save_live(live)
            self._read_environments(live)
            touched |= {session.session_id for session in (*live, *(self._live or ()))}
            self._live = live
        told = self.logs.read()
        self.afterwards.keep_lines(told)
        touched |= told
        if touched:
            self.listener.changed(Changed(frozenset(touched)))

    def _read_environments(self, live: list[LiveSession]) -> None:
        running = {(each.session_id, each.pid, each.process_start): each for each in live}
        for process in running.keys() - self._processes:
            variables = read_environment(running[process])
            if variables is not None:
                self.writer.save_environment(process[0], variables)
        self._processes = set(running)

    def read_surroundings(self) -> None:
        """Look at settings, definitions and the save flow, as far as there is time."""
        self._look_around(TICK_S)

    def _look_around(self, within_s: float) -> None:
        before = self.writer.connection.total_changes
        self._surroundings.look(within_s)
        if self.writer.connection.total_changes != before:
            self._say_changed(frozenset())

    def _say_changed(self, sessions: frozenset[str]) -> None:
        self.listener.changed(Changed(sessions))

    def _take_metas(self, metas: list[FoundFile]) -> None:
        changed = []
        for found in metas:
            if self._metas.get(found.relative) == found.mtime_ns:
                continue
            try:
                meta = read_meta(found)
            except FileNotFoundError:
                continue
            except OSError as error:
                self.report(unreadable(found.relative, error))
                continue
            self._ease(found.relative)
            if meta:
                changed.append(meta)
        if changed:
            self.writer.save_meta(changed)
            self._metas |= {meta.path: meta.mtime_ns for meta in changed}
            self.listener.changed(Changed(frozenset(meta.session_id for meta in changed)))

    def _take_all(self, waiting: list[FoundFile]) -> None:
        """Read files in the order given; processes that help read the largest ones meanwhile."""
        from .readers import readers_for  # with all that it needs, only where there is work

        self._follow_moves(waiting)
        known = {
            found.relative: self._known[found.relative][1].offset
            for found in waiting
            if found.relative in self._known
        }
        work = Work(waiting, known)
        self._progress(work)
        with readers_for(work.size) as readers:
            while work.is_left or readers.is_busy:
                batch = _Batch()
                with self.writer.transaction():
                    while (work.is_left or readers.is_busy) and not batch.is_full:
                        self._take_next(work, readers, batch)
                self._finish(batch)
                work.done += batch.bytes
                self._progress(work)

    def _follow_moves(self, waiting: list[FoundFile]) -> None:
        """Move the rows of files that the client moved: into a worktree, or by /cd."""
        new = [found for found in waiting if found.relative not in self._known]
        if not new or not self._known:
            return
        by_inode = {tail.inode: (source, tail) for source, tail in self._known.values()}
        for found in new:
            before, tail = by_inode.get(found.inode, (None, None))
            if before is None or tail is None or not is_moved(before, found):
                continue
            after = msgspec.structs.replace(
                before, path=found.relative, project=found.relative.partition("/")[0]
            )
            try:
                stale = self.writer.rename(before, tail, after)
            except StaleTailError:
                self._known = self.writer.files()
                continue
            del self._known[before.path]
            self._known[after.path] = after, stale
            self._ease(before.path)

    def _take_next(self, work: Work, readers: Readers, batch: _Batch) -> None:
        while readers.wants_more and (found := work.take_largest()):
            try:
                task = self._task(found)
            except OSError:
                task = None
            if task:
                readers.give(task)
            else:
                self._take_file(found, batch)
        answered = readers.answer()
        if answered:
            self._take_answer(answered, batch)
        elif found := work.take_first():
            self._take_file(found, batch)
        else:
            readers.wait()

    def _finish(self, batch: _Batch) -> None:
        """Take over what was committed, and tell of it."""
        self._known |= batch.tails
        self.afterwards.note(batch.touched)
        if batch.touched:
            lag = (time.time_ns() - batch.newest_ns) / NANOSECONDS if batch.newest_ns else None
            self.listener.changed(Changed(frozenset(batch.touched), lag))
        for paths, what, outcome in (
            (batch.rewritten, "was rewritten", "it was read again whole"),
            (batch.gone, "is gone", "what it said is kept"),
        ):
            if paths:
                more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
                self.listener.noted(Trouble(paths[0] + more, what, outcome))

    def _take_answer(self, answered: Answered, batch: _Batch) -> None:
        task, reading = answered.task, answered.reading
        if reading is None:
            self._take_file(task.found, batch)
            return
        try:
            self._store(task, reading, batch)
        except StaleTailError:
            self._learn_anew(batch)
        else:
            task.before = reading.after
            self._ease(task.found.relative)

    def _take_file(self, found: FoundFile, batch: _Batch) -> None:
        try:
            self._read_file(found, batch)
        except (FileNotFoundError, NotADirectoryError):
            self._mark_gone(found.relative, batch)
        except OSError as error:
            self.report(unreadable(found.relative, error))
        except StaleTailError:
            self._learn_anew(batch)
        else:
            self._ease(found.relative)

    def _learn_anew(self, batch: _Batch) -> None:
        """Take over what another ctxtop, which was faster, has stored: we would have the same."""
        self._known = self.writer.files() | batch.tails

    def _read_file(self, found: FoundFile, batch: _Batch) -> None:
        from .reading import read_next

        task = self._task(found, batch)
        while task:
            reading = read_next(found.path, task.source, task.before)
            if reading.change is Change.REWRITTEN:
                task = self._restart(task, batch)
                continue
            self._store(task, reading, batch)
            if not reading.more:
                return
            task.before = reading.after

    def _task(self, found: FoundFile, batch: _Batch | None = None) -> Task | None:
        """Say where reading a file begins; None for what is no transcript (yet)."""
        stands = (batch and batch.tails.get(found.relative)) or self._known.get(found.relative)
        source, before = stands or (None, TailState())
        if source is None or before.offset == 0:
            source = self._describe(found)
        else:
            before = msgspec.structs.replace(before, places=self.writer.places_of(source.path))
        return Task(found, source, before) if source else None

    def _restart(self, task: Task, batch: _Batch) -> Task | None:
        if task.before.device != NO_DEVICE:
            batch.rewritten.append(task.found.relative)
        self.writer.restart(task.source, task.before)
        batch.tails[task.source.path] = (task.source, TailState())
        batch.touched.add(task.source.session_id)
        return self._task(task.found, batch)

    def _store(self, task: Task, reading: Reading, batch: _Batch) -> None:
        source, before = task.source, task.before
        is_new_or_back = before.offset == 0 or before.size == GONE
        if reading.change is Change.GROWN or is_new_or_back:
            self.writer.append(source, before, reading.after, reading.facts)
            batch.touched.add(source.session_id)
            # A file that is only back, or elsewhere, says nothing of how late we are.
            if before.offset and reading.change is Change.GROWN:
                batch.newest_ns = max(batch.newest_ns, reading.after.mtime_ns)
        if reading.unrested:
            self._unrested.add(source.path)
        batch.bytes += reading.after.offset - before.offset
        batch.tails[source.path] = (source, slim(reading.after, task.found))

    def _describe(self, found: FoundFile) -> SourceFile | None:
        source = describe(found.relative)
        if source is None or source.session_id:
            return source
        session_id = _session_of(found)
        return msgspec.structs.replace(source, session_id=session_id) if session_id else None

    def _has_changed(self, found: FoundFile) -> bool:
        known = self._known.get(found.relative)
        if known is None:
            return True
        tail = known[1]
        if (found.size, found.mtime_ns, found.inode) != (tail.size, tail.mtime_ns, tail.inode):
            return True
        return tail.ctime_ns != 0 and found.ctime_ns not in {0, tail.ctime_ns}

    def _stat(self, path: Path) -> FoundFile | None:
        relative = self.folder.relative(path)
        try:
            status = path.stat(follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            batch = _Batch()
            self._mark_gone(relative, batch)
            self._finish(batch)
            return None
        except OSError as error:
            self.report(unreadable(relative, error))
            return None
        return found_file(str(self.folder.projects), relative, status)

    def _note_gone(self, finding: Finding) -> None:
        present = {found.relative for found in finding.transcripts}
        batch = _Batch()
        with self.writer.transaction():
            # Not a difference of sets, which would copy up to 100,000 names.
            for relative in self._known:
                if relative not in present and not finding.hides(relative):
                    self._mark_gone(relative, batch)
        self._finish(batch)

    def _mark_gone(self, relative: str, batch: _Batch) -> None:
        known = batch.tails.get(relative) or self._known.get(relative)
        if known is None or known[1].size == GONE:
            return
        self._ease(relative)
        self.writer.mark_gone(relative)
        batch.gone.append(relative)
        batch.tails[relative] = (known[0], msgspec.structs.replace(known[1], size=GONE))
        batch.touched.add(known[0].session_id)

    def report(self, trouble: Trouble) -> None:
        """Tell of a trouble once while it lasts, and keep it for doctor."""
        if self._troubled.get(trouble.place) == trouble:
            return
        self._troubled[trouble.place] = trouble
        self.listener.troubled(trouble)
        self.writer.save_trouble(trouble.place, trouble.what, trouble.remedy)

    def _ease(self, place: str) -> None:
        if place in self._troubled:
            del self._troubled[place]
            self.writer.clear_trouble(place)
            self.listener.eased(place)

    def _progress(self, work: Work) -> None:
        self.listener.progressed(Progress(work.taken, work.files, work.done, work.size))


def _session_of(found: FoundFile) -> str | None:
    """Find the session of an old agent's file in its first line, or name it after the file.

    None while that line is being written. Raises OSError where it cannot be read.
    """
    from .transcripts.lines import NotJsonError, ShapeError, decode_line

    with open_regular(found.path) as file:
        head = file.read(HEAD_BYTES)
    first, end, _ = head.partition(b"\n")
    if not end and len(head) < HEAD_BYTES and not whole_length(head):
        return None
    try:
        line = decode_line(first)
    except (NotJsonError, ShapeError):
        return found.path.stem
    return clean_title(line.session_id or found.path.stem).lower()
