"""Whether Claude Code trusts a folder: its own record of the answer to its trust dialog.

As 2.1.329 keeps it (seen): `projects[FOLDER].hasTrustDialogAccepted` in .claude.json, where
FOLDER is the repository's root, of a worktree the root of the repository that it belongs to, and
without git the folder itself. What lies below a folder that is trusted is trusted too, up to
the root of its own repository: a repository that was cloned into a trusted one is not.
"""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from ..regular import open_regular

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

STATE: Final = ".claude.json"

_OLDER_STATE: Final = ".config.json"
"""In the client's folder; where it is there, the client reads it instead."""

MAX_STATE_BYTES: Final = 64 * 1024 * 1024
"""The client keeps a history and caches in it, some megabytes."""

_MAX_LINK_BYTES: Final = 4096
"""Of a file that names one path: `.git` of a worktree, and the way back."""


class _Project(msgspec.Struct, rename="camel"):
    has_trust_dialog_accepted: bool = False


class _State(msgspec.Struct):
    projects: dict[str, _Project] = {}


_decode: Final = msgspec.json.Decoder(_State).decode


def state_file(config_dir: Path | None, environ: Mapping[str, str], home: Path) -> Path:
    """Name the file in which the client keeps it; `config_dir` is None for the client's default."""
    chosen = environ.get("CLAUDE_CONFIG_DIR")
    folder = config_dir or (Path(chosen).expanduser() if chosen else None)
    older = (folder or home / ".claude") / _OLDER_STATE
    if older.is_file() and older.stat().st_size:
        return older
    return (folder or home) / STATE


def is_trusted(folder: Path, state: Path) -> bool:
    """Whether the client would start in a folder without asking; False in any doubt.

    `folder` has no links in it.
    """
    try:
        # The person's own file may be a link, as keepers of dotfiles make them.
        with open_regular(Path(os.path.realpath(state))) as file:
            projects = _decode(file.read(MAX_STATE_BYTES)).projects
    except (OSError, ValueError, RecursionError):
        return False
    return any(
        (found := projects.get(unicodedata.normalize("NFC", str(each))))
        and found.has_trust_dialog_accepted
        for each in _deciding(folder)
    )


def repository_of(folder: Path) -> Path | None:
    """Return the root of a folder's repository, of a worktree that of the main one; None without.

    `folder` has no links in it.
    """
    for each in (folder, *folder.parents):
        if os.path.lexists(each / ".git"):
            return _main_repository(each) or each
    return None


def _deciding(folder: Path) -> Iterator[Path]:
    """List the folders whose record counts for this one."""
    for each in (folder, *folder.parents):
        yield each
        if os.path.lexists(each / ".git"):
            main = _main_repository(each)
            if main is not None:
                yield main
            return


def _main_repository(worktree: Path) -> Path | None:
    """Return the repository that a worktree belongs to, if that repository says so itself."""
    named = _read_path(worktree / ".git", "gitdir:")
    if named is None or named.parent.name != "worktrees":
        return None
    # Anybody can write a `.git` file that names a trusted repository.
    back = _read_path(named / "gitdir", "")
    if back is None or back != worktree / ".git":
        return None
    git = named.parent.parent
    return git.parent if git.name == ".git" else None


def _read_path(file: Path, start: str) -> Path | None:
    try:
        with open_regular(file) as opened:
            text = opened.read(_MAX_LINK_BYTES).decode().strip()
    except (OSError, ValueError):
        return None
    if not text.startswith(start):
        return None
    return Path(os.path.realpath(file.parent / text.removeprefix(start).strip()))
