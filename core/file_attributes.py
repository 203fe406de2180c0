"""Extended attributes of a file that another one takes the place of."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def copy_attributes(origin: Path, descriptor: int) -> None:
    """Copy a file's extended attributes, access lists included, to an open file.

    Those that the system keeps for its administrator are left out, as is everything where the
    file system has none. Python has no call for them outside of Linux: there they are lost.
    """
    if not hasattr(os, "listxattr"):
        return
    with suppress(OSError):
        for name in os.listxattr(origin, follow_symlinks=False):
            with suppress(OSError):
                os.setxattr(descriptor, name, os.getxattr(origin, name, follow_symlinks=False))
