"""Knowing for sure that nobody has a file open to write, where the system can tell (Linux).

A read lease is granted on a file that no process has open for writing; while it is held, who
opens the file to write waits in `open`, and we learn of it. A process that ends lets go of it.
"""

from __future__ import annotations

import errno
import fcntl
import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from .files import reading
from .refused import Stop, refuse

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_UNHELD: Final = frozenset(
    {errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EACCES, errno.EPERM}
)
"""What file systems say that know no leases: then the watch alone has to do."""


class Lease:
    """A lease on an open file; None in the place of the descriptor where there is none."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    @property
    def has_waiting_writer(self) -> bool:
        """Say whether somebody waits to open the file for writing."""
        if sys.platform != "linux" or self._descriptor is None:
            return False
        return fcntl.fcntl(self._descriptor, fcntl.F_GETLEASE) != fcntl.F_RDLCK

    def release(self) -> None:
        """Let those go on who wait; whoever opens the file of us may do so from here on."""
        if sys.platform == "linux" and self._descriptor is not None:
            fcntl.fcntl(self._descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
            self._descriptor = None


@contextmanager
def leased(path: Path) -> Iterator[Lease]:
    """Hold a lease on a file. Raises NotAppliedError where it is open for writing, OSError."""
    with reading(path) as file:
        descriptor = file.fileno()
        lease = Lease(descriptor if _is_granted(descriptor, path) else None)
        try:
            yield lease
        finally:
            lease.release()


def _is_granted(descriptor: int, path: Path) -> bool:
    if sys.platform != "linux":
        return False
    try:
        # The signal that tells us would end the process; this one is passed over.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        if error.errno == errno.EAGAIN:
            raise refuse(
                Stop.LIVE, "held", f"a process has {path} open to write",
                "end that process, or make a fork",
            ) from error  # fmt: skip
        if error.errno in _UNHELD:
            return False
        raise
    return True
