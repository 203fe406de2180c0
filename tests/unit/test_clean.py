"""Text from a transcript is data: nothing in it reaches a terminal as a command."""

from __future__ import annotations

import unicodedata

import pytest
from ctxtop.core.transcript import sanitize
from ctxtop.core.transcript.sanitize import (
    MAX_ID_CHARS,
    MAX_TEXT_CHARS,
    MAX_TITLE_CHARS,
    MAX_WORD_CHARS,
    sanitize_id,
    sanitize_text,
    sanitize_title,
    sanitize_word,
)
from ctxtop.core.transcript.stored_paths import path_spellings
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len


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
        ("pay\u200bload\u2060\u00ad\u180e\u034f", "payload"),
        ("hidden\U000e0069\U000e0067\U000e006e order", "hidden order"),
        ("a\u200db\u200c c\ufe0f", "ab c"),
        ("👩\u200b\u200d💻", "👩\u200d💻"),
    ],
)
def test_text_keeps_its_lines_and_loses_what_a_terminal_obeys(raw: str, cleaned: str) -> None:
    assert sanitize_text(raw) == cleaned


@pytest.mark.parametrize(
    "written",
    [
        "👩\u200d💻 and ❤\ufe0f\u200d🔥",
        "1\ufe0f\u20e3",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",  # Persian: a word with a ZWNJ
        "\u0915\u094d\u200d\u0937",  # Devanagari: a half form
        "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",  # England
        "\u845b\U000e0100",  # an ideograph's variant
    ],
)
def test_what_people_write_words_with_stays(written: str) -> None:
    assert sanitize_text(written) == written
    assert sanitize_title(written) == written


SEEN_FORMATS = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}
"""Format characters that have a shape of their own: signs of numbers, of verses, of years."""


def test_no_character_alone_that_nobody_sees_is_left() -> None:
    formats = {code for code in range(0x110000) if unicodedata.category(chr(code)) == "Cf"}
    left = {code for code in formats if sanitize_text(f"a{chr(code)}b") != "ab"}

    # Egyptian hieroglyphs' own controls show how signs stand together.
    assert left - set(range(0x13430, 0x13456)) == SEEN_FORMATS


@given(
    st.text(st.sampled_from("a1👩💻❤\ufe0f\u200d\u200c\u200b\u0915\u094d\u0645\U000e0100漢 \x1b"))
)
def test_cleaning_hidden_characters_twice_changes_nothing(raw: str) -> None:
    assert sanitize_text(sanitize_text(raw)) == sanitize_text(raw)
    assert sanitize_title(sanitize_title(raw * 40)) == sanitize_title(raw * 40)


def test_a_clients_id_stays_and_others_become_short_and_harmless() -> None:
    assert sanitize_id("toolu_01AbCdEf") == "toolu_01AbCdEf"
    one, other = sanitize_id("x" * 3_000 + "1"), sanitize_id("x" * 3_000 + "2")
    assert one != other
    assert max(map(len, (one, other))) <= MAX_ID_CHARS
    assert sanitize_id(one) == one
    hidden = sanitize_id("a\u200b1")
    assert hidden.startswith("a1~")
    assert hidden != sanitize_id("a1")


def test_a_word_is_short() -> None:
    assert sanitize_word("auto") == "auto"
    assert len(sanitize_word("x" * 3_000)) == MAX_WORD_CHARS


def test_a_title_is_one_line() -> None:
    assert sanitize_title("  fix\r\nthe\u2028 \tparser\x1b[2J ") == "fix the parser[2J"


def test_a_title_is_cut() -> None:
    assert sanitize_title("x" * 100_000) == "x" * MAX_TITLE_CHARS


def test_a_long_text_says_that_it_was_cut() -> None:
    cleaned = sanitize_text("x" * (MAX_TEXT_CHARS + 1))

    assert cleaned.startswith("x" * MAX_TEXT_CHARS + "\n[")
    assert "cut by ctxtop" in cleaned
    assert sanitize_text("x" * MAX_TEXT_CHARS) == "x" * MAX_TEXT_CHARS


@given(st.text(st.characters()))
def test_nothing_that_controls_is_left(raw: str) -> None:
    for character in sanitize_text(raw) + sanitize_title(raw):
        assert character in "\n\t" or unicodedata.category(character) not in {"Cc", "Cs"}
        assert unicodedata.bidirectional(character) not in {"RLO", "LRO", "RLE", "LRE", "PDF"}
        assert unicodedata.bidirectional(character) not in {"RLI", "LRI", "FSI", "PDI"}


@given(st.text(st.characters()))
def test_cleaning_twice_changes_nothing(raw: str) -> None:
    assert sanitize_text(sanitize_text(raw)) == sanitize_text(raw)
    assert sanitize_title(sanitize_title(raw)) == sanitize_title(raw)


def test_the_quick_look_finds_just_what_is_taken_out() -> None:
    found = {code for code in range(0x110000) if sanitize._NEEDS_TRANSLATION.match(chr(code))}

    assert found == set(sanitize._TRANSLATION)


def test_a_path_stays_whole_but_for_what_a_terminal_obeys() -> None:
    assert sanitize.sanitize_path("/home/a  b/" + "x" * 300) == "/home/a  b/" + "x" * 300
    odd = "/a\x1b[31m\n\u202e/b"
    assert sanitize.sanitize_path(odd) == "/a<U+001B>[31m<U+000A><U+202E>/b"
    assert sanitize.sanitize_path(sanitize.sanitize_path(odd)) == sanitize.sanitize_path(odd)
    assert odd in path_spellings(sanitize.sanitize_path(odd))


@given(st.text())
def test_a_path_names_its_file_and_no_other(text: str) -> None:
    shown = sanitize.sanitize_path(text)
    assert text in path_spellings(shown) or "<U+" in text
    assert not sanitize._NEEDS_TRANSLATION.search(shown)


def test_usual_signs_are_left_alone_and_take_one_cell() -> None:
    usual = [char for char in map(chr, range(0x110000)) if sanitize.has_usual_signs(char)]
    assert {"a", "~", " ", "…", "≈", "█"} <= set(usual)
    assert [char for char in usual if sanitize._strip(char) != char or cell_len(char) != 1] == []
    assert sanitize.has_usual_signs("".join(usual))
    assert not any(map(sanitize.has_usual_signs, ("a\n", "\x1b[m", "é", "語", "—\u200d", "\u202e")))
