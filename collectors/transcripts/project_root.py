"""The folder in which a session began: the one that its later lines may have walked away from."""

from __future__ import annotations

import unicodedata
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .lines import Line

MAX_NAME: Final = 200
"""Characters; of a longer path the client keeps a hash, which says nothing of folders above it."""


def begins_session(line: Line) -> bool:
    """Whether a file's first line stands where the person started the client.

    A file can also begin at a compaction or with a hand-off: such a line names what it
    continues, and its folder is wherever that session had walked to.
    """
    fork = line.forked_from
    is_handed_off = fork is not None and fork.message_uuid not in {None, line.uuid}
    return line.parent_uuid is None and line.logical_parent_uuid is None and not is_handed_off


def find_launch_folder(cwd: str, project: str) -> str | None:
    """Return `cwd` or the nearest folder above it that the client named `project` after.

    None where the client named it after another folder, or nobody can tell.
    """
    path = PurePosixPath(cwd)
    if not path.is_absolute() or len(project) > MAX_NAME:
        return None
    for folder in (path, *path.parents):
        # Unicode's composed form is at most three times shorter.
        if len(str(folder)) <= 3 * MAX_NAME and _name_of(str(folder)) == project:
            return str(folder)
    return None


def _name_of(folder: str) -> str:
    """Return the client's name for a project's folder (claude-code-formats 1.2)."""
    units = unicodedata.normalize("NFC", folder).encode("utf-16-le", "surrogatepass")
    return "".join(
        chr(low) if high == 0 and chr(low).isascii() and chr(low).isalnum() else "-"
        for low, high in zip(units[::2], units[1::2], strict=True)
    )
