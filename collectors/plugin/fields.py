"""The fields of a hook's call, which may be of any type."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def text_of(fields: Mapping[str, Any], name: str) -> str:
    """Give a field that is a text, else the empty one."""
    value = fields.get(name)
    return value if isinstance(value, str) else ""


def transcript_of(fields: Mapping[str, Any]) -> Path | None:
    """Name the session's transcript; None where the client named none that could be one."""
    path = text_of(fields, "transcript_path")
    return Path(path) if path.endswith(".jsonl") and "\0" not in path else None
