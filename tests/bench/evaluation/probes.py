"""Q4: questions about a conversation, made by rules, and whether a context still answers them.

Source: compaction.md 4.3. A question is answered where its answer stands in one of the best
passages that BM25 finds for it, word for word or nearly so.
"""

from __future__ import annotations

import re
from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec
from ctxtop.core.model.conversation import PartKind
from ctxtop.core.summaries.artifacts import (
    EDIT_TOOLS,
    READ_TOOLS,
    WRITE_TOOLS,
    collect_artifacts,
    parse_tool_input,
    prompt_excerpt,
)
from ctxtop.core.summaries.decision_patterns import DECISION_PATTERN, find_sentences

from .entities import entities_in, named
from .passages import words_of
from .share import Share
from .texts import pieces_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ctxtop.core.model.conversation import Entry, MessagePart

    from .passages import Index

PASSAGES: Final = 3
"""Best passages in which an answer is looked for (compaction.md 4.2, Q4)."""

NEARLY: Final = 0.9
"""F1 of the words from which an answer counts as said (compaction.md 4.2, Q4)."""

MOST_PROBES: Final = 200
"""Of a session (compaction.md 4.3: 50 to 200)."""

ANSWER_CHARS: Final = 200
"""A longer line is no answer that anybody would give."""

_ERROR: Final = re.compile(
    r"^.*(?:\b[A-Z]\w*(?:Error|Exception)\b|\berror(?:\[\w+\])?:|\bE\d{3,5}\b|\bFAILED\b|^fatal:).*$",
    re.MULTILINE,
)
_QUANTITY: Final = re.compile(
    r"[^\n.;]{0,60}?\b\d+(?:\.\d+)*\s?(?:ms|s|sec|seconds|MB|GB|KB|kB|%|req/s|px|rows|tests)\b"
)


class Kind(StrEnum):
    """What a probe asks for (compaction.md 4.3)."""

    RECALL = "recall"
    ARTIFACT = "artifact"
    DECISION = "decision"
    CONTINUATION = "continuation"
    PLANTED = "planted"
    """A needle of a session that was made for this."""
    NEGATIVE = "negative"
    """A thing of another session: nothing may answer it."""


class Probe(msgspec.Struct, frozen=True):
    """A question and what answers it."""

    kind: Kind
    question: str
    answer: str
    line: int = 0
    """Where its answer was last said."""


def probes_of(original: Sequence[Entry], most: int = MOST_PROBES) -> list[Probe]:
    """Ask about a conversation; where there is too much to ask, evenly over its whole length."""
    made = [*_recall(original), *_artifact(original), *_decision(original)]
    found = sorted(dict.fromkeys(made), key=lambda probe: (probe.line, probe.question))
    if len(found) > most:
        step = len(found) / most
        found = [found[int(place * step)] for place in range(most)]
    return [*found, *_continuation(original)]


def negative_probes(original: Sequence[Entry], other: Sequence[Entry], most: int) -> list[Probe]:
    """Ask for things that only another session names (compaction.md 4.3: leakage)."""
    strange = sorted(named(other) - named(original))
    step = max(1, len(strange) // most) if most else 1
    return [Probe(Kind.NEGATIVE, name, name) for name in strange[::step][:most]]


def is_answered(probe: Probe, index: Index) -> bool:
    """Whether one of the best passages holds the answer, or a line close to it."""
    answer = _flat(probe.answer)
    for passage in index.best(f"{probe.question}", PASSAGES):
        if answer in _flat(passage):
            return True
        if any(_f1(answer, line) >= NEARLY for line in passage.splitlines()):
            return True
    return False


def answerability(probes: Iterable[Probe], original: Index, compacted: Index) -> Share:
    """Return how many questions that the original answers the compacted context answers (Q4)."""
    asked = [probe for probe in probes if is_answered(probe, original)]
    return Share(sum(is_answered(probe, compacted) for probe in asked), len(asked))


def _recall(entries: Sequence[Entry]) -> Iterator[Probe]:
    commands: dict[str, str] = {}
    for entry in entries:
        for piece in entry.parts:
            if piece.kind is PartKind.TOOL_INPUT:
                commands[piece.tool_use_id or ""] = _asked(piece)
            elif piece.kind is PartKind.TOOL_RESULT:
                asked = commands.get(piece.tool_use_id or "", "")
                yield from _printed(piece, asked, entry.line)


def _printed(piece: MessagePart, asked: str, line: int) -> Iterator[Probe]:
    if piece.name == "Bash" or piece.failed:
        error = _ERROR.search(piece.text)
        if error and len(error[0]) <= ANSWER_CHARS:
            said = error[0].strip()
            yield Probe(Kind.RECALL, f"error in {asked} {_topic(said)}", said, line)
    if piece.name == "Bash":
        for found in list(_QUANTITY.finditer(piece.text))[-1:]:
            said = found[0].strip()
            yield Probe(Kind.RECALL, f"{asked} {_topic(said)}", said, line)


def _artifact(entries: Sequence[Entry]) -> Iterator[Probe]:
    for use in collect_artifacts(entries).files:
        done = "changed" if use.edits or use.writes else "read"
        yield Probe(Kind.ARTIFACT, f"file {done} {_basename(use.path)}", use.path, use.line)
    for entry in entries:
        for piece in entry.parts:
            if piece.kind is PartKind.TOOL_INPUT and piece.name == "Bash":
                asked = parse_tool_input(piece)
                command, why = str(asked.get("command", "")), str(asked.get("description", ""))
                if why and len(command) <= ANSWER_CHARS:
                    yield Probe(Kind.ARTIFACT, f"command to {why}", command, entry.line)


def _decision(entries: Sequence[Entry]) -> Iterator[Probe]:
    for entry in entries:
        for piece in entry.parts:
            if piece.kind not in {PartKind.PROMPT, PartKind.TEXT, PartKind.SUMMARY}:
                continue
            for sentence in find_sentences(DECISION_PATTERN, prompt_excerpt(piece.text)):
                things = sorted(entities_in(sentence))
                if things and len(sentence) <= ANSWER_CHARS:
                    yield Probe(Kind.DECISION, f"decided {_topic(sentence)}", things[0], entry.line)


def _continuation(entries: Sequence[Entry]) -> Iterator[Probe]:
    todos = collect_artifacts(entries).todos
    for todo in todos:
        yield Probe(Kind.CONTINUATION, f"todo {todo.status} {todo.text}", todo.text, todo.line)
    prompts = [
        (piece.text, entry.line)
        for entry in entries
        for piece in entry.parts
        if piece.kind is PartKind.PROMPT
    ]
    for text, line in prompts[-1:]:
        said = _flat(text)[:ANSWER_CHARS]
        yield Probe(Kind.CONTINUATION, f"last request {said}", said, line)
    calls = [piece for piece in pieces_of(entries) if piece.kind is PartKind.TOOL_INPUT]
    for piece in [each for each in calls if each.name in READ_TOOLS | EDIT_TOOLS | WRITE_TOOLS][
        -1:
    ]:
        if piece.path:
            yield Probe(Kind.CONTINUATION, f"{piece.name} {_basename(piece.path)}", piece.path)


def _asked(piece: MessagePart) -> str:
    command = parse_tool_input(piece).get("command")
    return str(command)[:ANSWER_CHARS] if command else f"{piece.name} {piece.path or ''}".strip()


def _topic(sentence: str) -> str:
    """Return a sentence without its named entities: the question must not hold the answer."""
    things = entities_in(sentence)
    return " ".join(word for word in sentence.split() if not any(each in word for each in things))


def _basename(path: str) -> str:
    return re.split(r"[/\\]", path)[-1]


def _flat(text: str) -> str:
    return " ".join(text.casefold().split())


def _f1(answer: str, line: str) -> float:
    wanted, there = Counter(words_of(answer)), Counter(words_of(line))
    both = (wanted & there).total()
    return 2 * both / (wanted.total() + there.total()) if both else 0.0
