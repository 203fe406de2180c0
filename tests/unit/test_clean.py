"""Text from a transcript is data: nothing in it reaches a terminal as a command."""

from __future__ import annotations

import unicodedata

import pytest
from ctxtop.collectors import clean
from ctxtop.collectors.clean import TEXT_CHARS, TITLE_CHARS, clean_text, clean_title
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("raw", "cleaned"),
    [
        ("\x1b[31mred\x1b[0m", "[31mred[0m"),
        ("\x1b]0;title\x07", "]0;title"),
        ("\x9b31m", "31m"),
        ("a\x00b\x08c\x7fd", "abcd"),
        ("left\u202eright\u2066x\u2069\u200f", "leftrightx"),
        ("\ufeffbom", "bom"),
        ("a\ud800b", "a\ufffdb"),
        ("one\u2028two\u2029three\u0085four", "one\ntwo\nthree\nfour"),
        ("one\r\ntwo\n\tthree", "one\ntwo\n\tthree"),
        ("[bold]not markup[/]", "[bold]not markup[/]"),
        ("😀 é 漢字", "😀 é 漢字"),
    ],
)
def test_text_keeps_its_lines_and_loses_what_a_terminal_obeys(raw: str, cleaned: str) -> None:
    assert clean_text(raw) == cleaned


def test_a_title_is_one_line() -> None:
    assert clean_title("  fix\r\nthe\u2028 \tparser\x1b[2J ") == "fix the parser[2J"


def test_a_title_is_cut() -> None:
    assert clean_title("x" * 100_000) == "x" * TITLE_CHARS


def test_a_long_text_says_that_it_was_cut() -> None:
    cleaned = clean_text("x" * (TEXT_CHARS + 1))

    assert cleaned.startswith("x" * TEXT_CHARS + "\n[")
    assert "cut by ctxtop" in cleaned
    assert clean_text("x" * TEXT_CHARS) == "x" * TEXT_CHARS


@given(st.text(st.characters()))
def test_nothing_that_controls_is_left(raw: str) -> None:
    for character in clean_text(raw) + clean_title(raw):
        assert character in "\n\t" or unicodedata.category(character) not in {"Cc", "Cs"}
        assert unicodedata.bidirectional(character) not in {"RLO", "LRO", "RLE", "LRE", "PDF"}
        assert unicodedata.bidirectional(character) not in {"RLI", "LRI", "FSI", "PDI"}


@given(st.text(st.characters()))
def test_cleaning_twice_changes_nothing(raw: str) -> None:
    assert clean_text(clean_text(raw)) == clean_text(raw)
    assert clean_title(clean_title(raw)) == clean_title(raw)


def test_the_quick_look_finds_just_what_is_taken_out() -> None:
    found = {code for code in range(0x110000) if clean._MARKED.match(chr(code))}

    assert found == set(clean._TABLE)


def test_a_path_stays_whole_but_for_what_a_terminal_obeys() -> None:
    assert clean.clean_path("/home/a  b/" + "x" * 300) == "/home/a  b/" + "x" * 300
    assert clean.clean_path("/a\x1b[31m\n\u202e/b") == "/a[31m /b"
