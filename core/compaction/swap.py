"""Putting a new file in the place of a transcript, so that no line of a late writer is lost.

The old file keeps a second name until it is sure that nobody writes to it any more. Where
somebody does, it gets its place back, with whatever the new one has gained.

Where the system knows leases nobody can have the old file open to write unseen. Where it does
not (a network's file system, another system than Linux) one race is left: a process that opened
the file before it was replaced, and writes for the first time later than `Patience.quiet` after.
The client opens, appends and closes in one go.
"""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from .files import LEFTOVER, OLD, beside, reading, sync_folder, unlink, write_all
from .lease import leased
from .refused import Stop, refuse

if TYPE_CHECKING:
    from pathlib import Path

    from .lease import Lease
    from .subject import Patience

_REPLACED: Final = re.compile(rf"\.(\d+){re.escape(OLD)}$")
"""How the second name of a file that is replaced ends."""


def swap(new: Path, target: Path, seen: os.stat_result, wait_times: Patience) -> None:
    """Replace a file that is still as it was `seen`; the new file stands beside it.

    Raises NotAppliedError where the file was written meanwhile or is being written: then it is
    in its place, with every line. Raises OSError.
    """
    # Its name says what the file held when it was replaced: what is behind that came late.
    old = beside(target, f".{seen.st_size}{OLD}")
    try:
        size = new.stat().st_size
        os.utime(new, ns=(seen.st_atime_ns, seen.st_mtime_ns))
        with leased(target) as lease:
            _replace(new, target, old, seen, lease)
            _require_quiet(old, target, size, _Watch(lease, seen.st_size, wait_times))
    except BaseException:
        unlink(new)
        raise


def _replace(new: Path, target: Path, old: Path, seen: os.stat_result, lease: Lease) -> None:
    old.hardlink_to(target)
    try:
        if lease.has_waiting_writer or not is_same(seen, target.stat()):
            raise refuse(Stop.LIVE, "changed", "the transcript grew meanwhile", "plan again")
        new.replace(target)
    except BaseException:
        unlink(old)
        raise


class _Watch(NamedTuple):
    """What tells that somebody still writes to the file that was replaced."""

    lease: Lease
    size: int
    """Of that file, bytes."""
    wait_times: Patience


def _require_quiet(old: Path, target: Path, size: int, watch: _Watch) -> None:
    sync_folder(target.parent)
    if _is_written(old, watch):
        # Who waits to write to the old file goes on now, and it is the transcript again.
        watch.lease.release()
        put_back(old, target, size, watch.wait_times)
        raise refuse(
            Stop.LIVE, "late-write", "a client wrote to the transcript meanwhile",
            "end that client; everything is as it was, and nothing it wrote is lost",
        )  # fmt: skip
    unlink(old)


def is_same(one: os.stat_result, other: os.stat_result) -> bool:
    """Say whether a file was neither replaced nor written between two looks."""
    return (one.st_dev, one.st_ino, one.st_size, one.st_mtime_ns) == (
        other.st_dev, other.st_ino, other.st_size, other.st_mtime_ns,
    )  # fmt: skip


def put_back(old: Path, target: Path, size: int, wait_times: Patience) -> None:
    """Give the old file its place back; what the new one gained behind `size` goes along."""
    with reading(target) as new:
        size = _move(new.fileno(), size, old, whole_lines=True)
        old.replace(target)
        sync_folder(target.parent)
        _wait_until_quiet(new.fileno(), wait_times)
        _move(new.fileno(), size, target, whole_lines=False)


def settle_leftovers(target: Path) -> None:
    """Clear up beside a transcript what a process that was killed left there.

    What the file that was replaced gained afterwards is added to the new one.
    """
    for path in target.parent.glob(f".{target.name}.*{LEFTOVER}"):
        if path.is_symlink() or not path.is_file():
            continue
        size = _REPLACED.search(path.name)
        if size and target.exists():
            _splice(path, int(size[1]), target)
        unlink(path)


def _splice(old: Path, size: int, target: Path) -> None:
    with reading(old) as file:
        if os.fstat(file.fileno()).st_ino != target.stat().st_ino:
            _move(file.fileno(), size, target, whole_lines=False)


def _is_written(path: Path, watch: _Watch) -> bool:
    """Say whether somebody wrote to a file, or waits to; after some time nobody will."""
    deadline = time.monotonic() + watch.wait_times.quiet_s
    while True:
        if watch.lease.has_waiting_writer or path.stat().st_size != watch.size:
            return True
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(left, watch.wait_times.quiet_s / 10))


def _wait_until_quiet(descriptor: int, wait_times: Patience) -> None:
    deadline = time.monotonic() + wait_times.max_wait_s
    size = os.fstat(descriptor).st_size
    while time.monotonic() < deadline:
        time.sleep(wait_times.quiet_s)
        now = os.fstat(descriptor).st_size
        if now == size:
            break
        size = now


def _move(source: int, start: int, target: Path, *, whole_lines: bool) -> int:
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
