"""Where the user's own policy stands, and what he trusts; imports nothing that takes long."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

USER_FILE = "config.toml"


def user_file() -> Path:
    """Name the user's file (requirements 002-108: XDG, and what other systems have for it)."""
    from platformdirs import user_config_path

    return user_config_path("ctxtop") / USER_FILE


TRUST_FILE = "trusted-projects.json"


def trust_file() -> Path:
    """Name the file that remembers which projects' policy files the user trusts."""
    from platformdirs import user_state_path

    return user_state_path("ctxtop") / TRUST_FILE
