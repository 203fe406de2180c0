"""A file that cannot be used, said as a command ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..file_words import unchanged
from .report import FAILED, say

if TYPE_CHECKING:
    from pathlib import Path


def say_unchanged(error: OSError, path: Path) -> int:
    """Say that nothing was changed, and why; gives the exit code."""
    say(unchanged(error, path))
    return FAILED
