"""The facts above a summary: numbers stay whole at any width."""

from __future__ import annotations

import pytest
from ctxtop.core.model.stored_rows import SummaryRow
from ctxtop.core.summaries.summary_facts import QuotedAnchor
from ctxtop.core.summaries.summary_search import PlanSummary, parse_summary_query
from ctxtop.tui.screens.summaries.summary_screen import (
    MAX_MARKDOWN_CHARS,
    SummaryDetails,
    SummaryReport,
    summary_fact_lines,
    summary_report,
    with_token_count,
)
from msgspec.structs import replace

NOW = 1_795_176_000_000
ROW = SummaryRow(
    -1, "plan", "s", None, None, "summarize", NOW - 3_600_000, 41, None, "one two\n" * 41
)
PLAN = PlanSummary(
    ROW,
    "u",
    "1a2b3c4d",
    0,
    "summarize",
    True,
    "/t",
    9,
    172_000,
    83_000,
    description="a summary by rules of forty messages",
)


@pytest.mark.parametrize("width", [56, 80, 120])
def test_numbers_are_not_cut(width: int) -> None:
    lines = summary_fact_lines(
        with_token_count(ROW),
        SummaryDetails("A long title of a session · shop", plan=PLAN),
        width,
        NOW,
    )
    shown = [line.plain for line in lines]
    assert all(line.cell_length <= width for line in lines)
    assert shown[0] == "≡ plan: summarize"
    assert shown[2].endswith("41 lines · ≈123 tokens")
    assert "1 h ago" in shown[2]
    assert shown[3].startswith("receipt 1a2b3c4d · 172 k → ≈83 k tokens · undone")
    assert ("forty messages" in shown[3]) == (width > 80)


@pytest.mark.parametrize("width", [56, 120])
def test_anchors_are_listed_with_their_scores(width: int) -> None:
    """2.2.2: what is quoted word for word, and why."""
    anchors = (
        *(QuotedAnchor(line, 1.0, is_marked=True) for line in (2, 8)),
        QuotedAnchor(4, 0.8, is_marked=False),
    )
    known = SummaryDetails("A session", plan=replace(PLAN, anchors=anchors))
    shown = summary_fact_lines(with_token_count(ROW), known, width, NOW)
    text = " ".join(line.plain.strip() for line in shown)
    assert "anchors: lines 8, 2 (1.00, marked), line 4 (0.80)" in text
    assert all(line.cell_length <= width for line in shown)


def test_a_summary_says_how_it_differs_from_what_was_asked_for() -> None:
    flaws = ("1,001 words, at most 1,000", "no section Current State")
    known = SummaryDetails("A session", flaws=flaws)
    shown = [line.plain for line in summary_fact_lines(with_token_count(ROW), known, 80, NOW)]
    assert "⚠ 1,001 words, at most 1,000, no section Current State" in shown


def test_a_text_that_nobody_counted_is_counted_where_it_is_wrapped() -> None:
    assert summary_report(ROW, None, 40).row.estimated_tokens == 123


def test_markdown_is_drawn_unless_it_is_searched_or_very_long() -> None:
    row = replace(ROW, text="# Kept\n\n- **one** fact")
    assert plain(summary_report(row, None, 40)) == ["Kept", "", "• one fact"]
    found = summary_report(row, parse_summary_query("fact", NOW), 40)
    assert plain(found) == ["# Kept", "", "- **one** fact"]
    assert found.hits == 1
    long = replace(ROW, text="**x** " * MAX_MARKDOWN_CHARS)
    assert plain(summary_report(long, None, 40))[0].startswith("**x**")


def plain(report: SummaryReport) -> list[str]:
    return [line.plain for line in report.wrapped.lines]
