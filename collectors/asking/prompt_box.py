"""The client's prompt box on a captured screen: is it there, is it empty, what stands in it.

As 2.1.329 draws it (seen): two rules of ─ over the whole width, between them "❯", a blank
that does not break, and the text, wrapped with two blanks in front. The cursor stands behind
the text: two cells from the left in an empty box. A suggestion is dim. In shell mode the sign
is "!", in dialogs and in the detailed transcript there is no such box; a busy client says
"esc to interrupt" below it.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

SIGN: Final = "❯"
RULE: Final = "─"

SHORTEST_RULE: Final = 10
"""Cells: a narrower pane shows no box that can be trusted."""

INDENT: Final = 2
"""Cells before the text."""

BUSY: Final = "esc to interrupt"

_SGR: Final = re.compile(r"\x1b\[([0-9;]*)m")
_ESCAPE: Final = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07\x1b]*(?:\x07|\x1b\\)|.)")

_DIM: Final = "2"
_NORMAL: Final = frozenset({"", "0", "22"})
_REVERSE: Final = "7"
_UPRIGHT: Final = frozenset({"", "0", "27"})


class PromptBox(msgspec.Struct, frozen=True):
    """What the box shows, and where the cursor is."""

    text: str
    """Without what is dim; blanks that break and that do not are the same."""
    has_cursor: bool
    """The cursor is in the box."""
    is_busy: bool

    @property
    def is_empty(self) -> bool:
        """Nothing was typed, and what is typed now goes into it."""
        return self.has_cursor and not self.text and not self.is_busy


def find_box(screen: str, cursor: tuple[int, int]) -> PromptBox | None:
    """Find the prompt box on a screen with its colours; None where there is none.

    `cursor` is its column and row from 0.
    """
    raw = screen.split("\n")
    plain = [_ESCAPE.sub("", line) for line in raw]
    rules = [row for row, line in enumerate(plain) if _is_rule(line)]
    if len(rules) < 2:
        return None
    top, bottom = rules[-2:]
    if bottom - top < 2 or not plain[top + 1].startswith(SIGN):
        return None
    lines = _typed(raw[top + 1 : bottom])
    lines[0] = lines[0].removeprefix(SIGN)
    column, row = cursor
    return PromptBox(
        text=" ".join(" ".join(lines).split()),
        has_cursor=top < row < bottom and column >= INDENT,
        is_busy=any(BUSY in line for line in plain[bottom:]),
    )


def _is_rule(line: str) -> bool:
    line = line.strip()
    return len(line) >= SHORTEST_RULE and set(line) == {RULE}


def _typed(lines: list[str]) -> list[str]:
    """Take away what is dim, and the cursor's cell where a dim suggestion goes on after it."""
    found: list[str] = []
    is_dim = is_reverse = False
    for line in lines:
        kept = held = ""
        end = 0
        for match in [*_SGR.finditer(line), None]:
            text = _ESCAPE.sub("", line[end : match.start() if match else len(line)])
            if is_dim and text.strip():
                # The cell under the cursor is the suggestion's first.
                held = ""
            elif is_reverse:
                held += text
            elif text:
                kept, held = kept + held + text, ""
            if match:
                codes = match.group(1).split(";")
                is_dim = _after(is_dim, codes, _DIM, _NORMAL)
                is_reverse = _after(is_reverse, codes, _REVERSE, _UPRIGHT)
                end = match.end()
        found.append((kept + held).replace("\xa0", " "))
    return found


def _after(is_on: bool, codes: list[str], on: str, off: frozenset[str]) -> bool:  # noqa: FBT001
    if codes[0] in {"38", "48"}:
        # A colour's own numbers follow.
        return is_on
    for code in codes:
        if code == on:
            is_on = True
        elif code in off:
            is_on = False
    return is_on
