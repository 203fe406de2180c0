"""What is kept of sessions that Claude Code deletes; imports nothing slow."""

from enum import StrEnum
from pathlib import Path


class ArchiveMode(StrEnum):
    OFF = "off"
    SUMMARIES = "summaries"  # the lines that summaries, agents' results, plans and rules are of
    ALL = "all"  # whole files: the session can be restored and resumed


def archive_folder(state_folder: Path) -> Path:
    return state_folder / "archive"


def entries_folder(state_folder: Path) -> Path:
    """Return the folder with an entry for each archived session; it exists once there is one."""
    return archive_folder(state_folder) / "sessions"
