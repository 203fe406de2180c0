"""Processes that read large amounts of transcripts while the collector stores."""

from __future__ import annotations

import os
import select
import subprocess
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

import msgspec

from ...core.host import python_command
from .reader_process import FRAME_LENGTH, IndexedBlock, ReadJob, pack_frame, unpack_answer

if TYPE_CHECKING:
    from .scan_progress import ReadTask


MIN_POOL_BYTES: Final = 24 * 1024 * 1024
"""From here on a second process reads more than its start costs (60 ms)."""

MAX_READERS: Final = 3  # one process stores what they read, and more would wait for it
MAX_QUEUED_BYTES: Final = 16 * 1024 * 1024
"""Of files that a process is told of before it has answered: it never waits for the next."""

MAX_QUEUED_TASKS: Final = 64
"""As many of them fit into a pipe: we would wait for a process that waits for us."""

READER_TIMEOUT_S: Final = 20.0
"""A process that says nothing for so long (it answers every megabyte) is given up."""

_PIPE_BYTES: Final = 1024 * 1024  # what a process can answer before somebody listens


class TaskAnswer(msgspec.Struct, frozen=True):
    """The next answer to a task; without a reading the file is for the collector to look at."""

    task: ReadTask
    block: IndexedBlock | None


class _Reader(msgspec.Struct):
    """One process, what it was asked, and what it has said so far."""

    process: subprocess.Popen[bytes]
    tasks: dict[int, ReadTask] = {}
    received: bytearray = msgspec.field(default_factory=bytearray)
    queued_bytes: int = 0  # bytes of the files that it has not read to their end

    @property
    def wants_more(self) -> bool:
        return self.queued_bytes < MAX_QUEUED_BYTES and len(self.tasks) < MAX_QUEUED_TASKS

    @property
    def output(self) -> int:
        stream = self.process.stdout
        return stream.fileno() if stream else -1


class ReaderPool:
    """The processes of one scan."""

    def __init__(self, readers: list[_Reader]) -> None:
        self._readers = readers
        self._number = 0
        self._answers: deque[TaskAnswer] = deque()

    @property
    def is_busy(self) -> bool:
        """Whether an answer is queued or still expected."""
        return bool(self._answers) or any(reader.tasks for reader in self._readers)

    @property
    def wants_more(self) -> bool:
        """Whether a process has little left to read; `submit` needs one that has."""
        return any(reader.wants_more for reader in self._readers)

    def submit(self, task: ReadTask) -> None:
        """Send a task to the process with the fewest bytes queued."""
        ready = (reader for reader in self._readers if reader.wants_more)
        reader = min(ready, key=lambda each: each.queued_bytes)
        self._number += 1
        reader.tasks[self._number] = task
        reader.queued_bytes += task.found.size
        job = ReadJob(self._number, str(task.found.path), task.source, task.before)
        try:
            stream = reader.process.stdin
            if stream:
                stream.write(pack_frame(job))
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
        """End every process."""
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
        # A pipe whose process has ended speaks too: it has nothing more to say.
        speaking = poll.poll(timeout_s * 1000)
        for output, _ in speaking:
            self._receive(waiting[output])
        if timeout_s and not speaking:
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
        heard = reader.received
        heard += data
        start = 0
        while len(heard) - start >= FRAME_LENGTH.size:
            end = start + FRAME_LENGTH.size + FRAME_LENGTH.unpack_from(heard, start)[0]
            if len(heard) < end:
                break
            try:
                self._take_frame(reader, bytes(heard[start + FRAME_LENGTH.size : end]))
            except (msgspec.DecodeError, KeyError):
                # No answer to what it was asked: the collector reads its files itself.
                self._drop_reader(reader)
                return
            start = end
        del heard[:start]

    def _take_frame(self, reader: _Reader, frame: bytes) -> None:
        answer = unpack_answer(frame)
        task = reader.tasks[answer.number]
        if answer.is_last:
            del reader.tasks[answer.number]
            reader.queued_bytes -= task.found.size
        self._answers.append(TaskAnswer(task, answer.reading))

    def _drop_reader(self, reader: _Reader) -> None:
        """Stop a reader that failed, and return its unanswered tasks with no block."""
        self._readers.remove(reader)
        self._answers += [TaskAnswer(task, None) for task in reader.tasks.values()]
        _stop_process(reader.process)


@contextmanager
def open_reader_pool(size: int) -> Iterator[ReaderPool]:
    """Start as many processes as help to read `size` bytes, none where they would not."""
    readers = ReaderPool(_start_readers(size))
    try:
        yield readers
    finally:
        readers.close()


def _start_readers(size: int) -> list[_Reader]:
    # Where several pipes cannot be waited for at once (Windows) the collector reads alone.
    if size < MIN_POOL_BYTES or not hasattr(select, "poll"):
        return []
    started = []
    for _ in range(min(MAX_READERS, _usable_cores() - 1)):
        try:
            process = subprocess.Popen(  # noqa: S603 -- our own interpreter and module
                python_command(f"{__package__}.reader_process"),
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
            # What was meant for a process that is no more cannot be written.
            with suppress(OSError):
                stream.close()
