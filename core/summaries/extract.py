"""Extract by rules, without a model, every fact that a summary of a conversation can hold."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from ..model.conversation import IN_PROGRESS, Entry, PartKind, group_messages
from ..transcript.redaction import find_secrets
from ..transcript.visible_messages import is_call, is_result, visible_entries
from . import artifacts, key_messages, tool_outcomes
from .artifacts import Artifacts, Todo, TodoList, part_text, prompt_excerpt
from .decision_patterns import find_sentences, quote_line
from .former_summaries import NEXT_TITLES, TASK_TITLES, find_stated
from .key_messages import DEFAULT_IMPORTANCE, ImportanceSettings
from .mentions import contains_secret, find_declarations, find_names_and_facts, split_words
from .newest_steps import step_facts, unanswered_results
from .session_rules import (
    NO_RULE_CHOICES,
    RuleChoices,
    carried_rules,
    dropped_rule_keys,
    rule_facts,
    rule_key,
    session_rules,
)
from .summary_facts import (
    MARKED_WEIGHT,
    FactKind,
    SummaryFact,
    make_fact,
    merge_facts,
    replace_angle_brackets,
)

ItemT = TypeVar("ItemT")


def list_all_entries(entries: Sequence[Entry]) -> list[Entry]:
    """List what the model saw before each compaction and sees now, each line once.

    So no summary is ever summarized again: what it was made of is still in the file. Prompts
    that were taken back are not listed: they are not on the chain to the newest line.
    """
    ends = [place for place, entry in enumerate(entries) if entry.boundary]
    seen: dict[int, Entry] = {}
    for end in (*ends, len(entries)):
        for entry in visible_entries(entries[:end]):
            seen.setdefault(entry.offset, entry)
    return list(seen.values())


STEP_CHARS: Final = 200  # of what is quoted: one step is a sentence
MAX_WAITING_TOOLS: Final = 5  # that are named; the lines are those of all
_ANNOUNCEMENT: Final = re.compile(
    r"^(?:next(?: step)?\b|now\b|then\b|let me\b|let[’']s\b|I[’']ll\b|I will\b|I[’']m going to\b"
    r"|going to\b|remaining\b|still to do\b|to do\b|다음)|\bnext (?:step|I[’']ll|is to)\b",
    re.IGNORECASE,
)
_QUESTION: Final = re.compile(r"\?(?=\s|$)")
_ANY_SENTENCE: Final = re.compile(r"\w[^.!?\n]{6,}")


def find_next_step(
    entries: Sequence[Entry], todos: Sequence[Todo], requests: Sequence[SummaryFact]
) -> tuple[str, int] | None:
    """Name the next step and the line that says it; None if nobody asked for anything.

    The todo in progress comes first, then the turn that is open, then what the model announced or
    asked last, then the first open todo, then the last request.
    """
    doing = next((todo for todo in todos if todo.status == IN_PROGRESS), None)
    if doing:
        return f'go on with "{quote_line(doing.text, STEP_CHARS)}"', doing.line
    answer = _last_answer(entries)
    if answer and (not requests or answer[0].line > requests[-1].line):
        return _step_after_answer(entries, *answer, todos, requests)
    if todos:
        return f'begin "{quote_line(todos[0].text, STEP_CHARS)}"', todos[0].line
    # The request itself is among the goals, or in what was kept as it is.
    return ("answer the current request", requests[-1].line) if requests else None


def _step_after_answer(
    entries: Sequence[Entry],
    answer: Entry,
    text: str,
    todos: Sequence[Todo],
    requests: Sequence[SummaryFact],
) -> tuple[str, int] | None:
    announced = _last_sentence_matching(_ANNOUNCEMENT, text)
    if _is_turn_open(entries):
        words = f'; the model announced "{quote_line(announced, STEP_CHARS)}"' if announced else ""
        return f"go on with the current request{words}", answer.line
    if announced:
        return f'the model announced "{quote_line(announced, STEP_CHARS)}"', answer.line
    is_given = bool(requests) and key_messages.GIVEN_TASK.fullmatch(requests[-1].text) is not None
    if asked := _last_sentence_matching(_QUESTION, text):
        whose = "the" if is_given else "the user's"
        return f'{whose} answer to "{quote_line(asked, STEP_CHARS)}"', answer.line
    if todos:
        return f'begin "{quote_line(todos[0].text, STEP_CHARS)}"', todos[0].line
    if not requests:
        return None
    who = "the next message" if is_given else "the user's next request"
    return f"{who}: the current one was answered", requests[-1].line


def _waiting(entries: Sequence[Entry]) -> str:
    """Name the results that the model has not answered; empty if there are none."""
    waiting = unanswered_results(entries)
    if not waiting:
        return ""
    tools = dict.fromkeys(part.name for entry in waiting for part in entry.parts if part.name)
    named = ", ".join([*tools][:MAX_WAITING_TOOLS]) or "a tool"
    first, last = waiting[0].line, waiting[-1].line
    lines = f"line {first}" if first == last else f"lines {first} to {last}"
    return f"; not answered yet: what {named} returned ({lines})"


def _is_turn_open(entries: Sequence[Entry]) -> bool:
    """Whether the newest message is a call or its result: the model has not ended its turn."""
    for entry in reversed(entries):
        if entry.role and entry.parts and entry.type != "attachment":
            return any(is_call(part) or is_result(part) for part in entry.parts)
    return False


def _last_answer(entries: Sequence[Entry]) -> tuple[Entry, str] | None:
    for entry in reversed(entries):
        for part in reversed(entry.parts):
            if part.kind is PartKind.TEXT and part.text.strip():
                return entry, part.text
    return None


def _last_sentence_matching(pattern: re.Pattern[str], text: str) -> str | None:
    sentences = list(find_sentences(_ANY_SENTENCE, text))
    return next((sentence for sentence in reversed(sentences) if pattern.search(sentence)), None)


NO_REQUEST: Final = "the user's next request: none is recorded"
GOAL_WEIGHT: Final = 0.99
GOAL_CHARS: Final = 300  # of a request where it is named again: its text is among the messages
ANCHOR_CHARS: Final = 1_500  # of an anchored message: the end of an answer says what it found

MAX_NAMES: Final = 2_000  # the highest ranked: 12k tokens; the budget decides how many stay
CHECK_COMMAND: Final = re.compile(
    r"\b(?:pytest|tox|nox|ctest|jest|vitest|mypy|ruff|eslint|tsc)\b"
    r"|\b(?:npm|pnpm|yarn|cargo|go|make|mvn|gradle|dotnet|bun) (?:run )?(?:test|check|lint|build)\b"
)
"""A command that verifies the work."""

MAX_FILES_WITH_COMMAND: Final = 30
"""The newest files, whose last command is reported: older ones were worked on since."""

_REFERRING_KINDS: Final = frozenset({PartKind.PROMPT, PartKind.TEXT, PartKind.TOOL_INPUT})
"""Who refers to a thing: that a tool prints its name again does not count."""

MIN_REFERENCES: Final = 1
"""Lines of the person and the model that make a name matter by themselves. With two, summaries of
the recorded sessions lose twice as much of what is referred to later (14.6 % for 7.9 %)."""

_PLAIN_WORD: Final = re.compile(r"[A-Z]?[a-z]+")
ERROR_CHARS: Final = 4_000  # of a failed result, its end: it sums up what failed, and where
_HASH: Final = re.compile("[0-9a-f]{7,40}")
_AGE_PENALTY: Final = 0.3  # weight that the oldest fact of a kind loses; newer ones less


class ExtractionSource(msgspec.Struct, frozen=True):
    entries: tuple[Entry, ...]  # all that was ever in the context, what stays in it too
    kept_offsets: frozenset[int] = frozenset()
    """Offsets of the lines that stay word for word: their messages are not repeated."""
    transcript_path: str = ""  # the file that still holds all of it
    importance: ImportanceSettings = DEFAULT_IMPORTANCE
    rule_choices: RuleChoices = NO_RULE_CHOICES
    quoted: tuple[Entry, ...] = ()
    """Of what leaves the newest lines of a turn that is open: they cannot stay, and are quoted."""


def extract_facts(
    source: ExtractionSource, previous_facts: Sequence[SummaryFact] = ()
) -> tuple[SummaryFact, ...]:
    """Extract all facts of a conversation, and merge those of an earlier summary unchanged.

    The state of files, todos, errors and running jobs is the one at the end, including the
    retained tail: what the tail finishes is not listed as open (compaction.md 4.2, Q13).
    """
    entries = source.entries
    removed = [entry for entry in entries if entry.offset not in source.kept_offsets]
    requests = key_messages.request_facts(entries)
    removed_lines = {entry.line for entry in removed}
    known = artifacts.collect_artifacts(entries)
    todos = TodoList()
    for entry in entries:
        for part in entry.parts:
            todos.add_part(part, entry.line)
    facts = [
        *_goal_facts(requests, previous_facts),
        *(request for request in requests if request.line in removed_lines),
        *_constraint_facts(source),
        *(
            make_fact(FactKind.DECISION, f'"{quote.text}"', quote.line, 0.8 - penalty)
            for quote, penalty in _with_age_penalties(known.decisions)
        ),
        *_file_facts(entries, previous_facts),
        *_error_facts(entries),
        *_todo_facts(todos),
        *_check_facts(entries),
        *(
            make_fact(
                FactKind.RUNNING, f"{job.kind} {job.job_id}: {job.task}", job.line, 0.98, job.job_id
            )
            for job in tool_outcomes.list_running_jobs(entries)
        ),
        *_anchor_facts(source, removed),
        *step_facts(source.quoted),
        # Of an open turn nothing stays, and what its results name was not referred to yet.
        *_name_facts(removed, known, 0 if source.quoted else MIN_REFERENCES),
        *_next_step_facts(source, todos.open, requests, previous_facts),
        *_hint_facts(source, removed),
    ]
    dropped = dropped_rule_keys(entries, source.transcript_path, source.rule_choices)
    return tuple(
        fact
        for fact in merge_facts(_drop_outdated(previous_facts, facts), facts)
        if fact.kind is not FactKind.CONSTRAINT or rule_key(fact.key) not in dropped
    )


def _drop_outdated(old: Sequence[SummaryFact], new: Sequence[SummaryFact]) -> list[SummaryFact]:
    """Leave out of an earlier summary what has a state that only the newest list knows."""
    outdated = {FactKind.NEXT, FactKind.STEP, FactKind.HINT, FactKind.GOAL}
    outdated |= {fact.kind for fact in new} & {FactKind.TODO, FactKind.RUNNING}
    done = {fact.key for fact in new if fact.kind is FactKind.DONE}
    # An anchor may be quoted again from the transcript.
    anchors = {fact.text for fact in new if fact.kind is FactKind.ANCHOR}
    return [
        fact
        for fact in old
        if fact.kind not in outdated
        and fact.key not in done
        and not (fact.kind is FactKind.ANCHOR and fact.text in anchors)
    ]


def _constraint_facts(source: ExtractionSource) -> list[SummaryFact]:
    """Return the rules that a compaction carries, newest first."""
    rules = session_rules(source.entries, source.transcript_path, source.rule_choices)
    return sorted(rule_facts(carried_rules(rules)), key=lambda fact: -fact.line)


FIRST_REQUEST: Final = "First request"
CURRENT_REQUEST: Final = "Current request"


def _goal_facts(
    requests: Sequence[SummaryFact], previous: Sequence[SummaryFact]
) -> list[SummaryFact]:
    """State the task: the first and the current request, else what earlier summaries say of it."""
    handed = {fact.key: fact for fact in previous if fact.kind is FactKind.GOAL}
    asked = [*(fact for fact in previous if fact.kind is FactKind.PROMPT), *requests]
    goals = [*zip((FIRST_REQUEST, CURRENT_REQUEST), [*asked[:1], *asked[1:][-1:]], strict=False)]
    found = {name: _goal_fact(name, request) for name, request in goals}
    if FIRST_REQUEST in handed:
        if requests:
            found[CURRENT_REQUEST] = _goal_fact(CURRENT_REQUEST, requests[-1])
        found = handed | found | {FIRST_REQUEST: handed[FIRST_REQUEST]}
    if not found and (stated := find_stated(previous, TASK_TITLES, GOAL_CHARS)):
        text = f'{FIRST_REQUEST}, as an earlier summary states it: "{stated}"'
        return [make_fact(FactKind.GOAL, text, 0, GOAL_WEIGHT, FIRST_REQUEST)]
    return [replace(goal, weight=GOAL_WEIGHT) for goal in found.values()]


def _goal_fact(name: str, request: SummaryFact) -> SummaryFact:
    given = key_messages.GIVEN_TASK.fullmatch(request.text)
    sender, words = (f", from {given[1]}", given[2]) if given else ("", request.text)
    text = f'{name}{sender}: "{quote_line(words, GOAL_CHARS)}"'
    return make_fact(FactKind.GOAL, text, request.line, GOAL_WEIGHT, name)


def _with_age_penalties(newest_first: Sequence[ItemT]) -> list[tuple[ItemT, float]]:
    count = len(newest_first)
    return [(item, _AGE_PENALTY * (rank / count)) for rank, item in enumerate(newest_first)]


def _file_facts(entries: Sequence[Entry], earlier: Sequence[SummaryFact]) -> list[SummaryFact]:
    described = (
        tool_outcomes.parse_file_description(fact.text, fact.line)
        for fact in earlier
        if fact.kind is FactKind.FILE
    )
    states = tool_outcomes.list_file_activity(entries, [file for file in described if file])
    facts = []
    for rank, state in enumerate(states):
        age = rank / len(states)
        # All that was changed comes before what was said about it (Q7).
        weight = 0.94 - 0.04 * age if state.is_changed else 0.7 - _AGE_PENALTY * age
        shown = state if rank < MAX_FILES_WITH_COMMAND else replace(state, command="")
        text = tool_outcomes.describe_file(shown)
        facts.append(make_fact(FactKind.FILE, text, state.line, weight, state.path))
    return facts


def _error_facts(entries: Sequence[Entry]) -> list[SummaryFact]:
    failures = tool_outcomes.list_failed_calls(entries)[::-1]
    return [
        make_fact(
            FactKind.ERROR,
            tool_outcomes.describe_failure(failure),
            failure.line,
            (0.85 if failure.resolved_line is None else 0.65) - penalty,
            f"{failure.call}: {failure.error_line}",
        )
        for failure, penalty in _with_age_penalties(failures)
    ]


def _todo_facts(todos: TodoList) -> list[SummaryFact]:
    weighted = [
        (FactKind.TODO, todo, 0.97 if todo.status == IN_PROGRESS else 0.95) for todo in todos.open
    ]
    weighted += [(FactKind.DONE, todo, 0.45) for todo in todos.closed]
    return [
        make_fact(kind, f"[{todo.status}] {todo.text}", todo.line, weight, todo.text)
        for kind, todo, weight in weighted
    ]


def _check_facts(entries: Sequence[Entry]) -> list[SummaryFact]:
    last: dict[str, SummaryFact] = {}
    for call, result, line in artifacts.tool_results(entries):
        if call is result or call.name not in tool_outcomes.SHELL_TOOLS:
            continue
        command = str(artifacts.parse_tool_input(call).get("command") or "")
        if CHECK_COMMAND.search(command):
            outcome = tool_outcomes.describe_check(command, result)
            shown = quote_line(replace_angle_brackets(command), tool_outcomes.COMMAND_CHARS)
            last.pop(shown, None)
            last[shown] = make_fact(FactKind.DONE, f"`{shown}` {outcome}", line, 0.75, shown)
    return list(reversed(last.values()))


def _anchor_facts(source: ExtractionSource, removed: Sequence[Entry]) -> list[SummaryFact]:
    """Return the text of anchors: the model's own, which no other list holds, and marked ones.

    What is marked stays whole, and is the last to go (2.2.2, 003-28).
    """
    importance = source.importance
    quoted = {entry.offset for entry in source.quoted}
    candidates = [
        message
        for message in group_messages(list(removed))
        if importance.has_marker(message.parts)
        or any(
            part.kind is PartKind.TEXT and part.text.strip()
            for entry in message.entries
            for part in entry.parts
            if entry.offset not in quoted
        )
    ]
    facts = []
    for message in key_messages.find_anchors(candidates, importance):
        text = "\n".join(
            part.text for part in message.parts if part.kind in key_messages.MARKED_KINDS
        ).strip()
        is_marked, score = importance.has_marker(message.parts), importance.score(message.parts)
        is_whole = is_marked or len(text) <= ANCHOR_CHARS
        shown = text if is_whole else f"…{text[-ANCHOR_CHARS:]}"
        weight = MARKED_WEIGHT if is_marked else 0.4 + 0.3 * score
        fact = make_fact(FactKind.ANCHOR, shown, message.entries[0].line, weight, message.key)
        facts.append(replace(fact, score=score))
    return sorted(facts, key=lambda fact: fact.line)


def _name_facts(
    removed: Sequence[Entry], known: Artifacts, min_references: int
) -> list[SummaryFact]:
    """List the names that matter, by how many lines of the person and the model refer to them.

    Those are what was defined or edited, what is in an error, what the person named, and what
    the model itself referred to in so many lines; with 0 also what only results name. A plain word
    that was quoted (`want`) is a name only if the person or the work names it.
    """
    ranks = {name.text: rank for rank, name in enumerate(known.names)}
    important = _named_by_work(removed)
    references: Counter[str] = Counter()
    secrets: set[str] = set()
    for entry in removed:
        refers: dict[str, bool] = {}
        for part in entry.parts:
            text = f"{part.path or ''}\n{part_text(part)}"
            secrets |= find_secrets(text)
            for name in _names_in(text):
                if name in important or not _PLAIN_WORD.fullmatch(name):
                    refers[name] = refers.get(name, False) or part.kind in _REFERRING_KINDS
        references.update({name: int(is_referred) for name, is_referred in refers.items()})
    newest = {name: -place for place, name in enumerate(references)}
    names = sorted(
        references,
        key=lambda name: (-references[name], ranks.get(name, len(ranks)), newest[name]),
    )
    shown = [
        name
        for name in names
        # A hash that nobody refers to has no meaning, and a comma separates the names of a list.
        if (references[name] or not _HASH.fullmatch(name))
        and (name in important or references[name] >= min_references)
        and ", " not in name
        and not contains_secret(name)
        and not any(name in secret for secret in secrets)
    ][:MAX_NAMES]
    return [
        make_fact(FactKind.NAME, name, 0, 0.4 - penalty)
        for name, penalty in _with_age_penalties(shown)
    ]


def _named_by_work(removed: Sequence[Entry]) -> frozenset[str]:
    """Find what was defined or edited, what failed, and what the person named."""
    changing = artifacts.EDIT_TOOLS | artifacts.WRITE_TOOLS
    names: set[str] = set()
    for entry in removed:
        for part in entry.parts:
            if part.kind is PartKind.PROMPT:
                names.update(_names_in(prompt_excerpt(part.text)))
            elif part.kind is PartKind.TOOL_RESULT and part.failed:
                in_error = _names_in(part.text[-ERROR_CHARS:])
                names.update(name for name in in_error if not _PLAIN_WORD.fullmatch(name))
            elif part.kind is PartKind.TOOL_INPUT and part.name in changing:
                for field, text in artifacts.input_texts(artifacts.parse_tool_input(part)):
                    if field in artifacts.FILE_TEXT_FIELDS:
                        names |= find_declarations(text[: artifacts.FILE_TEXT_CHARS])
                names.update(_names_in(part.path or ""))
    return frozenset(names)


def _names_in(text: str) -> set[str]:
    return {name.strip("'") for name in find_names_and_facts(text, split_words(text))}


def _next_step_facts(
    source: ExtractionSource,
    todos: Sequence[Todo],
    requests: Sequence[SummaryFact],
    previous: Sequence[SummaryFact],
) -> list[SummaryFact]:
    """Name the next step, always; quote the last words unless the kept tail holds them."""
    step = find_next_step(source.entries, todos, requests)
    if step is None:
        stated = find_stated(previous, NEXT_TITLES, STEP_CHARS)
        words = f'"{stated}", as an earlier summary states it' if stated else NO_REQUEST
        step = words, 0
    text, line = step
    text += _waiting(source.entries)
    quoted = {entry.offset for entry in source.quoted}
    last_words = _last_words(source.entries, source.kept_offsets | quoted)
    return [make_fact(FactKind.NEXT, f"Next step: {text}", line, 0.97, "next step"), *last_words]


def _last_words(entries: Sequence[Entry], kept: frozenset[int]) -> list[SummaryFact]:
    answer = _last_answer(entries)
    if answer is None or answer[0].offset in kept:
        return []
    entry, text = answer
    end = " ".join(text[-2 * GOAL_CHARS :].split())[-GOAL_CHARS:]
    quoted = f'The last words before the cut: "…{end}"'
    return [make_fact(FactKind.NEXT, quoted, entry.line, 0.96, "last words")]


def _hint_facts(source: ExtractionSource, removed: Sequence[Entry]) -> list[SummaryFact]:
    if not source.transcript_path or not removed:
        return []
    first, last = min(entry.line for entry in removed), max(entry.line for entry in removed)
    hint = (
        f"All that was removed is still in {source.transcript_path}, lines {first} to {last},"
        " one JSON object a line; [L…] names the line of each item. Read there, or read a file"
        " again, before you rely on a detail that is not here."
    )
    return [make_fact(FactKind.HINT, hint, 0, 1.0, "transcript")]
