"""A type of agent as one line: how many ran, how many complied, how it went, what it cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.content import Content

from ..core.compliance.codes import FAILED
from .compliance_words import SIGNS
from .formats import NOTHING, fit, fit_right, percent, tokens
from .spark import spark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..core.compliance.score import Score
    from ..core.compliance_summary import Day, Part

RUNS_CELLS: Final = 6
COMPLIED_CELLS: Final = 12
SPARK_CELLS: Final = 8
LINES_CELLS: Final = 11
TOKENS_CELLS: Final = 8
SAVED_CELLS: Final = 9
LAST_SHOWN: Final = 8
LAST_CELLS: Final = LAST_SHOWN + 1
SHORTEST_NAME: Final = 14

_COLUMNS: Final = (
    ("runs", "runs", RUNS_CELLS),
    ("complied", "complied", COMPLIED_CELLS),
    ("days", " by day", SPARK_CELLS + 1),
    ("last", " last", LAST_CELLS),
    ("lines", "lines  90%", LINES_CELLS),
    ("tokens", "≈tokens", TOKENS_CELLS),
    ("saved", "too many", SAVED_CELLS),
)
"""What comes first stays longest where room is short."""

_LEFT: Final = frozenset({"days", "last"})


def columns_for(width: int) -> list[tuple[str, str, int]]:
    """Choose the columns that fit beside a name."""
    room = width - SHORTEST_NAME
    chosen = []
    for column in _COLUMNS:
        room -= column[2]
        if room < 0:
            break
        chosen.append(column)
    return chosen


def type_head(width: int) -> Content:
    """Name the columns."""
    columns = columns_for(width)
    name = fit("type", width - sum(cells for *_, cells in columns))
    return Content(
        name
        + "".join(
            fit(head, cells) if column in _LEFT else fit_right(head, cells)
            for column, head, cells in columns
        )
    )


def type_line(part: Part, width: int) -> Content:
    """Write a type's line for a width."""
    columns = columns_for(width)
    name = fit(part.name, width - sum(cells for *_, cells in columns))
    parts: list[Content | tuple[str, str]] = [(name, "$foreground")]
    for column, _, cells in columns:
        words, style = _cell(column, part)
        drawn = fit(words, cells) if column in _LEFT else fit_right(words, cells)
        parts.append((drawn, style))
    return Content.assemble(*parts)


def _cell(column: str, part: Part) -> tuple[str, str]:
    score, sizes = part.score, part.sizes
    if column == "runs":
        return str(part.runs), "$foreground"
    if column == "complied":
        failed = failures(score)
        return complied(score), "$level-warning" if failed else "$foreground"
    if column == "days":
        return f" {by_day(part.days, SPARK_CELLS)}", "$accent"
    if column == "last":
        return f" {last_verdicts(part)}", "$foreground"
    if column == "lines":
        return (
            f"{sizes.median_lines:>4}{sizes.p90_lines:>6}" if sizes.results else NOTHING
        ), "$foreground"
    if column == "tokens":
        return (f"≈{tokens(part.cost.result_tokens)}" if sizes.results else NOTHING), "$foreground"
    excess = part.cost.excess_tokens
    return (f"≈{tokens(excess)}" if excess else ""), "$level-warning"


def complied(score: Score) -> str:
    """Say how many complied: a share of enough results, else the numbers themselves."""
    if not score.judged_count:
        return NOTHING
    passed = score.judged_count - failures(score)
    if score.passed_share is None:
        return f"{passed} of {score.judged_count}"
    return f"{percent(score.passed_share)} of {score.judged_count}"


def failures(score: Score) -> int:
    """Count the results that did not comply."""
    return sum(score.verdicts[each] for each in FAILED)


def by_day(days: Sequence[Day], cells: int) -> str:
    """Draw the share that complied day by day, newest last; days without a result are left out."""
    newest = days[-cells:]
    shares = [
        (day.score.judged_count - failures(day.score)) / day.score.judged_count
        if day.score.judged_count
        else None
        for day in newest
    ]
    return spark(shares, cells, 1.0)


def last_verdicts(part: Part) -> str:
    """Write the newest verdicts as signs, the newest last."""
    return "".join(SIGNS[each] for each in reversed(part.last_verdicts[:LAST_SHOWN]))
