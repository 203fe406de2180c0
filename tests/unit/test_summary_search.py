"""What a person types to search the summaries, and what it means."""

from __future__ import annotations

import sqlite3
from typing import Final

import pytest
from ctxtop.core.summaries.summary_search import MAX_TERMS, SummaryQuery, parse_summary_query
from ctxtop.core.transcript.filter_language import DAY_MS, fold_text, start_of_day
from hypothesis import given
from hypothesis import strategies as st

NOW: Final = 1_795_176_000_000


def test_words_phrases_and_what_must_not_be_there() -> None:
    search = parse_summary_query('pool "connection pool" -redis -"old cache"', NOW)
    assert search.fts_match == '"pool"* AND "connection pool"'
    assert search.fts_exclude == '"redis"* OR "old cache"'
    assert search.matches("The connection pools of a connection pool")
    assert not search.matches("The connection pool of redis-server")
    assert not search.matches("connection pools")


def test_filters_stand_anywhere_and_may_be_said_twice() -> None:
    search = parse_summary_query(
        "kind:b word project:shop TYPE:x project:infra session:AB type:rev", NOW
    )
    assert search.kinds == ("boundary",)
    assert search.projects == ("shop", "infra")
    assert search.sessions == ("ab",)
    assert search.types == ("rev",)
    assert [term.text for term in search.terms] == ["word", "TYPE:x"]
    assert not search.problems


@pytest.mark.parametrize(
    ("typed", "since"),
    [
        ("since:7d", NOW - 7 * DAY_MS),
        ("since:2w", NOW - 14 * DAY_MS),
        ("since:90m", NOW - 90 * 60_000),
        ("since:today", start_of_day(NOW)),
        ("since:yesterday since:7d", start_of_day(NOW, 1)),
    ],
)
def test_since(typed: str, since: int) -> None:
    assert parse_summary_query(typed, NOW).since == since


@pytest.mark.parametrize("typed", ["since:foo", "since:2026-13-99", "kind:nothing"])
def test_a_filter_that_says_nothing_is_told_and_left_out(typed: str) -> None:
    search = parse_summary_query(typed, NOW)
    (note,) = search.problems
    assert note.startswith(f"{typed} is not valid")
    assert (search.since, search.kinds, search.fts_match) == (None, (), "")


def test_a_filter_whose_value_is_still_typed_filters_nothing() -> None:
    assert parse_summary_query("since: kind: project:", NOW) == SummaryQuery()


def test_hits_are_found_as_the_index_finds_them() -> None:
    search = parse_summary_query('caf "der Fluß"', NOW)
    text = "Le Café und CAFÉS. decaf; der  Fluß, der Flußlauf"
    assert [text[start:end] for start, end in search.hits(text)] == ["Café", "CAFÉS", "der  Fluß"]


def test_no_more_terms_than_are_searched_for() -> None:
    assert len(parse_summary_query(" ".join(map(str, range(100))), NOW).terms) == MAX_TERMS


@given(st.text(max_size=60))
def test_whatever_is_typed_is_no_error(typed: str) -> None:
    search = parse_summary_query(typed, NOW)
    with sqlite3.connect(":memory:") as db:
        db.execute("CREATE VIRTUAL TABLE f USING fts5(text)")
        db.execute("INSERT INTO f VALUES ('some words')")
        for expression in (search.fts_match, search.fts_exclude):
            if expression:
                db.execute("SELECT rowid FROM f WHERE f MATCH ?", [expression]).fetchall()
    search.hits(typed)


@given(st.text())
def test_folding_keeps_every_place(text: str) -> None:
    assert len(fold_text(text)) == len(text)


def test_nothing_typed_is_everything() -> None:
    assert parse_summary_query("  ", NOW) == SummaryQuery()
