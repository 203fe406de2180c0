"""What comes next, as far as a conversation says so: a todo, an announcement, a question."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ..conversation import PieceKind
from .cues import sentences_with
from .fact import one_line
from .todos import IN_PROGRESS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..conversation import Entry
    from .fact import Fact
    from .todos import Todo

STEP_CHARS: Final = 200
"""Of what is quoted: one step is a sentence."""

_ANNOUNCED: Final = re.compile(
    r"^(?:next(?: step)?\b|now\b|then\b|let me\b|let[’']s\b|I[’']ll\b|I will\b|I[’']m going to\b"
    r"|going to\b|remaining\b|still to do\b|to do\b|다음)|\bnext (?:step|I[’']ll|is to)\b",
    re.IGNORECASE,
)
_ASKED: Final = re.compile(r"\?(?=\s|$)")
_WORDS: Final = re.compile(r"\w[^.!?\n]{6,}")
"""So that every sentence is looked at."""


def next_step(
    entries: Sequence[Entry], todos: Sequence[Todo], prompts: Sequence[Fact]
) -> tuple[str, int] | None:
    """Name the next step and the line that says it; None where nobody asked for anything.

    The todo that is being done comes first, then what the model announced or asked last, then
    the first open todo, then the person's last request.
    """
    doing = next((todo for todo in todos if todo.status == IN_PROGRESS), None)
    if doing:
        return f'go on with "{one_line(doing.text, STEP_CHARS)}"', doing.line
    said = _last_said(entries)
    if said and (not prompts or said[1] > prompts[-1].line):
        if announced := _last_with(_ANNOUNCED, said[0]):
            return f'the model announced "{one_line(announced, STEP_CHARS)}"', said[1]
        if asked := _last_with(_ASKED, said[0]):
            return f'the user\'s answer to "{one_line(asked, STEP_CHARS)}"', said[1]
    if todos:
        return f'begin "{one_line(todos[0].text, STEP_CHARS)}"', todos[0].line
    if not prompts:
        return None
    # The request itself stands among the goals, or in what was kept as it is.
    if said and said[1] > prompts[-1].line:
        return "the user's next request: the current one was answered", prompts[-1].line
    return "answer the current request", prompts[-1].line


def _last_said(entries: Sequence[Entry]) -> tuple[str, int] | None:
    for entry in reversed(entries):
        for piece in reversed(entry.parts):
            if piece.kind is PieceKind.TEXT and piece.text.strip():
                return piece.text, entry.line
    return None


def _last_with(pattern: re.Pattern[str], text: str) -> str | None:
    sentences = sentences_with(_WORDS, text)
    return next((each for each in reversed(list(sentences)) if pattern.search(each)), None)
