"""Of two dashboards on one store one rings: who holds a lock, which ends with its process."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path


class OneBell:
    """Belongs to one thread; where there are no such locks everybody rings."""

    def __init__(self, store: Path) -> None:
        self._path: Final = store.with_name(f"{store.name}.bell")
        self._descriptor: int | None = None

    def acquire(self) -> bool:
        """Say whether this process is the one that rings; it stays so until it ends."""
        if self._descriptor is not None or sys.platform == "win32":
            return True
        import fcntl

        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(self._path, flags, 0o600)
        except OSError:
            # Told twice is better than not at all.
            return True
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        except OSError:
            os.close(descriptor)
            return True
        self._descriptor = descriptor
        return True

    def release(self) -> None:
        """Let another one ring."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
