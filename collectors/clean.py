"""Text from a transcript is data: what a terminal could obey is taken out here, once."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

TITLE_CHARS: Final = 200
"""A title's length: no row shows more, and a prompt can hold a whole file."""

TEXT_CHARS: Final = 200_000
"""A kept text's length: 25 times the longest agent's result that was measured."""

PATH_CHARS: Final = 4096
"""A path's length: Linux knows no longer one."""

_CUT: Final = "\n[… cut by ctxtop; the transcript has the rest]"

_BREAKS: Final = {0x2028: "\n", 0x2029: "\n", 0x85: "\n"}
_CONTROLS: Final = {
    code: None
    for code in (*range(0x20), *range(0x7F, 0xA0), 0xFEFF)
    if code not in {0x09, 0x0A, 0x85}
}
# Marks, embeddings, overrides and isolates that turn the reading direction of what follows.
_BIDI: Final = dict.fromkeys(
    (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
)
_SURROGATES: Final = dict.fromkeys(range(0xD800, 0xE000), "\ufffd")
_TABLE: Final = _CONTROLS | _BIDI | _BREAKS | _SURROGATES
_LINES: Final = {0x09: " ", 0x0A: " "}
# Most texts hold none of these, and to look for them is far quicker than to translate.
_MARKED: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


def clean_text(text: str) -> str:
    """Strip control characters, escape sequences' introducers and bidi overrides; keep lines."""
    cleaned = text.replace("\r\n", "\n")
    if _MARKED.search(cleaned):
        cleaned = cleaned.translate(_TABLE)
    return cleaned if len(cleaned) <= TEXT_CHARS else cleaned[:TEXT_CHARS] + _CUT


def clean_title(text: str) -> str:
    """Make one line of a text, at most TITLE_CHARS long."""
    return _short_title(text) if len(text) <= TITLE_CHARS else _title(text)


def clean_path(text: str) -> str:
    """Keep a path as it is, but for what a terminal could obey; such a one names no place."""
    path = text[:PATH_CHARS]
    return path.translate(_TABLE | _LINES) if not path.isprintable() else path


@lru_cache(maxsize=512)
def _short_title(text: str) -> str:
    # The same few models, versions and folders stand in every line.
    return _title(text)


def _title(text: str) -> str:
    head = text[: 4 * TITLE_CHARS]
    if _MARKED.search(head):
        head = head.translate(_TABLE)
    return " ".join(head.split())[:TITLE_CHARS]
