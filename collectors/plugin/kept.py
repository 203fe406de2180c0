"""The log of what ctxtop's answers gave the client: one record a thing that was given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .log import encode, log_path, record

if TYPE_CHECKING:
    from pathlib import Path

ANSWERS: Final = "answers.jsonl"


def keep(store: Path, feature: str, **given: object) -> None:
    """Append a record; a fault is noted beside the log."""
    line = encode({name: value for name, value in given.items() if value is not None})
    record(log_path(str(store), ANSWERS), feature, line.encode("utf-8", "replace"))
