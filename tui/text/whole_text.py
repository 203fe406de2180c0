"""Text that a person approves: all of it, with what is not seen written out."""

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

from ...core.transcript.sanitize import reveal_text
from .formats import plural

MAX_EMPTY_LINES: Final = 2  # more are counted: they would push what follows out of sight
MAX_BLANKS: Final = 40  # deeper than code is indented; more are counted, as they fill whole rows
TAB_CELLS: Final = 4

_BLANKS: Final = re.compile(f"[ \\t]{{{MAX_BLANKS + 1},}}")
NOTE: Final = re.compile(r"<(?:U\+[0-9A-F]{4,6}|[\d,]+ (?:empty lines|spaces|tabs|blanks))>")
"""A note in place of what cannot be seen."""


def whole_text(text: str) -> str:
    """Write a text so that a person sees all of it: codes, and counts of what is empty."""
    *lines, last = reveal_text(text).split("\n")  # the last one may be the end of a line alone
    folded = [line for run in _runs([*lines, last] if last else lines) for line in run]
    shown = "\n".join(folded if last else [*folded, last])
    return _BLANKS.sub(_count_blanks, shown).expandtabs(TAB_CELLS)


def _runs(lines: Iterable[str]) -> Iterator[list[str]]:
    for is_empty, group in groupby(lines, lambda line: not line.strip()):
        run = list(group)
        is_long = is_empty and len(run) > MAX_EMPTY_LINES
        yield [f"<{len(run):,} empty lines>"] if is_long else run


def _count_blanks(match: re.Match[str]) -> str:
    kind = {" ": "space", "\t": "tab"}.get("".join(set(match[0])), "blank")
    return f"<{plural(len(match[0]), kind)}>"
