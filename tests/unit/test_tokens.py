"""Tokens of a text are counted with the table that the package ships."""

# ruff: noqa: ANN401 -- any field may be named

from __future__ import annotations

import socket
from typing import Any, NoReturn

import pytest
from ctxtop.core.measure import tokens


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    tokens._encoding.cache_clear()


# Counted with tiktoken.get_encoding("cl100k_base") itself, from the published table.
@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("hello world", 2),
        ("tiktoken is great!", 6),
        ("2 + 2 = 4", 7),
        ("antidisestablishmentarianism", 6),
        ("お誕生日おめでとう", 9),
    ],
)
def test_known_texts_have_their_known_count(text: str, count: int) -> None:
    assert tokens.estimate_tokens(text) == count


def test_words_that_are_special_to_a_model_are_text_here() -> None:
    assert tokens.estimate_tokens("<|endoftext|>") > 1


def test_a_long_text_is_counted_in_pieces() -> None:
    words = "word " * 100_000

    assert 100_000 <= tokens.estimate_tokens(words) <= 100_020


@pytest.mark.parametrize("character", ["a", " ", "\n", "é", "="])
def test_a_megabyte_of_one_character_ends(character: str) -> None:
    assert tokens.estimate_tokens(character * 1_000_000) > 0


def test_half_a_surrogate_pair_is_counted() -> None:
    assert tokens.estimate_tokens("a\ud800b") > 0
