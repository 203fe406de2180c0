"""Where Claude Code keeps its folder; imports nothing that takes long."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def config_dir(environ: Mapping[str, str], home: Path) -> Path:
    """Name the folder as the client does (reference: claude-code-formats 1.1)."""
    chosen = environ.get("CLAUDE_CONFIG_DIR")
    return Path(chosen).expanduser() if chosen else home / ".claude"
