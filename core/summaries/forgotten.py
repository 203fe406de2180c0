"""What stood before a compaction and is in neither its summary nor the messages that it kept."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from ..conversation import PieceKind
from .artifacts import (
    Artifacts,
    FileUse,
    Name,
    Quote,
    artifacts_of,
    input_of,
    texts_in,
)
from .mentions import Mentions
from .names import path_parts
from .todos import Todo  # noqa: TC001 -- msgspec reads it

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ..conversation import Entry, Piece

    _Halves = tuple[tuple["Item", ...], tuple["Item", ...]]

Item = TypeVar("Item")

FILES_TOLD: Final = 50
NAMES_TOLD: Final = 100
DECISIONS_TOLD: Final = 20
TODOS_TOLD: Final = 50
CONSTRAINTS_TOLD: Final = 50
"""The most important of each kind are told, more than anybody reads of one compaction;
`counts` has all of them."""

_SPOKEN: Final = frozenset(
    {PieceKind.PROMPT, PieceKind.TEXT, PieceKind.SUMMARY, PieceKind.META, PieceKind.AGENT_RETURN}
)


class Counts(msgspec.Struct, frozen=True):
    """How many of each kind."""

    files: int = 0
    identifiers: int = 0
    decisions: int = 0
    todos: int = 0
    constraints: int = 0


class Forgotten(msgspec.Struct, frozen=True):
    """What was forgotten, the most important first, at most a named number of each kind."""

    files: tuple[FileUse, ...] = ()
    identifiers: tuple[Name, ...] = ()
    decisions: tuple[Quote, ...] = ()
    todos: tuple[Todo, ...] = ()
    constraints: tuple[Quote, ...] = ()
    counts: Counts = Counts()
    """Of all that was forgotten."""


def forgotten(lost: Artifacts) -> Forgotten:
    """Tell the most important of what was lost (001-14; peers B.5)."""
    return Forgotten(
        files=lost.files[:FILES_TOLD],
        identifiers=lost.names[:NAMES_TOLD],
        decisions=lost.decisions[:DECISIONS_TOLD],
        todos=lost.todos[:TODOS_TOLD],
        constraints=lost.constraints[:CONSTRAINTS_TOLD],
        counts=counts_of(lost),
    )


def counts_of(artifacts: Artifacts) -> Counts:
    """Count what there is of each kind."""
    return Counts(
        files=len(artifacts.files),
        identifiers=len(artifacts.names),
        decisions=len(artifacts.decisions),
        todos=len(artifacts.todos),
        constraints=len(artifacts.constraints),
    )


def divide(
    before: Artifacts,
    summary: str,
    kept_entries: Iterable[Entry],
    attached_entries: Iterable[Entry] = (),
) -> tuple[Artifacts, Artifacts]:
    """Divide what stood before a compaction into what is still there and what is lost.

    A file is there when its basename is named, with its folder where several files have that
    basename; a name when it stands there whole, or a path by its last part, without regard
    to capitals. Both are looked for in the summary, in all that the kept messages hold, and in
    what the client `attached` to the summary: files that it read again, or told the model of.
    A decision, a todo or a constraint is there when it is said word for word or when most of
    its names and words stand together (`Mentions.has_sentence`), in the summary or in what
    was said in the kept messages: a tool's result says nothing.
    """
    still = tuple(kept_entries)
    pieces = [piece for entry in still for piece in entry.parts]
    more = [piece for entry in attached_entries for piece in entry.parts]
    everything = Mentions(
        [summary, *(text for piece in (*pieces, *more) for text in _texts_of(piece))]
    )
    spoken = Mentions([summary, *(piece.text for piece in pieces if piece.kind in _SPOKEN)])
    shared = shared_basenames(use.path for use in before.files)
    listed = {todo.text for todo in artifacts_of(still).todos}
    files = _split(before.files, lambda use: everything.has_path(use.path, shared))
    names = _split(before.names, lambda name: _has_name(everything, name.text))
    decisions = _split(before.decisions, lambda said: spoken.has_sentence(said.text))
    todos = _split(before.todos, lambda todo: todo.text in listed or spoken.has_sentence(todo.text))
    constraints = _split(before.constraints, lambda said: spoken.has_sentence(said.text))
    return (
        Artifacts(files[0], names[0], decisions[0], todos[0], constraints[0]),
        Artifacts(files[1], names[1], decisions[1], todos[1], constraints[1]),
    )


def _split(items: Iterable[Item], is_there: Callable[[Item], bool]) -> _Halves[Item]:
    there: list[Item] = []
    lost: list[Item] = []
    for item in items:
        (there if is_there(item) else lost).append(item)
    return tuple(there), tuple(lost)


def shared_basenames(paths: Iterable[str]) -> frozenset[str]:
    """Name the basenames, casefolded, that several of the paths have."""
    names = Counter(parts[-1].casefold() for path in paths if (parts := path_parts(path)))
    return frozenset(name for name, count in names.items() if count > 1)


def _has_name(text: Mentions, name: str) -> bool:
    return text.has_path(name) if "/" in name or "\\" in name else text.has_name(name)


def _texts_of(piece: Piece) -> Iterator[str]:
    if piece.kind is PieceKind.TOOL_INPUT:
        # As JSON a new line would stand before a word as the letter n.
        yield from (text for _, text in texts_in(input_of(piece)))
    else:
        yield piece.text
    if piece.path:
        yield piece.path
