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


_COMMAND: Final = re.compile(r"<command-name>\s*/?([^<\s]+)\s*</command-name>")
_ASKED: Final = re.compile(r"<command-args>(.*?)</command-args>", re.DOTALL)

_HOUSEKEEPING: Final = (
    "add-dir agents bashes bug clear compact config context copy cost doctor effort exit export"
    " extra-usage fast feedback fork help hooks ide install-github-app keybindings login logout"
    " mcp memory model output-style permissions plugin privacy-settings quit release-notes reload"
    " remote-control rename resume rewind sandbox settings skills status statusline stats tasks"
    " terminal-setup theme upgrade usage vim voice"
)
HOUSEKEEPING: Final = frozenset(_HOUSEKEEPING.split())
"""Commands of the client's own that ask nothing of the model (2.1.330)."""

_MODES: Final = frozenset({"plan"})
"""Commands that ask something of the model by their arguments alone."""


def command_of(text: str) -> str | None:
    """Write a slash command as the person typed it; None where the text asks nothing by one."""
    named = _COMMAND.search(text) if text.startswith("<command-") else None
    if named is None or named[1] in HOUSEKEEPING:
        return None
    asked = _ASKED.search(text)
    words = asked[1].strip() if asked else ""
    if not words and named[1] in _MODES:
        return None
    return f"/{named[1]} {words}".strip()


def prompts_of(entries: Iterable[Entry]) -> list[Fact]:
    """Give a person's messages word for word, oldest first, without what the client put in."""
    found: list[Fact] = []
    for entry in entries:
        said = [piece.text for piece in entry.parts if piece.kind is PieceKind.PROMPT]
        text = _REMINDER.sub("", "\n".join(said)).strip()
        text = command_of(text) or text
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
