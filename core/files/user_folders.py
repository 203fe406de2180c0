"""Where the user's settings and state are: as platformdirs says, which takes longer to load."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_APP = "ctxtop"


def user_config_folder() -> Path:
    known = _linux_folder("XDG_CONFIG_HOME", ".config")
    if known is None:
        from platformdirs import user_config_path

        known = user_config_path(_APP)
    return known


def user_state_folder() -> Path:
    known = _linux_folder("XDG_STATE_HOME", ".local/state")
    if known is None:
        from platformdirs import user_state_path

        known = user_state_path(_APP)
    return known


def _linux_folder(variable: str, below_home: str) -> Path | None:
    """Return what Linux's convention says; None on other systems, or without a home folder."""
    if sys.platform != "linux" or "ANDROID_ROOT" in os.environ:
        return None
    chosen, home = (Path(os.environ.get(name, "")) for name in (variable, "HOME"))
    if chosen.is_absolute():
        return chosen / _APP
    return home / below_home / _APP if home.is_absolute() else None
