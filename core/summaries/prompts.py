"""A person's own messages: no tool's output, no client's words, no compaction's prompt."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ..conversation import PieceKind
from .artifacts import said_in
from .cues import CONSTRAINT, sentences_with
from .fact import Fact, Part, fact
from .names import hides_secret

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..conversation import Entry

NOT_A_PERSONS: Final = (
    "[Previous conversation summary]",
    "This session is being continued from a previous conversation",
    "CRITICAL: Respond with TEXT ONLY",
    "Your task is to create a detailed summary of",
    "<command-",
    "<local-command-",
)
"""How texts begin that stand in a person's place: summaries, prompts for one, local commands
(client 2.1.170 to 2.1.329; compaction.md 6.1 has a summary that lists such a one)."""

_REMINDER: Final = re.compile(r"<system-reminder>.*?(?:</system-reminder>|\Z)", re.DOTALL)


def prompts_of(entries: Iterable[Entry]) -> list[Fact]:
    """Give a person's messages word for word, oldest first, without what the client put in."""
    found: list[Fact] = []
    for entry in entries:
        said = [piece.text for piece in entry.pieces if piece.kind is PieceKind.PROMPT]
        text = _REMINDER.sub("", "\n".join(said)).strip()
        if text and not text.startswith(NOT_A_PERSONS):
            found.append(fact(Part.PROMPT, text, entry.line, 1.0, f"{entry.line}:{text}"))
    return found


def constraints_of(prompts: Sequence[Fact]) -> list[Fact]:
    """Give the sentences in which a person rules something (Q8), the newest first, each once.

    A sentence that holds what looks like a key is left out: it stands in its message.
    """
    found: dict[str, Fact] = {}
    for prompt in prompts:
        for sentence in sentences_with(CONSTRAINT, said_in(prompt.text)):
            if not hides_secret(sentence):
                found.pop(sentence, None)
                found[sentence] = fact(Part.CONSTRAINT, f'"{sentence}"', prompt.line, 1.0)
    return list(reversed(found.values()))
