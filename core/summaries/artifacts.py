"""What a run of a conversation holds that may be needed later: files, names, decisions, todos.

All of it is taken from what was said and done, by rules alone; nothing is judged by a model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from ..conversation import PieceKind
from .cues import quote
from .names import declared_in, hides_secret, names_in
from .stated import decisions_in, rules_in
from .todos import TODO_TOOLS, Todo, TodoList

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..conversation import Entry, Piece

NAMES_KEPT: Final = 5_000
"""Of a run, the highest ranked: ten times what the longest recorded session uses."""

QUOTES_KEPT: Final = 1_000
"""Decisions, and constraints, of a run: the newest; a person does not give more rules."""

PASTED_CHARS: Final = 20_000
"""A longer prompt is a pasted file or log (compaction.md 3: long pastes): only its
beginning and its end are a person's words."""

EDGE_CHARS: Final = 2_000
"""Of a pasted prompt at either end, and of a tool's input: what comes later is its data."""

BODY_CHARS: Final = 200_000
"""Of the code that a tool writes: longer files are generated."""

READ: Final = frozenset({"Read", "NotebookRead"})
EDITED: Final = frozenset({"Edit", "MultiEdit", "NotebookEdit", "Update"})
WRITTEN: Final = frozenset({"Write"})

BODIES: Final = frozenset({"content", "new_string", "old_string", "new_source", "file_text"})
"""Fields of a tool's input that hold a file's text: what it declares is named, not all that
it mentions."""

_json: Final = msgspec.json.Decoder()


class FileUse(msgspec.Struct, frozen=True):
    """A file that the model touched with a tool that did not fail."""

    path: str
    reads: int = 0
    edits: int = 0
    writes: int = 0
    line: int = 0
    """Of the last touch, counted from 1."""


class Name(msgspec.Struct, frozen=True):
    """A name that the model or the person used."""

    text: str
    uses: int
    """Lines of the conversation that use it."""
    line: int
    """Of the last use."""


class Quote(msgspec.Struct, frozen=True):
    """A sentence, and the line in which it was said last."""

    text: str
    line: int


class Artifacts(msgspec.Struct, frozen=True):
    """What stands at the end of a run of entries, the most important first."""

    files: tuple[FileUse, ...] = ()
    names: tuple[Name, ...] = ()
    decisions: tuple[Quote, ...] = ()
    todos: tuple[Todo, ...] = ()
    constraints: tuple[Quote, ...] = ()


_NOTHING: Final = Artifacts()


def artifacts_of(entries: Iterable[Entry], earlier: Artifacts = _NOTHING) -> Artifacts:
    """Add what a run of entries holds to what stood before it.

    Files: the model's tools named them; what was edited comes before what was only read.
    Names: of the model's and the person's words and of tools' inputs, ranked by how often
    and how lately they were used (001-14). Decisions: sentences that say what was decided.
    Todos: what is open by the last calls of the tools for it. Constraints: the person's
    sentences that lay down a rule (compaction.md 4.2, Q8; `stated`).
    """
    gathering = _Gathering(earlier)
    for entry in entries:
        for piece in entry.parts:
            gathering.add_piece(piece, entry.line)
    return gathering.artifacts()


def said_in(text: str) -> str:
    """Give a person's own words of a prompt: of a long paste its beginning and end."""
    if len(text) <= PASTED_CHARS:
        return text
    return f"{text[:EDGE_CHARS]}\n{text[-EDGE_CHARS:]}"


def input_of(piece: Piece) -> dict[str, Any]:
    """Read what a tool was asked; empty where it is no object."""
    try:
        asked = _json.decode(piece.text) if piece.text else None
    except (msgspec.DecodeError, RecursionError):
        return {}
    return asked if isinstance(asked, dict) else {}


def texts_in(tool_input: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Give the texts of a tool's input, each with the name of the field that holds it."""
    waiting: list[tuple[str, Any]] = [("", tool_input)]
    while waiting:
        name, held = waiting.pop()
        if isinstance(held, str):
            yield name, held
        elif isinstance(held, dict):
            waiting += [(str(inner), each) for inner, each in held.items()]
        elif isinstance(held, list):
            waiting += [(name, each) for each in held]


class _Gathering:
    """What was met so far."""

    def __init__(self, standing: Artifacts) -> None:
        self.files = {each.path: each for each in standing.files}
        self.names = {each.text: (each.uses, each.line) for each in standing.names}
        self.decisions = {each.text: each.line for each in reversed(standing.decisions)}
        self.constraints = {each.text: each.line for each in reversed(standing.constraints)}
        self.todos = TodoList(standing.todos)
        self.calls: dict[str, tuple[Piece, int]] = {}

    def add_piece(self, piece: Piece, line: int) -> None:
        if piece.kind is PieceKind.TOOL_INPUT:
            self._call(piece, line)
        elif piece.kind is PieceKind.TOOL_RESULT:
            self._result(piece)
        elif piece.kind is PieceKind.PROMPT:
            text = said_in(piece.text)
            self._name(names_in(text), line)
            _say(self.decisions, decisions_in(text), line)
            _say(self.constraints, rules_in(text), line)
        elif piece.kind is PieceKind.TEXT:
            self._name(names_in(piece.text), line)
            _say(self.decisions, decisions_in(piece.text), line)
        elif piece.kind is PieceKind.SUMMARY:
            self._name(names_in(piece.text), line)

    def artifacts(self) -> Artifacts:
        # A call whose result is not there yet was cut off by the compaction itself.
        for piece, line in self.calls.values():
            self._touch(piece, line)
        self.calls.clear()
        return Artifacts(
            files=tuple(sorted(self.files.values(), key=_file_rank)),
            names=tuple(self._ranked()),
            decisions=_newest(self.decisions),
            todos=self.todos.open,
            constraints=_newest(self.constraints),
        )

    def _call(self, piece: Piece, line: int) -> None:
        asked = input_of(piece)
        if piece.name in TODO_TOOLS:
            self.todos.apply_call(piece.name, asked, piece.tool_use_id, line)
            return
        used: set[str] = set()
        for key, text in texts_in(asked):
            if key in BODIES:
                used |= declared_in(text[:BODY_CHARS])
            else:
                used |= names_in(text[:EDGE_CHARS])
        self._name(used, line)
        if piece.path and piece.name in READ | EDITED | WRITTEN:
            self.calls[piece.tool_use_id or f"line {line}"] = piece, line

    def _result(self, piece: Piece) -> None:
        if piece.name in TODO_TOOLS:
            self.todos.apply_result(piece.tool_use_id, piece.text)
        called = self.calls.pop(piece.tool_use_id or "", None)
        if called and not piece.failed:
            self._touch(*called)

    def _touch(self, piece: Piece, line: int) -> None:
        path = piece.path or ""
        known = self.files.get(path, FileUse(path))
        self.files[path] = FileUse(
            path,
            known.reads + (piece.name in READ),
            known.edits + (piece.name in EDITED),
            known.writes + (piece.name in WRITTEN),
            max(known.line, line),
        )

    def _name(self, used: set[str], line: int) -> None:
        for name in used:
            self.names[name] = self.names.get(name, (0, 0))[0] + 1, line

    def _ranked(self) -> list[Name]:
        touched = {path.casefold() for path in self.files}
        last = max((line for _, line in self.names.values()), default=0) or 1
        ranked = sorted(
            (Name(text, uses, line) for text, (uses, line) in self.names.items()),
            key=lambda name: (-name.uses * (1 + name.line / last), -name.line, name.text),
        )
        ranked = ranked[:NAMES_KEPT]
        return [name for name in ranked if not _is_file(name.text.casefold(), touched)]


def _say(quotes: dict[str, int], sentences: Iterable[str], line: int) -> None:
    for sentence in sentences:
        # Said again, it is the newest.
        text = quote(sentence)
        if not hides_secret(sentence):
            quotes.pop(text, None)
            quotes[text] = line


def _newest(quotes: dict[str, int]) -> tuple[Quote, ...]:
    newest = list(reversed(quotes.items()))[:QUOTES_KEPT]
    return tuple(Quote(text, line) for text, line in newest)


def _file_rank(use: FileUse) -> tuple[object, ...]:
    changed = use.edits + use.writes
    return not changed, -changed, -use.reads, -use.line, use.path


def _is_file(name: str, touched: set[str]) -> bool:
    # A path's end with a dot: the file is listed as such.
    return name in touched or any(
        path.endswith(("/" + name, "\\" + name)) for path in touched if "." in name
    )
