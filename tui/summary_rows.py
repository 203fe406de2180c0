"""What agents returned and what compactions kept, each as two lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.content import Content

from .formats import age, fit, fit_right, tokens

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..core.store.rows import SummaryRow

SIZE_CELLS: Final = 24

KEPT: Final = "boundary"
"""The kind of a compaction's summary; the others are agents' and plans'."""

PLAN: Final = "plan"
"""The kind of what ctxtop wrote itself, and of what was planned in plan mode."""

AGENT: Final = "agent"

KIND_SIGNS: Final = {AGENT: "◆", KEPT: "↻", PLAN: "≡"}
KIND_STYLES: Final = {AGENT: "$accent", KEPT: "$level-notice", PLAN: "$secondary"}

LOOKED_AT: Final = 4_000
"""Characters: a beginning stands in the first ones, and a text can have 200,000."""

# The client opens every compaction's summary with the same words.
_PREAMBLE: Final = "This session is being continued from a previous conversation"


def summary_lines(row: SummaryRow, titles: Mapping[str, str], width: int, now_ms: int) -> Content:
    """Write who said it, where, how long ago and how large, and below it how it begins."""
    said = row.agent_type or "agent" if row.kind == AGENT else who_said(row)
    who = f"{KIND_SIGNS[row.kind]} {said}"
    where = titles.get(row.session_id, row.session_id[:8])
    since = age(None if row.at is None else now_ms - row.at)
    estimate = "" if row.estimated_tokens is None else f" ≈{tokens(row.estimated_tokens)}"
    lines = "1 line" if row.lines == 1 else f"{row.lines} lines"
    size = f"{lines}{estimate} · {since}"
    room = max(0, width - SIZE_CELLS - 1)
    who_cells = min(room, max(14, room // 3))
    return Content.assemble(
        (fit(who, who_cells), KIND_STYLES[row.kind]),
        (fit(f" {where}", room - who_cells), "$quiet"),
        " ",
        (fit_right(size, SIZE_CELLS), "$quiet"),
        "\n",
        (fit(f"  {beginning(row.text)}", width), "$foreground"),
    )


def who_said(row: SummaryRow) -> str:
    """Name a summary: a compaction, what ctxtop planned, or an agent and its task."""
    if row.kind == KEPT:
        return "compaction"
    if row.kind == PLAN:
        return f"plan: {row.description}" if row.description else "plan"
    return f"{row.agent_type or 'agent'} {row.description or ''}".rstrip()


def beginning(text: str) -> str:
    """Find the first words that tell something: not the marker, not the client's preamble."""
    lines = [line.strip(" #*-") for line in text[:LOOKED_AT].split("\n")]
    told = [
        line
        for line in lines
        if line
        and not line.startswith(("[COMPRESSED]", "<", _PREAMBLE))
        and line not in {"Summary:", "Analysis:"}
    ]
    return " · ".join(told[:3]) if told else " ".join(text[:LOOKED_AT].split())
