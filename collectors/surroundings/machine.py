"""Where this machine keeps what stands outside the client's folder and the projects."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from ...core.store.surroundings_facts import Generation

if TYPE_CHECKING:
    from collections.abc import Mapping

_MANAGED: Final = {
    "darwin": Path("/Library/Application Support/ClaudeCode"),
    "win32": Path(r"C:\Program Files\ClaudeCode"),
}
_MANAGED_ELSEWHERE: Final = Path("/etc/claude-code")

_DARWIN_USER_TEMP: Final = 65537
"""_CS_DARWIN_USER_TEMP_DIR of macOS's <unistd.h>, which Python does not name."""


class Machine(msgspec.Struct, frozen=True):
    """Folders that belong to the machine or its user, not to a project."""

    managed_folder: Path
    """The administrator's settings (claude-code-formats 1.6)."""
    staging_roots: tuple[tuple[Generation, Path], ...]
    """Below which versions of claude-memory made their staging folders (R004-01)."""
    user_id: int
    """Whose files are trusted there."""


def this_machine(environ: Mapping[str, str], home: Path) -> Machine:
    """Name the folders of this machine and this user."""
    user_id = os.geteuid() if hasattr(os, "geteuid") else 0
    tmp = Path("/tmp").resolve()  # noqa: S108 -- read only, and owner and mode are checked
    staging: dict[Path, Generation] = {}
    for generation, place in (
        (Generation.XDG_RUNTIME, _absolute(environ.get("XDG_RUNTIME_DIR"))),
        (Generation.RUN_USER, Path(f"/run/user/{user_id}")),
        (Generation.MAC_TEMP, _mac_temp()),
        (Generation.CACHE, _cache(environ, home)),
    ):
        if place is not None:
            staging.setdefault(place, generation)
    return Machine(
        managed_folder=_MANAGED.get(sys.platform, _MANAGED_ELSEWHERE),
        staging_roots=(
            (Generation.TMP, tmp),
            (Generation.TMP_OF_USER, tmp),
            *((generation, place) for place, generation in staging.items()),
        ),
        user_id=user_id,
    )


def _cache(environ: Mapping[str, str], home: Path) -> Path:
    cache = _absolute(environ.get("XDG_CACHE_HOME")) or home / ".cache"
    return cache / "claude-memory" / "staging"


def _absolute(value: str | None) -> Path | None:
    return Path(value) if value and Path(value).is_absolute() else None


def _mac_temp() -> Path | None:
    if sys.platform != "darwin":
        return None
    try:
        return _absolute(os.confstr(_DARWIN_USER_TEMP))
    except (OSError, ValueError):
        return None
