"""Stubs: short, stable, whole, and never made of a stub."""

from __future__ import annotations

from ctxtop.core.compaction.strategies.stubs import (
    MAX_NAMES_CHARS,
    MIN_STUBBED_CHARS,
    SHORT_STUB_BYTES,
    has_stub,
    is_worth_stubbing,
    make_short_stub,
    make_stub,
    text_mark,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.worked import numbered


@given(st.text(), st.text())
def test_a_pointer_fits_its_bytes_and_is_known_again(text: str, why: str) -> None:
    short = make_short_stub(text, why)
    assert len(short.encode("utf-8", "surrogatepass")) <= SHORT_STUB_BYTES
    assert has_stub(short)


def test_a_mark_depends_on_the_text_alone() -> None:
    assert text_mark("a text") == text_mark("a text") != text_mark("another")
    assert len(text_mark("\ud83d half a sign")) == 8


def test_a_digest_holds_whole_names_and_as_many_as_fit() -> None:
    names = [f"module_{number}.function_{number}" for number in range(200)]
    digest = make_stub("x" * 600, "Bash ls", "", names).partition("It names: ")[2].removesuffix("]")
    assert len(digest) <= MAX_NAMES_CHARS
    assert digest.split(", ") == names[: digest.count(", ") + 1]


def test_a_name_that_is_too_long_makes_room_for_the_next() -> None:
    assert make_stub("x", "", "", ["n" * MAX_NAMES_CHARS, "port_8080"]).endswith(
        "It names: port_8080]"
    )


def test_a_stub_says_what_it_was_and_is_not_stubbed_again() -> None:
    text = numbered()
    names = ["src/network/frame_decoder.py"]
    short = make_stub(text, "Read /src/a.py lines 1-60, ok", "Read it again for more.", names)
    assert f"{len(text):,} chars" in short
    assert "Read /src/a.py lines 1-60, ok" in short
    assert "src/network/frame_decoder.py" in short
    assert is_worth_stubbing(text, short)
    assert not is_worth_stubbing(short * 10, "x")


def test_short_texts_and_small_gains_are_not_worth_it() -> None:
    assert not is_worth_stubbing("x" * (MIN_STUBBED_CHARS - 1), "")
    assert not is_worth_stubbing("x" * 600, "y" * 300)
    assert is_worth_stubbing("x" * 601, "y" * 300)
