"""Which file system a folder is on: some never tell of what others change."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

MOUNTS: Final = Path("/proc/self/mountinfo")

_SILENT: Final = re.compile(
    r"nfs\d?|cifs|smb\d?|smbfs|fuse\..*|9p|virtiofs|vboxsf|prl_fs|afs|ceph|glusterfs|lustre|davfs"
)
"""Network and shared file systems: what another machine writes there is not told.
`fuseblk` is a local disk."""

_ESCAPE: Final = re.compile(r"\\([0-7]{3})")


def file_system(place: Path) -> str | None:
    """Name the type of the file system that a folder is on; None where the system does not say."""
    try:
        lines = MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    found, depth = None, -1
    for line in lines:
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) < 5 or not after:
            continue
        point = Path(_ESCAPE.sub(lambda code: chr(int(code[1], 8)), fields[4]))
        # Of two mounts on one point the later one covers the other.
        if len(point.parts) >= depth and place.is_relative_to(point):
            found, depth = after.split()[0], len(point.parts)
    return found


def is_silent(place: Path) -> bool:
    """Say whether a folder's file system may not tell of changes, so that one must poll."""
    kind = file_system(place)
    return kind is not None and _SILENT.fullmatch(kind) is not None
