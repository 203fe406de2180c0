"""A plan that reaches its target: levels 2 to 4 first, then the oldest turns are condensed."""

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace as replace_field
from functools import cached_property
from typing import Final

import msgspec
from msgspec.structs import replace

from ..model.conversation import Entry, PartKind, newest_model
from ..summaries.key_messages import DEFAULT_IMPORTANCE, ImportanceSettings
from ..summaries.mentions import split_words
from ..transcript.visible_messages import behind_bound_answer
from . import plan as plans
from .edit_builder import iter_strings
from .plan import (
    CONDENSE,
    EscalationStep,
    Operation,
    PlanOptions,
    Refusal,
    RemoveLine,
    ReplaceValue,
    Severity,
)
from .protection import tail_start
from .rewritten_lines import apply_replacements
from .strategies.condense import LOST_WEIGHT, CondensedTurns, TurnCondenser
from .strategies.summary_and_cut import (
    UNFINISHED_TURN,
    Conversation,
    make_boundary_operation,
    tokens_behind_boundary,
)
from .transcript_planning import choose_operations, complete_selection, target_of
from .transcript_reading import add_lowered_usage
from .transcript_view import TranscriptView, VisibleBlock

SHORTER_TAILS: Final = ((5, 15_000), (3, 8_000), (0, 4_000))
"""Turns with tools, and tokens, that stay if the target is out of reach otherwise: near the end
of a window of 200,000 the usual 10 turns can fill all that the target leaves."""


MOST_LOST_WEIGHT: Final = 0.03
"""Share of the names' weight that a digest leaves out if it reaches the target only then."""


class CondensedPlan(msgspec.Struct, frozen=True):
    operations: tuple[Operation, ...]
    steps: tuple[EscalationStep, ...]


class _Candidate(msgspec.Struct, frozen=True):
    """What is left if a number of turns is condensed and the rest is edited."""

    turns: int
    condensed: CondensedTurns
    retained: tuple[Entry, ...]
    edits: tuple[Operation, ...]  # of what is retained
    after_tokens: int  # of the whole context


def plan_condensed(
    conversation: Conversation,
    view: TranscriptView,
    options: PlanOptions,
    importance: ImportanceSettings = DEFAULT_IMPORTANCE,
) -> CondensedPlan | Refusal:
    """Plan to reach the target with as little harm as possible.

    Levels 2 to 4 alone, if they reach it. Otherwise as few of the oldest turns as the target
    needs become a digest, and what stays gets the edits of levels 2 to 4. A target that cannot
    be reached is missed by as little as possible; the operation says why.
    """
    return _Escalation(conversation, view, options, importance).plan()


class _Escalation:
    def __init__(
        self,
        conversation: Conversation,
        view: TranscriptView,
        options: PlanOptions,
        importance: ImportanceSettings,
    ) -> None:
        self._conversation: Final = conversation
        self._view: Final = view
        aim = target_of(view, options) or plans.default_target(view.window_tokens)
        self._aim: Final = aim
        self._target: Final = aim.tokens
        self._by_level: Final = replace(
            options,
            strategies=(),
            level=plans.DEFAULT_MAX_SEVERITY.value,
            target=aim.share,
        )
        starts = [tail_start(view.blocks, tail) for tail in _protected_tails(options)]
        places = {entry.offset: n for n, entry in enumerate(conversation.visible_entries)}
        self._limits: Final = [
            places[view.blocks[start].entry.offset] if start < len(view.blocks) else len(places)
            for start in starts
        ]
        sent = conversation.visible_entries
        self._bound: Final = behind_bound_answer(sent, newest_model(sent))
        """Where the answer ends whose thinking has to stay with all before it, or to go with it."""
        may_end_turn = self._bound and options.keep is None
        limits = [*self._limits, self._bound, len(sent)] if may_end_turn else self._limits
        self._condenser: Final = TurnCondenser(conversation, view, limits, importance)
        self._saved_by_line: Final = Counter[int]()  # by all that levels 2 to 4 can do

    def plan(self) -> CondensedPlan | Refusal:
        view, target = self._view, self._target
        if view.tokens <= target:
            return plans.target_refusal(view.tokens, self._aim)
        selection = complete_selection(view, choose_operations(view, self._by_level))
        saved = sum(each.tokens_saved for each in selection.operations)
        if view.tokens - saved <= target:
            operations = add_lowered_usage(view, selection.operations)
            return CondensedPlan(operations, self._steps(selection.operations, None))
        for operation in selection.operations:
            self._saved_by_line[operation.line or 0] += operation.tokens_saved
        turns = self._condenser.turns
        if all(turn.is_summary for turn in turns):
            return _NOTHING_TO_CONDENSE
        if turns[-1].end < self._bound:
            return _MUST_KEEP_TURN
        return self._condensed(self._find_candidate())

    def _condensed(self, found: _Candidate) -> CondensedPlan | Refusal:
        condensed = found.condensed
        if condensed.is_too_long:
            return _too_long(condensed)
        saved = sum(each.tokens_saved for each in found.edits)
        count, messages = condensed.new_sections, len(found.retained)
        what = (
            f"the oldest {'turn' if count == 1 else f'{count} turns'} → a digest of"
            f" ≈ {condensed.new_tokens:,} tokens, {messages} lines kept"
        )
        operation = make_boundary_operation(
            self._conversation,
            condensed.text,
            found.retained,
            Severity.SUMMARY,
            (CONDENSE, what, self._outcome(found)),
            freed_otherwise=saved,
        )
        return CondensedPlan(
            (*found.edits, operation), self._steps(found.edits, (found, operation))
        )

    def _find_candidate(self) -> _Candidate:
        """Find the fewest turns that reach the target; if none do, what comes closest to it.

        A digest that is too long for what it replaces is chosen only if all are.
        """
        most = len(self._condenser.turns)
        # Condensing a further turn hardly ever makes the context larger.
        short = bisect_left(range(most - 1), -self._target, key=lambda n: -self._estimate(n + 1))
        short = max(short, sum(turn.end < self._bound for turn in self._condenser.turns))
        found: list[_Candidate] = []
        step = 1
        while short < most:
            # An estimate that was too low is made up for by ever larger steps.
            found.append(self._candidate(min(short + step, most)))
            if self._is_reached(found[-1]):
                return self._fewer_turns(short, found[-1])
            short, step = found[-1].turns, 2 * step
        closest = min(found, key=lambda each: (each.condensed.is_too_long, each.after_tokens))
        with_fewer_names = self._candidate(closest.turns, MOST_LOST_WEIGHT)
        return with_fewer_names if self._is_reached(with_fewer_names) else closest

    def _is_reached(self, candidate: _Candidate) -> bool:
        return candidate.after_tokens <= self._target and not candidate.condensed.is_too_long

    def _fewer_turns(self, short: int, found: _Candidate) -> _Candidate:
        """Find a candidate with fewer turns that reaches the target; `short` turns do not."""
        while found.turns - short > 1:
            middle = self._candidate((short + found.turns) // 2)
            if self._is_reached(middle):
                found = middle
            else:
                short = middle.turns
        return found

    def _estimate(self, count: int) -> int:
        """Estimate the context after condensing, as if its edits were those of the whole."""
        retained = self._condenser.retained_behind(count)
        condensed = self._condenser.condense(count, self._words_of(retained))
        saved = sum(self._saved_by_line[entry.line] for entry in retained)
        return self._tokens_after(condensed, retained) - saved

    def _candidate(self, count: int, lost_weight: float = LOST_WEIGHT) -> _Candidate:
        retained = self._condenser.retained_behind(count)
        before_edits = self._condenser.condense(count, self._words_of(retained))
        tokens = self._tokens_after(before_edits, retained)
        edits = self._edits_of(retained, tokens)
        # An edit of what stays can take away a name: then the digest mentions it.
        words = self._words_after(retained, edits)
        condensed = self._condenser.condense(count, words, lost_weight)
        saved = sum(each.tokens_saved for each in edits)
        after = self._tokens_after(condensed, retained) - saved
        return _Candidate(count, condensed, retained, edits, after)

    def _tokens_after(self, condensed: CondensedTurns, retained: Sequence[Entry]) -> int:
        behind = tokens_behind_boundary(self._conversation, condensed.text, retained)
        return self._view.overhead_tokens + behind

    def _edits_of(self, retained: Sequence[Entry], tokens: int) -> tuple[Operation, ...]:
        """Choose the edits of what stays; nothing there may refer to what is condensed."""
        offsets = {entry.offset for entry in retained}
        blocks = list(
            _renumbered(each for each in self._view.blocks if each.entry.offset in offsets)
        )
        rest = tokens - sum(block.tokens for block in blocks)
        view = replace_field(self._view, blocks=blocks, overhead_tokens=rest)
        return tuple(sorted(choose_operations(view, self._by_level), key=lambda op: op.line or 0))

    def _words_of(self, entries: Iterable[Entry]) -> set[str]:
        names = self._condenser.names
        return names.words_of(self._place_of[entry.offset] for entry in entries)

    def _words_after(self, entries: Sequence[Entry], edits: Sequence[Operation]) -> set[str]:
        """Return the names that entries mention once some of their lines are edited."""
        edited = _words_of_edited_lines(self._view, edits)
        words = self._words_of(entry for entry in entries if entry.line not in edited)
        return words.union(*edited.values()) & self._condenser.names.weights.keys()

    @cached_property
    def _place_of(self) -> dict[int, int]:
        return {entry.offset: place for place, entry in enumerate(self._condenser.sent)}

    def _steps(
        self, edits: Sequence[Operation], condensed: tuple[_Candidate, Operation] | None
    ) -> tuple[EscalationStep, ...]:
        """Describe what each level frees, and which names are gone after it."""
        steps = []
        known = len(self._condenser.names.weights)
        levels = {each.level for each in edits if each.level is not Severity.FILE_ONLY}
        for level in sorted(levels):
            until = [each for each in edits if each.level <= level]
            left = self._words_after(self._condenser.sent, until)
            saved = sum(each.tokens_saved for each in edits if each.level is level)
            steps.append(EscalationStep(level, saved, known - len(left), known))
        if condensed:
            found, operation = condensed
            left = self._words_after(found.retained, found.edits) | (
                split_words(found.condensed.text) & self._condenser.names.weights.keys()
            )
            saved = operation.tokens_saved
            steps.append(EscalationStep(operation.level, saved, known - len(left), known))
        return tuple(steps)

    def _outcome(self, found: _Candidate) -> str:
        """Describe the size that is left, and what takes most of it if it misses the target."""
        above = found.after_tokens - self._target
        if not self._target:
            return f"≈ {found.after_tokens:,} tokens stay" + self._shorter_tail(found)
        if above <= 0:
            within = f"≈ {found.after_tokens:,} tokens stay, within {self._aim.description}"
            return within + self._shorter_tail(found)
        newest = self._conversation.tokens(found.retained)
        newest -= sum(each.tokens_saved for each in found.edits)
        words, recent_words = found.condensed.words_tokens, self._words_tokens(found.retained)
        parts = {
            "the system prompt and the tools": self._view.overhead_tokens,
            "your own words": words + recent_words,
            "the newest turns": newest - recent_words,
            "the other lines of the digest": found.condensed.tokens - words,
        }
        name, tokens = max(parts.items(), key=lambda part: part[1])
        why = f"{above:,} tokens above {self._aim.description}: {name} take {tokens:,}"
        return why + self._shorter_tail(found)

    def _words_tokens(self, entries: Iterable[Entry]) -> int:
        parts = (part for entry in entries for part in entry.parts)
        count = self._conversation.count_tokens
        return sum(count(part) for part in parts if part.kind is PartKind.PROMPT)

    def _shorter_tail(self, found: _Candidate) -> str:
        """Return a note if fewer of the newest turns stay than usual; empty if not."""
        end = self._condenser.turns[found.turns - 1].end
        if 0 < self._bound <= end:
            return "; the unfinished turn is condensed too: its thinking is valid only after it all"
        is_shorter = end > self._limits[0]
        return "; less of the newest turns is kept whole than usual" if is_shorter else ""


def _protected_tails(options: PlanOptions) -> Iterator[PlanOptions]:
    """Yield how much of the newest turns stays: as in a plan by levels, then less and less.

    Nothing beyond what a person asked to keep is given up.
    """
    yield options
    for turns, tokens in SHORTER_TAILS if options.keep is None else ():
        yield replace(options, keep=turns, min_tail_tokens=tokens, max_task_tokens=tokens)


def _renumbered(blocks: Iterable[VisibleBlock]) -> Iterator[VisibleBlock]:
    position = 0
    for index, block in enumerate(blocks):
        yield replace(block, index=index, tokens_before=position)
        position += block.tokens


def _words_of_edited_lines(
    view: TranscriptView, operations: Iterable[Operation]
) -> dict[int, frozenset[str]]:
    """Map the numbers of lines that operations change to the words that they hold then."""
    edits: dict[int, list[ReplaceValue]] = {}
    words: dict[int, frozenset[str]] = {}
    for edit in plans.edits_of(operations):
        if isinstance(edit, ReplaceValue):
            edits.setdefault(edit.line, []).append(edit)
        elif isinstance(edit, RemoveLine):
            words[edit.line] = frozenset()
    for line, replaced in edits.items():
        after = json.loads(apply_replacements(view.line_bytes(line), replaced))
        texts = (text for name in _SENT_FIELDS for _, text in iter_strings(after.get(name), ""))
        words.setdefault(line, split_words("\n".join(texts)))
    return words


_SENT_FIELDS: Final = ("message", "attachment", "content")  # of a line: what the model is sent

_NOTHING_TO_CONDENSE: Final = Refusal(
    "too_few",
    "no turn is older than the newest ones, which stay as they are",
    "keep fewer turns (--keep), or wait until the session has grown",
)


_MUST_KEEP_TURN: Final = replace(
    UNFINISHED_TURN, what_to_do="omit --keep: the digest then holds that turn too"
)


def _too_long(condensed: CondensedTurns) -> Refusal:
    return Refusal(
        "digest_longer",
        f"a digest of ≈ {condensed.new_tokens:,} tokens would replace ≈"
        f" {condensed.removed_tokens:,}: your own words alone take ≈ {condensed.words_tokens:,}",
        "use --level 6, which shortens long pastes, or --strategy cut or revert",
    )
