"""Where Claude Code and ctxtop keep this user's files, and where a policy comes from.

Imports nothing slow: every hook loads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Mapping


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
    trust_file: Path | None = None
    """What the person trusts; None trusts no project."""
