"""A file that cannot be used: what, where, and what to do, in one line."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_REMEDIES: Final = {
    errno.EACCES: "let your user write there and try again",
    errno.EPERM: "let your user write there and try again",
    errno.EROFS: "make the file system writable and try again",
    errno.ENOSPC: "free some space and try again",
    errno.EDQUOT: "free some of your quota and try again",
    errno.ENOENT: "look whether it was moved or removed",
}


def unchanged(error: OSError, path: Path) -> str:
    """Say that nothing was changed, why, and what to do."""
    where = error.filename or path
    why = error.strerror or str(error)
    remedy = _REMEDIES.get(error.errno or 0, "try again")
    return f"{where}: {why}: nothing was changed; {remedy}"
