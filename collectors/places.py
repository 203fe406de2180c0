"""Where things are: Claude Code's folder, and the store that belongs to it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from .standard_paths import PolicySources, claude_config_dir, trust_file_path, user_policy_path

if TYPE_CHECKING:
    from .claude_code.discover import ClaudeFolder


CONFIG_VARIABLE: Final = "CTXTOP_CONFIG_DIR"
STORE_VARIABLE: Final = "CTXTOP_DB"


class PlaceError(Exception):
    """A place that cannot be used; the message says what, where and what to do."""


class Places(msgspec.Struct, frozen=True):
    """What one run of ctxtop reads, and where it keeps what it read."""

    config_dir: Path
    store: Path
    is_explicit: bool
    """A person named the folder for this run; else it is the client's default."""
    policy: PolicySources = PolicySources()

    @property
    def exists(self) -> bool:
        """Claude Code's folder is there."""
        return self.config_dir.is_dir()

    @property
    def folder(self) -> ClaudeFolder:
        """The folder with its links resolved."""
        from .claude_code.discover import ClaudeFolder  # with msgspec, after the first frame

        return ClaudeFolder(self.config_dir.resolve())


def find_places(
    config: Path | None, store: Path | None, policy: Sequence[tuple[str, str]] = ()
) -> Places:
    """Resolve the options, then the environment, then the defaults.

    `policy` is what the command line says of it.

    Raises PlaceError where a named folder is not one.
    """
    named = config or _path_variable(CONFIG_VARIABLE)
    chosen = (named or claude_config_dir(os.environ, Path.home())).expanduser().absolute()
    if named and not chosen.is_dir():
        raise PlaceError(f"no folder at {chosen}: give Claude Code's folder with --config-dir")
    file = (
        (store or _path_variable(STORE_VARIABLE) or default_store(chosen)).expanduser().absolute()
    )
    if file.is_dir():
        raise PlaceError(f"{file} is a folder: give a file with --db")
    sources = PolicySources(tuple(policy), dict(os.environ), user_policy_path(), trust_file_path())
    return Places(chosen, file, is_explicit=named is not None, policy=sources)


def default_store(config: Path) -> Path:
    """Name the store of one Claude Code folder: two folders never share one."""
    from platformdirs import user_state_path

    mark = hashlib.blake2b(str(config.resolve()).encode(), digest_size=4).hexdigest()
    return user_state_path("ctxtop") / f"store-{mark}.db"


def _path_variable(name: str) -> Path | None:
    value = os.environ.get(name)
    return Path(value) if value else None
