"""Which operations a plan has: least harm first, and no more than reach the target."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from ..models import LARGE_WINDOW, SMALL_WINDOW
from .plan import Append, Harm, Operation, Refusal, Remove, Replace
from .registered import STRATEGIES, Strategy
from .strategies.thinking_after import binds_thinking, find_after
from .thoughts import is_open, thoughts_after

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from .view import View

LEAST_OF_WINDOW: Final = 0.05
"""What frees less is not worth a cold cache: 10,000 tokens of a window of 200,000. The 20,000
that others ask for (opencode) refused every fourth session near its trigger."""

LEAST_OF_CONTEXT: Final = 0.1
"""Of a context that fills little of a large window so much is enough (compaction.md 7.5)."""

GROW: Final = "let the session grow"
"""What to do where nothing that could be allowed frees enough."""


class Aim(msgspec.Struct, frozen=True):
    """What a person asked for."""

    max_level: Harm = Harm.SUPERSEDED
    """The most that may be taken; the bound thoughts of rule T beside it."""
    strategies: tuple[str, ...] = ()
    """Only these; all of the levels where none is named."""
    target_tokens: int | None = None
    """Of the context, to stop at; None takes all there is."""
    window_tokens: int | None = None
    """Of the model; None for the smallest common one that holds the context."""


class Selection(msgspec.Struct, frozen=True):
    """The operations of one batch, in the order of their lines."""

    operations: tuple[Operation, ...]
    tokens_before: int
    """Tokens before the first change of the context; the whole context where there is none."""
    refusals: tuple[Refusal, ...] = ()


def select(view: View, options: Aim) -> Selection:
    """Choose operations, with what follows from them."""
    return bind(view, choose(view, options))


def choose(view: View, options: Aim) -> list[Operation]:
    """Choose operations; those that make only the file smaller come where nothing else was asked.

    Within a level late and large ones come first: they keep most of the prompt cache.
    """
    chosen: list[Operation] = []
    claimed = _Claims()
    left = None if options.target_tokens is None else view.tokens - options.target_tokens
    wanted = _wanted(options)
    for level in sorted({each.level for each in wanted}):
        if left is not None and left <= 0 and level is not Harm.FILE_ONLY:
            break
        strategies = [each for each in wanted if each.level is level]
        if level is Harm.REASONING:
            thoughts = [op for each in strategies for op in each.find_operations(view)]
            chosen = _before(thoughts, chosen)
            claimed = _Claims(chosen)
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


def bind(view: View, chosen: list[Operation]) -> Selection:
    """Put operations in order, and add the thoughts that do not hold behind them (rule T)."""
    whole, refused = _with_rule_t(chosen, view)
    changed = [_position(each, view) for each in whole if each.tokens_saved]
    ordered = tuple(sorted(whole, key=lambda each: each.line or 0))
    return Selection(ordered, min(changed, default=view.tokens), tuple(refused))


def least_tokens(context_tokens: int, window_tokens: int | None) -> int:
    """Return the fewest tokens that a plan for a context of this size must free."""
    common = SMALL_WINDOW if context_tokens <= SMALL_WINDOW else LARGE_WINDOW
    enough = max(LEAST_OF_CONTEXT * context_tokens, LEAST_OF_WINDOW * SMALL_WINDOW)
    return round(min(LEAST_OF_WINDOW * (window_tokens or common), enough))


def futile(
    context_tokens: int, operations: Iterable[Operation], window_tokens: int | None = None
) -> Refusal | None:
    """Refuse what frees too little; None where it is enough."""
    saved = sum(each.tokens_saved for each in operations)
    least = least_tokens(context_tokens, window_tokens)
    if saved >= least:
        return None
    return Refusal(
        "futile",
        f"it would free {saved:,} tokens, and less than {least:,} do not pay for a cold cache",
        GROW,
    )


class _Claims:
    """Which values are changed already: none is changed by two operations."""

    def __init__(self, operations: Iterable[Operation] = ()) -> None:
        self._claimed: dict[int, list[str]] = {}
        for _ in self.unclaimed(operations):
            pass

    def unclaimed(self, operations: Iterable[Operation]) -> Iterator[Operation]:
        for operation in operations:
            places = list(_places(operation))
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


def _places(operation: Operation) -> Iterator[tuple[int, str]]:
    """Give the blocks that an operation changes, or values outside of a message."""
    for edit in _edits(operation):
        pointer = edit.pointer if isinstance(edit, Replace) else ""
        yield edit.line, "/".join(pointer.split("/")[:4])


def _wanted(options: Aim) -> list[Strategy]:
    if options.strategies:
        return [each for each in STRATEGIES if each.name in options.strategies]
    return [
        each
        for each in STRATEGIES
        if each.level <= options.max_level
        and not each.is_opt_in
        # Two ledgers: what the model never sees does not come with a plan for its context.
        and (each.level is Harm.FILE_ONLY) == (options.max_level is Harm.FILE_ONLY)
    ]


def _best_first(operations: Sequence[Operation], view: View) -> list[Operation]:
    whole = view.tokens
    return sorted(
        operations,
        key=lambda each: each.tokens_saved / max(1, whole - _position(each, view)),
        reverse=True,
    )


def _position(operation: Operation, view: View) -> int:
    return view.overhead_tokens + view.tokens_before_line.get(operation.line or 0, 0)


def _with_rule_t(chosen: list[Operation], view: View) -> tuple[list[Operation], list[Refusal]]:
    """Add the thoughts that do not hold behind the first change (compaction.md 2.5)."""
    lines = {edit.line for each in chosen if each.tokens_saved for edit in _edits(each)}
    if not lines or not binds_thinking(view.model):
        return chosen, []
    if any(each.level is Harm.REASONING for each in chosen):
        return chosen, []
    first = min(each.index for each in view.blocks if each.line in lines)
    if not thoughts_after(view, first):
        return chosen, []
    dropped = list(find_after(view, first))
    if not dropped or is_open(view):
        return chosen, [_BOUND]
    return _before(dropped, chosen), []


def _before(first: list[Operation], others: list[Operation]) -> list[Operation]:
    """Let some operations go before others, which give way where they change the same."""
    claimed = _Claims()
    return [*claimed.unclaimed(first), *claimed.unclaimed(others)]


_BOUND: Final = Refusal(
    "thinking",
    "the model's newest thoughts hold only behind an unchanged conversation, and they must stay",
    "let the session finish its turn first, or make only the file smaller: --level 0",
)


def _edits(operation: Operation) -> Iterator[Replace | Remove]:
    return (edit for edit in operation.edits if not isinstance(edit, Append))
