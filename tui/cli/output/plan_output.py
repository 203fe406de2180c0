"""A compaction plan for people: what it removes, saves and costs; one operation in full."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from ....core.compaction.plan import CompactionPlan, Operation, Refusal, Severity
from ....core.transcript.sanitize import sanitize_text
from ...tables import Column, TextColumn
from ...text.formats import percent, tokens
from ...text.plan_text import (
    HARM_NAMES,
    OperationChange,
    appended_texts,
    break_even_after,
    read_changes,
    wrap_first_lines,
)
from .printing import (
    clean_line,
    draw_table,
    label_beside,
    labelled_lines,
    paint,
    terminal_width,
    text_bar,
)

MAX_OPERATIONS: Final = 20
"""Operations of a preview (compaction.md 7.2): the largest; `--explain` and `--json` show all."""

SUMMARY_LINES: Final = 30
"""Of a summary's text in a preview; `--explain 1` shows more, `--json` with it all."""

WIDE_COLUMNS: Final = 110
"""Columns from which on there is room for why each one goes: `--explain` says it too."""

MAX_REASONS: Final = 5  # why something stays, the largest first
PREVIEW_BAR_CELLS: Final = 30

NumberedOperation = tuple[int, Operation]  # an operation and its number, which counts from 1
OPERATION_COLUMNS: Final[Sequence[TextColumn[NumberedOperation]]] = (
    Column("op", lambda each: str(each[0]), right=True),
    Column(
        "line",
        lambda each: "" if each[1].line is None else f"{each[1].line:,}",
        right=True,
        priority=1,
    ),
    Column("harm", lambda each: HARM_NAMES[each[1].level], priority=2),
    Column("what", lambda each: each[1].what, flexible=True),
    Column("tokens", lambda each: f"{each[1].tokens_saved:,}", right=True),
    Column("bytes", lambda each: f"{each[1].bytes_saved:,}", right=True, priority=3),
)

_PREVIEW_COLUMNS: Final[Sequence[TextColumn[NumberedOperation]]] = (
    *OPERATION_COLUMNS,
    Column("why", lambda each: each[1].why, flexible=True, priority=4),
)


@dataclass(frozen=True, slots=True)
class _StrategySum:
    """What the operations of a strategy save together; without a level that of all."""

    level: Severity | None
    strategy: str
    operations: Sequence[Operation]


_STRATEGY_COLUMNS: Final[Sequence[TextColumn[_StrategySum]]] = (
    Column("level", lambda each: "" if each.level is None else str(int(each.level)), right=True),
    Column("harm", lambda each: "" if each.level is None else HARM_NAMES[each.level]),
    Column("strategy", lambda each: each.strategy, flexible=True),
    Column("operations", lambda each: f"{len(each.operations):,}", right=True),
    Column(
        "tokens", lambda each: f"{sum(one.tokens_saved for one in each.operations):,}", right=True
    ),
    Column(
        "bytes", lambda each: f"{sum(one.bytes_saved for one in each.operations):,}", right=True
    ),
)


class PreviewInfo(msgspec.Struct, frozen=True):
    """What a preview says beside its plan."""

    title: str
    window_tokens: int
    command: str  # the command that made it, for the next one
    open_in: str | None = None  # what has the session open


def preview_lines(plan: CompactionPlan, about: PreviewInfo) -> list[str]:
    """Draw a plan; what matters most stands at the end, where a terminal shows it."""
    width = terminal_width()
    head = f"{plan.session_id[:8]}  {clean_line(about.title)}"
    return [
        *labelled_lines("session", head, width)[:1],
        "",
        *_added_text_lines(plan, about),
        *_operation_lines(plan.operations, width),
        "",
        *_strategy_lines(plan.operations),
        "",
        *_size_lines(plan, about.window_tokens),
        "",
        *_price_lines(plan, width),
        *_protected_lines(plan, width),
        *_refusal_lines(plan.refused, width),
        *_next_lines(plan, about, width),
    ]


def _added_text_lines(plan: CompactionPlan, about: PreviewInfo) -> list[str]:
    """Show what is appended: a summary is read before it is used."""
    said = [text for each in plan.operations for text in appended_texts(each)]
    if not said:
        return []
    lines = wrap_first_lines("\n\n".join(said), SUMMARY_LINES, terminal_width() - 2)
    if len(lines) > SUMMARY_LINES:
        lines.append(f"(more of it: {about.command} --explain 1)")
    return [*(f"  {line}".rstrip() for line in lines), ""]


def _operation_lines(operations: Sequence[Operation], width: int) -> list[str]:
    numbered = list(enumerate(operations, 1))
    largest = sorted(numbered, key=lambda each: (-each[1].tokens_saved, -each[1].bytes_saved))
    shown = sorted(largest[:MAX_OPERATIONS], key=lambda each: each[0])
    columns = _preview_columns(width, frees=any(each.tokens_saved for each in operations))
    lines = draw_table(columns, shown)
    if left := len(numbered) - len(shown):
        lines.append(f"and {left:,} smaller ones; --json lists all")
    return lines


def _preview_columns(width: int, *, frees: bool) -> list[TextColumn[NumberedOperation]]:
    """Choose columns; where there is room for one ledger it is the one that changes."""
    wanted = {"op", "line", "harm", "what", "tokens" if frees else "bytes"}
    return [each for each in _PREVIEW_COLUMNS if width >= WIDE_COLUMNS or each.header in wanted]


def _strategy_lines(operations: Sequence[Operation]) -> list[str]:
    names = sorted({(each.level, each.strategy) for each in operations})
    sums = [
        _StrategySum(level, name, [each for each in operations if each.strategy == name])
        for level, name in names
    ]
    if len(sums) > 1:
        sums.append(_StrategySum(None, "together", operations))
    return draw_table(_STRATEGY_COLUMNS, sums)


def _size_lines(plan: CompactionPlan, window: int) -> Iterator[str]:
    """Two ledgers: what the model sees, and what the file holds."""
    yield label_beside(
        "context", f"now   {_preview_gauge(plan.before_tokens, window)} of {tokens(window)}"
    )
    share = percent(plan.saved_share)
    yield label_beside("", f"then  {_preview_gauge(plan.after_tokens, window, 'ok')}  {share} less")
    less = plan.bytes_saved
    change = f"{abs(less):,} {'less' if less >= 0 else 'more'}"
    yield label_beside("file", f"{plan.bytes_before:,} → {plan.bytes_after:,} bytes, {change}")


def _preview_gauge(count: int, window: int, colour: str = "") -> str:
    ratio = count / window
    drawn = paint(text_bar(ratio, PREVIEW_BAR_CELLS), colour)
    return f"{drawn}  {f'≈ {tokens(count)}':>8}  {percent(ratio):>5}"


def _price_lines(plan: CompactionPlan, width: int) -> list[str]:
    short, long = plan.break_even_requests, plan.break_even_requests_1h
    if plan.before_tokens == plan.after_tokens:
        return labelled_lines("pays", "the context stays as it is, and so does its cache", width)
    if short is None or long is None:
        return []
    soon, late = break_even_after(short), break_even_after(long)
    said = f"{soon} where the prompt cache is kept 5 minutes, {late} where an hour"
    cold = "" if max(short, long) <= 0 else "; at once where it is cold"
    return labelled_lines("pays", said + cold, width)


def _protected_lines(plan: CompactionPlan, width: int) -> list[str]:
    if not plan.protected:
        return []
    said = [f"{each.why} {tokens(each.tokens)}" for each in plan.protected[:MAX_REASONS]]
    more = ["and more"] if len(plan.protected) > MAX_REASONS else []
    together = sum(each.tokens for each in plan.protected)
    return labelled_lines("stays", f"≈ {tokens(together)}: {', '.join([*said, *more])}", width)


def _refusal_lines(refused: Sequence[Refusal], width: int) -> Iterator[str]:
    for each in refused:
        yield from labelled_lines("refused", f"{each.check}: {each.why}; {each.what_to_do}", width)


def _next_lines(plan: CompactionPlan, about: PreviewInfo, width: int) -> Iterator[str]:
    if about.open_in:
        said = f"in {about.open_in}: a fork can be made, --in-place waits until it is closed"
        yield from labelled_lines("open", said, width)
    yield ""
    yield label_beside("next", f"{about.command} --explain 1")
    if plan.refused:
        return
    yield label_beside("", f"{about.command} --apply")
    yield label_beside("", _APPLY_HINTS[plan.only_appends])


_APPLY_HINTS: Final = {
    True: "(makes a fork; with --in-place it is appended to the session itself)",
    False: "(makes a fork, the session stays; with --in-place it is changed)",
}


TEXT_LINES: Final = 12
"""Of a text, as it is shown: before and after fit a small terminal together. What is left out
is counted, and `--json` has all."""

ADDED_LINES: Final = 400
"""Of what is added: a summary of 12,000 tokens is read whole before it is used."""

MAX_CHANGES: Final = 10
"""Changes of one operation that are shown; a way back removes hundreds of lines."""


def operation_record(plan: CompactionPlan, number: int, transcript: Path) -> dict[str, Any]:
    """Return one operation, counted from 1, as a JSON record with its texts. Raises OSError."""
    record: dict[str, Any] = msgspec.to_builtins(plan.operations[number - 1])
    del record["edits"]
    found = msgspec.to_builtins(read_changes(plan.operations[number - 1], transcript))
    return {"plan_id": plan.plan_id, "op": number} | record | {"changes": found}


def operation_lines(plan: CompactionPlan, number: int, transcript: Path) -> list[str]:
    """Show one operation for people. Raises OSError."""
    operation = plan.operations[number - 1]
    found = read_changes(operation, transcript)
    freed = f"{operation.tokens_saved:,} tokens, {operation.bytes_saved:,} bytes"
    lines = [
        f"{number} of {len(plan.operations)}  {sanitize_text(operation.what)}",
        f"{operation.strategy}, level {int(operation.level)}: {sanitize_text(operation.why)}",
        f"frees {freed}",
    ]
    for each in found[:MAX_CHANGES]:
        lines += ["", *_change_lines(each, terminal_width())]
    left = len(found) - MAX_CHANGES
    if left > 0:
        lines += ["", f"… {left:,} more changes of this kind; --json has all"]
    return lines


def _change_lines(change: OperationChange, width: int) -> list[str]:
    where = "at the end" if change.line is None else f"line {change.line:,}"
    place = f"{where} {change.pointer}" if change.pointer else where
    head = f"{_CHANGE_HEADINGS[change.do]} {place}"
    lines = [head if change.do == "append" else f"{head}, before:"]
    if change.before is not None:
        lines += _text_lines("-", change.before, TEXT_LINES, width)
    if change.after is not None:
        lines += ["after:"] if change.do == "replace" else []
        most = ADDED_LINES if change.do == "append" else TEXT_LINES
        lines += _text_lines("+", change.after, most, width)
    return lines


def _text_lines(sign: str, text: str, lines: int, width: int) -> list[str]:
    return [f"  {sign} {each}".rstrip() for each in wrap_first_lines(text, lines, width - 4)]


_CHANGE_HEADINGS: Final = {"replace": "changed", "remove": "removed", "append": "added"}
