"""The text by which the plugin's Stop hook asks a session to save, and the categories it names."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable


ALL_CATEGORIES: Final = "all"
"""Stands for every category (R004-06)."""

MEMORY_CATEGORIES: Final = (
    "session_summary",
    "decision",
    "runbook",
    "constraint",
    "tech_debt",
    "preference",
)
"""The six of claude-memory (R004-12)."""


def expand_categories(said: Iterable[str]) -> tuple[str, ...]:
    """Name each category once, in lower case; `all` is all six (R004-06)."""
    found: dict[str, None] = {}
    for name in said:
        lower = name.strip().lower()
        found |= dict.fromkeys(
            MEMORY_CATEGORIES if lower == ALL_CATEGORIES else (lower,) if lower else ()
        )
    return tuple(found)


STOP_FEEDBACK_PREFIX: Final = "Stop hook feedback:"
"""How the client begins the line that a blocking Stop hook puts in (client 2.1.329)."""

_OPENING: Final = "items should be saved as memories"
"""In the first line of the plugin's reason, in every version."""

_FILE_TAG: Final = re.compile(r"<triage_data_file>\s*(.*?)\s*</triage_data_file>", re.DOTALL)
_INLINE_TAG: Final = "<triage_data>"
_CATEGORY: Final = re.compile(r"^\s*[-*]\s*\[?([A-Za-z_]+)\]?\b", re.MULTILINE)


class TriageDataForm(StrEnum):
    """How the triage's data reached the session."""

    FILE = "file"
    INLINE = "inline"
    NONE = "none"


class TriageBlock(msgspec.Struct, frozen=True):
    """A reason of the plugin's, taken apart."""

    data_form: TriageDataForm
    categories: tuple[str, ...]
    data_path: str | None = None
    """Of the triage's data, as it was said."""


def parse_triage_block(text: str) -> TriageBlock | None:
    """Parse the plugin's reason for a block; None if another Stop hook wrote it."""
    if not text.startswith(STOP_FEEDBACK_PREFIX):
        return None
    named = _FILE_TAG.search(text)
    inline = _INLINE_TAG in text
    if not (named or inline or _OPENING in text):
        return None
    told = text.partition(_INLINE_TAG)[0]
    said = [
        name for name in expand_categories(_CATEGORY.findall(told)) if name in MEMORY_CATEGORIES
    ]
    form = (
        TriageDataForm.FILE if named else TriageDataForm.INLINE if inline else TriageDataForm.NONE
    )
    return TriageBlock(form, tuple(said), named[1] if named else None)
