"""The folder that a session began in, and which memory files are its project's own."""

import os
import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from pathlib import PurePath, PurePosixPath, PureWindowsPath
from typing import Final

MAX_PROJECT_NAME_CHARS: Final = 200  # a longer one ends in a hash (claude-code-formats 1.2)
_PROJECTS: Final = "projects"  # in Claude Code's folder: a folder per project, with its transcripts


@lru_cache(maxsize=256)  # every block of a project's transcripts asks for the same few
def find_launch_folder(cwd: str, project: str) -> str | None:
    """Return `cwd` or the nearest folder above it that the client named `project` after."""
    path = PurePosixPath(cwd)
    found = _find_named((path, *path.parents), project) if path.is_absolute() else None
    return None if found is None else str(found)


def _find_named(folders: Iterable[PurePath], project: str) -> PurePath | None:
    if len(project) > MAX_PROJECT_NAME_CHARS:
        return None
    for folder in folders:
        # Unicode's composed form is at most three times shorter.
        if len(str(folder)) <= 3 * MAX_PROJECT_NAME_CHARS and _project_name(str(folder)) == project:
            return folder
    return None


def _project_name(folder: str) -> str:
    """Return the client's name for a project's folder (claude-code-formats 1.2)."""
    units = unicodedata.normalize("NFC", folder).encode("utf-16-le", "surrogatepass")
    return "".join(
        chr(low) if high == 0 and chr(low).isascii() and chr(low).isalnum() else "-"
        for low, high in zip(units[::2], units[1::2], strict=True)
    )


_DEPENDENCY_FOLDERS: Final = frozenset(
    {
        "bower_components", "carthage", "dependencies", "deps", "dist-packages", "elm-stuff",
        "external", "externals", "extern", "node_modules", "pods", "site-packages", "submodules",
        "third-party", "third_party", "thirdparty", "vendor", "vendored", "vendors", "venv", "env",
        ".cache", ".cargo", ".eggs", ".gradle", ".m2", ".nox", ".pnpm-store", ".tox", ".venv",
        ".yarn",
    }
)  # fmt: skip
"""Folders in which projects keep what others wrote; in small letters."""

_DRIVE: Final = re.compile(r"[A-Za-z]:[\\/]")  # of a transcript that was written on Windows
_USER_MEMORY_FOLDER: Final = "rules"  # in Claude Code's folder, beside its CLAUDE.md


def is_own_memory_file(path: str, transcript_path: str) -> bool:
    """Whether a memory file belongs to a session's project, or to the person.

    The first lies below the folder that the session began in, and neither in a folder of
    dependencies nor in another repository; the second in Claude Code's folder. `path` is as the
    client recorded it, `transcript_path` the session's file or an agent's, below Claude Code's
    folder. A repository is recognized while its folder is still there.
    """
    if "<U+" in path or not path.isprintable():
        return False  # what lies around a file whose name was changed cannot be looked at
    config, project = _split_transcript_path(transcript_path)
    file = PureWindowsPath(path) if _DRIVE.match(path) else PurePosixPath(path)
    if ".." in file.parts or config is None:
        return False
    if isinstance(file, PurePosixPath) and file.is_relative_to(config):
        below = file.relative_to(config).parts
        return len(below) == 1 or below[0] == _USER_MEMORY_FOLDER
    root = _find_named(file.parents, project) if file.is_absolute() else None
    if root is None:
        return False
    folders = [folder for folder in file.parents if folder.is_relative_to(root)][:-1]
    return not any(
        folder.name.casefold() in _DEPENDENCY_FOLDERS or os.path.lexists(folder / ".git")
        for folder in folders
    )


def _split_transcript_path(path: str) -> tuple[PurePosixPath | None, str]:
    """Return Claude Code's folder and the name of the project's; None and "" if it has none."""
    parts = PurePosixPath(path).parts
    places = [place for place, part in enumerate(parts[:-2]) if part == _PROJECTS]
    if not places:
        return None, ""
    return PurePosixPath(*parts[: places[-1]]), parts[places[-1] + 1]
