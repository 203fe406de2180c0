"""The filter language: words, phrases, keys, and what negates."""

from __future__ import annotations

import pytest
from ctxtop.core.transcript.filter_language import (
    FilterWord,
    fields_filter,
    invalid_word,
    split_filter,
    unknown_filter_error,
)

FIELDS = {"title": "mend the decoder", "model": "opus 4.5", "broke": ""}


@pytest.mark.parametrize("sign", ["-", "!"])
def test_both_signs_negate_words_phrases_and_keys(sign: str) -> None:
    assert split_filter(f'{sign}a {sign}"b c" {sign}type:d') == [
        FilterWord("", "a", is_negated=True, is_quoted=False),
        FilterWord("", "b c", is_negated=True, is_quoted=True),
        FilterWord("type:", "d", is_negated=True, is_quoted=False),
    ]


@pytest.mark.parametrize("typed", ["", "  ", "-", "!", '"', '-"'])
def test_what_is_still_typed_is_no_word_yet(typed: str) -> None:
    assert split_filter(typed) == []


def test_a_phrase_may_be_unfinished_and_a_hyphen_may_be_inside() -> None:
    words = split_filter('well-known "two wo')
    assert [each.text for each in words] == ["well-known", "two wo"]


@pytest.mark.parametrize(
    ("typed", "is_met"),
    [
        ("", True),
        ("MEND opus", True),
        ("mend -opus", False),
        ('"the decoder"', True),
        ('!"the encoder"', True),
        ("title:decoder", True),
        ("model:decoder", False),
        ("-model:decoder", True),
        ("broke:", True),
        ("late:", False),
        ("-late:", True),
        ("10:30", False),
    ],
)
def test_fields_meet_every_word(typed: str, is_met: bool) -> None:
    assert fields_filter(typed, ("broke", "late"))(FIELDS) is is_met


@pytest.mark.parametrize(
    ("typed", "is_filter"),
    [
        ("lvel:high", True),
        ("Lvel:High", True),
        ('lvel:"very high"', True),
        ("color:red", True),
        ("lvel:", True),
        ("level:high", False),
        ("LEVEL:high", False),
        ("color:", False),
        ("Error:", False),
        ("http://x.org", False),
        ("std::map", False),
        ("port:80", False),
        ("10:30", False),
        ("c:\\x", False),
        ('"lvel:high"', False),
    ],
)
def test_a_colon_makes_a_filter_if_a_mistyped_key_is_likely(typed: str, is_filter: bool) -> None:
    (word,) = split_filter(typed)
    assert bool(unknown_filter_error(word, ("level:", "is:"))) is is_filter


def test_an_error_names_the_word_and_what_to_type() -> None:
    assert invalid_word("is:happy", ("idle", "live", "long")) == (
        "is:happy is not valid. Use idle, live or long"
    )
    assert invalid_word("x" * 90, ("live:",)) == f"{'x' * 24} is not valid. Use live:"
