"""Indexes files block by block, with processes for large amounts while the collector stores.

A process gets each file in one frame on its standard input, answers with a frame for each block,
and ends when its input ends. A frame is its length in four bytes and msgpack.
"""

from __future__ import annotations

import gc
import os
import select
import struct
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

import msgspec

from ...core.model.transcript_records import SourceFile, TailState, TranscriptRecords
from ...core.store.bulkhead import NOT_READ, bulkhead
from ..locations.discover import FoundFile
from .tail import TailChange, read_tail
from .transcripts.line_indexer import index_block

if TYPE_CHECKING:
    import subprocess


class IndexedBlock(msgspec.Struct, frozen=True, array_like=True):
    """The records of a file's next block, and how far the file is read with it."""

    change: TailChange
    after: TailState
    facts: TranscriptRecords
    has_more: bool
    unterminated: bool = False  # its last line has no line end yet, and may still be written to


def index_next_block(path: Path, source: SourceFile, before: TailState) -> IndexedBlock:
    """Read on from `before`; raises OSError if the file cannot be read."""
    read = read_tail(path, before)
    facts = index_block(source, read.block, str(path))
    if read.bad_lines:
        bad, count = facts.bad + read.bad_lines, facts.bad_lines + len(read.bad_lines)
        facts = msgspec.structs.replace(facts, bad=bad, bad_lines=count)
    return IndexedBlock(read.change, read.after, facts, read.has_more, read.unterminated)


FRAME_LENGTH: Final = struct.Struct("<I")


class ReadTask(msgspec.Struct, array_like=True):
    """A file to read from where reading stopped; `before` follows the answers."""

    found: FoundFile
    source: SourceFile
    before: TailState


class ReadAnswer(msgspec.Struct, frozen=True, array_like=True):
    """One block of a task's file; None leaves the file to the collector."""

    number: int
    block: IndexedBlock | None

    @property
    def is_last(self) -> bool:
        return self.block is None or not self.block.has_more


_encode: Final = msgspec.msgpack.Encoder().encode
_job_decoder: Final = msgspec.msgpack.Decoder(tuple[int, ReadTask])
_answer_decoder: Final = msgspec.msgpack.Decoder(ReadAnswer)


def pack_frame(message: tuple[int, ReadTask] | ReadAnswer) -> bytes:
    data = _encode(message)
    return FRAME_LENGTH.pack(len(data)) + data


def serve_jobs(jobs: BinaryIO, answers: BinaryIO) -> None:
    """Answer every numbered task until there are no more."""
    while head := jobs.read(FRAME_LENGTH.size):
        number, task = _job_decoder.decode(jobs.read(FRAME_LENGTH.unpack(head)[0]))
        while True:
            answer = ReadAnswer(number, _index_unless_rewritten(task))
            answers.write(pack_frame(answer))
            answers.flush()
            if answer.block is None or answer.is_last:
                break
            task.before = answer.block.after


def _index_unless_rewritten(task: ReadTask) -> IndexedBlock | None:
    # The collector meets the same error, and reports it.
    with bulkhead(task.found.relative, NOT_READ, report=lambda _: None):
        block = index_next_block(task.found.path, task.source, task.before)
        return None if block.change is TailChange.REWRITTEN else block
    return None


MIN_POOL_BYTES: Final = 24 * 1024 * 1024  # less is read within a process's start (60 ms)
MAX_READERS: Final = 3  # one process stores what they read, and more would wait for it
MAX_QUEUED_BYTES: Final = 16 * 1024 * 1024  # per process: it never waits for the next file
MAX_QUEUED_TASKS: Final = 64  # fit into a pipe; with more, both ends could wait
NICENESS: Final = 5  # keys come before old transcripts
READER_TIMEOUT_S: Final = 20.0  # without an answer; there is one every megabyte
_PIPE_BYTES: Final = 1024 * 1024  # of answers that a process can write before they are read

TaskAnswer = tuple[ReadTask, IndexedBlock | None]  # no block: the collector reads the file


class ReadQueue:
    """Files that wait to be read: from the first on, or the largest before all others."""

    def __init__(self, waiting: list[FoundFile], offsets: Mapping[str, int]) -> None:
        """Queue `waiting`; `offsets` has the bytes already read of a file, by its relative path."""

        def left(found: FoundFile) -> int:
            offset = offsets.get(found.relative, 0)
            # A file that has shrunk is read from its start.
            return found.size - offset if found.size >= offset else found.size

        self.file_count: Final = len(waiting)
        self.total_bytes: Final = sum(map(left, waiting))
        self.done_bytes = 0
        self._first = deque(waiting)
        self._by_size = deque(sorted(waiting, key=left)[::-1])
        self._taken: set[str] = set()

    @property
    def taken_count(self) -> int:
        return len(self._taken)

    @property
    def has_waiting(self) -> bool:
        return self.taken_count < self.file_count

    def take_first(self) -> FoundFile | None:
        """Return the next file in the order given; None if none is left."""
        return self._take(self._first)

    def take_largest(self) -> FoundFile | None:
        """Return the file with the most bytes left to read; None if none is left."""
        return self._take(self._by_size)

    def _take(self, files: deque[FoundFile]) -> FoundFile | None:
        while files:
            found = files.popleft()
            if found.relative not in self._taken:
                self._taken.add(found.relative)
                return found
        return None


class _Reader(msgspec.Struct):
    process: subprocess.Popen[bytes]
    tasks: dict[int, ReadTask] = {}
    received: bytearray = msgspec.field(default_factory=bytearray)
    queued_bytes: int = 0  # bytes of the files that it has not read to their end

    @property
    def wants_more(self) -> bool:
        return self.queued_bytes < MAX_QUEUED_BYTES and len(self.tasks) < MAX_QUEUED_TASKS

    @property
    def output(self) -> int:
        return self.process.stdout.fileno() if self.process.stdout else -1


class ReaderPool:
    def __init__(self, readers: list[_Reader]) -> None:
        self._readers = readers
        self._number = 0
        self._answers: deque[TaskAnswer] = deque()

    @property
    def is_busy(self) -> bool:
        return bool(self._answers) or any(reader.tasks for reader in self._readers)

    @property
    def wants_more(self) -> bool:
        """Whether a process has little left to read, as `submit` requires."""
        return any(reader.wants_more for reader in self._readers)

    def submit(self, task: ReadTask) -> None:
        """Send a task to the process with the fewest bytes queued."""
        ready = (reader for reader in self._readers if reader.wants_more)
        reader = min(ready, key=lambda reader: reader.queued_bytes)
        self._number += 1
        reader.tasks[self._number] = task
        reader.queued_bytes += task.found.size
        try:
            if stream := reader.process.stdin:
                stream.write(pack_frame((self._number, task)))
                stream.flush()
        except OSError:
            self._drop_reader(reader)

    def next_answer(self) -> TaskAnswer | None:
        """Return the next answer that is ready, without waiting; None if there is none."""
        if not self._answers:
            self._poll(0)
        return self._answers.popleft() if self._answers else None

    def wait(self) -> None:
        """Wait until there is an answer, or no process is left."""
        while self.is_busy and not self._answers:
            self._poll(READER_TIMEOUT_S)

    def close(self) -> None:
        for reader in self._readers:
            _stop_process(reader.process)
        self._readers = []

    def _poll(self, timeout_s: float) -> None:
        waiting = {reader.output: reader for reader in self._readers if reader.tasks}
        if not waiting:
            return
        poll = select.poll()
        for output in waiting:
            poll.register(output, select.POLLIN)
        # The pipe of a process that has ended is ready, too.
        ready = poll.poll(timeout_s * 1000)
        for output, _ in ready:
            self._receive(waiting[output])
        if timeout_s and not ready:
            for reader in waiting.values():
                self._drop_reader(reader)

    def _receive(self, reader: _Reader) -> None:
        try:
            data = os.read(reader.output, _PIPE_BYTES)
        except OSError:
            data = b""
        if not data:
            self._drop_reader(reader)
            return
        received = reader.received
        received += data
        start = 0
        while len(received) - start >= FRAME_LENGTH.size:
            end = start + FRAME_LENGTH.size + FRAME_LENGTH.unpack_from(received, start)[0]
            if len(received) < end:
                break
            try:
                self._take_frame(reader, bytes(received[start + FRAME_LENGTH.size : end]))
            except (msgspec.DecodeError, KeyError):
                # Not an answer to its tasks: the collector reads the files itself.
                self._drop_reader(reader)
                return
            start = end
        del received[:start]

    def _take_frame(self, reader: _Reader, frame: bytes) -> None:
        answer = _answer_decoder.decode(frame)
        task = reader.tasks[answer.number]
        if answer.is_last:
            del reader.tasks[answer.number]
            reader.queued_bytes -= task.found.size
        self._answers.append((task, answer.block))

    def _drop_reader(self, reader: _Reader) -> None:
        """Stop a reader that failed, and return its unanswered tasks with no block."""
        self._readers.remove(reader)
        self._answers += [(task, None) for task in reader.tasks.values()]
        _stop_process(reader.process)


@contextmanager
def open_reader_pool(size: int) -> Iterator[ReaderPool]:
    """Start as many processes as speed up reading `size` bytes, perhaps none."""
    readers = ReaderPool(_start_readers(size))
    try:
        yield readers
    finally:
        readers.close()


def _start_readers(size: int) -> list[_Reader]:
    # Without a way to wait for several pipes at once (Windows) the collector reads alone.
    if size < MIN_POOL_BYTES or not hasattr(select, "poll"):
        return []
    import subprocess  # not in the processes, which start sooner without these

    from ...core.host import python_command

    started = []
    for _ in range(min(MAX_READERS, _usable_cores() - 1)):
        try:
            process = subprocess.Popen(  # noqa: S603 -- our own interpreter and module
                python_command(f"{__package__}.reader_pool"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                pipesize=_PIPE_BYTES,
                start_new_session=True,
            )
        except OSError:
            break
        started.append(_Reader(process))
    return started


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _stop_process(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream:
            # Buffered data for a process that has ended cannot be written.
            with suppress(OSError):
                stream.close()


if __name__ == "__main__":
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    # Its objects hold no cycles: searching for them takes a tenth of its time.
    gc.disable()
    serve_jobs(sys.stdin.buffer, sys.stdout.buffer)
