"""The operations of a plan as rows: by strategy, each with its box, and what stays below them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Final

from textual.content import Content

from .formats import fit, fit_right, tokens
from .plan_words import LEVELS
from .planner import mark_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..core.compaction.plan import Operation, Plan, Protected
    from .planner import Mark, Planned

ON, OFF, SOME = "[x]", "[ ]", "[-]"
BOUND: Final = " + "
"""The sign of what follows from the others and cannot be switched."""

STAYS: Final = " = "
"""The sign of what no strategy touches."""

BOX_CELLS: Final = 3
"""A click within them switches."""

_NUMBER: Final = 9
_LINE: Final = 7
_WIDE: Final = 96
"""Cells from which on there is room for why each one goes."""

DRAWN: Final = 20_000
"""Rows that are kept drawn: a switch draws a few anew, and a plan has thousands."""


@dataclass(frozen=True, slots=True)
class Item:
    """One row: a strategy's head, an operation, or what stays."""

    key: str
    box: str
    operations: tuple[Operation, ...] = ()
    """What it switches, or shows."""
    is_header: bool = False
    protected: Protected | None = None

    @property
    def can_switch(self) -> bool:
        """It may be left out."""
        return self.box in {ON, OFF, SOME}

    @property
    def keys(self) -> frozenset[Mark]:
        """By which its operations are known again."""
        return frozenset(mark_of(each) for each in self.operations)


def items_of(planned: Planned) -> list[Item]:
    """Lay a plan out: what can be switched by level and strategy, what follows, what stays."""
    left_out = planned.request.left_out
    ordered = sorted(planned.offered, key=lambda each: (each.level, each.strategy, each.line or 0))
    items: list[Item] = []
    for strategy, group in groupby(ordered, key=lambda each: each.strategy):
        own = tuple(group)
        boxes = [OFF if mark_of(each) in left_out else ON for each in own]
        box = boxes[0] if len(set(boxes)) == 1 else SOME
        items.append(Item(f"s:{strategy}", box, own, is_header=True))
        items += [
            Item(f"o:{each.strategy}:{each.line}:{number}", box, (each,))
            for number, (each, box) in enumerate(zip(own, boxes, strict=True))
        ]
    return [*items, *_following(planned), *_staying(planned.plan)]


def _following(planned: Planned) -> Iterator[Item]:
    offered = set(map(mark_of, planned.offered))
    bound = tuple(each for each in planned.plan.operations if mark_of(each) not in offered)
    for number, each in enumerate(bound):
        yield Item(f"b:{each.strategy}:{number}", BOUND, (each,))


def _staying(plan: Plan) -> Iterator[Item]:
    for each in plan.protected:
        yield Item(f"p:{each.why}", STAYS, protected=each)


def head_line(width: int) -> Content:
    """Write the line above the rows."""
    return Content.styled(
        _laid_out("on ", "line", "what", "tokens", "why it can go", width), "$quiet"
    )


@lru_cache(maxsize=DRAWN)
def item_line(item: Item, width: int) -> Content:
    """Write a row."""
    if item.protected is not None:
        said = _laid_out(
            STAYS, "", f"protected: {item.protected.why}", _count(item.protected.tokens), "", width
        )
        return Content.styled(said, "$quiet")
    if item.is_header:
        return _head(item, width)
    (operation,) = item.operations
    line = "" if operation.line is None else f"{operation.line:,}"
    freed = f"{operation.tokens_saved:,}" if operation.tokens_saved else "–"
    said = _laid_out(f"{item.box}", line, f"  {operation.what}", freed, operation.why, width)
    return Content.styled(said, "$quiet" if item.box == OFF else "$foreground")


def _head(item: Item, width: int) -> Content:
    first = item.operations[0]
    count = len(item.operations)
    what = f"{first.strategy}: {count:,} {'operation' if count == 1 else 'operations'}"
    why = f"level {int(first.level)}, {LEVELS[first.level]}"
    freed = _count(sum(each.tokens_saved for each in item.operations))
    style = "$quiet" if item.box == OFF else "bold $level-calm"
    return Content.styled(_laid_out(item.box, "", what, freed, why, width), style)


def _count(count: int) -> str:
    return f"≈ {tokens(count)}" if count else "–"


def _laid_out(box: str, line: str, what: str, freed: str, why: str, width: int) -> str:
    room = max(0, width - BOX_CELLS - _LINE - _NUMBER - 3)
    if width < _WIDE:
        return f"{box} {fit_right(line, _LINE)} {fit(what, room)} {fit_right(freed, _NUMBER)}"
    reason = room * 2 // 5
    what_cells = room - reason - 2
    return (
        f"{box} {fit_right(line, _LINE)} {fit(what, what_cells)} {fit_right(freed, _NUMBER)}"
        f"  {fit(why, reason)}"
    )


def switched(item: Item, left_out: frozenset[Mark]) -> frozenset[Mark]:
    """Switch a row: one operation, or all of a strategy; on where any of them is off."""
    return left_out | item.keys if item.box == ON else left_out - item.keys


def all_switched(planned: Planned) -> frozenset[Mark]:
    """Leave all out, or where some are left out already take all in."""
    return frozenset() if planned.request.left_out else frozenset(map(mark_of, planned.offered))
