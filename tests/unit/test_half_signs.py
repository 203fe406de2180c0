"""Half a surrogate pair in JSON: a strict reader refuses the line that JavaScript wrote."""

from __future__ import annotations

import json

import msgspec
import pytest
from ctxtop.core.transcript.raw_lines import replace_lone_surrogates
from hypothesis import given
from hypothesis import strategies as st

HALVES = st.characters(categories=["Cs"])


@given(st.lists(st.one_of(st.text(), HALVES, st.sampled_from(["\\", '"', "\\ud83d", "🎉"]))))
def test_a_strict_reader_takes_it_and_only_halves_are_others(parts: list[str]) -> None:
    # Two halves that come together by chance are a whole.
    text = "".join(parts)
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    written = json.dumps(text)
    mended = replace_lone_surrogates(written)
    said = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert msgspec.json.decode(mended) == said
    assert len(mended) == len(written)


@pytest.mark.parametrize(
    "whole", [r'"\ud83c\udf89"', r'"\\ud83d"', r'"\\\\ud83d \u0041 \n"', '"🎉"', "no JSON \\", ""]
)
def test_what_is_whole_stays_as_it_is(whole: str) -> None:
    assert replace_lone_surrogates(whole) == whole


@pytest.mark.parametrize(
    ("halved", "mended"),
    [
        (r'"\uD83D\uD83C\uDF89"', r'"\ufffd\uD83C\uDF89"'),
        (r'"\udf89\ud83c"', r'"\ufffd\ufffd"'),
        (r'"\\\ud83d"', r'"\\\ufffd"'),
    ],
)
def test_each_half_is_one_unknown_sign(halved: str, mended: str) -> None:
    assert replace_lone_surrogates(halved) == mended
