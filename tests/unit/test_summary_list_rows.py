"""The rows of the summaries' list: days, lines, and what a row shows at any width."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from ctxtop.core.model.findings import ComplianceVerdict
from ctxtop.core.model.stored_rows import SummaryRow
from ctxtop.core.summaries.summary_search import parse_summary_query
from ctxtop.core.transcript.filter_language import DAY_MS
from ctxtop.tui.screens.summaries.summary_list import (
    day_line,
    day_name,
    lay_out_days,
    make_preview,
    summary_row_lines,
)
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Iterator

NOW = 1_795_176_000_000


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def row(text: str, **fields: object) -> SummaryRow:
    made = {
        "summary_id": 1,
        "kind": "agent",
        "session_id": "s",
        "agent_id": "a",
        "agent_type": "reviewer",
        "description": "look at 漢字 and 🙂",
        "at": NOW,
        "lines": 1_234,
        "estimated_tokens": 172_000,
        "text": text,
    }
    return SummaryRow(**(made | fields))  # type: ignore[arg-type]


@given(st.lists(st.integers(0, 40 * DAY_MS), max_size=60), st.sampled_from([60, 100]))
def test_every_line_shows_a_day_or_a_row_and_each_row_is_there(ages: list[int], width: int) -> None:
    places = [(n, NOW - age) for n, age in enumerate(sorted(ages))]
    found = lay_out_days(places, width, NOW)
    shown = [found.locate(line) for line in range(found.lines)]
    assert None not in shown
    rows = [(each[1], each[2]) for each in shown if each is not None and each[1] is not None]
    assert rows == [(n, line) for n in range(len(places)) for line in range(found.height)]
    assert sum(day.count for day in found.days) == len(places)
    assert len({day.label for day in found.days}) == len(found.days)
    for place in range(len(places)):
        assert found.locate(found.line_of(place))[1:] == (place, 0)  # type: ignore[index]
    assert found.locate(found.lines) is None
    assert found.locate(-1) is None


def test_days_are_called_as_a_person_calls_them() -> None:
    assert day_name(NOW, NOW) == "Today, Friday 20 November"
    assert day_name(NOW - DAY_MS, NOW) == "Yesterday, Thursday 19 November"
    assert day_name(NOW - 400 * DAY_MS, NOW) == "Thursday 16 October 2025"
    assert day_name(0, NOW) == "time unknown"
    assert day_name(10**18, NOW) == "invalid time"


@pytest.mark.parametrize("width", [30, 40, 52, 70, 88, 120, 200])
def test_rows_are_as_wide_as_the_list_and_their_numbers_whole(width: int) -> None:
    head = make_preview(row("words of 漢字 " * 40), parse_summary_query("漢字", NOW))
    lines = summary_row_lines(
        head, "A title of 漢字 that is long · shop", ComplianceVerdict.NON_COMPLIANT, width
    )
    assert len(lines) == lay_out_days([(1, NOW)], width, NOW).height
    assert all(line.cell_length <= width for line in lines)
    shown = "\n".join(line.plain for line in lines)
    assert "✗" in shown
    assert "12:00" in shown
    if width >= 40:
        assert "1,234 lines ≈172 k" in shown
    day = lay_out_days([(1, NOW)], width, NOW).days[0]
    assert day_line(day, width).cell_length == width


def test_a_snippet_begins_near_the_first_hit_and_marks_all_of_them() -> None:
    text = "a beginning that nobody asked for, then the pool of\nconnections, and a pool again"
    head = make_preview(row(text), parse_summary_query("pool", NOW))
    assert head.snippet == "… asked for, then the pool of connections, and a pool again"
    assert [head.snippet[a:b] for a, b in head.spans] == ["pool", "pool"]
    assert make_preview(row(text), parse_summary_query("", NOW)).snippet.startswith("a beginning")


def test_what_was_not_counted_is_counted() -> None:
    preview = make_preview(row("one two", estimated_tokens=None), parse_summary_query("", NOW))
    assert preview.row.estimated_tokens == 2
