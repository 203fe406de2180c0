"""Where the files of Claude Code and ctxtop are, and where a policy comes from.

Imports nothing slow: every hook loads it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from .claude_code.discover import ClaudeFolder


def claude_config_dir(environ: Mapping[str, str], home: Path) -> Path:
    """Name the folder as the client does (reference: claude-code-formats 1.1)."""
    chosen = environ.get("CLAUDE_CONFIG_DIR")
    return Path(chosen).expanduser() if chosen else home / ".claude"


USER_POLICY_NAME = "config.toml"


def user_policy_path() -> Path:
    """Name the user's file (requirements 002-108: XDG, and what other systems have for it)."""
    from platformdirs import user_config_path

    return user_config_path("ctxtop") / USER_POLICY_NAME


TRUST_FILE_NAME = "trusted-projects.json"


def trust_file_path() -> Path:
    """Name the file that remembers which projects' policy files the user trusts."""
    from platformdirs import user_state_path

    return user_state_path("ctxtop") / TRUST_FILE_NAME


class PolicySources(msgspec.Struct, frozen=True):
    """The places of one run beside the projects' own files."""

    command_line: tuple[tuple[str, str], ...] = ()
    """Keys and values, in the order in which they stood."""
    environ: Mapping[str, str] = {}
    user_file: Path | None = None
    trust_file: Path | None = None  # what the person trusts; None trusts no project


CONFIG_VARIABLE: Final = "CTXTOP_CONFIG_DIR"
STORE_VARIABLE: Final = "CTXTOP_DB"


class PlaceError(Exception):
    """A place that cannot be used; the message says what, where and what to do."""


class Places(msgspec.Struct, frozen=True):
    """What one run of ctxtop reads, and where it keeps what it read."""

    config_dir: Path
    store: Path
    is_explicit: bool  # a person named the folder for this run; else it is the client's default
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
    # The plugin's answers load this module, and seldom come here.
    import hashlib

    from platformdirs import user_state_path

    mark = hashlib.blake2b(str(config.resolve()).encode(), digest_size=4).hexdigest()
    return user_state_path("ctxtop") / f"store-{mark}.db"


def _path_variable(name: str) -> Path | None:
    value = os.environ.get(name)
    return Path(value) if value else None
