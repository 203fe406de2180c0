"""All strategies, which of their operations a plan gets, and what helps where they fall short."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final

import msgspec
from msgspec.structs import replace

from ..measure.models import SMALL_WINDOW
from ..transcript.parent_chain import retained_uuids
from .edit_builder import FindOperations, OperationReason
from .plan import (
    DEFAULT_MAX_SEVERITY,
    AppendLine,
    Operation,
    PlanOptions,
    Refusal,
    ReplaceValue,
    Severity,
    changed_lines,
)
from .protection import mark_protected
from .strategies import files, masked, reasoning, redundant
from .strategies.reasoning import (
    binds_thinking,
    drop_thinking_after,
    has_open_call,
    list_thinking_after,
)
from .transcript_view import TranscriptView


class CompactionStrategy(msgspec.Struct, frozen=True):
    name: str
    level: Severity
    find: FindOperations
    is_opt_in: bool = False  # only where it is named

    def find_operations(self, view: TranscriptView) -> Iterator[Operation]:
        because = partial(OperationReason, self.name, self.level)
        return (each for each in self.find(view, because) if each)


STRATEGIES: Final = (
    CompactionStrategy("progress-payloads", Severity.FILE_ONLY, files.find_progress_payloads),
    # Opt-in: what it removes is a way back.
    CompactionStrategy("file-history", Severity.FILE_ONLY, files.find_file_history, is_opt_in=True),
    CompactionStrategy("attribution", Severity.FILE_ONLY, files.find_attribution),
    CompactionStrategy("tool-details", Severity.FILE_ONLY, files.find_tool_details),
    # Opt-in: the summary points the model to these lines.
    CompactionStrategy(
        "before-boundary", Severity.FILE_ONLY, files.find_before_boundary, is_opt_in=True
    ),
    CompactionStrategy("second-images", Severity.FILE_ONLY, files.find_second_images),
    CompactionStrategy("duplicate-results", Severity.LOSSLESS, redundant.find_duplicate_results),
    CompactionStrategy("unchanged-reads", Severity.LOSSLESS, redundant.find_unchanged_reads),
    CompactionStrategy(
        "repeated-attachments", Severity.LOSSLESS, redundant.find_repeated_attachments
    ),
    CompactionStrategy("plain-output", Severity.LOSSLESS, redundant.find_plain_output),
    CompactionStrategy("covered-reads", Severity.SUPERSEDED, redundant.find_covered_reads),
    CompactionStrategy("overwritten-reads", Severity.SUPERSEDED, redundant.find_overwritten_reads),
    CompactionStrategy("reread-edits", Severity.SUPERSEDED, redundant.find_reread_edits),
    CompactionStrategy("old-todos", Severity.SUPERSEDED, redundant.find_old_todos),
    CompactionStrategy("failed-inputs", Severity.SUPERSEDED, redundant.find_failed_inputs),
    CompactionStrategy("repeated-calls", Severity.SUPERSEDED, redundant.find_repeated_calls),
    CompactionStrategy("edited-reads", Severity.MASKED, masked.find_edited_reads),
    CompactionStrategy("old-listings", Severity.MASKED, masked.find_old_listings),
    CompactionStrategy("old-shell-output", Severity.MASKED, masked.find_old_shell_output),
    CompactionStrategy("old-web-pages", Severity.MASKED, masked.find_old_web_pages),
    CompactionStrategy("old-images", Severity.MASKED, masked.find_old_images),
    CompactionStrategy("old-results", Severity.MASKED, masked.find_old_results),
    CompactionStrategy("write-contents", Severity.INPUTS, masked.find_write_contents),
    CompactionStrategy("edit-inputs", Severity.INPUTS, masked.find_edit_inputs),
    CompactionStrategy("heredocs", Severity.INPUTS, masked.find_heredocs),
    CompactionStrategy("agent-prompts", Severity.INPUTS, masked.find_agent_prompts),
    CompactionStrategy(
        reasoning.THINKING_AFTER, Severity.REASONING, reasoning.find_thinking_after_change
    ),
    CompactionStrategy("all-thinking", Severity.REASONING, reasoning.find_all_thinking),
    CompactionStrategy("old-prose", Severity.PROSE, masked.find_old_prose),
    CompactionStrategy("long-pastes", Severity.PROSE, masked.find_long_pastes),
)
"""Least severe first; within a level in the order in which they are asked."""


MIN_SAVED_OF_WINDOW: Final = 0.05
"""What frees less is not worth a cold cache: 10,000 tokens of a window of 200,000. The 20,000
that others ask for (opencode) refused every fourth session near its trigger."""

MIN_SAVED_OF_CONTEXT: Final = 0.1
"""Of a context that fills little of a large window so much is enough (compaction.md 7.5)."""

LET_SESSION_GROW: Final = "let the session grow"
"""What to do where nothing that could be allowed frees enough."""


class OperationSelection(msgspec.Struct, frozen=True):
    """The operations of one batch, in the order of their lines."""

    operations: tuple[Operation, ...]
    tokens_before: int
    """Tokens before the first change of the context; the whole context where there is none."""
    refusals: tuple[Refusal, ...] = ()


def choose_operations(view: TranscriptView, options: PlanOptions) -> list[Operation]:
    """Choose operations; those that make only the file smaller come where nothing else was asked.

    Within a level late and large ones come first: they keep most of the prompt cache.
    """
    chosen: list[Operation] = []
    claimed = _ClaimedValues()
    target = options.target_tokens(view.window_tokens)
    left = None if target is None else view.tokens - target
    wanted = _enabled_strategies(options)
    for level in sorted({each.level for each in wanted}):
        if left is not None and left <= 0 and level is not Severity.FILE_ONLY:
            break
        strategies = [each for each in wanted if each.level is level]
        if level is Severity.REASONING:
            thoughts = [op for each in strategies for op in each.find_operations(view)]
            chosen = _put_first(thoughts, chosen)
            claimed = _ClaimedValues(chosen)
            left = None if left is None else left - sum(each.tokens_saved for each in thoughts)
            continue
        found: list[Operation] = []
        for strategy in strategies:
            some = list(claimed.unclaimed(strategy.find_operations(view)))
            found += some
            for operation in some:
                view.mark_line_changed(operation.line or 0)
        for operation in _best_first(found, view):
            if left is not None and left <= 0 and operation.tokens_saved:
                break
            chosen.append(operation)
            left = None if left is None else left - operation.tokens_saved
    return chosen


def complete_selection(view: TranscriptView, chosen: list[Operation]) -> OperationSelection:
    """Put operations in order, and add the thoughts that do not hold behind them (rule T)."""
    whole, refused = _add_bound_thinking(chosen, view)
    changed = [_tokens_before(each, view) for each in whole if each.tokens_saved]
    ordered = tuple(sorted(whole, key=lambda each: each.line or 0))
    return OperationSelection(ordered, min(changed, default=view.tokens), tuple(refused))


def min_saved_tokens(context_tokens: int, window_tokens: int) -> int:
    """Return the fewest tokens that a plan for a context of this size must free."""
    enough = max(MIN_SAVED_OF_CONTEXT * context_tokens, MIN_SAVED_OF_WINDOW * SMALL_WINDOW)
    return round(min(MIN_SAVED_OF_WINDOW * window_tokens, enough))


def check_saving(view: TranscriptView, operations: Iterable[Operation]) -> Refusal | None:
    """Refuse what frees too little; None where it is enough."""
    saved = sum(each.tokens_saved for each in operations)
    least = min_saved_tokens(view.tokens, view.window_tokens)
    if saved >= least:
        return None
    return Refusal(
        "futile",
        f"it would free {saved:,} tokens, and less than {least:,} do not pay for a cold cache",
        LET_SESSION_GROW,
    )


class _ClaimedValues:
    """Which values are changed already: none is changed by two operations."""

    def __init__(self, operations: Iterable[Operation] = ()) -> None:
        self._claimed: dict[int, list[str]] = {}
        for _ in self.unclaimed(operations):
            pass

    def unclaimed(self, operations: Iterable[Operation]) -> Iterator[Operation]:
        for operation in operations:
            places = list(_changed_values(operation))
            if any(self._is_claimed(line, block) for line, block in places):
                continue
            for line, block in places:
                self._claimed.setdefault(line, []).append(block)
            yield operation

    def _is_claimed(self, line: int, block: str) -> bool:
        taken = self._claimed.get(line, ())
        return any(
            f"{one}/".startswith(f"{block}/") or f"{block}/".startswith(f"{one}/") for one in taken
        )


def _changed_values(operation: Operation) -> Iterator[tuple[int, str]]:
    """Yield the blocks that an operation changes, or values outside of a message."""
    for edit in operation.edits:
        if not isinstance(edit, AppendLine):
            pointer = edit.pointer if isinstance(edit, ReplaceValue) else ""
            yield edit.line, "/".join(pointer.split("/")[:4])


def _enabled_strategies(options: PlanOptions) -> list[CompactionStrategy]:
    if options.strategies:
        return [each for each in STRATEGIES if each.name in options.strategies]
    return [
        each
        for each in STRATEGIES
        if each.level <= options.max_level
        and not each.is_opt_in
        # Two ledgers: what the model never sees does not come with a plan for its context.
        and (each.level is Severity.FILE_ONLY) == (options.max_level is Severity.FILE_ONLY)
    ]


def _best_first(operations: Sequence[Operation], view: TranscriptView) -> list[Operation]:
    whole = view.tokens
    return sorted(
        operations,
        key=lambda each: each.tokens_saved / max(1, whole - _tokens_before(each, view)),
        reverse=True,
    )


def _tokens_before(operation: Operation, view: TranscriptView) -> int:
    return view.overhead_tokens + view.tokens_before_line.get(operation.line or 0, 0)


def _add_bound_thinking(
    chosen: list[Operation], view: TranscriptView
) -> tuple[list[Operation], list[Refusal]]:
    """Add the thoughts that do not hold behind the first change (compaction.md 2.5)."""
    lines = changed_lines(each for each in chosen if each.tokens_saved)
    if not lines or not binds_thinking(view.model):
        return chosen, []
    if any(each.level is Severity.REASONING for each in chosen):
        return chosen, []
    first = min(each.index for each in view.blocks if each.line in lines)
    if not list_thinking_after(view, first):
        return chosen, []
    dropped = drop_thinking_after(view, first)
    if dropped is None or has_open_call(view):
        return chosen, [_BOUND_THINKING]
    return _put_first([dropped], chosen), []


def _put_first(first: list[Operation], others: list[Operation]) -> list[Operation]:
    """Put some operations first; others that change the same values are dropped."""
    claimed = _ClaimedValues()
    return [*claimed.unclaimed(first), *claimed.unclaimed(others)]


_BOUND_THINKING: Final = Refusal(
    "thinking",
    "the model's newest thoughts hold only behind an unchanged conversation, and they must stay",
    "let the session finish its turn first, or make only the file smaller: --level 0",
)


MIN_ADVISED_TURNS: Final = 3
"""Of turns to keep: fewer leave the model no notion of what it is doing."""


def suggest_options(view: TranscriptView, options: PlanOptions) -> str:
    """Return what to allow so that a plan frees enough, least harm first.

    Each way is planned for that, so it takes as long as a plan. Raises OSError.
    """
    least = min_saved_tokens(view.tokens, view.window_tokens)
    for said, wider in _wider_options(options, view.window_tokens):
        freed = _tokens_freed(view, wider)
        if freed >= max(1, least):
            return f"{said}: frees ≈ {freed:,} tokens"
    return LET_SESSION_GROW


def _wider_options(options: PlanOptions, window_tokens: int) -> Iterator[tuple[str, PlanOptions]]:
    whole = replace(options, level=options.max_level, target=None)
    if options.target_tokens(window_tokens) is not None:
        yield "stop later (a smaller --target)", whole
    levels = (
        []
        if options.strategies
        else [each for each in Severity if options.max_level < each < Severity.SUMMARY]
    )
    ways = [
        (f"allow level {each.value} (--level {each.value})", replace(whole, level=each.value))
        for each in levels
        if each is not Severity.FILE_ONLY
    ]
    mild = sum(each <= DEFAULT_MAX_SEVERITY for each in levels)
    yield from ways[:mild]
    if options.min_turns > MIN_ADVISED_TURNS:
        said = f"keep {MIN_ADVISED_TURNS} turns (--keep {MIN_ADVISED_TURNS})"
        yield said, replace(whole, keep=MIN_ADVISED_TURNS)
    yield from ways[mild:]


def _tokens_freed(view: TranscriptView, options: PlanOptions) -> int:
    slots = mark_protected(view.blocks, retained_uuids(view.entries), options)
    fresh = view.with_blocks(slots)
    selection = complete_selection(fresh, choose_operations(fresh, options))
    return 0 if selection.refusals else sum(each.tokens_saved for each in selection.operations)
