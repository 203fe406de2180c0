"""Two texts, line by line and word by word."""

from __future__ import annotations

from ctxtop.core.summaries.summary_comparison import MAX_LINES, diff_texts
from hypothesis import given
from hypothesis import strategies as st

texts = st.lists(st.sampled_from(["a b c", "a b d", "", "x", "one two three four"])).map("\n".join)


def test_the_same_text_has_no_difference() -> None:
    found = diff_texts("one\ntwo", "one\ntwo")
    assert (found.starts, found.same, found.only_left, found.only_right) == ((), 2, 0, 0)


def test_words_of_a_changed_line_are_told() -> None:
    found = diff_texts("first\nthe pool has 20 places\nlast", "first\nthe pool has 40 places\nlast")
    assert found.starts == (1,)
    pair = found.pairs[1]
    assert pair.left is not None
    assert pair.right is not None
    assert [pair.left.text[a:b] for a, b in pair.left.changed] == ["20"]
    assert [pair.right.text[a:b] for a, b in pair.right.changed] == ["40"]


def test_a_line_that_only_one_has_stands_alone() -> None:
    found = diff_texts("one\ntwo", "one\nnew line that is like nothing\ntwo")
    assert [(bool(pair.left), bool(pair.right)) for pair in found.pairs] == [
        (True, True),
        (False, True),
        (True, True),
    ]
    assert (found.only_left, found.only_right) == (0, 1)


def test_lines_beyond_the_limit_are_counted_not_compared() -> None:
    long = "\n".join(map(str, range(MAX_LINES + 7)))
    found = diff_texts(long, long)
    assert (len(found.pairs), found.left_cut, found.right_cut) == (MAX_LINES, 7, 7)


@given(texts, texts)
def test_both_texts_can_be_read_from_it(left: str, right: str) -> None:
    found = diff_texts(left, right)
    assert "\n".join(pair.left.text for pair in found.pairs if pair.left) == left
    assert "\n".join(pair.right.text for pair in found.pairs if pair.right) == right
    for pair in found.pairs:
        assert pair.same == (
            pair.left is not None
            and pair.right is not None
            and pair.left.text == pair.right.text
            and not pair.left.changed
        )
