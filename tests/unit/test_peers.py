"""The rules of other tools, and how they are scored."""

from __future__ import annotations

from ..bench.peers import Row, Score, abtop, add, ccboard, half_drop, score, third_drop


def row(line: int, read: int, created: int = 0, **fields: bool) -> Row:
    return Row(line, 10, created, read, **fields)


def test_a_compaction_is_found_by_the_drop_after_it() -> None:
    rows = [row(1, 150_000), row(2, 160_000), row(5, 30_000), row(6, 40_000)]

    for rule in (half_drop, third_drop, ccboard, abtop):
        assert rule(rows) == [(2, 5)]


def test_a_cache_that_is_made_anew_is_none() -> None:
    rows = [row(1, 100_000), row(2, 0, created=101_000), row(3, 102_000)]

    assert half_drop(rows) == third_drop(rows) == []
    assert ccboard(rows) == [(1, 2)]
    assert abtop(rows) == []
    assert abtop([row(1, 100_000), row(2, 10_000, created=91_000)]) == [(1, 2)]


def test_agents_rows_and_made_up_ones_mislead_ccboard_alone() -> None:
    rows = [row(1, 100_000), row(2, 5000, sidechain=True), Row(3, 0, 0, 0, synthetic=True)]

    assert ccboard(rows) == [(1, 2), (2, 3)]
    assert half_drop(rows) == []


def test_a_share_between_the_two_rules() -> None:
    assert third_drop([row(1, 100_000), row(2, 60_000)]) == [(1, 2)]
    assert half_drop([row(1, 100_000), row(2, 60_000)]) == []


def test_a_span_finds_one_boundary() -> None:
    assert score([(1, 5), (7, 9)], [3, 4, 20]) == Score(found=1, missed=2, false=1)
    assert score([], []) == Score(0, 0, 0)


def test_scores_add_up() -> None:
    whole = add([Score(1, 1, 0), Score(2, 0, 1)])

    assert (whole, whole.precision, whole.recall) == (Score(3, 1, 1), 0.75, 0.75)
    assert (Score(0, 0, 0).precision, Score(0, 0, 0).recall) == (None, None)
