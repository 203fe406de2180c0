"""Where the files of Claude Code and ctxtop are, and where a policy comes from.

Imports nothing slow: every hook loads it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from ...core.files.user_folders import user_config_folder, user_state_folder

if TYPE_CHECKING:
    from .discover import ClaudeFolder


def claude_config_dir(environ: Mapping[str, str], home: Path) -> Path:
    """Return the client's own folder (reference: claude-code-formats 1.1)."""
    chosen = environ.get("CLAUDE_CONFIG_DIR")
    return Path(chosen).expanduser() if chosen else home / ".claude"


def user_policy_path() -> Path:
    """Return the user's file (requirements 002-108: XDG, or its equivalent)."""
    return user_config_folder() / "config.toml"


def trust_file_path() -> Path:
    """Return the file that remembers which projects' policy files the user trusts."""
    return user_state_folder() / "trusted-projects.json"


class PolicySources(msgspec.Struct, frozen=True):
    command_line: tuple[tuple[str, str], ...] = ()  # keys and values, in order
    environ: Mapping[str, str] = {}
    user_file: Path | None = None
    trust_file: Path | None = None  # what the user trusts; None trusts no project


CONFIG_VARIABLE: Final = "CTXTOP_CONFIG_DIR"
SEVERAL_CONFIGS_VARIABLE: Final = "CLAUDE_CONFIG_DIRS"
"""Names several folders for other tools; the client itself does not read it (2.1.332)."""
STORE_VARIABLE: Final = "CTXTOP_DB"


class PlaceError(Exception):
    """A place that cannot be used; the message says what is wrong, where, and what to do."""


class Places(msgspec.Struct, frozen=True):
    config_dir: Path
    store: Path
    policy: PolicySources = PolicySources()

    @property
    def exists(self) -> bool:
        return self.config_dir.is_dir()

    @property
    def folder(self) -> ClaudeFolder:
        from .discover import ClaudeFolder  # with msgspec, after the first frame

        return ClaudeFolder(self.config_dir.resolve())


def find_places(
    config: Path | None, store: Path | None, policy: Sequence[tuple[str, str]] = ()
) -> Places:
    """Resolve the options, then the environment, then the defaults; raises PlaceError."""
    named = config or _path_variable(CONFIG_VARIABLE)
    if named is None:
        named = _only_folder(os.environ.get(SEVERAL_CONFIGS_VARIABLE, ""))
    try:
        chosen = (named or claude_config_dir(os.environ, Path.home())).expanduser().absolute()
        if named and not chosen.is_dir():
            raise PlaceError(
                f"there is no folder {chosen}: name Claude Code's folder with --config-dir"
            )
        file = store or _path_variable(STORE_VARIABLE) or default_store(chosen)
        file = file.expanduser().absolute()
    except RuntimeError as error:
        # pathlib raises it for a ~ without a home and for links in a circle.
        raise PlaceError(
            f"{str(error).rstrip('.')}: use absolute paths for --config-dir and --db"
        ) from error
    if file.is_dir():
        raise PlaceError(f"{file} is a folder: name a file with --db")
    sources = PolicySources(tuple(policy), dict(os.environ), user_policy_path(), trust_file_path())
    return Places(chosen, file, policy=sources)


def _only_folder(listed: str) -> Path | None:
    """Return the one folder of a list; None if it is empty, PlaceError if there are several."""
    folders = dict.fromkeys(filter(None, map(str.strip, listed.split(os.pathsep))))
    if len(folders) > 1:
        raise PlaceError(
            f"{SEVERAL_CONFIGS_VARIABLE} names {len(folders)} folders, and ctxtop reads one at a"
            f" time: choose it with --config-dir or {CONFIG_VARIABLE}"
        )
    return next(map(Path, folders), None)


def default_store(config: Path) -> Path:
    """Return the store of one Claude Code folder: two folders never share one."""
    # The plugin's answers load this module, and seldom call this.
    from ...core.files.digests import blake2b

    mark = blake2b(str(config.resolve()).encode(), digest_size=4).hexdigest()
    return user_state_folder() / f"store-{mark}.db"


def _path_variable(name: str) -> Path | None:
    value = os.environ.get(name)
    return Path(value) if value else None
