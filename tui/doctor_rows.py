"""The doctor's checks as lines: what was found, and below it what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.content import Content

from .formats import fit, middle, one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..collectors.folder import Trouble
    from .cli.checks import Check

_NAME: Final = 18
_INDENT: Final = _NAME + 3

WELL: Final = ("✓", "$level-calm")
WRONG: Final = ("✗", "bold $level-emergency")


def check_line(check: Check, width: int) -> Content:
    """Write a check for so many cells; what is in ctxtop's way has a second line."""
    sign, style = WELL if check.ok else WRONG
    line = Content.assemble(
        (f"{sign} ", style),
        (f"{fit(check.name, _NAME)} ", "bold" if not check.ok else "$foreground"),
        (middle(one_line(check.detail), max(1, width - _INDENT)), "$quiet" if check.ok else ""),
    )
    if check.ok or not check.fix:
        return line
    fix = middle(one_line(check.fix), max(1, width - _INDENT - 2))
    return line + Content.assemble((f"\n{'':<{_INDENT}}→ ", "$accent"), (fix, "$accent"))


def broken_off(problem: Trouble) -> Check:
    """Say as a check that the checks themselves failed."""
    from .cli.checks import wrong

    return wrong(problem.where, problem.what, problem.fix)


def count_words(checks: Sequence[Check]) -> str:
    """Count what is well and what is not."""
    wrong = sum(not each.ok for each in checks)
    well = f"{len(checks) - wrong} ✓"
    return f"{well} · {wrong} ✗" if wrong else well


def whole_check(check: Check) -> Content:
    """Write all of a check."""
    sign, style = WELL if check.ok else WRONG
    lines = [
        Content.assemble((f"{sign} {check.name}", style)),
        Content(""),
        Content(one_line(check.detail)),
    ]
    if check.fix:
        label = "hint" if check.ok else "what to do"
        lines += [Content(""), Content.styled(label, "$quiet"), Content(one_line(check.fix))]
    return Content("\n").join(lines)
