"""What a compaction retained and what it lost, and whether a summary may replace its messages.

Sources: compaction.md 4.2 (Q7, Q8, Q13, Q14) and 5.3, requirements 001-14 and R001-03.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

import msgspec

from ..transcript.conversation import Entry, MessagePart, PartKind, Segment, split_segments
from .artifacts import (
    Artifacts,
    FileUse,
    Quote,
    Todo,
    UsedName,
    collect_artifacts,
    input_texts,
    parse_tool_input,
)
from .key_messages import NOT_TYPED_PREFIXES
from .mentions import MentionIndex, split_path
from .summary_facts import SUMMARY_MARKER, FactKind, SummaryFact, parse_summary

_RetainedAndLost = tuple[tuple["ArtifactT", ...], tuple["ArtifactT", ...]]


ArtifactT = TypeVar("ArtifactT")

MAX_LOST_FILES: Final = 50
MAX_LOST_NAMES: Final = 100
MAX_LOST_DECISIONS: Final = 20
MAX_LOST_TODOS: Final = 50
MAX_LOST_CONSTRAINTS: Final = 50
"""The most important of each kind are told, more than anybody reads of one compaction;
`counts` has all of them."""

_SPOKEN: Final = frozenset(
    {PartKind.PROMPT, PartKind.TEXT, PartKind.SUMMARY, PartKind.META, PartKind.AGENT_RETURN}
)


class ArtifactCounts(msgspec.Struct, frozen=True):
    """How many of each kind."""

    files: int = 0
    identifiers: int = 0
    decisions: int = 0
    todos: int = 0
    constraints: int = 0


class LostArtifacts(msgspec.Struct, frozen=True):
    """What was forgotten, the most important first, at most a named number of each kind."""

    files: tuple[FileUse, ...] = ()
    identifiers: tuple[UsedName, ...] = ()
    decisions: tuple[Quote, ...] = ()
    todos: tuple[Todo, ...] = ()
    constraints: tuple[Quote, ...] = ()
    counts: ArtifactCounts = ArtifactCounts()  # of all that was forgotten


def limit_lost_artifacts(lost: Artifacts) -> LostArtifacts:
    """Select the most important of what was lost (001-14; peers B.5)."""
    return LostArtifacts(
        files=lost.files[:MAX_LOST_FILES],
        identifiers=lost.names[:MAX_LOST_NAMES],
        decisions=lost.decisions[:MAX_LOST_DECISIONS],
        todos=lost.todos[:MAX_LOST_TODOS],
        constraints=lost.constraints[:MAX_LOST_CONSTRAINTS],
        counts=count_artifacts(lost),
    )


def count_artifacts(artifacts: Artifacts) -> ArtifactCounts:
    """Count what there is of each kind."""
    return ArtifactCounts(
        files=len(artifacts.files),
        identifiers=len(artifacts.names),
        decisions=len(artifacts.decisions),
        todos=len(artifacts.todos),
        constraints=len(artifacts.constraints),
    )


def follow_artifacts(entries: Iterable[Entry]) -> Iterator[tuple[Segment, Artifacts, Artifacts]]:
    """Yield every compaction of one context with what it retained and what it lost.

    What a compaction retained is still there before the next one.
    """
    standing = Artifacts()
    for segment in split_segments(entries):
        before = collect_artifacts(segment.entries, standing)
        standing, lost = split_retained_and_lost(
            before, segment.summary, segment.kept, segment.attached
        )
        yield segment, standing, lost


def split_retained_and_lost(
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
    its names and words stand together (`MentionIndex.has_sentence`), in the summary or in what
    was said in the kept messages: a tool's result says nothing.
    """
    still = tuple(kept_entries)
    pieces = [piece for entry in still for piece in entry.parts]
    more = [piece for entry in attached_entries for piece in entry.parts]
    everything = MentionIndex(
        [summary, *(text for piece in (*pieces, *more) for text in _texts_of(piece))]
    )
    spoken = MentionIndex([summary, *(piece.text for piece in pieces if piece.kind in _SPOKEN)])
    shared = shared_basenames(use.path for use in before.files)
    listed = {todo.text for todo in collect_artifacts(still).todos}
    files = _split(before.files, lambda use: everything.has_path(use.path, shared))
    names = _split(before.names, lambda name: _mentions_name(everything, name.text))
    decisions = _split(before.decisions, lambda said: spoken.has_sentence(said.text))
    todos = _split(before.todos, lambda todo: todo.text in listed or spoken.has_sentence(todo.text))
    constraints = _split(before.constraints, lambda said: spoken.has_sentence(said.text))
    return (
        Artifacts(files[0], names[0], decisions[0], todos[0], constraints[0]),
        Artifacts(files[1], names[1], decisions[1], todos[1], constraints[1]),
    )


def _split(
    items: Iterable[ArtifactT], is_there: Callable[[ArtifactT], bool]
) -> _RetainedAndLost[ArtifactT]:
    there: list[ArtifactT] = []
    lost: list[ArtifactT] = []
    for item in items:
        (there if is_there(item) else lost).append(item)
    return tuple(there), tuple(lost)


def shared_basenames(paths: Iterable[str]) -> frozenset[str]:
    """Name the basenames, casefolded, that several of the paths have."""
    names = Counter(parts[-1].casefold() for path in paths if (parts := split_path(path)))
    return frozenset(name for name, count in names.items() if count > 1)


def _mentions_name(text: MentionIndex, name: str) -> bool:
    return text.has_path(name) if "/" in name or "\\" in name else text.has_name(name)


def _texts_of(piece: MessagePart) -> Iterator[str]:
    if piece.kind is PartKind.TOOL_INPUT:
        # As JSON a new line would stand before a word as the letter n.
        yield from (text for _, text in input_texts(parse_tool_input(piece)))
    else:
        yield piece.text
    if piece.path:
        yield piece.path


MAX_SOURCE_SHARE: Final = 0.5
"""Of the source's tokens: a summary that has more is none (compaction.md 5.3)."""

MODEL_MIN_NAMED_SHARE: Final = 0.5
"""Of the changed files and constraints that a model's own words must name. It was given all of
them; the rest is added from the tool calls."""


class SummaryFlaw(msgspec.Struct, frozen=True):
    """Why a summary is refused."""

    check: str  # `empty`, `longer`, `artifacts`, `constraints`, `stale` or `contaminated`
    reason: str


def find_summary_flaws(
    text: str, tokens: int, source_tokens: int, facts: Iterable[SummaryFact], min_share: float = 1.0
) -> tuple[SummaryFlaw, ...]:
    """Return what is wrong with a summary of these facts; empty if it can be used.

    `min_share` is the share of changed files and of constraints that must be named, 0..1.
    """
    if not text.strip():
        return (SummaryFlaw("empty", "the summary says nothing"),)
    known = tuple(facts)
    found: list[SummaryFlaw] = []
    if tokens > MAX_SOURCE_SHARE * source_tokens:
        why = f"{tokens:,} tokens for a source of {source_tokens:,}"
        found.append(SummaryFlaw("longer", why))
    said = MentionIndex([text])
    for check, wanted in (
        ("artifacts", _changed_files_named(known, said)),
        ("constraints", _constraints_named(known, said)),
    ):
        there = sum(wanted)
        if wanted and there < min_share * len(wanted):
            found.append(SummaryFlaw(check, f"{there} of {len(wanted)} are named"))
    return (*found, *_stale_todos(text, known), *_compaction_prompts(text))


def find_missing_facts(text: str, facts: Sequence[SummaryFact]) -> tuple[SummaryFact, ...]:
    """Return the facts that a model's text lacks; quotes and states are always included."""
    said = MentionIndex([text])
    shared = shared_basenames(each.key for each in facts if each.kind is FactKind.FILE)
    exact = {FactKind.PROMPT, FactKind.TODO, FactKind.RUNNING, FactKind.HINT, FactKind.CONSTRAINT}
    return tuple(
        each
        for each in facts
        if each.kind in exact
        or (each.kind is FactKind.FILE and not said.has_path(each.key, shared))
        or (each.kind in {FactKind.ERROR, FactKind.DONE} and not said.has_sentence(each.key))
    )


def _changed_files_named(facts: Sequence[SummaryFact], said: MentionIndex) -> list[bool]:
    shared = shared_basenames(each.key for each in facts if each.kind is FactKind.FILE)
    changed = [each for each in facts if each.kind is FactKind.FILE and not _only_read(each)]
    return [said.has_path(each.key, shared) for each in changed]


def _only_read(each: SummaryFact) -> bool:
    done = each.text.removeprefix(each.key)
    return not any(word in done for word in ("edited", "written", "created", "deleted"))


def _constraints_named(facts: Sequence[SummaryFact], said: MentionIndex) -> list[bool]:
    return [
        said.has_sentence(each.key.strip('"')) for each in facts if each.kind is FactKind.CONSTRAINT
    ]


def _stale_todos(text: str, facts: Sequence[SummaryFact]) -> list[SummaryFlaw]:
    """Find what is done and yet listed as open, in a summary whose lists can be read (Q13)."""
    done = {each.key for each in facts if each.kind is FactKind.DONE}
    open_ = [
        each for each in parse_summary(text) if each.kind is FactKind.TODO and each.key in done
    ]
    return [SummaryFlaw("stale", f"listed as open, and done: {each.key[:80]}") for each in open_]


def _compaction_prompts(text: str) -> list[SummaryFlaw]:
    """Find a compaction's own prompt, given as something that was said (Q14)."""
    own = text.removeprefix(SUMMARY_MARKER)
    spoken = next((words for words in NOT_TYPED_PREFIXES[:4] if words in own), None)
    return (
        [SummaryFlaw("contaminated", f"holds a compaction's own words: {spoken}")] if spoken else []
    )
