"""The categories that claude-memory saves, and what its files call them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

ALL: Final = "all"
"""Stands for every category (R004-06)."""

CATEGORIES: Final = (
    "session_summary",
    "decision",
    "runbook",
    "constraint",
    "tech_debt",
    "preference",
)
"""The six of claude-memory (R004-12)."""


def expand(said: Iterable[str]) -> tuple[str, ...]:
    """Name each category once, in lower case; `all` is all six (R004-06)."""
    found: dict[str, None] = {}
    for name in said:
        lower = name.strip().lower()
        found |= dict.fromkeys(CATEGORIES if lower == ALL else (lower,) if lower else ())
    return tuple(found)
