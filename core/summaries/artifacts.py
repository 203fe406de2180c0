"""Collect what a part of a conversation used: files, names, decisions, rules and todos."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from ..transcript.conversation import Entry, MessagePart, PartKind, decode_tool_input
from .decision_patterns import find_decisions, find_rules, quote_line
from .mentions import contains_secret, find_declarations, find_names

TODO_TOOLS: Final = frozenset({"TodoWrite", "TaskCreate", "TaskUpdate"})
"""TodoWrite writes the whole list (clients to 2.1.2x), the other two one item each."""

DONE_STATUSES: Final = frozenset({"completed", "deleted", "cancelled"})

IN_PROGRESS: Final = "in_progress"

_TASK_CREATED: Final = re.compile(r"\ATask #(\w+) created")


class Todo(msgspec.Struct, frozen=True):
    """A thing to do that is not done."""

    text: str
    status: str
    line: int  # where its words stand, counted from 1
    number: str | None = None  # by which TaskUpdate names it
    description: str = ""
    owner: str | None = None  # the agent that is to do it


class TodoList:
    """Follows the calls of the tools in their order."""

    def __init__(self, standing: tuple[Todo, ...] = ()) -> None:
        self._todos: dict[str, Todo] = {f"standing {n}": each for n, each in enumerate(standing)}

    @property
    def open(self) -> tuple[Todo, ...]:
        """What is not done, what is being done first."""
        left = [todo for todo in self._todos.values() if todo.status not in DONE_STATUSES]
        return tuple(sorted(left, key=lambda todo: todo.status != IN_PROGRESS))

    @property
    def closed(self) -> tuple[Todo, ...]:
        """What is done or given up, as far as the newest list still holds it."""
        return tuple(todo for todo in self._todos.values() if todo.status in DONE_STATUSES)

    def apply_call(self, tool: str, asked: dict[str, Any], call_id: str | None, line: int) -> None:
        """Update the list from a call; a call in an unknown format is ignored."""
        if tool == "TodoWrite" and isinstance(asked.get("todos"), list):
            self._write([each for each in asked["todos"] if isinstance(each, dict)], line)
        elif tool == "TaskCreate" and asked.get("subject"):
            key = call_id or f"line {line}"
            said = str(asked.get("description") or "")
            self._todos[key] = Todo(str(asked["subject"]), "pending", line, description=said)
        elif tool == "TaskUpdate":
            self._update(asked, line)

    def apply_result(self, call_id: str | None, text: str) -> None:
        """Learn from its result the number of a task that was made."""
        found = _TASK_CREATED.match(text)
        if found and call_id in self._todos:
            self._todos[call_id] = replace(self._todos[call_id], number=found[1])

    def _write(self, items: list[dict[str, Any]], line: int) -> None:
        known = {todo.text: todo.line for todo in self._todos.values()}
        self._todos = {}
        for number, item in enumerate(items):
            text = str(item.get("content") or item.get("subject") or "")
            if text:
                first = known.get(text, line)
                self._todos[f"item {number}"] = Todo(text, str(item.get("status") or ""), first)

    def _update(self, asked: dict[str, Any], line: int) -> None:
        number, subject = str(asked.get("taskId")), asked.get("subject")
        for key, todo in self._todos.items():
            if todo.number == number:
                changed = replace(todo, status=str(asked.get("status") or todo.status))
                if asked.get("owner"):
                    changed = replace(changed, owner=str(asked["owner"]))
                if subject:
                    changed = replace(changed, text=str(subject), line=line)
                self._todos[key] = changed


MAX_NAMES: Final = 5_000
"""Of a run, the highest ranked: ten times what the longest recorded session uses."""

MAX_QUOTES: Final = 1_000
"""Decisions, and constraints, of a run: the newest; a person does not give more rules."""

LONG_PROMPT_CHARS: Final = 20_000
"""A longer prompt is a pasted file or log (compaction.md 3: long pastes): only its
beginning and its end are a person's words."""

EDGE_CHARS: Final = 2_000
"""Of a pasted prompt at either end, and of a tool's input: what comes later is its data."""

FILE_TEXT_CHARS: Final = 200_000  # of the code that a tool writes: longer files are generated
READ_TOOLS: Final = frozenset({"Read", "NotebookRead"})
EDIT_TOOLS: Final = frozenset({"Edit", "MultiEdit", "NotebookEdit", "Update"})
WRITE_TOOLS: Final = frozenset({"Write"})

FILE_TEXT_FIELDS: Final = frozenset(
    {"content", "new_string", "old_string", "new_source", "file_text"}
)
"""Fields of a tool's input that hold a file's text: what it declares is named, not all that
it mentions."""


class FileUse(msgspec.Struct, frozen=True):
    """A file that the model touched with a tool that did not fail."""

    path: str
    reads: int = 0
    edits: int = 0
    writes: int = 0
    line: int = 0  # of the last touch, counted from 1


class UsedName(msgspec.Struct, frozen=True):
    """A name that the model or the person used."""

    text: str
    uses: int  # lines of the conversation that use it
    line: int  # of the last use


class Quote(msgspec.Struct, frozen=True):
    """A sentence, and the line in which it was said last."""

    text: str
    line: int


class Artifacts(msgspec.Struct, frozen=True):
    """What stands at the end of a run of entries, the most important first."""

    files: tuple[FileUse, ...] = ()
    names: tuple[UsedName, ...] = ()
    decisions: tuple[Quote, ...] = ()
    todos: tuple[Todo, ...] = ()
    constraints: tuple[Quote, ...] = ()


_NOTHING: Final = Artifacts()


def collect_artifacts(entries: Iterable[Entry], earlier: Artifacts = _NOTHING) -> Artifacts:
    """Add what a run of entries holds to what stood before it.

    Files: the model's tools named them; what was edited comes before what was only read.
    Names: of the model's and the person's words and of tools' inputs, ranked by how often
    and how lately they were used (001-14). Decisions: sentences that say what was decided.
    Todos: what is open by the last calls of the tools for it. Constraints: the person's
    sentences that lay down a rule (compaction.md 4.2, Q8; `stated`).
    """
    gathering = _ArtifactCollector(earlier)
    for entry in entries:
        for piece in entry.parts:
            gathering.add_piece(piece, entry.line)
    return gathering.artifacts()


def prompt_excerpt(text: str) -> str:
    """Return a prompt's text; of a long paste only its beginning and end."""
    if len(text) <= LONG_PROMPT_CHARS:
        return text
    return f"{text[:EDGE_CHARS]}\n{text[-EDGE_CHARS:]}"


def parse_tool_input(piece: MessagePart) -> dict[str, Any]:
    """Read what a tool was asked; empty where it is no object."""
    return decode_tool_input(piece.text) or {}


def input_texts(tool_input: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the texts of a tool's input, each after the name of the field that holds it."""
    waiting: list[tuple[str, Any]] = [("", tool_input)]
    while waiting:
        name, held = waiting.pop()
        if isinstance(held, str):
            yield name, held
        elif isinstance(held, dict):
            waiting += [(str(inner), each) for inner, each in held.items()]
        elif isinstance(held, list):
            waiting += [(name, each) for each in held]


class _ArtifactCollector:
    """What was met so far."""

    def __init__(self, standing: Artifacts) -> None:
        self.files = {each.path: each for each in standing.files}
        self.names = {each.text: (each.uses, each.line) for each in standing.names}
        self.decisions = {each.text: each.line for each in reversed(standing.decisions)}
        self.constraints = {each.text: each.line for each in reversed(standing.constraints)}
        self.todos = TodoList(standing.todos)
        self.calls: dict[str, tuple[MessagePart, int]] = {}

    def add_piece(self, piece: MessagePart, line: int) -> None:
        if piece.kind is PartKind.TOOL_INPUT:
            self._call(piece, line)
        elif piece.kind is PartKind.TOOL_RESULT:
            self._result(piece)
        elif piece.kind is PartKind.PROMPT:
            text = prompt_excerpt(piece.text)
            self._name(find_names(text), line)
            _add_quotes(self.decisions, find_decisions(text), line)
            _add_quotes(self.constraints, find_rules(text), line)
        elif piece.kind is PartKind.TEXT:
            self._name(find_names(piece.text), line)
            _add_quotes(self.decisions, find_decisions(piece.text), line)
        elif piece.kind is PartKind.SUMMARY:
            self._name(find_names(piece.text), line)

    def artifacts(self) -> Artifacts:
        # A call whose result is not there yet was cut off by the compaction itself.
        for piece, line in self.calls.values():
            self._touch(piece, line)
        self.calls.clear()
        return Artifacts(
            files=tuple(sorted(self.files.values(), key=_file_rank)),
            names=tuple(self._ranked()),
            decisions=_newest_quotes(self.decisions),
            todos=self.todos.open,
            constraints=_newest_quotes(self.constraints),
        )

    def _call(self, piece: MessagePart, line: int) -> None:
        asked = parse_tool_input(piece)
        if piece.name in TODO_TOOLS:
            self.todos.apply_call(piece.name, asked, piece.tool_use_id, line)
            return
        used: set[str] = set()
        for key, text in input_texts(asked):
            if key in FILE_TEXT_FIELDS:
                used |= find_declarations(text[:FILE_TEXT_CHARS])
            else:
                used |= find_names(text[:EDGE_CHARS])
        self._name(used, line)
        if piece.path and piece.name in READ_TOOLS | EDIT_TOOLS | WRITE_TOOLS:
            self.calls[piece.tool_use_id or f"line {line}"] = piece, line

    def _result(self, piece: MessagePart) -> None:
        if piece.name in TODO_TOOLS:
            self.todos.apply_result(piece.tool_use_id, piece.text)
        called = self.calls.pop(piece.tool_use_id or "", None)
        if called and not piece.failed:
            self._touch(*called)

    def _touch(self, piece: MessagePart, line: int) -> None:
        path = piece.path or ""
        known = self.files.get(path, FileUse(path))
        self.files[path] = FileUse(
            path,
            known.reads + (piece.name in READ_TOOLS),
            known.edits + (piece.name in EDIT_TOOLS),
            known.writes + (piece.name in WRITE_TOOLS),
            max(known.line, line),
        )

    def _name(self, used: set[str], line: int) -> None:
        for name in used:
            self.names[name] = self.names.get(name, (0, 0))[0] + 1, line

    def _ranked(self) -> list[UsedName]:
        touched = {path.casefold() for path in self.files}
        last = max((line for _, line in self.names.values()), default=0) or 1
        ranked = sorted(
            (UsedName(text, uses, line) for text, (uses, line) in self.names.items()),
            key=lambda name: (-name.uses * (1 + name.line / last), -name.line, name.text),
        )
        ranked = ranked[:MAX_NAMES]
        return [name for name in ranked if not _is_file(name.text.casefold(), touched)]


def _add_quotes(quotes: dict[str, int], sentences: Iterable[str], line: int) -> None:
    for sentence in sentences:
        # Said again, it is the newest.
        text = quote_line(sentence)
        if not contains_secret(sentence):
            quotes.pop(text, None)
            quotes[text] = line


def _newest_quotes(quotes: dict[str, int]) -> tuple[Quote, ...]:
    newest = list(reversed(quotes.items()))[:MAX_QUOTES]
    return tuple(Quote(text, line) for text, line in newest)


def _file_rank(use: FileUse) -> tuple[object, ...]:
    changed = use.edits + use.writes
    return not changed, -changed, -use.reads, -use.line, use.path


def _is_file(name: str, touched: set[str]) -> bool:
    # A path's end with a dot: the file is listed as such.
    return name in touched or any(
        path.endswith(("/" + name, "\\" + name)) for path in touched if "." in name
    )
