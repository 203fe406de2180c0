"""M3: old output of shells: its head, its tail and its errors stay."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ..changes import Intent, called, input_of, replace_result, text_of
from ..notes import note
from ..plan import Harm
from ..stubs import is_worth
from .finding import SHELLS, results
from .masking import mask

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..plan import Operation
    from ..view import View

NAME: Final = "old-shell-output"
LEVEL: Final = Harm.MASKED

HEAD_LINES: Final = 20
TAIL_LINES: Final = 30
ERROR_LINES: Final = 20
"""All three: compaction.md 7.5 (gemini-cli, codeArbiter)."""

LAST_LINES: Final = 5
"""Of a shorter output: there a test says how it went, and a command what it made."""

LINE_CHARS: Final = 400
"""A longer line is data, and makes the whole be masked."""

_ERROR: Final = re.compile(
    r"\b(?:error|errors|failed|failure|fatal|panic|exception|traceback|denied|exit code)\b",
    re.IGNORECASE,
)


def find(view: View) -> Iterator[Operation]:
    """Find output of shells that is old; of lines that are data, only names stay."""
    intent = Intent(NAME, LEVEL, "output that is old: its end and errors stay")
    for slot in results(view, SHELLS):
        text = text_of(view, slot) or ""
        call = view.call_of(slot)
        what = called(slot, input_of(view, call) if call else {})
        short = next((each for each in _shorter(view, text, what) if is_worth(text, each)), None)
        made = None if short is None else replace_result(view, slot, intent, short)
        made = made or mask(view, slot, intent, "Run it again for more.")
        if made:
            yield made


def _shorter(view: View, text: str, what: str) -> Iterator[str]:
    """Give what may stand for an output, the most first; nothing for data."""
    if max(map(len, text.split("\n"))) <= LINE_CHARS:
        yield shortened(view, text, what, HEAD_LINES, TAIL_LINES)
        yield shortened(view, text, what, 0, LAST_LINES)


def shortened(view: View, text: str, what: str, first: int, last: int) -> str:
    """Keep the first and last lines of an output, and the lines between that tell of errors."""
    lines = text.split("\n")
    head, between, tail = lines[:first], lines[first:-last], lines[max(first, len(lines) - last) :]
    errors = [line for line in between if _ERROR.search(line)][:ERROR_LINES]
    left_out = "\n".join(line for line in between if line not in errors)
    kept = "\n".join([*head, *errors, *tail])
    told = note(view, left_out, f"{what}, the rest", "Run it again for more.", kept)
    return "\n".join([*head, told, *errors, *tail])
