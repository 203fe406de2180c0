"""Which kind of content a text is: prose, code, JSON, or another script."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

SEEN_CHARS: Final = 4_096
"""How much of a text is looked at: what it begins with is what it is."""

OTHER_SHARE: Final = 0.2
"""Of a text's characters that are letters beyond ASCII; French has 0.04."""

JSON_SHARE: Final = 0.08
"""Of a text's characters that are JSON's own marks; JSON of short values has 0.1 to 0.3, and one
that carries a whole text is of that text's kind."""

CODE_SHARE: Final = 0.045
"""Of a text's characters that are the marks of code; eight in ten of models' words have less."""

_BEYOND_ASCII: Final = re.compile(r"[^\W\d_\x00-\x7f]")
_JSON_MARKS: Final = '"{}[]:,'
_CODE_MARKS: Final = "{}()[];=<>/\\|_$#`*+→"


class ContentKind(StrEnum):
    """What a text is written in; diffs, listings, paths and logs are code."""

    PROSE = "prose"
    CODE = "code"
    JSON = "json"
    OTHER = "other"
    """A script other than the Latin one."""


def kind_of(text: str) -> ContentKind:
    """Say which kind a text is, by its first characters alone."""
    seen = text[:SEEN_CHARS].strip()
    if _is_other_script(seen):
        return ContentKind.OTHER
    # A tool's JSON may itself be a string of JSON.
    if seen[:1] in {"{", "[", '"'} and _share(_JSON_MARKS, seen) > JSON_SHARE:
        return ContentKind.JSON
    return ContentKind.CODE if _share(_CODE_MARKS, seen) > CODE_SHARE else ContentKind.PROSE


def _is_other_script(text: str) -> bool:
    return not text.isascii() and len(_BEYOND_ASCII.findall(text)) > OTHER_SHARE * len(text)


def _share(marks: str, text: str) -> float:
    return sum(map(text.count, marks)) / len(text) if text else 0.0
