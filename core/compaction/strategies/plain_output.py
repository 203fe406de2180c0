"""L4: colours, overwritten lines, blank runs and JSON indents of shells and the web."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from ..changes import Intent, replace_result, text_of
from ..plan import Harm
from ..stubs import is_stubbed
from .finding import SHELLS, WEB, results

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..plan import Operation
    from ..view import View

NAME: Final = "plain-output"
LEVEL: Final = Harm.LOSSLESS

LEAST_CHARS: Final = 200
"""A text that loses less is left alone: an edit of its own costs more than it frees."""

_ANSI: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_OVERWRITTEN: Final = re.compile(r"^[^\n]*\r(?=[^\r\n])", re.MULTILINE)
_TRAILING: Final = re.compile(r"[ \t\r]+$", re.MULTILINE)
_BLANK: Final = re.compile(r"\n{3,}")
_JSON_SPACE: Final = re.compile(r'("(?:[^"\\]|\\.)*")|\s+', re.DOTALL)


def find(view: View) -> Iterator[Operation]:
    """Find output of shells and the web that says the same in fewer signs."""
    for slot in results(view, SHELLS | WEB):
        text = text_of(view, slot) or ""
        short = plain(text)
        if len(text) - len(short) < LEAST_CHARS or is_stubbed(text):
            continue
        intent = Intent(NAME, LEVEL, "colours, overwritten lines and blanks say nothing")
        made = replace_result(view, slot, intent, short)
        if made:
            yield made


def plain(text: str) -> str:
    """Write a text as a terminal would leave it, and JSON without its indents."""
    if text.lstrip()[:1] in {"{", "["}:
        try:
            json.loads(text)
        except (ValueError, RecursionError):
            pass
        else:
            return _JSON_SPACE.sub(lambda found: found[1] or "", text)
    text = _OVERWRITTEN.sub("", _ANSI.sub("", text))
    return _BLANK.sub("\n\n", _TRAILING.sub("", text)).strip("\n") or text
