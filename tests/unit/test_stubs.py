"""Stubs: short, stable, whole, and never made of a stub."""

from __future__ import annotations

from ctxtop.core.compaction.stubs import (
    DIGEST_CHARS,
    POINTER_BYTES,
    SHORTEST_CHARS,
    is_stubbed,
    is_worth,
    mark,
    pointer,
    stub,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.worked import numbered


@given(st.text(), st.text())
def test_a_pointer_fits_its_bytes_and_is_known_again(text: str, why: str) -> None:
    short = pointer(text, why)
    assert len(short.encode("utf-8", "surrogatepass")) <= POINTER_BYTES
    assert is_stubbed(short)


def test_a_mark_depends_on_the_text_alone() -> None:
    assert mark("a text") == mark("a text") != mark("another")
    assert len(mark("\ud83d half a sign")) == 8


def test_a_digest_holds_whole_names_and_as_many_as_fit() -> None:
    names = [f"module_{number}.function_{number}" for number in range(200)]
    digest = stub("x" * 600, "Bash ls", "", names).partition("It names: ")[2].removesuffix("]")
    assert len(digest) <= DIGEST_CHARS
    assert digest.split(", ") == names[: digest.count(", ") + 1]


def test_a_name_that_is_too_long_makes_room_for_the_next() -> None:
    assert stub("x", "", "", ["n" * DIGEST_CHARS, "port_8080"]).endswith("It names: port_8080]")


def test_a_stub_says_what_it_was_and_is_not_stubbed_again() -> None:
    text = numbered()
    names = ["src/network/frame_decoder.py"]
    short = stub(text, "Read /src/a.py lines 1-60, ok", "Read it again for more.", names)
    assert f"{len(text):,} chars" in short
    assert "Read /src/a.py lines 1-60, ok" in short
    assert "src/network/frame_decoder.py" in short
    assert is_worth(text, short)
    assert not is_worth(short * 10, "x")


def test_short_texts_and_small_gains_are_not_worth_it() -> None:
    assert not is_worth("x" * (SHORTEST_CHARS - 1), "")
    assert not is_worth("x" * 600, "y" * 300)
    assert is_worth("x" * 601, "y" * 300)
