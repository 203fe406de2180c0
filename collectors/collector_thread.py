"""The collector's thread: reads everything once, then what changes, into the store."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import msgspec
from msgspec.structs import replace

from ..core.files.transcript_file import open_transcript
from ..core.model.problem import Problem, ProblemReporter, unreadable_problem
from ..core.model.transcript_records import LiveSession, SourceFile, TailState
from ..core.store.bulkhead import FAILED, NOT_READ, bulkhead, take_faults
from ..core.store.writer import GONE_SIZE, NO_DEVICE, StaleTailError, Writer
from ..core.transcript.lenient_json import NotJsonError
from ..core.transcript.raw_lines import complete_line_length
from ..core.transcript.sanitize import sanitize_title
from .claude_code.archived_files import ArchivedFiles
from .claude_code.config.config_reader import SCAN_BUDGET_S, TICK_BUDGET_S, ClientConfigReader
from .claude_code.own_files import LogReader, ReceiptFollower
from .claude_code.registry import newest_by_session, read_client_environment, read_session_registry
from .claude_code.tail import SETTLE_S, TailChange, slim_tail_state
from .locations import discover
from .locations.policy_files import PolicyFiles
from .post_scan_jobs import PostScanJobs

if TYPE_CHECKING:
    from ..core.store.queries.search_queries import SearchProgress
    from .claude_code.reader_pool import IndexedBlock, ReaderPool, ReadQueue, ReadTask, TaskAnswer


COMMIT_BYTES: Final = 64 * 1024 * 1024
COMMIT_S: Final = 0.25
"""A transaction ends after either: batches are fast to store, and the screen sees them soon."""

HEAD_BYTES: Final = 64 * 1024  # holds the first line of an old agent's file, with its session


class ScanProgress(msgspec.Struct, frozen=True):
    files_read: int
    files_total: int
    bytes_read: int
    bytes_total: int


class StoredChange(msgspec.Struct, frozen=True):
    session_ids: frozenset[str]
    lag_s: float | None = None  # from the last write of a file that grew to the commit
    is_shown: bool = True  # False before a commit that changes nothing but the search's index


class CollectorListener(Protocol):
    """Is called in the collector's thread, which must not wait."""

    def on_progress(self, progress: ScanProgress) -> None: ...

    def on_change(self, change: StoredChange) -> None: ...

    def on_scan_finished(self) -> None: ...

    def on_problem(self, problem: Problem) -> None: ...

    def on_resolved(self, where: str) -> None: ...

    def on_notice(self, notice: Problem) -> None: ...


class _CommitBatch(msgspec.Struct):
    tails: dict[str, tuple[SourceFile, TailState]] = {}
    touched: set[str] = set()
    rewritten: list[str] = []
    gone: list[str] = []
    newest_ns: int = 0
    bytes: int = 0
    began: float = msgspec.field(default_factory=time.monotonic)

    def is_full(self) -> bool:
        return self.bytes >= COMMIT_BYTES or time.monotonic() - self.began >= COMMIT_S


class Collector:
    """Brings the store up to date with Claude Code's folder; used by one thread."""

    def __init__(
        self,
        folder: discover.ClaudeFolder,
        writer: Writer,
        listener: CollectorListener,
        policy_files: PolicyFiles | None = None,
    ) -> None:
        self.folder: Final = folder
        self.writer: Final = writer
        self.listener: Final = listener
        self._known = writer.files()
        self._metas = writer.agent_meta_times()
        self._open_sessions: list[LiveSession] | None = None
        self._registry_state: tuple[frozenset[str], bool] | None = writer.read_registry_state()
        """The registry's stale entries, and whether there is a registry."""
        self._archived: Final = ArchivedFiles(folder, writer)
        self._receipts: Final = ReceiptFollower(writer)
        self._processes: set[tuple[str, int, str | None]] = set()
        self._problems: dict[str, Problem | None] = dict.fromkeys(writer.problem_places())
        # Problems of an earlier run are resolved unless the first scan finds them again.
        self._unconfirmed_problems: set[str] = set(self._problems)
        reporter = ProblemReporter(self.report, self._resolve, listener.on_notice)
        self._config_reader: Final = ClientConfigReader(folder, writer, reporter)
        self.post_scan_jobs: Final = PostScanJobs(
            folder,
            writer,
            reporter,
            self._report_change,
            policy_files,
            self._report_hidden_commit,
            lambda: self._archived.archive.loaded,
        )
        self._unterminated: Final[set[str]] = set()
        self._unread: Final[dict[str, discover.FoundFile]] = {}
        """Files whose reading met a fault of ours, as they were then: it would meet it again."""
        self.logs: Final = LogReader(writer, reporter)

    def scan(self) -> None:
        found = discover.find_files(self.folder)
        listing = self._archived.add_missing(found, self._known.keys())
        problems = {problem.where for problem in listing.problems}
        transcripts = {found.relative for found in listing.transcripts}
        for place in self._unconfirmed_problems - problems - transcripts:
            self._resolve(place)
        unconfirmed = self._unconfirmed_problems & transcripts
        self._unconfirmed_problems = problems
        self.read_sidecars()
        self.index_listing(listing)
        for place in unconfirmed & self._problems.keys():
            if self._problems[place] is None:  # not found again
                self._resolve(place)
        if self._unterminated:
            time.sleep(SETTLE_S)
            self.index_unterminated()
        self._mark_missing(listing)
        if archived := self._archived.mark_missing():
            self._report_change(archived)
        # Warnings depend on the client's settings.
        self.read_config(SCAN_BUDGET_S)
        self.post_scan_jobs.evaluate_all_warnings()
        self.listener.on_scan_finished()

    def scan_and_count_tokens(self) -> None:
        self.scan()
        self.post_scan_jobs.count_tokens()

    def scan_and_report_compactions(self) -> None:
        self.scan()
        self.post_scan_jobs.report_compactions(math.inf)

    def scan_and_measure_saves(self) -> None:
        self.scan()
        self.post_scan_jobs.measure_saves(math.inf)

    def scan_and_index_turns(
        self, report: Callable[[SearchProgress], None] = lambda _: None
    ) -> None:
        self.scan()
        self.post_scan_jobs.index_all_turns(report)

    def scan_below(self, path: Path) -> None:
        self.index_listing(discover.find_files(self.folder, path))
        self.post_scan_jobs.evaluate_new_warnings()

    def is_known(self, relative: str) -> bool:
        return relative in self._known

    def index_listing(self, listing: discover.FolderListing) -> None:
        for problem in listing.problems:
            self.report(problem)
        self._store_agent_metas(listing.metas)
        waiting = [found for found in listing.transcripts if self._has_changed(found)]
        if waiting:
            self._index_all(waiting)

    def index_paths(self, paths: Iterable[Path]) -> None:
        waiting = [found for path in sorted(paths) if (found := self._stat(path))]
        if waiting:
            self._index_all(waiting)
        self.post_scan_jobs.evaluate_new_warnings()

    def index_unterminated(self) -> None:
        """Read the files again whose last line had no line end and was too new to count."""
        paths = [self.folder.projects / relative for relative in self._unterminated]
        self._unterminated.clear()
        if paths:
            self.index_paths(paths)

    def read_sidecars(self) -> None:
        """Read the registry, ctxtop's receipts, and the logs of hooks and status line."""
        touched: set[str] = set()
        with self.contain("registry"):
            touched |= self._read_registry()
        with self.contain("changes of ctxtop"):
            touched |= self._receipts.read()
        with self.contain("own logs"):
            logged = self.logs.read()
            if logged:
                self.post_scan_jobs.update_status_lines(logged)
            touched |= logged
        if touched:
            self._report_change(frozenset(touched))

    def _read_registry(self) -> set[str]:
        registry = read_session_registry(self.folder)
        live = newest_by_session(registry)
        touched: set[str] = set()
        state = (registry.stale_ids, registry.exists)
        if state != self._registry_state:
            self.writer.save_registry_state(registry.stale_ids, exists=registry.exists)
            before = self._registry_state[0] if self._registry_state else frozenset()
            touched |= registry.stale_ids ^ before
            self._registry_state = state
        if live != self._open_sessions:
            self.writer.save_open_sessions(live)
            self._read_environments(live)
            touched |= {session.session_id for session in (*live, *(self._open_sessions or ()))}
            self._open_sessions = live
        return touched

    def _read_environments(self, live: list[LiveSession]) -> None:
        running = {(each.session_id, each.pid, each.process_start): each for each in live}
        for process in running.keys() - self._processes:
            variables = read_client_environment(running[process])
            if variables is not None:
                self.writer.save_environment(process[0], variables)
        self._processes = set(running)

    def read_config(self, budget_s: float = TICK_BUDGET_S) -> None:
        """Read settings, definitions and the save flow, for about `budget_s` seconds."""
        before = self.writer.connection.total_changes
        with self.contain("settings and definitions"):
            self._config_reader.refresh(budget_s)
        if self.writer.connection.total_changes != before:
            self._report_change(frozenset())

    def _report_change(self, sessions: frozenset[str]) -> None:
        self.listener.on_change(StoredChange(sessions))

    def _report_hidden_commit(self) -> None:
        self.listener.on_change(StoredChange(frozenset(), is_shown=False))

    def _store_agent_metas(self, metas: list[discover.FoundFile]) -> None:
        waiting = [found for found in metas if self._metas.get(found.relative) != found.mtime_ns]
        if not waiting:
            return
        from .claude_code.changed_files import agent_metas

        changed = []
        for found in waiting:
            meta = None
            with bulkhead(found.relative, NOT_READ, report=self.report):
                try:
                    meta = agent_metas.read_agent_meta(found)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    self.report(unreadable_problem(found.relative, error))
                    continue
                self._resolve(found.relative)
            if meta:
                changed.append(meta)
        if changed:
            self.writer.save_agent_metas(changed)
            self._metas |= {meta.path: meta.mtime_ns for meta in changed}
            self._report_change(frozenset(meta.session_id for meta in changed))

    def _index_all(self, waiting: list[discover.FoundFile]) -> None:
        """Read files in this order, while reader processes read the largest ones."""
        from .claude_code.changed_files import reader_pool

        self._follow_moves(waiting)
        offsets = {
            found.relative: self._known[found.relative][1].offset
            for found in waiting
            if found.relative in self._known
        }
        queue = reader_pool.ReadQueue(waiting, offsets)
        self._report_progress(queue)
        with reader_pool.open_reader_pool(queue.total_bytes) as readers:
            while queue.has_waiting or readers.is_busy:
                batch = _CommitBatch()
                with self.writer.transaction():
                    while (queue.has_waiting or readers.is_busy) and not batch.is_full():
                        self._index_next(queue, readers, batch)
                self._report_batch(batch)
                queue.done_bytes += batch.bytes
                self._report_progress(queue)

    def _follow_moves(self, waiting: list[discover.FoundFile]) -> None:
        """Move the rows of files that the client moved: into a worktree, or by /cd."""
        new = [found for found in waiting if found.relative not in self._known]
        if not new or not self._known:
            return
        by_inode = {tail.inode: (source, tail) for source, tail in self._known.values()}
        for found in new:
            before, tail = by_inode.get(found.inode, (None, None))
            if before is None or tail is None or not discover.is_moved(before, found):
                continue
            project = found.relative.partition("/")[0]
            after = replace(before, path=found.relative, project=project)
            try:
                stale = self.writer.rename(before, tail, after)
            except StaleTailError:
                self._known = self.writer.files()
                continue
            del self._known[before.path]
            self._known[after.path] = after, stale
            self._resolve(before.path)

    def _index_next(self, queue: ReadQueue, readers: ReaderPool, batch: _CommitBatch) -> None:
        while readers.wants_more and (found := queue.take_largest()):
            task = None
            # What fails here fails for the collector as well, which reports it.
            with bulkhead(found.relative, NOT_READ, self.writer.path, lambda _: None):
                task = self._task(found)
            if task:
                readers.submit(task)
            else:
                self._index_file(found, batch)
        if answer := readers.next_answer():
            self._store_answer(answer, batch)
        elif found := queue.take_first():
            self._index_file(found, batch)
        else:
            readers.wait()

    def _report_batch(self, batch: _CommitBatch) -> None:
        self._known |= batch.tails
        self.post_scan_jobs.pending_evaluation |= batch.touched
        if batch.touched:
            lag = (time.time_ns() - batch.newest_ns) / 1e9 if batch.newest_ns else None
            self.listener.on_change(StoredChange(frozenset(batch.touched), lag))
        for paths, what, outcome in (
            (batch.rewritten, "was rewritten", "it was re-read from the start"),
            (batch.gone, "is gone", "its data is kept"),
        ):
            if paths:
                more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
                self.listener.on_notice(Problem(paths[0] + more, what, outcome))

    def _store_answer(self, answer: TaskAnswer, batch: _CommitBatch) -> None:
        task, block = answer
        if block is None:
            self._index_file(task.found, batch)
            return
        with self._contain_file(task.found, batch):
            try:
                self._store(task, block, batch)
            except StaleTailError:
                self._reload_known(batch)
            else:
                task.before = block.after
                self._resolve_file(task.found, batch)

    def _index_file(self, found: discover.FoundFile, batch: _CommitBatch) -> None:
        with self._contain_file(found, batch):
            try:
                self._read_file(found, batch)
            except (FileNotFoundError, NotADirectoryError):
                self._mark_gone(found.relative, batch)
            except OSError as error:
                self._report_unread(found, batch, unreadable_problem(found.relative, error))
            except StaleTailError:
                self._reload_known(batch)
            else:
                self._resolve_file(found, batch)

    @contextmanager
    def contain(self, part: str) -> Iterator[None]:
        """Keep a fault within a part of the reading, as that part's problem until it succeeds."""
        with bulkhead(part, FAILED, self.writer.path, self.report):
            yield
            self._resolve(part)

    def _contain_file(
        self, found: discover.FoundFile, batch: _CommitBatch
    ) -> AbstractContextManager[None]:
        """Keep a fault within a file, as that file's problem."""
        report = partial(self._report_unread, found, batch)
        return bulkhead(found.relative, NOT_READ, self.writer.path, report)

    def _report_unread(
        self, found: discover.FoundFile, batch: _CommitBatch, problem: Problem
    ) -> None:
        """Report a file that is not read, or not to its end; its session is shown as that.

        One that cannot be opened and was never read is no session: it may be a link.
        """
        self.report(problem)
        known = batch.tails.get(found.relative) or self._known.get(found.relative)
        source = known[0] if known else None
        if problem.traceback:
            self._unread[found.relative] = found
            source = source or _classify_unread(found)
        if source and not known:
            self.writer.add_unread_file(source, found.mtime_ns)
            batch.tails[source.path] = (source, TailState(mtime_ns=found.mtime_ns))
        if source:
            batch.touched.add(source.session_id)

    def _resolve_file(self, found: discover.FoundFile, batch: _CommitBatch) -> None:
        self._unread.pop(found.relative, None)
        known = batch.tails.get(found.relative) or self._known.get(found.relative)
        if self._resolve(found.relative) and known:
            batch.touched.add(known[0].session_id)

    def _reload_known(self, batch: _CommitBatch) -> None:
        self._known = self.writer.files() | batch.tails

    def _read_file(self, found: discover.FoundFile, batch: _CommitBatch) -> None:
        from .claude_code.changed_files import reader_pool

        task = self._task(found, batch)
        while task:
            block = reader_pool.index_next_block(found.path, task.source, task.before)
            if block.change is TailChange.REWRITTEN:
                task = self._restart(task, batch)
                continue
            self._store(task, block, batch)
            if not block.has_more:
                return
            task.before = block.after

    def _task(
        self, found: discover.FoundFile, batch: _CommitBatch | None = None
    ) -> ReadTask | None:
        """Return the task that continues a file; None if it is not a transcript (yet)."""
        from .claude_code.changed_files import reader_pool

        known = (batch and batch.tails.get(found.relative)) or self._known.get(found.relative)
        source, before = known or (None, TailState())
        if source is None or before.offset == 0:
            source = discover.classify_path(found.relative)
            if source and not source.session_id:
                session_id = _read_session_id(found)
                source = replace(source, session_id=session_id) if session_id else None
        else:
            before = replace(before, places=self.writer.read_places(source.path))
        return reader_pool.ReadTask(found, source, before) if source else None

    def _restart(self, task: ReadTask, batch: _CommitBatch) -> ReadTask | None:
        if task.before.device != NO_DEVICE:
            batch.rewritten.append(task.found.relative)
        self.writer.restart(task.source, task.before)
        batch.tails[task.source.path] = (task.source, TailState())
        batch.touched.add(task.source.session_id)
        return self._task(task.found, batch)

    def _store(self, task: ReadTask, block: IndexedBlock, batch: _CommitBatch) -> None:
        source, before = task.source, task.before
        has_grown = block.change is TailChange.GROWN
        if has_grown or before.offset == 0 or before.size == GONE_SIZE:
            self.writer.append(source, before, block.after, block.facts)
            batch.touched.add(source.session_id)
            # The lag is unknown for a file that is new, back, or moved.
            if before.offset and has_grown:
                batch.newest_ns = max(batch.newest_ns, block.after.mtime_ns)
        if block.unterminated:
            self._unterminated.add(source.path)
        batch.bytes += block.after.offset - before.offset
        batch.tails[source.path] = (source, slim_tail_state(block.after, task.found))

    def _has_changed(self, found: discover.FoundFile) -> bool:
        if self._unread.get(found.relative) == found:
            return False
        known = self._known.get(found.relative)
        if known is None:
            return True
        tail = known[1]
        if tail.device == NO_DEVICE:  # ctxtop ended between a move and its reading
            return True
        if (found.size, found.mtime_ns, found.inode) != (tail.size, tail.mtime_ns, tail.inode):
            return True
        return tail.ctime_ns != 0 and found.ctime_ns not in {0, tail.ctime_ns}

    def _stat(self, path: Path) -> discover.FoundFile | None:
        relative = self.folder.relative(path)
        try:
            status = path.stat(follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            if archived := self._archived.find(relative):
                return archived
            batch = _CommitBatch()
            self._mark_gone(relative, batch)
            self._report_batch(batch)
            return None
        except OSError as error:
            self.report(unreadable_problem(relative, error))
            return None
        return discover.make_found_file(str(self.folder.projects), relative, status)

    def _mark_missing(self, listing: discover.FolderListing) -> None:
        present = {
            found.relative
            for found in listing.transcripts
            # Of others only some lines are left: the store has more.
            if found.is_on_disk or not self._archived.has_only_summaries(found.relative)
        }
        # Not a difference of sets, which would copy up to 100,000 names.
        missing = [
            relative
            for relative, (_, tail) in self._known.items()
            if relative not in present
            and tail.size != GONE_SIZE
            and not listing.is_below_unreadable(relative)
        ]
        if not missing:
            return
        batch = _CommitBatch()
        with self.writer.transaction():
            for relative in missing:
                self._mark_gone(relative, batch)
        self._report_batch(batch)

    def _mark_gone(self, relative: str, batch: _CommitBatch) -> None:
        known = batch.tails.get(relative) or self._known.get(relative)
        if known is None or known[1].size == GONE_SIZE:
            return
        self._resolve(relative)
        self.writer.mark_gone(relative)
        batch.gone.append(relative)
        batch.tails[relative] = (known[0], replace(known[1], size=GONE_SIZE))
        batch.touched.add(known[0].session_id)

    def report(self, problem: Problem) -> None:
        """Report a problem once for as long as it lasts, and store it for doctor."""
        if self._problems.get(problem.where) == problem:
            return
        self._problems[problem.where] = problem
        self.listener.on_problem(problem)
        self.writer.save_problem(problem)

    def report_faults(self) -> None:
        """Report the faults that were met outside the collector, too."""
        for fault in take_faults():
            self.report(fault)

    def _resolve(self, place: str) -> bool:
        """Resolve the problem of a place; False if it has none."""
        if place not in self._problems:
            return False
        del self._problems[place]
        self.writer.resolve_problem(place)
        self.listener.on_resolved(place)
        return True

    def _report_progress(self, queue: ReadQueue) -> None:
        self.listener.on_progress(
            ScanProgress(queue.taken_count, queue.file_count, queue.done_bytes, queue.total_bytes)
        )


def _classify_unread(found: discover.FoundFile) -> SourceFile | None:
    source = discover.classify_path(found.relative)
    # An old agent's file names its session in its first line.
    return replace(source, session_id=source.session_id or found.path.stem) if source else None


def _read_session_id(found: discover.FoundFile) -> str | None:
    """Return the session in the first line, or the file's name; None while it is written."""
    from .claude_code.changed_files import line_decoder

    with open_transcript(found.path) as file:
        head = file.read(HEAD_BYTES)
    first, end, _ = head.partition(b"\n")
    if not end and len(head) < HEAD_BYTES and not complete_line_length(head):
        return None
    try:
        line, _ = line_decoder.decode_readable_fields(first)
    except NotJsonError:
        return found.path.stem
    return sanitize_title(line.session_id or found.path.stem).lower()
