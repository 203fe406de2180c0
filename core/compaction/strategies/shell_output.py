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

LINE_CHARS: Final = 400
"""A longer line is data, and makes the whole be masked."""

_ERROR: Final = re.compile(
    r"\b(?:error|errors|failed|failure|fatal|panic|exception|traceback|denied|exit code)\b",
    re.IGNORECASE,
)


def find(view: View) -> Iterator[Operation]:
    """Find output of shells that is old; where its lines are few and long, names stay."""
    intent = Intent(NAME, LEVEL, "output that is old: head, tail and errors stay")
    for slot in results(view, SHELLS):
        text = text_of(view, slot) or ""
        lines = text.split("\n")
        if len(lines) <= HEAD_LINES + TAIL_LINES or max(map(len, lines)) > LINE_CHARS:
            made = mask(view, slot, intent, "Run it again for more.")
        else:
            call = view.call_of(slot)
            short = shortened(view, text, called(slot, input_of(view, call) if call else {}))
            made = replace_result(view, slot, intent, short) if is_worth(text, short) else None
            made = made or mask(view, slot, intent, "Run it again for more.")
        if made:
            yield made


def shortened(view: View, text: str, what: str) -> str:
    """Keep the first and last lines of an output, and the lines between that tell of errors."""
    lines = text.split("\n")
    between = lines[HEAD_LINES : len(lines) - TAIL_LINES]
    errors = [line for line in between if _ERROR.search(line)][:ERROR_LINES]
    left_out = "\n".join(line for line in between if line not in errors)
    head, tail = lines[:HEAD_LINES], lines[len(lines) - TAIL_LINES :]
    kept = "\n".join([*head, *errors, *tail])
    told = note(view, left_out, f"{what}, the middle", "Run it again for more.", kept)
    return "\n".join([*head, told, *errors, *tail])
