"""Everything that a summary may hold, taken from a conversation by rules alone."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from ..compaction.holders import things_in, words_of
from ..conversation import PieceKind, messages_of
from ..redaction import secrets_in
from . import errors, file_index
from .anchors import AnchorSettings, find_anchors
from .artifacts import (
    BODIES,
    BODY_CHARS,
    EDITED,
    WRITTEN,
    artifacts_of,
    input_of,
    said_in,
    texts_in,
)
from .errors import mishaps
from .fact import Fact, Part, as_data, fact, merge, one_line
from .file_index import SHELLS, index_files
from .importance import SPOKEN, score_message
from .names import declared_in, hides_secret
from .next_step import next_step
from .prompts import constraints_of, prompts_of
from .running import running_jobs
from .todos import IN_PROGRESS, TODO_TOOLS, TodoList

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..conversation import Entry, Piece
    from .artifacts import Artifacts

GOAL_CHARS: Final = 300
"""Of a request where it is named again: its whole text stands among the messages."""

ANCHOR_CHARS: Final = 1_500
"""Of an anchored message: an answer's end, in which it says what it found."""

NAMES_KEPT: Final = 2_000
"""The highest ranked: 12k tokens of them, and the budget decides how many stay."""

CHECKED: Final = re.compile(
    r"\b(?:pytest|tox|nox|ctest|jest|vitest|mypy|ruff|eslint|tsc)\b"
    r"|\b(?:npm|pnpm|yarn|cargo|go|make|mvn|gradle|dotnet|bun) (?:run )?(?:test|check|lint|build)\b"
)
"""A command that verifies the work."""

FILES_WITH_COMMANDS: Final = 30
"""The newest, whose last command is told: what is older was worked on since."""

_REFERRING: Final = frozenset({PieceKind.PROMPT, PieceKind.TEXT, PieceKind.TOOL_INPUT})
"""Who refers to a thing: that a tool prints its name again says nothing."""

REFERRED: Final = 1
"""Lines of the person and the model that make a name matter by themselves. With two, summaries of
the recorded sessions lose twice as much of what is referred to later (14.6 % for 7.9 %)."""

_PLAIN: Final = re.compile(r"[A-Z]?[a-z]+")

ERROR_CHARS: Final = 4_000
"""Of a failed result, its end: what failed is summed up there, and names the place."""

_HASH: Final = re.compile("[0-9a-f]{7,40}")

_RECENT: Final = 0.3
"""What a fact loses with age, at the most: the oldest of a kind weighs so much less."""


class Source(msgspec.Struct, frozen=True):
    """What is summed up."""

    entries: tuple[Entry, ...]
    """All that was ever in the context (`history`), what stays in it too."""
    kept_offsets: frozenset[int] = frozenset()
    """Offsets of the lines that stay word for word: their messages are not said twice."""
    transcript_path: str = ""
    """Path of the file that still holds all of it."""
    anchor_settings: AnchorSettings = AnchorSettings()


def gather(source: Source, previous_facts: Sequence[Fact] = ()) -> tuple[Fact, ...]:
    """Take all facts from a conversation; those of an earlier summary are merged, not summed up.

    The state of files, todos, errors and running things is the one at the end, the kept tail's
    doings in it: nothing is listed as open that the tail finishes (compaction.md 4.2, Q13).
    """
    entries = source.entries
    away = [entry for entry in entries if entry.offset not in source.kept_offsets]
    said = prompts_of(entries)
    known = artifacts_of(entries)
    found = [
        *_goals(said),
        *prompts_of(away),
        *constraints_of(said),
        *_decisions(known),
        *_files(entries, previous_facts),
        *_errors(entries),
        *_todos(entries),
        *_checks(entries),
        *_running(entries),
        *_anchored(away, source.anchor_settings),
        *_names(away, known),
        *_next(entries, source.kept_offsets, said),
        *_hints(source, away),
    ]
    return merge(_still(previous_facts, found), found)


def _still(earlier: Sequence[Fact], found: Sequence[Fact]) -> list[Fact]:
    """Leave out of an earlier summary what has a state that only the newest list knows."""
    passing = {Part.NEXT, Part.HINT, Part.GOAL}
    relisted = {each.kind for each in found} & {Part.TODO, Part.RUNNING}
    done = {each.key for each in found if each.kind is Part.DONE}
    return [
        each for each in earlier if each.kind not in passing | relisted and each.key not in done
    ]


def _goals(prompts: Sequence[Fact]) -> list[Fact]:
    if not prompts:
        return []
    first, last = prompts[0], prompts[-1]
    goals = [("First request", first)] + ([("Current request", last)] if last is not first else [])
    return [
        fact(Part.GOAL, f'{what}: "{one_line(each.text, GOAL_CHARS)}"', each.line, 0.99, what)
        for what, each in goals
    ]


def _decisions(known: Artifacts) -> list[Fact]:
    said = known.decisions
    return [
        fact(Part.DECISION, f'"{each.text}"', each.line, 0.8 - _RECENT * _age(rank, said))
        for rank, each in enumerate(said)
    ]


def _files(entries: Sequence[Entry], earlier: Sequence[Fact]) -> list[Fact]:
    heard = (file_index.heard(each.text, each.line) for each in earlier if each.kind is Part.FILE)
    states = index_files(entries, [each for each in heard if each])
    return [
        fact(
            Part.FILE,
            file_index.say(state if rank < FILES_WITH_COMMANDS else replace(state, command="")),
            state.line,
            # All that was changed comes before what was said about it (Q7).
            0.94 - 0.04 * _age(rank, states)
            if state.is_changed
            else 0.7 - _RECENT * _age(rank, states),
            state.path,
        )
        for rank, state in enumerate(states)
    ]


def _errors(entries: Sequence[Entry]) -> list[Fact]:
    found = mishaps(entries)
    return [
        fact(
            Part.ERROR,
            errors.say(each),
            each.line,
            (0.85 if each.resolved_line is None else 0.65) - _RECENT * _age(rank, found),
            f"{each.call}: {each.error_line}",
        )
        for rank, each in enumerate(reversed(found))
    ]


def _todo_list(entries: Sequence[Entry]) -> TodoList:
    todos = TodoList()
    for entry in entries:
        for piece in entry.parts:
            if piece.name not in TODO_TOOLS:
                continue
            if piece.kind is PieceKind.TOOL_INPUT:
                todos.apply_call(piece.name, input_of(piece), piece.tool_use_id, entry.line)
            elif piece.kind is PieceKind.TOOL_RESULT:
                todos.apply_result(piece.tool_use_id, piece.text)
    return todos


def _todos(entries: Sequence[Entry]) -> list[Fact]:
    todos = _todo_list(entries)
    return [
        *(
            fact(
                Part.TODO,
                f"[{todo.status}] {todo.text}",
                todo.line,
                0.97 if todo.status == IN_PROGRESS else 0.95,
                todo.text,
            )
            for todo in todos.open
        ),
        *(
            fact(Part.DONE, f"[{todo.status}] {todo.text}", todo.line, 0.45, todo.text)
            for todo in todos.closed
        ),
    ]


def _checks(entries: Sequence[Entry]) -> list[Fact]:
    """Tell how each command that verifies the work went the last time."""
    asked: dict[str | None, str] = {}
    last: dict[str, Fact] = {}
    for entry in entries:
        for piece in entry.parts:
            if piece.kind is PieceKind.TOOL_INPUT and piece.name in SHELLS:
                asked[piece.tool_use_id] = str(input_of(piece).get("command") or "")
            elif piece.kind is PieceKind.TOOL_RESULT and piece.tool_use_id in asked:
                command = asked[piece.tool_use_id]
                if not CHECKED.search(command):
                    continue
                how = "failed" if piece.failed else "went well"
                shown = one_line(as_data(command), file_index.COMMAND_CHARS)
                last.pop(shown, None)
                last[shown] = fact(Part.DONE, f"`{shown}` {how}", entry.line, 0.75, shown)
    return list(reversed(last.values()))


def _running(entries: Sequence[Entry]) -> list[Fact]:
    return [
        fact(Part.RUNNING, f"{job.kind} {job.job_id}: {job.task}", job.line, 0.98, job.job_id)
        for job in running_jobs(entries)
    ]


def _anchored(away: Sequence[Entry], settings: AnchorSettings) -> list[Fact]:
    """Give the words of the anchors that no other list holds: the model's own (003-28)."""
    found = []
    own = [
        message
        for message in messages_of(list(away))
        if any(piece.kind is PieceKind.TEXT and piece.text.strip() for piece in message.parts)
    ]
    for message in find_anchors(own, settings):
        said = "\n".join(each.text for each in message.parts if each.kind in SPOKEN).strip()
        score = score_message(message, settings.importance)
        line = message.entries[0].line
        text = said if len(said) <= ANCHOR_CHARS else f"…{said[-ANCHOR_CHARS:]}"
        found.append(fact(Part.ANCHOR, text, line, 0.4 + 0.3 * score, message.key))
    return sorted(found, key=lambda each: each.line)


def _names(away: Sequence[Entry], known: Artifacts) -> list[Fact]:
    """List the names that matter, by how many lines of the person and the model refer to them.

    Those are what was defined or edited, what is in an error, what the person named, and what
    the model itself referred to. A plain word that was quoted (`want`) is a name only where the
    person or the work names it.
    """
    used = {name.text: rank for rank, name in enumerate(known.names)}
    matters = _named_by_work(away)
    referred: Counter[str] = Counter()
    secrets: set[str] = set()
    for entry in away:
        found: dict[str, bool] = {}
        for piece in entry.parts:
            text = f"{piece.path or ''}\n{_said(piece)}"
            secrets |= secrets_in(text)
            for thing in things_in(text, words_of(text)):
                if thing in matters or not _PLAIN.fullmatch(thing):
                    found[thing] = found.get(thing, False) or piece.kind in _REFERRING
        referred.update({thing: int(refers) for thing, refers in found.items()})
    names = sorted(referred, key=lambda name: (-referred[name], used.get(name, len(used))))
    shown = [
        name
        for name in names
        # A hash that nobody refers to says nothing, and a comma parts the names of a list.
        if (referred[name] or not _HASH.fullmatch(name))
        and (name in matters or referred[name] >= REFERRED)
        and ", " not in name
        and not hides_secret(name)
        and not any(name in secret for secret in secrets)
    ][:NAMES_KEPT]
    return [
        fact(Part.NAME, name, 0, 0.4 - _RECENT * _age(rank, shown))
        for rank, name in enumerate(shown)
    ]


def _named_by_work(away: Sequence[Entry]) -> frozenset[str]:
    """Find what was defined or edited, what failed, and what the person named."""
    found: set[str] = set()
    for entry in away:
        for piece in entry.parts:
            if piece.kind is PieceKind.PROMPT:
                found.update(_things(said_in(piece.text)))
            elif piece.kind is PieceKind.TOOL_RESULT and piece.failed:
                said = _things(piece.text[-ERROR_CHARS:])
                found.update(thing for thing in said if not _PLAIN.fullmatch(thing))
            elif piece.kind is PieceKind.TOOL_INPUT and piece.name in EDITED | WRITTEN:
                bodies = [text for key, text in texts_in(input_of(piece)) if key in BODIES]
                for body in bodies:
                    found |= declared_in(body[:BODY_CHARS])
                found.update(_things(piece.path or ""))
    return frozenset(found)


def _things(text: str) -> Iterable[str]:
    return things_in(text, words_of(text))


def _said(piece: Piece) -> str:
    """Give a piece's words; of a call its values, without the escapes of JSON."""
    if piece.kind is not PieceKind.TOOL_INPUT:
        return piece.text
    return "\n".join(text for _, text in texts_in(input_of(piece)))


def _next(entries: Sequence[Entry], kept: frozenset[int], prompts: Sequence[Fact]) -> list[Fact]:
    """Name the next step; quote the last words where they do not stand in the kept tail."""
    todos = _todo_list(entries).open
    words = _last_words(entries, kept)
    has_spoken = any(piece.kind is PieceKind.TEXT for entry in entries for piece in entry.parts)
    if has_spoken and not words and not todos:
        # The kept tail says it itself.
        return []
    step = next_step(entries, todos, prompts)
    named = [fact(Part.NEXT, f"Next step: {step[0]}", step[1], 0.97, "next step")] if step else []
    return [*named, *words]


def _last_words(entries: Sequence[Entry], kept: frozenset[int]) -> list[Fact]:
    spoken = [
        (entry, piece)
        for entry in entries
        for piece in entry.parts
        if piece.kind is PieceKind.TEXT and piece.text.strip()
    ]
    if not spoken or spoken[-1][0].offset in kept:
        return []
    entry, piece = spoken[-1]
    text = " ".join(piece.text[-2 * GOAL_CHARS :].split())
    said = f'The last words before the cut: "…{text[-GOAL_CHARS:]}"'
    return [fact(Part.NEXT, said, entry.line, 0.96, "last words")]


def _hints(source: Source, away: Sequence[Entry]) -> list[Fact]:
    if not source.transcript_path or not away:
        return []
    first, last = min(each.line for each in away), max(each.line for each in away)
    said = (
        f"All that was removed is still in {source.transcript_path}, lines {first} to {last}, one JSON"
        " object a line; [L…] names the line of each item. Read there, or read a file again,"
        " before you rely on a detail that is not here."
    )
    return [fact(Part.HINT, said, 0, 1.0, "transcript")]


def _age(rank: int, of: Sequence[object]) -> float:
    return rank / len(of)
