"""The session that a plan changes: its lock, whether it is idle, and replacing its file."""

import errno
import fcntl
import os
import re
import shlex
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..files import file_operations as files
from ..model.conversation import Entry
from ..transcript.stored_paths import shell_word
from ..transcript.visible_messages import is_call, is_result, visible_entries
from .plan import Refusal, RefusalKind, refusal_error, refuse_if_any
from .receipts import BackupRetention, ReceiptStore
from .rewritten_lines import AGENTS_FOLDER

END_OR_FORK: Final = "close it and wait, or omit --in-place: a fork leaves it unchanged"


@dataclass(frozen=True, slots=True)
class WaitTimes:
    """How long to wait until writing has ended; seconds."""

    idle_s: float = 120.0  # since the last write (compaction 7.5, "live window")
    quiet_s: float = 0.25  # after a file was replaced: a late write of the client's shows by then
    max_wait_s: float = 5.0  # for late writes to end


def resume_command(session_id: str) -> str:
    """Return the command for a shell that resumes a session in its folder."""
    return f"claude --resume {shlex.quote(session_id)}"


@dataclass(frozen=True, slots=True)
class CompactionTarget:
    """A session, and what reads it; core knows neither the registry nor the client's lines."""

    session_id: str
    transcript: Path
    cwd: str | None
    state_folder: Path  # our own folder for backups, receipts and locks
    read_entries: Callable[[Path], Sequence[Entry]]  # reads a transcript's entries
    find_holder: Callable[[str], str | None]
    """Returns what has a session open ("process 4711"), or None."""
    wait_times: WaitTimes = WaitTimes()
    retention: BackupRetention = BackupRetention()  # noqa: RUF009 -- frozen
    is_known_closed: Callable[[str], bool] = lambda _: False
    """Reports whether it is known that no client has a session open; if that is not known, only
    the time since the last write shows it."""
    automatic_reason: str | None = None  # why ctxtop changes it by itself; None if a person asked

    def resume_command(self, session_id: str) -> str:
        command = resume_command(session_id)
        return f"cd {shell_word(self.cwd)} && {command}" if self.cwd else command


SESSION_LOCK_KIND: Final = "session"  # of the lock of a transcript, named by folder and session


@contextmanager
def session_lock(target: CompactionTarget, session_id: str) -> Iterator[None]:
    """Hold a session's lock, and with it that of its forks; it is released when a process ends.

    It is held in our own folder, which all users of the store share, and for the transcript,
    which those of other stores may change too. Raises CompactionRefusedError if another process
    holds one of them, OSError.
    """
    stored = target.state_folder / "locks" / f"{session_id}.lock"
    try:
        with (
            files.file_lock(stored),
            files.user_lock(SESSION_LOCK_KIND, target.transcript.parent, session_id),
        ):
            yield
    except files.LockHeldError:
        raise refusal_error(
            RefusalKind.LIVE,
            "locked",
            "another ctxtop is changing this session",
            "wait until it is done",
        ) from None


def require_idle(target: CompactionTarget, path: Path, session_id: str, own_bytes: int = 0) -> None:
    """Raise CompactionRefusedError unless nothing can be writing to a session's file.

    A last write by ctxtop is not a client's: the file's bytes prove it, never its time.
    An open call in its first `own_bytes` bytes, which ctxtop wrote, is no sign of a client.
    """
    activity = _activity_refusals(target, path, session_id, own_bytes)
    refuse_if_any(RefusalKind.LIVE, activity)
    refuse_if_any(RefusalKind.UNSAFE, _file_refusals(path))


def _activity_refusals(
    target: CompactionTarget, path: Path, session_id: str, own_bytes: int
) -> Iterator[Refusal]:
    holder = target.find_holder(session_id)
    if holder is not None:
        yield Refusal("open", f"the session is open in {holder}", END_OR_FORK)
    min_age = 0.0 if target.is_known_closed(session_id) else target.wait_times.idle_s
    age = time.time() - path.lstat().st_mtime
    if age < min_age and not ReceiptStore(target.state_folder).wrote_last(path):
        yield _too_young(path, age, min_age)
    sent = visible_entries(target.read_entries(path))
    results = {part.tool_use_id for entry in sent for part in entry.parts if is_result(part)}
    open_calls = [
        part
        for entry in sent
        for part in entry.parts
        if entry.offset >= own_bytes and is_call(part) and part.tool_use_id not in results
    ]
    if open_calls:
        why = f"its {open_calls[-1].name} call has no result yet"
        yield Refusal("open-call", why, "resume it and let the call finish, or make a fork")
    for agent in (path.with_suffix("") / AGENTS_FOLDER).glob("agent-*.jsonl"):
        age = time.time() - agent.lstat().st_mtime
        if age < min_age:
            yield Refusal("agent", f"{agent.stem} was active {max(age, 0):.0f} s ago", END_OR_FORK)


def _too_young(path: Path, age_s: float, min_age_s: float) -> Refusal:
    """Return when a transcript was written; one that is dated in the future says nothing of it."""
    if age_s < -min_age_s:
        hours = -age_s / 3600
        why = f"its transcript is dated {hours:,.1f} h in the future, so its age is not known"
        fix = f"correct this machine's clock, or run touch {shell_word(str(path))}, or make a fork"
        return Refusal("idle", why, fix)
    why = f"its transcript was written {max(age_s, 0):.0f} s ago"
    return Refusal("idle", why, f"wait until {min_age_s:.0f} s have passed, or make a fork")


def _file_refusals(path: Path) -> Iterator[Refusal]:
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode):
        yield Refusal("file", f"{path} is not a regular file", "make a fork")
    elif status.st_uid != os.geteuid():
        yield Refusal("file", f"{path} belongs to another user", "only they can change it")
    elif not status.st_mode & stat.S_IWUSR:
        yield Refusal("file", f"{path} is read-only", "run chmod u+w on it, or make a fork")
    elif status.st_nlink > 1:
        yield Refusal("file", f"{path} has a second name (a hard link)", "make a fork")


class WriteLease:
    """A lease on an open file; `descriptor` is None if there is none."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    @property
    def has_waiting_writer(self) -> bool:
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
    """Hold a lease on a file. Raises CompactionRefusedError if it is open for writing, OSError."""
    with files.open_regular_file(path) as file:
        descriptor = file.fileno()
        lease = WriteLease(descriptor if _take_lease(descriptor, path) else None)
        try:
            yield lease
        finally:
            lease.release()


_UNSUPPORTED_ERRORS: Final = frozenset(
    {errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EACCES, errno.EPERM}
)
"""Errors of file systems without leases: then only the watch for late writes protects."""


def _take_lease(descriptor: int, path: Path) -> bool:
    if sys.platform != "linux":
        return False
    try:
        # The default signal would end the process; this one is ignored.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        if error.errno == errno.EAGAIN:
            raise refusal_error(
                RefusalKind.LIVE, "held", f"a process has {path} open for writing",
                "end that process, or make a fork",
            ) from error  # fmt: skip
        if error.errno in _UNSUPPORTED_ERRORS:
            return False
        raise
    return True


_REPLACED_NAME: Final = re.compile(rf"\.(\d+){re.escape(files.REPLACED_SUFFIX)}$")
"""End of the second name of a file that is replaced: with the size that it had."""


def atomic_replace(new: Path, target: Path, seen: os.stat_result, wait_times: WaitTimes) -> None:
    """Replace a file that is still as it was `seen`; the new file is beside it.

    Raises CompactionRefusedError if the file was or is being written: then it is in its place,
    with every line. Raises OSError.
    """
    # Its name holds the size that it had when it was replaced: what is behind that came late.
    old = files.temporary_path(target, f".{seen.st_size}{files.REPLACED_SUFFIX}")
    with files.removed_on_error(new):
        size = new.stat().st_size
        os.utime(new, ns=(seen.st_atime_ns, seen.st_mtime_ns))
        with write_lease(target) as lease:
            _replace_unwritten(new, target, old, seen, lease)
            files.sync_folder(target.parent)
            if _sees_late_write(old, seen.st_size, lease, wait_times.quiet_s):
                # Whoever waits to write to the old file continues now, and it is the transcript.
                lease.release()
                restore_replaced(old, target, size, wait_times)
                raise refusal_error(
                    RefusalKind.LIVE, "late-write", "Claude Code wrote to the transcript meanwhile",
                    "close the session; nothing was changed, and nothing was lost",
                )  # fmt: skip
            files.remove_if_present(old)


def _replace_unwritten(
    new: Path, target: Path, old: Path, seen: os.stat_result, lease: WriteLease
) -> None:
    old.hardlink_to(target)
    with files.removed_on_error(old):
        if lease.has_waiting_writer or not is_unchanged(seen, target.stat()):
            raise refusal_error(
                RefusalKind.LIVE, "changed", "the transcript grew meanwhile", "plan again"
            )
        new.replace(target)


def is_unchanged(first: os.stat_result, second: os.stat_result) -> bool:
    names = ("st_dev", "st_ino", "st_size", "st_mtime_ns")
    return all(getattr(first, name) == getattr(second, name) for name in names)


def restore_replaced(old: Path, target: Path, size: int, wait_times: WaitTimes) -> None:
    """Put the old file back in place, with the lines added to the new one appended to it.

    `size` is the new file's size in bytes without those lines.
    """
    with files.open_regular_file(target) as new:
        late = _read_tail(new.fileno(), size)
        whole_lines = late[: late.rfind(b"\n") + 1]
        _append(old, whole_lines)
        old.replace(target)
        files.sync_folder(target.parent)
        _wait_until_quiet(new.fileno(), wait_times)
        _append(target, _read_tail(new.fileno(), size + len(whole_lines)))


def recover_leftovers(target: Path) -> None:
    """Remove leftovers beside a transcript; late lines of a replaced file move to the new one."""
    for path in target.parent.glob(f".{target.name}.*{files.TEMPORARY_SUFFIX}"):
        if path.is_symlink() or not path.is_file():
            continue
        size = _REPLACED_NAME.search(path.name)
        if size and target.exists():
            with files.open_regular_file(path) as file:
                if os.fstat(file.fileno()).st_ino != target.stat().st_ino:
                    _append(target, _read_tail(file.fileno(), int(size[1])))
        files.remove_if_present(path)


def _sees_late_write(path: Path, size: int, lease: WriteLease, quiet_s: float) -> bool:
    """Whether a file is written, or a writer waits for it, within `quiet_s` seconds."""
    deadline = time.monotonic() + quiet_s
    while True:
        if lease.has_waiting_writer or path.stat().st_size != size:
            return True
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(left, quiet_s / 10))


def _wait_until_quiet(descriptor: int, wait_times: WaitTimes) -> None:
    deadline = time.monotonic() + wait_times.max_wait_s
    size = os.fstat(descriptor).st_size
    while time.monotonic() < deadline:
        time.sleep(wait_times.quiet_s)
        now = os.fstat(descriptor).st_size
        if now == size:
            break
        size = now


def _read_tail(descriptor: int, start: int) -> bytes:
    size = os.fstat(descriptor).st_size
    return os.pread(descriptor, size - start, start) if size > start else b""


def _append(target: Path, data: bytes) -> None:
    if data:
        with files.open_to_append(target) as descriptor:
            files.write_all(descriptor, [data])
