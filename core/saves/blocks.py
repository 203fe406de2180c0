"""What the plugin's Stop hook said when it kept a session from ending (004-10, 004-26 on)."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

import msgspec

from .categories import CATEGORIES, expand

FEEDBACK: Final = "Stop hook feedback:"
"""How the client begins the line that a blocking Stop hook puts in (client 2.1.329)."""

_OPENING: Final = "items should be saved as memories"
"""In the first line of the plugin's reason, in every version."""

_FILE_TAG: Final = re.compile(r"<triage_data_file>\s*(.*?)\s*</triage_data_file>", re.DOTALL)
_INLINE_TAG: Final = "<triage_data>"
_CATEGORY: Final = re.compile(r"^\s*[-*]\s*\[?([A-Za-z_]+)\]?\b", re.MULTILINE)


class Form(StrEnum):
    """How the triage's data reached the session."""

    FILE = "file"
    INLINE = "inline"
    NONE = "none"


class Block(msgspec.Struct, frozen=True):
    """A reason of the plugin's, taken apart."""

    data_form: Form
    categories: tuple[str, ...]
    data_path: str | None = None
    """Of the triage's data, as it was said."""


def read_block(text: str) -> Block | None:
    """Take the plugin's reason apart; None for what another Stop hook said."""
    if not text.startswith(FEEDBACK):
        return None
    named = _FILE_TAG.search(text)
    inline = _INLINE_TAG in text
    if not (named or inline or _OPENING in text):
        return None
    told = text.partition(_INLINE_TAG)[0]
    said = [name for name in expand(_CATEGORY.findall(told)) if name in CATEGORIES]
    form = Form.FILE if named else Form.INLINE if inline else Form.NONE
    return Block(form, tuple(said), named[1] if named else None)
