"""Writing a small file so that whoever reads it finds all of it or nothing."""

from __future__ import annotations

import os
import time

from .log import FILE_MODE, SAFELY

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | SAFELY


def write_whole(path: str, content: bytes, mode: int = FILE_MODE) -> None:
    """Put a file of the user's own in the place of an older one; raises OSError.

    It is written under another name first; what is left of that when writing fails is removed.
    """
    part = f"{path}.{os.getpid()}-{time.time_ns()}.part"
    descriptor = os.open(part, _FLAGS, FILE_MODE)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
            if mode != FILE_MODE:
                os.fchmod(file.fileno(), mode)
        os.replace(part, path)
    except BaseException:
        os.unlink(part)
        raise
