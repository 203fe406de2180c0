"""What stood before a summary beside what the summary says of it: kept, still there, left out."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec

from .composition_items import telling
from .conversation import Entry, PieceKind, Role, messages_of
from .segments import first_copies, segments
from .summaries.artifacts import Artifacts, artifacts_of
from .summaries.forgotten import divide
from .summary_search import folded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .conversation import Message, Piece

THINGS: Final = 300
"""Of each kind, the most important first: more than a person reads; all of them are counted."""

TURNS: Final = 2_000
"""Messages, the newest: a longer conversation is opened in its transcript."""

TURN_CHARS: Final = 1_200
"""Of a message's text; of a tool's result that is its beginning."""

QUOTE: Final = 5
"""Words in a row that the summary has too: fewer stand in any two texts about the same work."""

_TOKEN: Final = re.compile(r"[^\W_]+")


class Where(StrEnum):
    """What became of a thing."""

    SUMMARY = "summary"
    """The summary names it."""
    STAYS = "stays"
    """Only the messages that stayed as they are have it."""
    LOST = "lost"


class Sort(StrEnum):
    """What a thing is, the plural as a person reads it."""

    FILE = "files"
    NAME = "names"
    DECISION = "decisions"
    TODO = "todos"
    RULE = "rules"


class Thing(msgspec.Struct, frozen=True):
    """Something that may be needed later."""

    sort: Sort
    text: str
    line: int
    """Of the transcript, where it stood last."""
    where: Where


class Tally(msgspec.Struct, frozen=True):
    """How many things of one sort there were, and what became of them."""

    sort: Sort
    all: int
    summary: int
    stays: int

    @property
    def lost(self) -> int:
        """Count those that are nowhere any more."""
        return self.all - self.summary - self.stays


class Turn(msgspec.Struct, frozen=True):
    """A message that the summary stands for."""

    line: int
    who: str
    """`you`, `model`, `tools`, `agent`, `summary` or `client`."""
    text: str
    """Its beginning."""
    quoted: tuple[tuple[int, int], ...]
    """Start and end of what the summary says word for word."""
    stays: bool
    """It was kept as it is."""


class Replaced(msgspec.Struct, frozen=True):
    """All of it."""

    things: tuple[Thing, ...]
    tallies: tuple[Tally, ...]
    turns: tuple[Turn, ...]
    """In their order; the newest TURNS."""
    messages: int
    """In all."""
    tool_uses: int
    context_tokens: int | None
    """The most that an answer before it had in its context."""
    last_words: str | None
    """The model's last message."""


def before_boundary(entries: Sequence[Entry], summary_offset: int, summary: str) -> Replaced | None:
    """Tell what a boundary's summary stands for; None where nothing stands before it.

    `entries` are of one context, whole; `summary_offset` is the byte at which its line begins.
    """
    standing = Artifacts()
    found = None
    for segment in segments(entries):
        if segment.end.offset >= summary_offset:
            break
        before = artifacts_of(segment.entries, standing)
        found = before, segment
        standing, _ = divide(before, segment.summary, segment.kept, segment.attached)
    if found is None:
        return None
    before, segment = found
    return _replaced(before, segment.entries, segment.kept, summary)


def before_plan(entries: Sequence[Entry], kept_uuids: Sequence[str], summary: str) -> Replaced:
    """Tell what a plan's text stands for: all that the model saw, but what `stays` names."""
    chain = first_copies(entries)
    standing = Artifacts()
    start = 0
    for segment in segments(chain):
        before = artifacts_of(segment.entries, standing)
        standing, _ = divide(before, segment.summary, segment.kept, segment.attached)
        start = next(n for n, each in enumerate(chain) if each is segment.end) + 1
    seen = chain[start:]
    wanted = frozenset(kept_uuids)
    kept = tuple(entry for entry in chain if entry.uuid in wanted)
    return _replaced(artifacts_of(seen, standing), seen, kept, summary)


def behind_result(entries: Sequence[Entry], result: str) -> Replaced:
    """Tell what an agent did and found, beside what its result says of it."""
    seen = [entry for entry in first_copies(entries) if not _ends_with(entry, result)]
    return _replaced(artifacts_of(seen), seen, (), result)


def _ends_with(entry: Entry, result: str) -> bool:
    said = "\n".join(piece.text for piece in entry.parts if piece.kind is PieceKind.TEXT)
    return entry.role is Role.ASSISTANT and said.strip() == result.strip()


def _replaced(
    before: Artifacts, entries: Sequence[Entry], kept: Sequence[Entry], summary: str
) -> Replaced:
    named, missing = divide(before, summary, ())
    stay, lost = divide(missing, "", kept) if kept else (Artifacts(), missing)
    parts = ((Where.LOST, lost), (Where.STAYS, stay), (Where.SUMMARY, named))
    tallies, things = [], []
    for sort, texts in _SORTS.items():
        by_where = {where: list(texts(some)) for where, some in parts}
        count = sum(map(len, by_where.values()))
        if count:
            in_summary, staying = len(by_where[Where.SUMMARY]), len(by_where[Where.STAYS])
            tallies.append(Tally(sort, count, in_summary, staying))
        listed = [
            Thing(sort, text, line, where)
            for where, found in by_where.items()
            for text, line in found[:THINGS]
        ]
        things += listed
    messages = messages_of(list(entries))
    quotes = _Quotes(summary)
    staying_offsets = frozenset(entry.offset for entry in kept)
    answers = [each for each in entries if each.role is Role.ASSISTANT and not each.hidden]
    return Replaced(
        things=tuple(things),
        tallies=tuple(tallies),
        turns=tuple(_turn(each, quotes, staying_offsets) for each in messages[-TURNS:]),
        messages=len(messages),
        tool_uses=sum(
            piece.kind is PieceKind.TOOL_INPUT for entry in entries for piece in entry.parts
        ),
        context_tokens=max((each.context_tokens or 0 for each in answers), default=0) or None,
        last_words=next(filter(None, (_words_of(each) for each in reversed(answers))), None),
    )


_SORTS: Final[dict[Sort, Callable[[Artifacts], list[tuple[str, int]]]]] = {
    Sort.FILE: lambda found: [(each.path, each.line) for each in found.files],
    Sort.DECISION: lambda found: [(each.text, each.line) for each in found.decisions],
    Sort.TODO: lambda found: [(each.text, each.line) for each in found.todos],
    Sort.RULE: lambda found: [(each.text, each.line) for each in found.constraints],
    Sort.NAME: lambda found: [(each.text, each.line) for each in found.names],
}

_BESIDE: Final = frozenset({PieceKind.ATTACHMENT, PieceKind.META})

_WHO: Final = {
    PieceKind.PROMPT: "you",
    PieceKind.TEXT: "model",
    PieceKind.THINKING: "model",
    PieceKind.TOOL_INPUT: "model",
    PieceKind.TOOL_RESULT: "tools",
    PieceKind.AGENT_RETURN: "agent",
    PieceKind.SUMMARY: "summary",
    PieceKind.META: "client",
    PieceKind.ATTACHMENT: "client",
}


def _turn(message: Message, quotes: _Quotes, staying: frozenset[int]) -> Turn:
    first = message.entries[0]
    # What the client put in beside a person's words stands in every request.
    own = [each for each in message.parts if each.kind not in _BESIDE] or list(message.parts)
    text = "\n".join(filter(None, map(_said, own)))[:TURN_CHARS]
    return Turn(
        line=first.line,
        who=_WHO[own[0].kind],
        text=text,
        quoted=tuple(quotes.found_in(text)),
        stays=first.offset in staying,
    )


def _said(piece: Piece) -> str:
    if piece.kind is PieceKind.TOOL_INPUT:
        return f"{piece.name} {piece.path or telling(piece.text)}".strip()
    return piece.text


def _words_of(entry: Entry) -> str:
    return "\n".join(piece.text for piece in entry.parts if piece.kind is PieceKind.TEXT)


class _Quotes:
    """The runs of QUOTE words that a text has."""

    def __init__(self, text: str) -> None:
        words = _TOKEN.findall(folded(text))
        self._runs: Final = {
            tuple(words[place : place + QUOTE]) for place in range(len(words) - QUOTE + 1)
        }

    def found_in(self, text: str) -> Iterator[tuple[int, int]]:
        """Give start and end of each passage that consists of such runs."""
        words = [(each.group(), *each.span()) for each in _TOKEN.finditer(folded(text))]
        start = end = -1
        for place in range(len(words) - QUOTE + 1):
            run = words[place : place + QUOTE]
            if tuple(word for word, _, _ in run) not in self._runs:
                continue
            if start >= 0 and run[0][1] > end:
                yield start, end
                start = -1
            start = run[0][1] if start < 0 else start
            end = run[-1][2]
        if start >= 0:
            yield start, end
