"""Which operations a plan gets, least severe first, and what would help where they fall short."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from ..measure.models import LARGE_WINDOW, SMALL_WINDOW
from ..transcript.parent_chain import retained_uuids
from .plan import (
    DEFAULT_MAX_SEVERITY,
    AppendLine,
    Operation,
    Refusal,
    RemoveLine,
    ReplaceValue,
    Severity,
)
from .protection import mark_protected
from .strategies.reasoning import (
    binds_thinking,
    drop_thinking_after,
    has_open_call,
    list_thinking_after,
)
from .strategies.strategy_registry import STRATEGIES, CompactionStrategy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from .protection import ProtectionLimits
    from .transcript_view import TranscriptView


MIN_SAVED_OF_WINDOW: Final = 0.05
"""What frees less is not worth a cold cache: 10,000 tokens of a window of 200,000. The 20,000
that others ask for (opencode) refused every fourth session near its trigger."""

MIN_SAVED_OF_CONTEXT: Final = 0.1
"""Of a context that fills little of a large window so much is enough (compaction.md 7.5)."""

LET_SESSION_GROW: Final = "let the session grow"
"""What to do where nothing that could be allowed frees enough."""


class SelectionOptions(msgspec.Struct, frozen=True):
    """What a person asked for."""

    max_level: Severity = Severity.SUPERSEDED
    """The most that may be taken; the bound thoughts of rule T beside it."""
    strategies: tuple[str, ...] = ()
    """Only these; all of the levels where none is named."""
    target_tokens: int | None = None
    """Of the context, to stop at; None takes all there is."""
    window_tokens: int | None = None
    """Of the model; None for the smallest common one that holds the context."""


class OperationSelection(msgspec.Struct, frozen=True):
    """The operations of one batch, in the order of their lines."""

    operations: tuple[Operation, ...]
    tokens_before: int
    """Tokens before the first change of the context; the whole context where there is none."""
    refusals: tuple[Refusal, ...] = ()


def select_operations(view: TranscriptView, options: SelectionOptions) -> OperationSelection:
    """Choose operations, with what follows from them."""
    return complete_selection(view, choose_operations(view, options))


def choose_operations(view: TranscriptView, options: SelectionOptions) -> list[Operation]:
    """Choose operations; those that make only the file smaller come where nothing else was asked.

    Within a level late and large ones come first: they keep most of the prompt cache.
    """
    chosen: list[Operation] = []
    claimed = _ClaimedValues()
    left = None if options.target_tokens is None else view.tokens - options.target_tokens
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


def min_saved_tokens(context_tokens: int, window_tokens: int | None) -> int:
    """Return the fewest tokens that a plan for a context of this size must free."""
    common = SMALL_WINDOW if context_tokens <= SMALL_WINDOW else LARGE_WINDOW
    enough = max(MIN_SAVED_OF_CONTEXT * context_tokens, MIN_SAVED_OF_WINDOW * SMALL_WINDOW)
    return round(min(MIN_SAVED_OF_WINDOW * (window_tokens or common), enough))


def check_saving(
    context_tokens: int, operations: Iterable[Operation], window_tokens: int | None = None
) -> Refusal | None:
    """Refuse what frees too little; None where it is enough."""
    saved = sum(each.tokens_saved for each in operations)
    least = min_saved_tokens(context_tokens, window_tokens)
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
    for edit in _line_edits(operation):
        pointer = edit.pointer if isinstance(edit, ReplaceValue) else ""
        yield edit.line, "/".join(pointer.split("/")[:4])


def _enabled_strategies(options: SelectionOptions) -> list[CompactionStrategy]:
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
    lines = {edit.line for each in chosen if each.tokens_saved for edit in _line_edits(each)}
    if not lines or not binds_thinking(view.model):
        return chosen, []
    if any(each.level is Severity.REASONING for each in chosen):
        return chosen, []
    first = min(each.index for each in view.blocks if each.line in lines)
    if not list_thinking_after(view, first):
        return chosen, []
    dropped = list(drop_thinking_after(view, first))
    if not dropped or has_open_call(view):
        return chosen, [_BOUND_THINKING]
    return _put_first(dropped, chosen), []


def _put_first(first: list[Operation], others: list[Operation]) -> list[Operation]:
    """Put some operations first; others that change the same values are dropped."""
    claimed = _ClaimedValues()
    return [*claimed.unclaimed(first), *claimed.unclaimed(others)]


_BOUND_THINKING: Final = Refusal(
    "thinking",
    "the model's newest thoughts hold only behind an unchanged conversation, and they must stay",
    "let the session finish its turn first, or make only the file smaller: --level 0",
)


def _line_edits(operation: Operation) -> Iterator[ReplaceValue | RemoveLine]:
    return (edit for edit in operation.edits if not isinstance(edit, AppendLine))


MIN_ADVISED_TURNS: Final = 3
"""Of turns to keep: fewer leave the model no notion of what it is doing."""


def suggest_options(
    view: TranscriptView, options: SelectionOptions, protection: ProtectionLimits
) -> str:
    """Return what to allow so that a plan frees enough, least harm first.

    Each way is planned for that, so it takes as long as a plan. Raises OSError.
    """
    least = min_saved_tokens(view.tokens, options.window_tokens)
    for said, wider, kept in _wider_options(options, protection):
        freed = _tokens_freed(view, wider, kept)
        if freed >= max(1, least):
            return f"{said}: frees ≈ {freed:,} tokens"
    return LET_SESSION_GROW


def _wider_options(
    options: SelectionOptions, protection: ProtectionLimits
) -> Iterator[tuple[str, SelectionOptions, ProtectionLimits]]:
    whole = replace(options, target_tokens=None)
    if options.target_tokens is not None:
        yield "stop later (a smaller --target)", whole, protection
    levels = (
        []
        if options.strategies
        else [each for each in Severity if options.max_level < each < Severity.SUMMARY]
    )
    ways = [
        (
            f"allow level {each.value} (--level {each.value})",
            replace(whole, max_level=each),
            protection,
        )
        for each in levels
        if each is not Severity.FILE_ONLY
    ]
    mild = sum(each <= DEFAULT_MAX_SEVERITY for each in levels)
    yield from ways[:mild]
    if protection.min_turns > MIN_ADVISED_TURNS:
        said = f"keep {MIN_ADVISED_TURNS} turns (--keep {MIN_ADVISED_TURNS})"
        yield said, whole, replace(protection, min_turns=MIN_ADVISED_TURNS)
    yield from ways[mild:]


def _tokens_freed(
    view: TranscriptView, options: SelectionOptions, protection: ProtectionLimits
) -> int:
    slots = mark_protected(view.blocks, retained_uuids(view.entries), protection)
    selection = select_operations(view.with_blocks(slots), options)
    return 0 if selection.refusals else sum(each.tokens_saved for each in selection.operations)
