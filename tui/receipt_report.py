"""A receipt to be read: what was done, what it came to, the checks, and the ways on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.content import Content

from ..core.compaction.receipts import Mode
from .check_words import words_of
from .formats import fit, middle, one_line, percent, plural, tokens
from .plan_report import size_words
from .receipt_words import STATES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..core.compaction.receipts import Receipt

LABEL_CELLS: Final = 9

TICK_CELLS: Final = 36
"""Of one check with its words."""


def receipt_lines(receipt: Receipt, obstacle: str | None, when: str, width: int) -> Content:
    """Say what was done and how it stands, a line each."""
    return Content("\n").join(
        Content.styled(fit(label, LABEL_CELLS), "$quiet") + said
        for label, said in _lines(receipt, obstacle, when, max(0, width - LABEL_CELLS))
    )


def tick_lines(checks: Sequence[str], ticked: int, width: int) -> Content:
    """Draw the checks in columns, the first `shown` of them with their tick."""
    columns = max(1, width // TICK_CELLS)
    height = -(-len(checks) // columns)
    rows = []
    for line in range(height):
        cells = []
        for place in range(line, len(checks), height):
            words = f"{checks[place]:<3} {words_of(checks[place])}"
            if place < ticked:
                cell = Content.styled("✓ ", "$level-calm") + Content(fit(words, TICK_CELLS - 2))
            else:
                cell = Content.styled(f"· {fit(words, TICK_CELLS - 2)}", "$quiet")
            cells.append(cell)
        rows.append(Content("").join(cells))
    return Content("\n").join(rows)


def _lines(
    receipt: Receipt, why_not: str | None, when: str, width: int
) -> Iterator[tuple[str, Content]]:
    plan = receipt.plan
    by = f"by itself: {one_line(receipt.automatic)}" if receipt.automatic else "you asked for it"
    yield "done", Content(middle(f"{when}, {by} · receipt {receipt.receipt_id}", width))
    what = {
        Mode.FORK: f"a fork, {receipt.new_session_id}; the session stays as it was",
        Mode.IN_PLACE: "in the session itself; a copy of what it was is kept",
        Mode.APPEND: "at the session's end; nothing of it was rewritten",
    }
    yield "where", Content(middle(what[receipt.mode], width))
    freed = plan.before_tokens - plan.after_tokens
    share = percent(freed / plan.before_tokens if plan.before_tokens else 0.0)
    sizes = f"≈ {tokens(plan.before_tokens)} → ≈ {tokens(plan.after_tokens)}, {share} less"
    files = f"file {size_words(plan.bytes_before)} → {size_words(plan.bytes_after)}"
    yield "context", Content(middle(f"{sizes} · {files}", width))
    if receipt.mode is not Mode.FORK and receipt.backup:
        yield "copy", Content(middle(f"{receipt.backup[:12]}… of {receipt.transcript}", width))
    # A command is never cut: it is to be copied.
    yield "go on", Content.styled(one_line(receipt.resume_command), "bold $accent")
    undone = len(receipt.now.undone) if receipt.now else 0
    state = STATES[receipt.state]
    if undone and undone < len(plan.operations):
        state = f"{undone} of {len(plan.operations)} operations are undone"
    if why_not and not undone:
        state = f"cannot be undone: {one_line(why_not)}"
    checks = f" · ✓ {plural(len(receipt.verified), 'check')} held" if receipt.verified else ""
    shown = middle(state, max(0, width - len(checks)))
    yield "state", Content.assemble((shown, "bold $foreground"), (checks, "$level-calm"))
