"""Opens files that others may write to; imports nothing slow, because hooks use it."""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False

if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO, Final


NOT_REGULAR_FILE: Final = "is not a regular file"  # a FIFO, a socket or a device


def open_regular(path: Path | str, buffering: int = 0) -> BinaryIO:
    """Open a regular file to read; no link is followed and a FIFO does not block.

    `buffering` is as for `open`, in bytes. Raises OSError, also if it is not a regular file.
    """
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    flags |= getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    descriptor = os.open(path, flags)
    file: BinaryIO = open(descriptor, "rb", buffering)  # noqa: PTH123, SIM115 -- a descriptor
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        file.close()
        raise OSError(0, "not a regular file", str(path))
    return file
