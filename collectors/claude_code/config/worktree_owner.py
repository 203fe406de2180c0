"""Which repository a git worktree belongs to: its `.git` is a file that names it."""

import os
from pathlib import Path
from typing import Final, NamedTuple

from ....core.files.safe_open import open_regular
from ....core.store.writer import Writer
from ....core.transcript.sanitize import sanitize_path

MAX_GIT_FILE_BYTES: Final = 4096  # it holds one path
MAX_LEVELS: Final = 12  # between a session's folder and the worktree's root

_START: Final = "gitdir: "
_WORKTREES: Final = "worktrees"  # in a repository's folder: a folder per worktree


class Worktree(NamedTuple):
    path: str
    owner: str  # the folder of the repository


def find_worktree(folder: Path) -> Worktree | None:
    """Find the worktree that a folder is in; None if it is in none. Raises OSError.

    Nothing that the file names is opened.
    """
    for place in (folder, *folder.parents)[:MAX_LEVELS]:
        file = place / ".git"
        if file.is_symlink():
            return None
        if file.is_dir():
            return None
        if file.is_file():
            owner = _read_owner(file)
            return Worktree(sanitize_path(str(place)), owner) if owner else None
    return None


def _read_owner(file: Path) -> str | None:
    with open_regular(file) as opened:
        text = opened.read(MAX_GIT_FILE_BYTES).decode("utf-8", "replace")
    if not text.startswith(_START):
        return None
    named = text.removeprefix(_START).splitlines()[0].strip()
    parts = Path(os.path.normpath(file.parent / named)).parts
    # <repository>/.git/worktrees/<name>, or <bare repository>.git/worktrees/<name>; a submodule's
    # is in `modules`.
    if len(parts) < 4 or parts[-2] != _WORKTREES:
        return None
    repository = Path(*parts[:-2])
    owner = repository.parent if repository.name == ".git" else repository.with_suffix("")
    return sanitize_path(str(owner)) or None


class WorktreeFollower:
    """Stores the worktrees that were seen; one that was removed keeps its owner."""

    def __init__(self, writer: Writer) -> None:
        self._writer: Final = writer
        rows = writer.connection.execute("SELECT path, owner FROM worktree")
        self._known: Final = {str(path): str(owner) for path, owner in rows}

    def follow(self, folder: Path) -> None:
        """Store the worktree that a folder is in; raises OSError if its file cannot be read."""
        found = find_worktree(folder)
        if found is None or self._known.get(found.path) == found.owner:
            return
        with self._writer.transaction():
            self._writer.connection.execute("INSERT OR REPLACE INTO worktree VALUES (?, ?)", found)
        self._known[found.path] = found.owner
