"""A summary whole: its facts in a few lines, and its text with what was searched for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace
from textual.content import Content

from ..core.tokens import count_of
from .compliance_words import MEANINGS, SIGNS, WORDS
from .formats import age, middle, one_line, plural, tokens, when
from .summary_list_rows import HIT
from .summary_rows import KIND_SIGNS, KIND_STYLES, who_said
from .wrapping import Wrapped, plain, wrap

if TYPE_CHECKING:
    from ..core.compliance.states import Ruling
    from ..core.store.rows import SummaryRow
    from ..core.summary_list import PlanText
    from ..core.summary_search import Search

_KINDS = {
    "agent": "what an agent returned",
    "boundary": "what a compaction kept",
    "plan": "a plan, made in plan mode or by ctxtop",
}


@dataclass(frozen=True, slots=True)
class Known:
    """What is told of a summary beside its text."""

    session_label: str
    """Its session's title and project."""
    ruling: Ruling | None = None
    plan: PlanText | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """A summary to read."""

    row: SummaryRow
    text: str
    """As it is shown: its passages are places of this."""
    wrapped: Wrapped

    @property
    def hits(self) -> int:
        """Count what was found of what was searched for."""
        return len(self.wrapped.passages)


def summary_report(row: SummaryRow, search: Search | None, width: int) -> Report:
    """Wrap a summary's text, with what was searched for in sight; counts what nobody counted."""
    text = plain(row.text)
    hits = search.hits(text) if search else []
    return Report(counted(row), text, wrap(text, width, hits, HIT))


def counted(row: SummaryRow) -> SummaryRow:
    """Give a summary with its tokens: the estimate that is stored, or one made now."""
    return replace(row, estimated_tokens=count_of(row.estimated_tokens, row.text))


def fact_lines(row: SummaryRow, known: Known, width: int, now_ms: int) -> list[Content]:
    """Tell who said it, where and when, how large it is, and of an agent whether it complies."""
    style = KIND_STYLES.get(row.kind, "$foreground")
    sign = KIND_SIGNS.get(row.kind, "?")
    size = f"{plural(row.lines, 'line')} · ≈{tokens(row.estimated_tokens)} tokens"
    lines = [
        Content.assemble(
            (f"{sign} ", style), (middle(one_line(who_said(row)), width - 2), f"bold {style}")
        ),
        Content.styled(middle(known.session_label, width), "$foreground"),
        Content.styled(_when_and_size(row, size, width, now_ms), "$quiet"),
    ]
    if known.ruling is not None and SIGNS[known.ruling.verdict].strip():
        verdict = known.ruling.verdict
        codes = ", ".join(each.code.value for each in known.ruling.violations)
        said = f"{SIGNS[verdict]} {WORDS[verdict]}: {codes or MEANINGS[verdict]}"
        color = "$level-warning" if known.ruling.failed else "$level-calm"
        lines.append(Content.styled(middle(said, width), color))
    if known.plan is not None:
        plan = known.plan
        undone = " · taken back" if plan.undone else ""
        said = (
            f"receipt {plan.receipt_id} · {tokens(plan.before_tokens)} →"
            f" ≈{tokens(plan.after_tokens)} tokens{undone}"
        )
        room = width - len(said) - 3
        about = f" · {middle(plan.description, room)}" if room > 0 else ""
        lines.append(Content.styled(said + about, "$quiet"))
    return lines


def _when_and_size(row: SummaryRow, size: str, width: int, now_ms: int) -> str:
    """Say both in the longest form that fits: numbers are not cut."""
    said = [f"{when(row.at, now_ms)} · {size}"]
    if row.at is not None:
        said.append(f"{age(now_ms - row.at)} ago · {size}")
    return next((each for each in said if len(each) <= width), size)


def kind_words(kind: str) -> str:
    """Say a kind in words."""
    return _KINDS.get(kind, kind)
