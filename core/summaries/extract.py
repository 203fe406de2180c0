"""Extract by rules, without a model, every fact that a summary of a conversation can hold."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from ..transcript.conversation import Entry, MessagePart, PartKind, group_messages
from ..transcript.redaction import find_secrets
from ..transcript.visible_messages import visible_entries
from . import tool_outcomes
from .artifacts import (
    EDIT_TOOLS,
    FILE_TEXT_CHARS,
    FILE_TEXT_FIELDS,
    IN_PROGRESS,
    TODO_TOOLS,
    WRITE_TOOLS,
    Artifacts,
    Todo,
    TodoList,
    collect_artifacts,
    input_texts,
    parse_tool_input,
    prompt_excerpt,
)
from .decision_patterns import find_sentences, quote_line
from .key_messages import (
    SPOKEN_KINDS,
    constraint_facts,
    find_anchors,
    prompt_facts,
    score_importance,
)
from .mentions import contains_secret, find_declarations
from .name_index import find_names_and_facts, split_words
from .summary_facts import (
    FactKind,
    SummaryFact,
    make_fact,
    merge_facts,
    replace_angle_brackets,
)
from .tool_outcomes import SHELL_TOOLS, list_failed_calls, list_file_activity, list_running_jobs


def list_all_entries(entries: Sequence[Entry]) -> list[Entry]:
    """List what the model saw before each compaction and sees now, each line once.

    So no summary is ever summarised again: what it was made of is still in the file. Prompts
    that were taken back are on no way to the newest line, and are not listed.
    """
    ends = [place for place, entry in enumerate(entries) if entry.boundary]
    seen: dict[int, Entry] = {}
    for end in (*ends, len(entries)):
        for entry in visible_entries(entries[:end]):
            seen.setdefault(entry.offset, entry)
    return list(seen.values())


STEP_CHARS: Final = 200  # of what is quoted: one step is a sentence
_ANNOUNCEMENT: Final = re.compile(
    r"^(?:next(?: step)?\b|now\b|then\b|let me\b|let[’']s\b|I[’']ll\b|I will\b|I[’']m going to\b"
    r"|going to\b|remaining\b|still to do\b|to do\b|다음)|\bnext (?:step|I[’']ll|is to)\b",
    re.IGNORECASE,
)
_QUESTION: Final = re.compile(r"\?(?=\s|$)")
_ANY_SENTENCE: Final = re.compile(r"\w[^.!?\n]{6,}")  # so that every sentence is looked at


def find_next_step(
    entries: Sequence[Entry], todos: Sequence[Todo], prompts: Sequence[SummaryFact]
) -> tuple[str, int] | None:
    """Name the next step and the line that says it; None where nobody asked for anything.

    The todo that is being done comes first, then what the model announced or asked last, then
    the first open todo, then the person's last request.
    """
    doing = next((todo for todo in todos if todo.status == IN_PROGRESS), None)
    if doing:
        return f'go on with "{quote_line(doing.text, STEP_CHARS)}"', doing.line
    said = _last_answer(entries)
    if said and (not prompts or said[1] > prompts[-1].line):
        if announced := _last_sentence_matching(_ANNOUNCEMENT, said[0]):
            return f'the model announced "{quote_line(announced, STEP_CHARS)}"', said[1]
        if asked := _last_sentence_matching(_QUESTION, said[0]):
            return f'the user\'s answer to "{quote_line(asked, STEP_CHARS)}"', said[1]
    if todos:
        return f'begin "{quote_line(todos[0].text, STEP_CHARS)}"', todos[0].line
    if not prompts:
        return None
    # The request itself stands among the goals, or in what was kept as it is.
    if said and said[1] > prompts[-1].line:
        return "the user's next request: the current one was answered", prompts[-1].line
    return "answer the current request", prompts[-1].line


def _last_answer(entries: Sequence[Entry]) -> tuple[str, int] | None:
    for entry in reversed(entries):
        for piece in reversed(entry.parts):
            if piece.kind is PartKind.TEXT and piece.text.strip():
                return piece.text, entry.line
    return None


def _last_sentence_matching(pattern: re.Pattern[str], text: str) -> str | None:
    sentences = find_sentences(_ANY_SENTENCE, text)
    return next((each for each in reversed(list(sentences)) if pattern.search(each)), None)


GOAL_CHARS: Final = 300
"""Of a request where it is named again: its whole text stands among the messages."""

ANCHOR_CHARS: Final = 1_500
"""Of an anchored message: an answer's end, in which it says what it found."""

MAX_NAMES: Final = 2_000
"""The highest ranked: 12k tokens of them, and the budget decides how many stay."""

CHECK_COMMAND: Final = re.compile(
    r"\b(?:pytest|tox|nox|ctest|jest|vitest|mypy|ruff|eslint|tsc)\b"
    r"|\b(?:npm|pnpm|yarn|cargo|go|make|mvn|gradle|dotnet|bun) (?:run )?(?:test|check|lint|build)\b"
)
"""A command that verifies the work."""

MAX_FILES_WITH_COMMAND: Final = 30
"""The newest, whose last command is told: what is older was worked on since."""

_REFERRING_KINDS: Final = frozenset({PartKind.PROMPT, PartKind.TEXT, PartKind.TOOL_INPUT})
"""Who refers to a thing: that a tool prints its name again says nothing."""

MIN_REFERENCES: Final = 1
"""Lines of the person and the model that make a name matter by themselves. With two, summaries of
the recorded sessions lose twice as much of what is referred to later (14.6 % for 7.9 %)."""

_PLAIN_WORD: Final = re.compile(r"[A-Z]?[a-z]+")

ERROR_CHARS: Final = 4_000
"""Of a failed result, its end: what failed is summed up there, and names the place."""

_HASH: Final = re.compile("[0-9a-f]{7,40}")

_AGE_PENALTY: Final = 0.3
"""What a fact loses with age, at the most: the oldest of a kind weighs so much less."""


class ExtractionSource(msgspec.Struct, frozen=True):
    """What is summed up."""

    entries: tuple[Entry, ...]  # all that was ever in the context (`history`), what stays in it too
    kept_offsets: frozenset[int] = frozenset()
    """Offsets of the lines that stay word for word: their messages are not said twice."""
    transcript_path: str = ""  # path of the file that still holds all of it


def extract_facts(
    source: ExtractionSource, previous_facts: Sequence[SummaryFact] = ()
) -> tuple[SummaryFact, ...]:
    """Extract all facts of a conversation, and merge those of an earlier summary unchanged.

    The state of files, todos, errors and running jobs is the one at the end, including the
    retained tail: what the tail finishes is not listed as open (compaction.md 4.2, Q13).
    """
    entries = source.entries
    away = [entry for entry in entries if entry.offset not in source.kept_offsets]
    said = prompt_facts(entries)
    known = collect_artifacts(entries)
    found = [
        *_goal_facts(said),
        *prompt_facts(away),
        *constraint_facts(said),
        *_decision_facts(known),
        *_file_facts(entries, previous_facts),
        *_error_facts(entries),
        *_todo_facts(entries),
        *_check_facts(entries),
        *_running_facts(entries),
        *_anchor_facts(away),
        *_name_facts(away, known),
        *_next_step_facts(entries, source.kept_offsets, said),
        *_hint_facts(source, away),
    ]
    return merge_facts(_drop_outdated(previous_facts, found), found)


def _drop_outdated(
    earlier: Sequence[SummaryFact], found: Sequence[SummaryFact]
) -> list[SummaryFact]:
    """Leave out of an earlier summary what has a state that only the newest list knows."""
    passing = {FactKind.NEXT, FactKind.HINT, FactKind.GOAL}
    relisted = {each.kind for each in found} & {FactKind.TODO, FactKind.RUNNING}
    done = {each.key for each in found if each.kind is FactKind.DONE}
    return [
        each for each in earlier if each.kind not in passing | relisted and each.key not in done
    ]


def _goal_facts(prompts: Sequence[SummaryFact]) -> list[SummaryFact]:
    if not prompts:
        return []
    first, last = prompts[0], prompts[-1]
    goals = [("First request", first)] + ([("Current request", last)] if last is not first else [])
    return [
        make_fact(
            FactKind.GOAL,
            f'{what}: "{quote_line(each.text, GOAL_CHARS)}"',
            each.line,
            0.99,
            what,
        )
        for what, each in goals
    ]


def _decision_facts(known: Artifacts) -> list[SummaryFact]:
    said = known.decisions
    return [
        make_fact(
            FactKind.DECISION,
            f'"{each.text}"',
            each.line,
            0.8 - _AGE_PENALTY * _relative_rank(rank, said),
        )
        for rank, each in enumerate(said)
    ]


def _file_facts(entries: Sequence[Entry], earlier: Sequence[SummaryFact]) -> list[SummaryFact]:
    heard = (
        tool_outcomes.parse_file_description(each.text, each.line)
        for each in earlier
        if each.kind is FactKind.FILE
    )
    states = list_file_activity(entries, [each for each in heard if each])
    return [
        make_fact(
            FactKind.FILE,
            tool_outcomes.describe_file(
                state if rank < MAX_FILES_WITH_COMMAND else replace(state, command="")
            ),
            state.line,
            # All that was changed comes before what was said about it (Q7).
            0.94 - 0.04 * _relative_rank(rank, states)
            if state.is_changed
            else 0.7 - _AGE_PENALTY * _relative_rank(rank, states),
            state.path,
        )
        for rank, state in enumerate(states)
    ]


def _error_facts(entries: Sequence[Entry]) -> list[SummaryFact]:
    found = list_failed_calls(entries)
    return [
        make_fact(
            FactKind.ERROR,
            tool_outcomes.describe_failure(each),
            each.line,
            (0.85 if each.resolved_line is None else 0.65)
            - _AGE_PENALTY * _relative_rank(rank, found),
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
            if piece.kind is PartKind.TOOL_INPUT:
                todos.apply_call(piece.name, parse_tool_input(piece), piece.tool_use_id, entry.line)
            elif piece.kind is PartKind.TOOL_RESULT:
                todos.apply_result(piece.tool_use_id, piece.text)
    return todos


def _todo_facts(entries: Sequence[Entry]) -> list[SummaryFact]:
    todos = _todo_list(entries)
    return [
        *(
            make_fact(
                FactKind.TODO,
                f"[{todo.status}] {todo.text}",
                todo.line,
                0.97 if todo.status == IN_PROGRESS else 0.95,
                todo.text,
            )
            for todo in todos.open
        ),
        *(
            make_fact(FactKind.DONE, f"[{todo.status}] {todo.text}", todo.line, 0.45, todo.text)
            for todo in todos.closed
        ),
    ]


def _check_facts(entries: Sequence[Entry]) -> list[SummaryFact]:
    """Return the last outcome of each command that verifies the work."""
    asked: dict[str | None, str] = {}
    last: dict[str, SummaryFact] = {}
    for entry in entries:
        for piece in entry.parts:
            if piece.kind is PartKind.TOOL_INPUT and piece.name in SHELL_TOOLS:
                asked[piece.tool_use_id] = str(parse_tool_input(piece).get("command") or "")
            elif piece.kind is PartKind.TOOL_RESULT and piece.tool_use_id in asked:
                command = asked[piece.tool_use_id]
                if not CHECK_COMMAND.search(command):
                    continue
                how = "failed" if piece.failed else "went well"
                shown = quote_line(replace_angle_brackets(command), tool_outcomes.COMMAND_CHARS)
                last.pop(shown, None)
                last[shown] = make_fact(FactKind.DONE, f"`{shown}` {how}", entry.line, 0.75, shown)
    return list(reversed(last.values()))


def _running_facts(entries: Sequence[Entry]) -> list[SummaryFact]:
    return [
        make_fact(
            FactKind.RUNNING, f"{job.kind} {job.job_id}: {job.task}", job.line, 0.98, job.job_id
        )
        for job in list_running_jobs(entries)
    ]


def _anchor_facts(away: Sequence[Entry]) -> list[SummaryFact]:
    """Return the text of the model's own anchors, which no other list holds (003-28)."""
    found = []
    own = [
        message
        for message in group_messages(list(away))
        if any(piece.kind is PartKind.TEXT and piece.text.strip() for piece in message.parts)
    ]
    for message in find_anchors(own):
        said = "\n".join(each.text for each in message.parts if each.kind in SPOKEN_KINDS).strip()
        score = score_importance(message)
        line = message.entries[0].line
        text = said if len(said) <= ANCHOR_CHARS else f"…{said[-ANCHOR_CHARS:]}"
        found.append(make_fact(FactKind.ANCHOR, text, line, 0.4 + 0.3 * score, message.key))
    return sorted(found, key=lambda each: each.line)


def _name_facts(away: Sequence[Entry], known: Artifacts) -> list[SummaryFact]:
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
            text = f"{piece.path or ''}\n{_piece_text(piece)}"
            secrets |= find_secrets(text)
            for thing in find_names_and_facts(text, split_words(text)):
                if thing in matters or not _PLAIN_WORD.fullmatch(thing):
                    found[thing] = found.get(thing, False) or piece.kind in _REFERRING_KINDS
        referred.update({thing: int(refers) for thing, refers in found.items()})
    names = sorted(referred, key=lambda name: (-referred[name], used.get(name, len(used))))
    shown = [
        name
        for name in names
        # A hash that nobody refers to says nothing, and a comma parts the names of a list.
        if (referred[name] or not _HASH.fullmatch(name))
        and (name in matters or referred[name] >= MIN_REFERENCES)
        and ", " not in name
        and not contains_secret(name)
        and not any(name in secret for secret in secrets)
    ][:MAX_NAMES]
    return [
        make_fact(FactKind.NAME, name, 0, 0.4 - _AGE_PENALTY * _relative_rank(rank, shown))
        for rank, name in enumerate(shown)
    ]


def _named_by_work(away: Sequence[Entry]) -> frozenset[str]:
    """Find what was defined or edited, what failed, and what the person named."""
    found: set[str] = set()
    for entry in away:
        for piece in entry.parts:
            if piece.kind is PartKind.PROMPT:
                found.update(_words_in(prompt_excerpt(piece.text)))
            elif piece.kind is PartKind.TOOL_RESULT and piece.failed:
                said = _words_in(piece.text[-ERROR_CHARS:])
                found.update(thing for thing in said if not _PLAIN_WORD.fullmatch(thing))
            elif piece.kind is PartKind.TOOL_INPUT and piece.name in EDIT_TOOLS | WRITE_TOOLS:
                bodies = [
                    text
                    for key, text in input_texts(parse_tool_input(piece))
                    if key in FILE_TEXT_FIELDS
                ]
                for body in bodies:
                    found |= find_declarations(body[:FILE_TEXT_CHARS])
                found.update(_words_in(piece.path or ""))
    return frozenset(found)


def _words_in(text: str) -> Iterable[str]:
    return find_names_and_facts(text, split_words(text))


def _piece_text(piece: MessagePart) -> str:
    """Return a part's text; of a call the values of its input, without JSON escapes."""
    if piece.kind is not PartKind.TOOL_INPUT:
        return piece.text
    return "\n".join(text for _, text in input_texts(parse_tool_input(piece)))


def _next_step_facts(
    entries: Sequence[Entry], kept: frozenset[int], prompts: Sequence[SummaryFact]
) -> list[SummaryFact]:
    """Name the next step; quote the last words where they do not stand in the kept tail."""
    todos = _todo_list(entries).open
    words = _last_words(entries, kept)
    has_spoken = any(piece.kind is PartKind.TEXT for entry in entries for piece in entry.parts)
    if has_spoken and not words and not todos:
        # The kept tail says it itself.
        return []
    step = find_next_step(entries, todos, prompts)
    named = (
        [make_fact(FactKind.NEXT, f"Next step: {step[0]}", step[1], 0.97, "next step")]
        if step
        else []
    )
    return [*named, *words]


def _last_words(entries: Sequence[Entry], kept: frozenset[int]) -> list[SummaryFact]:
    spoken = [
        (entry, piece)
        for entry in entries
        for piece in entry.parts
        if piece.kind is PartKind.TEXT and piece.text.strip()
    ]
    if not spoken or spoken[-1][0].offset in kept:
        return []
    entry, piece = spoken[-1]
    text = " ".join(piece.text[-2 * GOAL_CHARS :].split())
    said = f'The last words before the cut: "…{text[-GOAL_CHARS:]}"'
    return [make_fact(FactKind.NEXT, said, entry.line, 0.96, "last words")]


def _hint_facts(source: ExtractionSource, away: Sequence[Entry]) -> list[SummaryFact]:
    if not source.transcript_path or not away:
        return []
    first, last = min(each.line for each in away), max(each.line for each in away)
    said = (
        f"All that was removed is still in {source.transcript_path}, lines {first} to {last},"
        " one JSON"
        " object a line; [L…] names the line of each item. Read there, or read a file again,"
        " before you rely on a detail that is not here."
    )
    return [make_fact(FactKind.HINT, said, 0, 1.0, "transcript")]


def _relative_rank(rank: int, of: Sequence[object]) -> float:
    return rank / len(of)
