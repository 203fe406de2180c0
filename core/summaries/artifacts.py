"""What a conversation used (files, names, decisions, rules, todos), and what a compaction lost."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from ..model.conversation import (
    DONE_STATUSES,
    IN_PROGRESS,
    Entry,
    MessagePart,
    PartKind,
    Segment,
    decode_tool_input,
    split_segments,
)
from ..transcript.authorship import LONG_PROMPT_CHARS
from ..transcript.client_messages import typed_text
from .decision_patterns import find_decisions, find_rules, quote_line
from .key_messages import persons_words
from .mentions import MentionIndex, contains_secret, find_declarations, find_names, split_path

TODO_TOOLS: Final = frozenset({"TodoWrite", "TaskCreate", "TaskUpdate"})
"""TodoWrite writes the whole list (clients to 2.1.2x), the other two one item each."""

_TASK_CREATED: Final = re.compile(r"\ATask #(\w+) created")


class Todo(msgspec.Struct, frozen=True):
    text: str
    status: str
    line: int  # where its text was written, counted from 1
    number: str | None = None  # by which TaskUpdate names it
    description: str = ""
    owner: str | None = None  # the agent that is to do it


class TodoList:
    """The todos after the tool calls so far."""

    def __init__(self, open_before: tuple[Todo, ...] = ()) -> None:
        self._todos = {f"standing {number}": todo for number, todo in enumerate(open_before)}

    @property
    def open(self) -> tuple[Todo, ...]:
        """What is not done, what is in progress first."""
        left = [todo for todo in self._todos.values() if todo.status not in DONE_STATUSES]
        return tuple(sorted(left, key=lambda todo: todo.status != IN_PROGRESS))

    @property
    def closed(self) -> tuple[Todo, ...]:
        """What is done or given up and is still in the newest list."""
        return tuple(todo for todo in self._todos.values() if todo.status in DONE_STATUSES)

    def add_part(self, part: MessagePart, line: int) -> None:
        """Update the list from a call or its result; other tools and formats are ignored."""
        if part.name not in TODO_TOOLS:
            return
        if part.kind is PartKind.TOOL_INPUT:
            self._add_call(part, line)
        elif part.kind is PartKind.TOOL_RESULT and part.tool_use_id in self._todos:
            created = _TASK_CREATED.match(part.text)
            if created:
                key = part.tool_use_id
                self._todos[key] = replace(self._todos[key], number=created[1])

    def _add_call(self, part: MessagePart, line: int) -> None:
        tool_input = parse_tool_input(part)
        if part.name == "TodoWrite" and isinstance(tool_input.get("todos"), list):
            self._write([item for item in tool_input["todos"] if isinstance(item, dict)], line)
        elif part.name == "TaskCreate" and tool_input.get("subject"):
            subject, description = tool_input["subject"], str(tool_input.get("description") or "")
            self._todos[part.tool_use_id or f"line {line}"] = Todo(
                str(subject), "pending", line, description=description
            )
        elif part.name == "TaskUpdate":
            self._update(tool_input, line)

    def _write(self, items: list[dict[str, Any]], line: int) -> None:
        first_lines = {todo.text: todo.line for todo in self._todos.values()}
        self._todos = {}
        for number, item in enumerate(items):
            text = str(item.get("content") or item.get("subject") or "")
            if text:
                status = str(item.get("status") or "")
                self._todos[f"item {number}"] = Todo(text, status, first_lines.get(text, line))

    def _update(self, tool_input: dict[str, Any], line: int) -> None:
        number, subject = str(tool_input.get("taskId")), tool_input.get("subject")
        for key, todo in self._todos.items():
            if todo.number == number:
                self._todos[key] = replace(
                    todo,
                    status=str(tool_input.get("status") or todo.status),
                    owner=str(tool_input.get("owner") or "") or todo.owner,
                    text=str(subject) if subject else todo.text,
                    line=line if subject else todo.line,
                )


MAX_NAMES: Final = 5_000  # the highest ranked: ten times what the longest recorded session uses
MAX_QUOTES: Final = 1_000  # the newest decisions, and rules: a person does not give more

EDGE_CHARS: Final = 2_000  # of a paste at either end, and of a tool's input: the rest is data
FILE_TEXT_CHARS: Final = 200_000  # of the code that a tool writes: longer files are generated
READ_TOOLS: Final = frozenset({"Read", "NotebookRead"})
EDIT_TOOLS: Final = frozenset({"Edit", "MultiEdit", "NotebookEdit", "Update"})
WRITE_TOOLS: Final = frozenset({"Write"})

FILE_TEXT_FIELDS: Final = frozenset(
    {"content", "new_string", "old_string", "new_source", "file_text"}
)
"""Fields of a tool's input that hold a file's text: only what it declares is a name."""


class FileUse(msgspec.Struct, frozen=True):
    """A file that the model used with a tool that did not fail."""

    path: str
    reads: int = 0
    edits: int = 0
    writes: int = 0
    line: int = 0  # of the last use, counted from 1


class UsedName(msgspec.Struct, frozen=True):
    text: str
    uses: int  # lines of the conversation that use it
    line: int  # of the last use


class Quote(msgspec.Struct, frozen=True):
    """A sentence, and the last line that says it."""

    text: str
    line: int


class Artifacts(msgspec.Struct, frozen=True):
    """What is known at the end of a run of entries, the most important first."""

    files: tuple[FileUse, ...] = ()
    names: tuple[UsedName, ...] = ()
    decisions: tuple[Quote, ...] = ()
    todos: tuple[Todo, ...] = ()
    constraints: tuple[Quote, ...] = ()


_NO_ARTIFACTS: Final = Artifacts()


def collect_artifacts(entries: Iterable[Entry], earlier: Artifacts = _NO_ARTIFACTS) -> Artifacts:
    """Add what a run of entries holds to what was known before it.

    Files: the model's tools named them; what was edited comes before what was only read.
    Names: from the model's and the person's words and from tools' inputs, ranked by how often
    and how lately they were used (001-14). Decisions: sentences that say what was decided.
    Todos: what is open after the last calls of the todo tools. Constraints: the person's
    sentences that set a rule (compaction.md 4.2, Q8; `find_rules`).
    """
    collector = _ArtifactCollector(earlier)
    for entry in entries:
        for part in entry.parts:
            collector.add_part(part, entry.line)
        for words in persons_words(entry):
            collector.add_words(words, entry.line)
    return collector.artifacts()


def prompt_excerpt(text: str) -> str:
    """Return a prompt's text; of a long paste only its beginning and end."""
    if len(text) <= LONG_PROMPT_CHARS:
        return text
    return f"{text[:EDGE_CHARS]}\n{text[-EDGE_CHARS:]}"


def parse_tool_input(part: MessagePart) -> dict[str, Any]:
    """Parse a tool's input; empty if it is no object."""
    return decode_tool_input(part.text) or {}


def render_tool_input(part: MessagePart) -> str:
    """Write a tool's input, one field after the other."""
    return "\n".join(
        f"{name}: {value if isinstance(value, str) else msgspec.json.encode(value).decode()}"
        for name, value in parse_tool_input(part).items()
    )


def input_texts(tool_input: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the texts of a tool's input, each after the name of the field that holds it."""
    pending: list[tuple[str, Any]] = [("", tool_input)]
    while pending:
        name, value = pending.pop()
        if isinstance(value, str):
            yield name, value
        elif isinstance(value, dict):
            pending += [(str(key), inner) for key, inner in value.items()]
        elif isinstance(value, list):
            pending += [(name, inner) for inner in value]


def part_text(part: MessagePart) -> str:
    """Return a part's text; of a call the values of its input, without JSON escapes.

    In JSON a line break would put the letter n before a word.
    """
    if part.kind is not PartKind.TOOL_INPUT:
        return part.text
    return "\n".join(text for _, text in input_texts(parse_tool_input(part)))


def tool_results(
    entries: Iterable[Entry], kind: PartKind = PartKind.TOOL_RESULT
) -> Iterator[tuple[MessagePart, MessagePart, int]]:
    """Yield the call, the result and the result's line of each result of a kind.

    A result whose call is not in the entries takes its own place.
    """
    calls: dict[str | None, MessagePart] = {}
    for entry in entries:
        for part in entry.parts:
            if part.kind is PartKind.TOOL_INPUT:
                calls[part.tool_use_id] = part
            elif part.kind is kind:
                yield calls.get(part.tool_use_id, part), part, entry.line


class _ArtifactCollector:
    def __init__(self, earlier: Artifacts) -> None:
        self.files = {use.path: use for use in earlier.files}
        self.names = {name.text: (name.uses, name.line) for name in earlier.names}
        self.decisions = {quote.text: quote.line for quote in reversed(earlier.decisions)}
        self.constraints = {quote.text: quote.line for quote in reversed(earlier.constraints)}
        self.todos = TodoList(earlier.todos)
        self.calls: dict[str, tuple[MessagePart, int]] = {}

    def add_part(self, part: MessagePart, line: int) -> None:
        self.todos.add_part(part, line)
        if part.kind is PartKind.TOOL_INPUT:
            self._add_call(part, line)
        elif part.kind is PartKind.TOOL_RESULT:
            call = self.calls.pop(part.tool_use_id or "", None)
            if call and not part.failed:
                self._add_file_use(*call)
        elif typed := typed_text(part):
            self._add_names(find_names(prompt_excerpt(typed)), line)
        elif part.kind is PartKind.TEXT:
            self._add_names(find_names(part.text), line)
            _add_quotes(self.decisions, find_decisions(part.text), line)
        elif part.kind is PartKind.SUMMARY:
            self._add_names(find_names(part.text), line)

    def add_words(self, text: str, line: int) -> None:
        """Add what a person says in a line: decisions and rules."""
        _add_quotes(self.decisions, find_decisions(text), line)
        _add_quotes(self.constraints, find_rules(text), line)

    def artifacts(self) -> Artifacts:
        # A call without a result was cut off by the compaction itself.
        for part, line in self.calls.values():
            self._add_file_use(part, line)
        self.calls.clear()
        return Artifacts(
            files=tuple(sorted(self.files.values(), key=_file_rank)),
            names=self._ranked_names(),
            decisions=_newest_quotes(self.decisions),
            todos=self.todos.open,
            constraints=_newest_quotes(self.constraints),
        )

    def _add_call(self, part: MessagePart, line: int) -> None:
        if part.name in TODO_TOOLS:
            return
        names: set[str] = set()
        for field, text in input_texts(parse_tool_input(part)):
            if field in FILE_TEXT_FIELDS:
                names |= find_declarations(text[:FILE_TEXT_CHARS])
            else:
                names |= find_names(text[:EDGE_CHARS])
        self._add_names(names, line)
        if part.path and part.name in READ_TOOLS | EDIT_TOOLS | WRITE_TOOLS:
            self.calls[part.tool_use_id or f"line {line}"] = part, line

    def _add_file_use(self, part: MessagePart, line: int) -> None:
        path = part.path or ""
        known = self.files.get(path, FileUse(path))
        self.files[path] = FileUse(
            path,
            known.reads + (part.name in READ_TOOLS),
            known.edits + (part.name in EDIT_TOOLS),
            known.writes + (part.name in WRITE_TOOLS),
            max(known.line, line),
        )

    def _add_names(self, names: set[str], line: int) -> None:
        for name in names:
            self.names[name] = self.names.get(name, (0, 0))[0] + 1, line

    def _ranked_names(self) -> tuple[UsedName, ...]:
        """Return the names by rank, without those that are listed as files."""
        paths = {path.casefold() for path in self.files}
        last = max((line for _, line in self.names.values()), default=0) or 1
        ranked = sorted(
            (UsedName(text, uses, line) for text, (uses, line) in self.names.items()),
            key=lambda name: (-name.uses * (1 + name.line / last), -name.line, name.text),
        )
        return tuple(each for each in ranked[:MAX_NAMES] if not _is_file(each.text, paths))


def _add_quotes(quotes: dict[str, int], sentences: Iterable[str], line: int) -> None:
    for sentence in sentences:
        text = quote_line(sentence)
        if not contains_secret(sentence):
            # Repeated, it becomes the newest.
            quotes.pop(text, None)
            quotes[text] = line


def _newest_quotes(quotes: dict[str, int]) -> tuple[Quote, ...]:
    newest = list(reversed(quotes.items()))[:MAX_QUOTES]
    return tuple(Quote(text, line) for text, line in newest)


def _file_rank(use: FileUse) -> tuple[object, ...]:
    changed = use.edits + use.writes
    return not changed, -changed, -use.reads, -use.line, use.path


def _is_file(text: str, paths: set[str]) -> bool:
    name = text.casefold()
    # A dotted name at the end of a path: it is listed as a file.
    ends = f"/{name}", f"\\{name}"
    return name in paths or ("." in name and any(path.endswith(ends) for path in paths))


# What a compaction retained and lost: compaction.md 4.2 and 5.3, requirements 001-14, R001-03.

ArtifactT = TypeVar("ArtifactT")

MAX_LOST_FILES: Final = 50
MAX_LOST_NAMES: Final = 100
MAX_LOST_DECISIONS: Final = 20
MAX_LOST_TODOS: Final = 50
MAX_LOST_CONSTRAINTS: Final = 50
"""The most important of each kind are listed, more than anybody reads of one compaction;
`counts` covers all of them."""

_SPOKEN: Final = frozenset(
    {PartKind.PROMPT, PartKind.TEXT, PartKind.SUMMARY, PartKind.META, PartKind.AGENT_RETURN}
)


class ArtifactCounts(msgspec.Struct, frozen=True):
    files: int = 0
    identifiers: int = 0
    decisions: int = 0
    todos: int = 0
    constraints: int = 0


class LostArtifacts(Artifacts, frozen=True):
    """What was lost, the most important first, and a limited number of each kind."""

    names: tuple[UsedName, ...] = msgspec.field(default=(), name="identifiers")
    counts: ArtifactCounts = ArtifactCounts()  # of all that was lost


def limit_lost_artifacts(lost: Artifacts) -> LostArtifacts:
    """Select the most important of what was lost (001-14; peers B.5)."""
    return LostArtifacts(
        lost.files[:MAX_LOST_FILES],
        lost.names[:MAX_LOST_NAMES],
        lost.decisions[:MAX_LOST_DECISIONS],
        lost.todos[:MAX_LOST_TODOS],
        lost.constraints[:MAX_LOST_CONSTRAINTS],
        count_artifacts(lost),
    )


def count_artifacts(found: Artifacts) -> ArtifactCounts:
    lists = (found.files, found.names, found.decisions, found.todos, found.constraints)
    return ArtifactCounts(*map(len, lists))


class CompactedSegment(msgspec.Struct, frozen=True):
    segment: Segment
    before: Artifacts
    retained: Artifacts  # still known before the next compaction
    lost: Artifacts


def follow_artifacts(entries: Iterable[Entry]) -> Iterator[CompactedSegment]:
    """Yield every compaction of one context, in order."""
    retained = Artifacts()
    for segment in split_segments(entries):
        before = collect_artifacts(segment.entries, retained)
        retained, lost = split_retained_and_lost(
            before, segment.summary, segment.kept, segment.attached
        )
        yield CompactedSegment(segment, before, retained, lost)


def split_retained_and_lost(
    before: Artifacts,
    summary: str,
    kept_entries: Iterable[Entry],
    attached_entries: Iterable[Entry] = (),
) -> tuple[Artifacts, Artifacts]:
    """Divide what was known before a compaction into what is retained and what is lost.

    A file is retained if its basename is named, with its folder if several files have that
    basename, ignoring case; a name if it occurs as it is written, a path whole.
    Both are looked for in the summary, in all that the kept messages hold, and in
    what the client attached to the summary: files that it read again, or told the model of.
    A decision, a todo or a constraint is retained if it occurs word for word or if most of
    its names and words occur together (`MentionIndex.has_sentence`), in the summary or in what
    was said in the kept messages: a tool's result does not count.
    """
    kept = tuple(kept_entries)
    kept_parts = [part for entry in kept for part in entry.parts]
    attached_parts = [part for entry in attached_entries for part in entry.parts]
    everything = MentionIndex(
        [
            summary,
            *(
                text
                for part in (*kept_parts, *attached_parts)
                for text in (part_text(part), part.path or "")
            ),
        ]
    )
    kept_words = (part.text for part in kept_parts if part.kind in _SPOKEN or typed_text(part))
    spoken = MentionIndex([summary, *kept_words])
    shared = shared_basenames(use.path for use in before.files)
    listed = {todo.text for todo in collect_artifacts(kept).todos}
    files = _split(before.files, lambda use: everything.has_path(use.path, shared))
    names = _split(before.names, lambda name: everything.has_verbatim(name.text))
    decisions = _split(before.decisions, lambda quote: spoken.has_sentence(quote.text))
    todos = _split(before.todos, lambda todo: todo.text in listed or spoken.has_sentence(todo.text))
    constraints = _split(before.constraints, lambda quote: spoken.has_sentence(quote.text))
    return (
        Artifacts(files[0], names[0], decisions[0], todos[0], constraints[0]),
        Artifacts(files[1], names[1], decisions[1], todos[1], constraints[1]),
    )


def _split(
    items: Iterable[ArtifactT], is_retained: Callable[[ArtifactT], bool]
) -> tuple[tuple[ArtifactT, ...], tuple[ArtifactT, ...]]:
    retained: list[ArtifactT] = []
    lost: list[ArtifactT] = []
    for item in items:
        (retained if is_retained(item) else lost).append(item)
    return tuple(retained), tuple(lost)


def shared_basenames(paths: Iterable[str]) -> frozenset[str]:
    """Return the basenames, casefolded, that several of the paths have."""
    names = Counter(parts[-1].casefold() for path in paths if (parts := split_path(path)))
    return frozenset(name for name, count in names.items() if count > 1)
