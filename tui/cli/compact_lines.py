"""A plan for people: what would go, what it frees, what it costs, and what to type next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from ..formats import percent, tokens
from ..operation_changes import shortened
from ..plan_words import LEVELS, added_texts, paid_after
from .cells import bar
from .columns import Cell, Column, draw, one_line, paint, terminal_width
from .labelled import beside, labelled

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...core.compaction.plan import Operation, Plan, Refusal

SHOWN: Final = 20
"""Operations of a preview (compaction.md 7.2): the largest; `--explain` and `--json` show all."""

SUMMARY_LINES: Final = 30
"""Of a summary's text in a preview; `--explain 1` shows more, `--json` with it all."""

WIDE: Final = 110
"""Columns from which on there is room for why each one goes: `--explain` says it too."""

REASONS: Final = 5
"""Why something stays, the largest first."""

BAR_CELLS: Final = 30

OPERATION: Final = (
    Column("op", right=True),
    Column("line", right=True, priority=1),
    Column("harm", priority=2),
    Column("what", flexible=True),
    Column("tokens", right=True),
    Column("bytes", right=True, priority=3),
)
"""Columns that say an operation, filled by `operation_cells`."""

_OPERATIONS: Final = (*OPERATION, Column("why", flexible=True, priority=4))

_STRATEGIES: Final = (
    Column("level", right=True),
    Column("harm"),
    Column("strategy", flexible=True),
    Column("operations", right=True),
    Column("tokens", right=True),
    Column("bytes", right=True),
)


class About(msgspec.Struct, frozen=True):
    """What a preview says beside its plan."""

    title: str
    window_tokens: int
    command: str
    """The command that made it, for the next one."""
    open_in: str | None = None
    """What has the session open."""


def preview(plan: Plan, about: About) -> list[str]:
    """Draw a plan; what matters most stands at the end, where a terminal shows it."""
    width = terminal_width()
    head = f"{plan.session_id[:8]}  {one_line(about.title)}"
    return [
        *labelled("session", head, width)[:1],
        "",
        *_text(plan, about),
        *_operations(plan.operations, width),
        "",
        *_by_strategy(plan.operations, width),
        "",
        *_ledgers(plan, about.window_tokens),
        "",
        *_price(plan, width),
        *_stays(plan, width),
        *_refusals(plan.refused, width),
        *_next(plan, about, width),
    ]


def _text(plan: Plan, about: About) -> list[str]:
    """Show what is appended: a summary is read before it is used."""
    said = [text for each in plan.operations for text in added_texts(each)]
    if not said:
        return []
    lines = shortened("\n\n".join(said), SUMMARY_LINES, terminal_width() - 2)
    if len(lines) > SUMMARY_LINES:
        lines.append(f"(more of it: {about.command} --explain 1)")
    return [*(f"  {line}".rstrip() for line in lines), ""]


def operation_cells(number: int, operation: Operation) -> list[str]:
    """Say one operation in the columns of `OPERATION`; a person counts from 1."""
    return [
        str(number),
        "" if operation.line is None else f"{operation.line:,}",
        LEVELS[operation.level],
        operation.what,
        f"{operation.tokens_saved:,}",
        f"{operation.bytes_saved:,}",
    ]


def _operations(operations: Sequence[Operation], width: int) -> list[str]:
    numbered = list(enumerate(operations, 1))
    largest = sorted(numbered, key=lambda each: (-each[1].tokens_saved, -each[1].bytes_saved))
    rows: list[list[Cell | str]] = [
        [*operation_cells(number, each), each.why]
        for number, each in sorted(largest[:SHOWN], key=lambda each: each[0])
    ]
    places = _columns(width, frees=any(each.tokens_saved for each in operations))
    lines = draw(
        [_OPERATIONS[place] for place in places],
        [[row[place] for place in places] for row in rows],
        width,
    )
    left = len(numbered) - len(rows)
    if left:
        lines.append(f"and {left:,} smaller ones; --json lists all")
    return lines


def _columns(width: int, *, frees: bool) -> list[int]:
    """Choose columns; where there is room for one ledger it is the one that changes."""
    wanted = {"op", "line", "harm", "what", "tokens" if frees else "bytes"}
    return [place for place, each in enumerate(_OPERATIONS) if width >= WIDE or each.header in wanted]


def _by_strategy(operations: Sequence[Operation], width: int) -> list[str]:
    names = dict.fromkeys((each.level, each.strategy) for each in operations)
    rows: list[list[Cell | str]] = []
    for level, name in sorted(names):
        own = [each for each in operations if each.strategy == name]
        rows.append([str(int(level)), LEVELS[level], name, *_sums(own)])
    if len(rows) > 1:
        rows.append(["", "", "together", *_sums(operations)])
    return draw(_STRATEGIES, rows, width)


def _sums(operations: Sequence[Operation]) -> list[str]:
    return [
        f"{len(operations):,}",
        f"{sum(each.tokens_saved for each in operations):,}",
        f"{sum(each.bytes_saved for each in operations):,}",
    ]


def _ledgers(plan: Plan, window: int) -> Iterator[str]:
    """Two ledgers: what the model sees, and what the file holds."""
    freed = plan.before_tokens - plan.after_tokens
    yield beside("context", f"now   {_gauge(plan.before_tokens, window)} of {tokens(window)}")
    share = percent(freed / plan.before_tokens if plan.before_tokens else 0.0)
    yield beside("", f"then  {_gauge(plan.after_tokens, window, 'ok')}  {share} less")
    less = plan.bytes_before - plan.bytes_after
    change = f"{abs(less):,} {'less' if less >= 0 else 'more'}"
    yield beside("file", f"{plan.bytes_before:,} → {plan.bytes_after:,} bytes, {change}")


def _gauge(count: int, window: int, colour: str = "") -> str:
    ratio = count / window
    drawn = paint(bar(ratio, BAR_CELLS), colour)
    return f"{drawn}  {f'≈ {tokens(count)}':>8}  {percent(ratio):>5}"


def _price(plan: Plan, width: int) -> list[str]:
    short, long = plan.break_even_requests, plan.break_even_requests_1h
    if plan.before_tokens == plan.after_tokens:
        return labelled("pays", "the context stays as it is, and so does its cache", width)
    if short is None or long is None:
        return []
    soon, late = paid_after(short), paid_after(long)
    said = f"{soon} where the prompt cache is kept 5 minutes, {late} where an hour"
    cold = "" if max(short, long) <= 0 else "; at once where it is cold"
    return labelled("pays", said + cold, width)


def _stays(plan: Plan, width: int) -> list[str]:
    if not plan.protected:
        return []
    said = [f"{each.why} {tokens(each.tokens)}" for each in plan.protected[:REASONS]]
    more = ["and more"] if len(plan.protected) > REASONS else []
    together = sum(each.tokens for each in plan.protected)
    return labelled("stays", f"≈ {tokens(together)}: {', '.join([*said, *more])}", width)


def _refusals(refused: Sequence[Refusal], width: int) -> Iterator[str]:
    for each in refused:
        yield from labelled("refused", f"{each.check}: {each.why}; {each.what_to_do}", width)


def _next(plan: Plan, about: About, width: int) -> Iterator[str]:
    if about.open_in:
        said = f"in {about.open_in}: a fork can be made, --in-place waits until it is closed"
        yield from labelled("open", said, width)
    yield ""
    yield beside("next", f"{about.command} --explain 1")
    if plan.refused:
        return
    yield beside("", f"{about.command} --apply")
    yield beside("", _APPLIED[plan.only_appends])


_APPLIED: Final = {
    True: "(makes a fork; with --in-place it is appended to the session itself)",
    False: "(makes a fork, the session stays; with --in-place it is changed)",
}
