"""Q13 and Q14: what a summary says that is no longer so, and what it takes for a person's word."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ctxtop.core.model.conversation import DONE_STATUSES, PartKind
from ctxtop.core.summaries.artifacts import TODO_TOOLS, parse_tool_input
from ctxtop.core.summaries.mentions import MentionIndex

from .texts import pieces_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from re import Pattern

    from ctxtop.core.model.conversation import Entry

SHORTEST_LINE: Final = 20
"""Characters: a shorter line stands in any output by chance."""

_HEADING: Final = re.compile(r"^\s*(?:#+\s*|\d+[.)]\s*|\*\*)[^\n]{2,80}$")
_PENDING: Final = re.compile(r"pending|remaining|next step|to ?do\b|in progress|not yet", re.I)
_OF_USER: Final = re.compile(
    r"user (?:messages|prompts|requests)|(?:messages|words) of the user", re.I
)
_MARKS: Final = re.compile(r"^[\s>*+\-\d.)\[\]x\"'“”`]+|[\s\"'“”`]+$")
_CLIENTS_OWN: Final = re.compile(
    r"create a detailed summary of the conversation|This session is being continued from a previous"
    r"|<system-reminder>|<task-notification>|Caveat: The messages below were generated",
    re.I,
)
"""How the client's own prompts and wrappings begin (2.1.329)."""


def stale(summary: str, tail: Sequence[Entry]) -> list[str]:
    """Name the things that a summary holds to be pending and that the tail has done (Q13)."""
    pending = MentionIndex([*_section(summary, _PENDING)])
    return [todo for todo in _done(tail) if pending.has_sentence(todo)]


def contaminated(summary: str, original: Sequence[Entry]) -> list[str]:
    """Name what a summary lists as the person's words and that another said (Q14).

    The client's own prompts and wrappings, and lines that only a tool's result holds.
    """
    prompts, results = [], []
    for piece in pieces_of(original):
        if piece.kind is PartKind.PROMPT:
            prompts.append(piece.text)
        elif piece.kind is PartKind.TOOL_RESULT:
            results.append(piece.text)
    said, printed = "\n".join(prompts), "\n".join(results)
    found = []
    for line in _section(summary, _OF_USER):
        words = _MARKS.sub("", line)
        if _CLIENTS_OWN.search(words) or (
            len(words) >= SHORTEST_LINE and words in printed and words not in said
        ):
            found.append(words)
    return found


def _section(summary: str, heading: Pattern[str]) -> Iterator[str]:
    """Yield the non-blank lines under all headings that match."""
    inside = False
    for line in summary.splitlines():
        if _HEADING.match(line):
            inside = bool(heading.search(line))
        elif inside and line.strip():
            yield line


def _done(entries: Sequence[Entry]) -> list[str]:
    """List the words of the things that became done."""
    found: list[str] = []
    for piece in pieces_of(entries):
        if piece.kind is not PartKind.TOOL_INPUT or piece.name not in TODO_TOOLS:
            continue
        todos = parse_tool_input(piece).get("todos")
        found.extend(
            str(todo["content"])
            for todo in (todos if isinstance(todos, list) else ())
            if isinstance(todo, dict)
            and todo.get("status") in DONE_STATUSES
            and todo.get("content")
        )
    return list(dict.fromkeys(found))
