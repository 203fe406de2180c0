"""Halves of surrogate pairs in JSON, as JavaScript cuts and writes them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from re import Match

_ESCAPE: Final = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
"""One escape, or the two of a whole pair."""

_UNKNOWN: Final = r"\ufffd"
"""As long as what it stands for: nothing else of a line moves."""


def without_half_signs(json: str) -> str:
    """Write U+FFFD for each half of a pair that JSON escapes: no strict reader takes it."""
    return _ESCAPE.sub(_whole, json)


def _whole(escape: Match[str]) -> str:
    return _UNKNOWN if escape["half"] else escape[0]
