"""The session that a plan changes: its lock, and the checks that nothing is writing to it."""

from __future__ import annotations

import fcntl
import os
import shlex
import stat
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from ..files.file_operations import FILE_MODE, make_private_folder
from ..files.shared_files import LockHeldError, user_lock
from ..transcript.visible_messages import is_call, is_result, visible_entries
from .fork import AGENTS_FOLDER
from .plan import CompactionRefusedError, Refusal, RefusalKind, refusal_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from ..transcript.conversation import Entry


END_OR_FORK: Final = "end it and wait, or leave --in-place out: a fork changes nothing of it"


@dataclass(frozen=True, slots=True)
class WaitTimes:
    """How long to wait until nothing is written any more; seconds."""

    idle_s: float = 120.0
    """Since the last write (compaction 7.5, "live window")."""
    quiet_s: float = 0.25
    """After a file was replaced: a late write of the client's shows up in this time."""
    max_wait_s: float = 5.0
    """For late writes to end."""

    def without_idle(self) -> WaitTimes:
        """Ask for no time since the last write."""
        return replace(self, idle_s=0.0)


@dataclass(frozen=True, slots=True)
class CompactionTarget:
    """A session, and what reads it; core knows neither the registry nor the client's lines."""

    session_id: str
    transcript: Path
    cwd: str | None
    state_folder: Path
    """Our own folder for copies, receipts and locks."""
    read_entries: Callable[[Path], Sequence[Entry]]
    """Reads a transcript's entries."""
    find_holder: Callable[[str], str | None]
    """Says what has a session open ("process 4711"); None where nothing has."""
    wait_times: WaitTimes = WaitTimes()
    is_known_closed: Callable[[str], bool] = lambda _: False
    """Reports whether it is known that no client has a session open; False where nobody can tell,
    and then only time shows it."""
    automatic_reason: str | None = None
    """Why ctxtop changes it by itself; None where a person asked."""

    def resume_command(self, session_id: str) -> str:
        """Return the shell command that resumes a session, from the session's folder."""
        command = f"claude --resume {shlex.quote(session_id)}"
        return f"cd {shlex.quote(self.cwd)} && {command}" if self.cwd else command


@contextmanager
def session_lock(target: CompactionTarget, session_id: str) -> Iterator[None]:
    """Hold a session's lock, and with it that of its forks; a process that ends lets go of it.

    It is held in our own folder, which all of the store share, and for the transcript, which
    those of other stores may change too. Raises NotAppliedError where another process holds one
    of them, OSError.
    """
    with _store_lock(target.state_folder, session_id):
        try:
            with user_lock(SESSION_LOCK_KIND, target.transcript.parent, session_id):
                yield
        except LockHeldError:
            raise _lock_refused() from None


SESSION_LOCK_KIND: Final = "session"
"""The kind of the lock of a transcript, which is named by its folder and session."""


def _lock_refused() -> CompactionRefusedError:
    return refusal_error(
        RefusalKind.LIVE, "locked", "another ctxtop changes this session", "wait for it"
    )


@contextmanager
def _store_lock(state: Path, session_id: str) -> Iterator[None]:
    folder = state / "locks"
    make_private_folder(folder)
    descriptor = os.open(folder / f"{session_id}.lock", os.O_RDWR | os.O_CREAT, FILE_MODE)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _lock_refused() from None
        yield
    finally:
        os.close(descriptor)


def require_idle(target: CompactionTarget, path: Path, session_id: str, own_bytes: int = 0) -> None:
    """Raise NotAppliedError unless nothing can be writing to a session's file.

    Of its first `ours` bytes, which ctxtop itself wrote, no call tells that a client is at work.
    """
    refusals = list(_activity_refusals(target, path, session_id, own_bytes))
    if refusals:
        raise CompactionRefusedError(RefusalKind.LIVE, refusals)
    refusals = list(_file_refusals(path))
    if refusals:
        raise CompactionRefusedError(RefusalKind.UNSAFE, refusals)


def _activity_refusals(
    target: CompactionTarget, path: Path, session_id: str, own_bytes: int
) -> Iterator[Refusal]:
    holder = target.find_holder(session_id)
    if holder is not None:
        yield Refusal("open", f"the session is open in {holder}", END_OR_FORK)
    least = 0.0 if target.is_known_closed(session_id) else target.wait_times.idle_s
    age = time.time() - path.lstat().st_mtime
    if age < least:
        why = f"its transcript was written {max(age, 0):.0f} s ago"
        yield Refusal("idle", why, f"wait until {least:.0f} s have passed, or make a fork")
    sent = visible_entries(target.read_entries(path))
    results = {piece.tool_use_id for each in sent for piece in each.parts if is_result(piece)}
    added = (each for each in sent if each.offset >= own_bytes)
    calls = [piece for each in added for piece in each.parts if is_call(piece)]
    waiting = [piece for piece in calls if piece.tool_use_id not in results]
    if waiting:
        why = f"its call of {waiting[-1].name} has no result yet"
        yield Refusal("open-call", why, "resume it and let the call end, or make a fork")
    for agent in (path.with_suffix("") / AGENTS_FOLDER).glob("agent-*.jsonl"):
        age = time.time() - agent.lstat().st_mtime
        if age < least:
            yield Refusal("agent", f"{agent.stem} was at work {max(age, 0):.0f} s ago", END_OR_FORK)


def _file_refusals(path: Path) -> Iterator[Refusal]:
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode):
        yield Refusal("file", f"{path} is no regular file", "make a fork")
    elif status.st_uid != os.geteuid():
        yield Refusal("file", f"{path} belongs to another user", "let them do it")
    elif not status.st_mode & stat.S_IWUSR:
        yield Refusal("file", f"{path} is read-only", "chmod u+w it, or make a fork")
    elif status.st_nlink > 1:
        yield Refusal("file", f"{path} has another name too (a hard link)", "make a fork")
