"""Where the benchmarks find recorded sessions: the corpus, or any other folder of transcripts."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Final

SHARED: Final = Path(__file__).parents[3] / "shared"
"""Beside the repository; CTXTOP_SHARED names another."""

_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def shared_folder() -> Path:
    """Return the folder that CTXTOP_SHARED names, or the one beside the repository."""
    return Path(os.environ.get("CTXTOP_SHARED") or SHARED)


def is_session(path: Path) -> bool:
    """Return whether a file is a session's: logs and agents' files have other names."""
    return bool(_UUID.fullmatch(path.stem))


def recordings(folder: Path) -> list[Path]:
    """List the sessions of a corpus, a configuration folder or any folder of transcripts."""
    top = folder / "corpus" if (folder / "corpus").is_dir() else folder
    return sorted(path for path in top.glob("**/*.jsonl") if is_session(path))


def too_few(folder: Path, wanted: str, found: int) -> str:
    """Write the one line that says why nothing is measured."""
    return (
        f"nothing is measured: {wanted} needed, {folder} has {found};"
        " CTXTOP_SHARED names a folder with recorded sessions"
    )


def as_config(folder: Path, scratch: Path) -> Path:
    """Copy the sessions into one folder as the client would have them."""
    config = scratch / "recorded"
    current = folder / "corpus" / "current" / "config"
    if current.is_dir():
        shutil.copytree(current, config)
    for path in recordings(folder):
        if not path.is_relative_to(current):
            place = config / "projects" / f"-home-dev-{path.parent.name}"
            place.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, place)
    return config
