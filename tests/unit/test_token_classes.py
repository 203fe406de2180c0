"""What a text consists of, as its tokens tell."""

from __future__ import annotations

import pytest
from ctxtop.core.measure.tokens import TokenClass, count_token_classes, estimate_tokens, token_class


@pytest.mark.parametrize(
    ("token", "found"),
    [
        (b" a", TokenClass.WORD_2),
        (b"else", TokenClass.WORD_4),
        (b" return", TokenClass.WORD_7),
        (b" function", TokenClass.WORD_LONG),
        (b"123", TokenClass.DIGITS),
        (b" =", TokenClass.MARK_1),
        (b"()", TokenClass.MARK_2),
        (b"----", TokenClass.MARKS),
        (b"'s", TokenClass.MARK_2),
        (b");\n", TokenClass.MARKS_LINE),
        (b"\n\n", TokenClass.LINE),
        (b"    ", TokenClass.SPACE),
        (b"\xe3\x81", TokenClass.OTHER),
        ("é".encode(), TokenClass.OTHER),
    ],
)
def test_each_token_has_its_class(token: bytes, found: TokenClass) -> None:
    assert token_class(token) is found


def test_every_token_is_counted_once() -> None:
    text = "def f(x):\n    return {'a': 123, 'β': x}\n" * 3_000

    counts = count_token_classes(text)

    assert sum(counts) == estimate_tokens(text)
    assert counts[TokenClass.DIGITS] == 3_000
    assert count_token_classes("") == (0,) * len(TokenClass)
