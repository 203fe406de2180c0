"""Replacing a transcript while a client may still write to it, without losing a line."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import signal
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from ..files.file_operations import (
    REPLACED_SUFFIX,
    TEMPORARY_SUFFIX,
    open_regular_file,
    remove_if_present,
    sync_folder,
    temporary_path,
    write_all,
)
from .plan import RefusalKind, refusal_error

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .compaction_target import WaitTimes


_UNSUPPORTED_ERRORS: Final = frozenset(
    {errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EACCES, errno.EPERM}
)
"""What file systems say that know no leases: then the watch alone has to do."""


class WriteLease:
    """A lease on an open file; None in the place of the descriptor where there is none."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    @property
    def has_waiting_writer(self) -> bool:
        """Whether another process is waiting to open the file for writing."""
        if sys.platform != "linux" or self._descriptor is None:
            return False
        return fcntl.fcntl(self._descriptor, fcntl.F_GETLEASE) != fcntl.F_RDLCK

    def release(self) -> None:
        """Release the lease: waiting and later writers can open the file from now on."""
        if sys.platform == "linux" and self._descriptor is not None:
            fcntl.fcntl(self._descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
            self._descriptor = None


@contextmanager
def write_lease(path: Path) -> Iterator[WriteLease]:
    """Hold a lease on a file. Raises NotAppliedError where it is open for writing, OSError."""
    with open_regular_file(path) as file:
        descriptor = file.fileno()
        lease = WriteLease(descriptor if _take_lease(descriptor, path) else None)
        try:
            yield lease
        finally:
            lease.release()


def _take_lease(descriptor: int, path: Path) -> bool:
    if sys.platform != "linux":
        return False
    try:
        # The signal that tells us would end the process; this one is passed over.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        if error.errno == errno.EAGAIN:
            raise refusal_error(
                RefusalKind.LIVE, "held", f"a process has {path} open to write",
                "end that process, or make a fork",
            ) from error  # fmt: skip
        if error.errno in _UNSUPPORTED_ERRORS:
            return False
        raise
    return True


_REPLACED_NAME: Final = re.compile(rf"\.(\d+){re.escape(REPLACED_SUFFIX)}$")
"""How the second name of a file that is replaced ends."""


def atomic_replace(new: Path, target: Path, seen: os.stat_result, wait_times: WaitTimes) -> None:
    """Replace a file that is still as it was `seen`; the new file stands beside it.

    Raises NotAppliedError where the file was written meanwhile or is being written: then it is
    in its place, with every line. Raises OSError.
    """
    # Its name says what the file held when it was replaced: what is behind that came late.
    old = temporary_path(target, f".{seen.st_size}{REPLACED_SUFFIX}")
    try:
        size = new.stat().st_size
        os.utime(new, ns=(seen.st_atime_ns, seen.st_mtime_ns))
        with write_lease(target) as lease:
            _replace_unwritten(new, target, old, seen, lease)
            _require_quiet(old, target, size, _LateWriteWatch(lease, seen.st_size, wait_times))
    except BaseException:
        remove_if_present(new)
        raise


def _replace_unwritten(
    new: Path, target: Path, old: Path, seen: os.stat_result, lease: WriteLease
) -> None:
    old.hardlink_to(target)
    try:
        if lease.has_waiting_writer or not is_unchanged(seen, target.stat()):
            raise refusal_error(
                RefusalKind.LIVE, "changed", "the transcript grew meanwhile", "plan again"
            )
        new.replace(target)
    except BaseException:
        remove_if_present(old)
        raise


class _LateWriteWatch(NamedTuple):
    """What tells that somebody still writes to the file that was replaced."""

    lease: WriteLease
    size: int
    """Of that file, bytes."""
    wait_times: WaitTimes


def _require_quiet(old: Path, target: Path, size: int, watch: _LateWriteWatch) -> None:
    sync_folder(target.parent)
    if _sees_late_write(old, watch):
        # Who waits to write to the old file goes on now, and it is the transcript again.
        watch.lease.release()
        restore_replaced(old, target, size, watch.wait_times)
        raise refusal_error(
            RefusalKind.LIVE, "late-write", "a client wrote to the transcript meanwhile",
            "end that client; everything is as it was, and nothing it wrote is lost",
        )  # fmt: skip
    remove_if_present(old)


def is_unchanged(one: os.stat_result, other: os.stat_result) -> bool:
    """Whether a file was neither replaced nor written between two `stat` calls."""
    return (one.st_dev, one.st_ino, one.st_size, one.st_mtime_ns) == (
        other.st_dev, other.st_ino, other.st_size, other.st_mtime_ns,
    )  # fmt: skip


def restore_replaced(old: Path, target: Path, size: int, wait_times: WaitTimes) -> None:
    """Put the old file back in place, with the lines added to the new one appended to it.

    `size` is the new file's size in bytes without those lines.
    """
    with open_regular_file(target) as new:
        size = _append_tail(new.fileno(), size, old, whole_lines=True)
        old.replace(target)
        sync_folder(target.parent)
        _wait_until_quiet(new.fileno(), wait_times)
        _append_tail(new.fileno(), size, target, whole_lines=False)


def recover_leftovers(target: Path) -> None:
    """Clear up beside a transcript what a process that was killed left there.

    What the file that was replaced gained afterwards is added to the new one.
    """
    for path in target.parent.glob(f".{target.name}.*{TEMPORARY_SUFFIX}"):
        if path.is_symlink() or not path.is_file():
            continue
        size = _REPLACED_NAME.search(path.name)
        if size and target.exists():
            _append_late_lines(path, int(size[1]), target)
        remove_if_present(path)


def _append_late_lines(old: Path, size: int, target: Path) -> None:
    with open_regular_file(old) as file:
        if os.fstat(file.fileno()).st_ino != target.stat().st_ino:
            _append_tail(file.fileno(), size, target, whole_lines=False)


def _sees_late_write(path: Path, watch: _LateWriteWatch) -> bool:
    """Whether the file is written, or a writer waits for it, within `quiet_s` seconds."""
    deadline = time.monotonic() + watch.wait_times.quiet_s
    while True:
        if watch.lease.has_waiting_writer or path.stat().st_size != watch.size:
            return True
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(left, watch.wait_times.quiet_s / 10))


def _wait_until_quiet(descriptor: int, wait_times: WaitTimes) -> None:
    deadline = time.monotonic() + wait_times.max_wait_s
    size = os.fstat(descriptor).st_size
    while time.monotonic() < deadline:
        time.sleep(wait_times.quiet_s)
        now = os.fstat(descriptor).st_size
        if now == size:
            break
        size = now


def _append_tail(source: int, start: int, target: Path, *, whole_lines: bool) -> int:
    """Append what stands behind `start`, in one write; gives where it ends."""
    size = os.fstat(source).st_size
    if size <= start:
        return start
    data = os.pread(source, size - start, start)
    if whole_lines:
        data = data[: data.rfind(b"\n") + 1]
    if data:
        descriptor = os.open(target, os.O_WRONLY | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0))
        try:
            write_all(descriptor, [data])
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    return start + len(data)
