"""Q3 and Q9: what is named, how much it weighs, and what of it stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ...bench.evaluation.entities import (
    density,
    entities_in,
    entity_retention,
    inflated,
    weights,
)
from ...bench.evaluation.share import Share
from ...entries import answered, asked, called, entry, returned

if TYPE_CHECKING:
    from ctxtop.core.model.conversation import MessagePart


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("see src/api/orders.ts now", "src/api/orders.ts"),
        ("call loadOrderCursor() then", "loadOrderCursor"),
        ("at https://example.com/a?b=1.", "https://example.com/a?b=1"),
        ("it said ECONNREFUSED", "ECONNREFUSED"),
        ("error TS2345 here", "TS2345"),
        ("raised a KeyError there", "KeyError"),
        ("react 18.2.0 is", "18.2.0"),
        ("on localhost:5433 it", "5433"),
        ("use port 8080 for it", "8080"),
        ("commit 9f8e7d6c5b fixes", "9f8e7d6c5b"),
        ("set DATABASE_URL first", "DATABASE_URL"),
        ("the flag 'strict-mode' is", "strict-mode"),
    ],
)
def test_each_kind_is_found(text: str, name: str) -> None:
    assert name in entities_in(text)


def test_plain_words_are_nothing_that_is_named() -> None:
    assert entities_in("it was done in 17 days and we like it") == frozenset()


def test_a_thing_weighs_one_and_one_for_each_line_that_refers_to_it() -> None:
    original = [
        returned("Read", "1", "uses DATABASE_URL and OTHER_NAME"),
        answered("DATABASE_URL is wrong"),
        returned("Bash", "2", "DATABASE_URL again, from a tool"),
        asked("then change DATABASE_URL"),
    ]

    assert weights(original) == {"DATABASE_URL": 3, "OTHER_NAME": 1}


def test_retention_is_by_weight() -> None:
    weighed = {"DATABASE_URL": 3, "OTHER_NAME": 1}

    assert entity_retention(weighed, [answered("DATABASE_URL")]) == Share(3, 4)
    assert entity_retention(weighed, [answered("OTHER_NAME")]) == Share(1, 4)
    assert entity_retention(weighed, [answered("OTHER_NAME")], least=3) == Share(0, 3)


def test_a_stub_that_names_a_thing_keeps_it_also_without_its_quotation_marks() -> None:
    stub = returned("Read", "1", "[Read /p/a.py, 300 lines; names: strict-mode, DATABASE_URL]")

    assert entity_retention({"strict-mode": 1, "DATABASE_URL": 2}, [stub]) == Share(3, 3)


def test_a_calls_values_are_read_without_the_escapes_of_json() -> None:
    call = called("Bash", "1", command="ls\nDATABASE_URL=x")

    assert entity_retention({"DATABASE_URL": 1}, [call]).ratio == 1


def test_density_is_of_different_things() -> None:
    said = [answered("DATABASE_URL, DATABASE_URL and OTHER_NAME")]

    assert density(said, 500) == 4.0
    assert density(said, 0) == 0.0


def test_what_says_more_than_before_is_named() -> None:
    before = [entry(*returned("Read", "1", "short").parts, uuid="a"), answered("x", uuid="b")]
    after = [
        entry(*returned("Read", "1", "a longer stub").parts, uuid="a"),
        answered("x", uuid="b"),
        asked("new"),
    ]

    assert inflated(before, after, length) == ["a"]
    assert inflated(before, before, length) == []


def length(piece: MessagePart) -> int:
    return len(piece.text)
