"""Numbers, times and titles as a person reads them."""

from __future__ import annotations

import time
from dataclasses import dataclass

import pytest
from ctxtop.tui.text import formats
from ctxtop.tui.text.formats import (
    MAX_TOAST_CELLS,
    duration,
    fit_left,
    fit_right,
    half_cell_bar,
    model_name,
    percent,
    shorten,
    shorten_end,
    shorten_middle,
    shorten_path,
    text_cells,
    toast_text,
    tokens,
)
from ctxtop.tui.widgets.header_footer import FleetStatus, left_text
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from .support import NOW_MS

RATIOS = [step / 40 for step in range(-40, 201)]
CELLS = range(41)

TITLES = [
    "",
    "a",
    "Ship the wishlist: API, page, review",
    "修复支付网关超时的问题",
    "🚑🚒🚓 ambulance",
    "e\u0301te\u0301 a\u0300 la plage",
    "إصلاح البحث في الملاحظات",
    "zero\u200bwidth\u200djoined",
    "👨‍👩‍👧‍👦 family of four",
    "x" * 1_000,
    "汉" * 1_000,
    "\u0301" * 50,
]


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (None, "–"),
        (0, "0"),
        (999, "999"),
        (1_000, "1 k"),
        (9_440, "9.4 k"),
        (9_999, "10 k"),
        (10_000, "10 k"),
        (172_412, "172 k"),
        (999_499, "999 k"),
        (999_500, "1 M"),
        (1_000_000, "1 M"),
        (1_050_000, "1.05 M"),
        (12_345_678, "12.35 M"),
    ],
)
def test_tokens_are_rounded_and_never_a_thousand_thousands(count: int | None, words: str) -> None:
    assert tokens(count) == words


@pytest.mark.parametrize(
    ("ratio", "words"),
    [
        (None, "–"),
        (0.0, "0 %"),
        (0.004, "0 %"),
        (0.005, "1 %"),
        (0.86206, "86 %"),
        (0.865, "87 %"),
        (1.0, "100 %"),
        (1.05, "105 %"),
    ],
)
def test_percent_rounds_halves_up_and_is_never_clamped(ratio: float | None, words: str) -> None:
    assert percent(ratio) == words


@dataclass(frozen=True)
class Sizes:
    pre_tokens: int | None = 78_432
    post_tokens: int | None = 5_000
    next_tokens: int | None = 24_156
    estimated_next_tokens: int | None = None
    counted_messages_alone: int = 0


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        (Sizes(), "69.2 %"),
        (Sizes(6_611, None, None, 853), "87.1 %"),
        (Sizes(next_tokens=80_000), "-2.0 %"),
        (Sizes(pre_tokens=0), formats.NOTHING),
        (Sizes(pre_tokens=None), formats.NOTHING),
        (Sizes(next_tokens=None), formats.NOTHING),
        (Sizes(counted_messages_alone=1), formats.NOTHING),
    ],
)
def test_a_reduction_has_one_decimal(sizes: Sizes, words: str) -> None:
    """001-38, 001-39 and R001-07's numbers; the messages alone are not the context."""
    assert formats.reduction(formats.compaction_reduction(sizes)) == words


@pytest.mark.parametrize(
    ("milliseconds", "words"),
    [
        (None, "–"),
        (-5_000, "0 s"),
        (0, "0 s"),
        (59_999, "59 s"),
        (60_000, "1 min"),
        (3_599_999, "59 min"),
        (3_600_000, "1 h"),
        (86_399_999, "23 h"),
        (86_400_000, "1 d"),
        (400 * 86_400_000, "400 d"),
    ],
)
def test_an_age_is_its_largest_unit(milliseconds: int | None, words: str) -> None:
    assert duration(milliseconds) == words


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (None, "–"),
        ("", "–"),
        ("claude-opus-5-5", "opus 5.5"),
        ("claude-opus-5", "opus 5"),
        ("claude-haiku-4-5-20251001", "haiku 4.5"),
        ("claude-opus-4-20250514", "opus 4"),
        ("claude-3-5-sonnet-20241022", "sonnet 3.5"),
        ("claude-3-opus-latest", "opus 3"),
        ("claude-opus-4-6[1m]", "opus 4.6 1M"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "sonnet 4.5"),
        ("gpt-9", "gpt-9"),
        ("<synthetic>", "<synthetic>"),
    ],
)
def test_a_model_is_called_as_people_call_it(name: str | None, words: str) -> None:
    assert model_name(name) == words


def test_a_bar_has_its_cells_and_grows_with_its_ratio() -> None:
    for cells in CELLS:
        lengths = [cell_len(half_cell_bar(ratio, cells)) for ratio in RATIOS]
        assert max(lengths) <= cells
        assert lengths == sorted(lengths)
        assert cell_len(half_cell_bar(1.0, cells)) == cells
        assert (
            half_cell_bar(None, cells)
            == half_cell_bar(0.0, cells)
            == half_cell_bar(-1.0, cells)
            == ""
        )


def test_a_bar_shows_half_a_cell() -> None:
    assert half_cell_bar(0.25, 10) == "▄▄▖"
    assert half_cell_bar(0.2, 10) == "▄▄"


def test_the_smallest_fill_is_seen_and_a_bar_is_full_only_near_its_end() -> None:
    assert half_cell_bar(0.001, 10) == "▖"
    assert half_cell_bar(0.97, 10) != half_cell_bar(1.0, 10)


HARD = st.text(st.sampled_from("a汉é\u0301\u200d\u200b👨👩👧🚑🇩🇪إ\ufe0f☂\t "), max_size=40)


@pytest.mark.parametrize("title", TITLES)
@pytest.mark.parametrize("cells", [-1, 0, 1, 2, 3, 7, 12, 40])
def test_a_fitted_text_has_exactly_its_cells(title: str, cells: int) -> None:
    assert cell_len(fit_left(title, cells)) == max(0, cells)
    assert cell_len(fit_right(title, cells)) == max(0, cells)


@settings(deadline=None)
@given(st.text() | HARD, st.integers(0, 60))
def test_any_text_is_fitted_exactly(text: str, cells: int) -> None:
    assert cell_len(fit_left(text, cells)) == cells
    assert cell_len(fit_right(text, cells)) == cells


def test_the_middle_goes_and_both_ends_stay() -> None:
    assert shorten_middle("abcdefghij", 5) == "ab…ij"
    assert shorten_middle("abcdefghij", 6) == "abc…ij"
    assert shorten_middle("abcdefghij", 1) == "…"
    assert shorten_middle("abc", 3) == "abc"
    assert shorten_middle("修复支付网关", 8) == "修复…关"
    assert fit_left("ab", 4) == "ab  "
    assert fit_right("ab", 4) == "  ab"


@pytest.mark.parametrize(
    ("text", "cells", "shown"),
    [
        ("Ship the wishlist: API", 12, "Ship the wi…"),
        ("Ship the wishlist: API", 22, "Ship the wishlist: API"),
        ("修复支付网关", 8, "修复支…"),
        ("abc", 0, ""),
        # A path keeps its file name, and whole folders before it.
        ("src/app/screens/rows.py", 16, "…/rows.py"),
        ("src/app/screens/rows.py", 18, "…/screens/rows.py"),
        ("C:\\src\\app\\rows.py", 12, "…\\rows.py"),
        ("shop/fix-the-login-page", 10, "fix-the-l…"),
        ("/home/dev/a/", 6, "…/a/"),
        ("Read src/app/screens/rows.py", 16, "Read …/rows.py"),
        ("  Read src/app/screens/rows.py", 16, "  Read …/rows.py"),
        ("Read src/app/screens/rows.py", 8, "Read sr…"),
        # Also within a sentence, but not twice.
        (
            "/home/dev/shop/src/app.py is read-only: change it",
            40,
            "…/src/app.py is read-only: change it",
        ),
        ("…/shop/src/app.py is read-only: change it", 26, "…/shop/src/app.py is read…"),
        # What only has a slash in it is prose.
        ("read and/or write it", 10, "read and/…"),
    ],
)
def test_prose_is_cut_at_its_end_and_a_path_keeps_its_file(
    text: str, cells: int, shown: str
) -> None:
    assert shorten(text, cells) == shown


@given(st.text(max_size=60), st.integers(0, 30))
def test_a_cut_never_takes_more_than_its_cells(text: str, cells: int) -> None:
    for cut in (shorten, shorten_end, shorten_path, shorten_middle):
        assert cell_len(cut(text, cells)) <= cells


@pytest.mark.parametrize(
    ("lag_s", "shown"), [(0.04, "lag 0.0 s"), (2.26, "lag 2.3 s"), (-9e8, "lag 0.0 s")]
)
def test_a_clock_that_was_set_back_shows_no_negative_lag(lag_s: float, shown: str) -> None:
    assert shown in left_text(FleetStatus(lag_s=lag_s), 80).plain


YEAR_9999_MS = 253_402_300_799_000
"""A transcript may claim any time; east of Greenwich the last second of 9999 is in no calendar."""


@pytest.mark.parametrize("at_ms", [YEAR_9999_MS, -(10**14), 10**18])
def test_a_time_that_no_calendar_has_is_unknown(
    at_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    written = (
        formats.date_time(at_ms),
        formats.date_time_and_age(at_ms, NOW_MS),
        formats.local_time(at_ms, NOW_MS),
        formats.month_day_time(at_ms),
        formats.time_of_day(at_ms),
    )
    assert written == (formats.NOTHING, formats.NOTHING, formats.NOTHING, "", "")


def test_a_toast_names_a_long_path_once_and_by_its_end() -> None:
    path = "/home/dev/.claude/projects/-home-dev-shop/0a000000-0000-4000-8000-000000000001.jsonl"
    text = toast_text(f"{path}: {path} is gone; resume the session it came from")
    assert "/home" not in text
    name = path.rpartition("/")[2]
    assert text == f"…/{name}: it is gone; resume the session it came from"
    assert toast_text("keys.sort in /home/dev/.config/ctxtop.toml").endswith("/ctxtop.toml")
    assert toast_text("20 k/40 k and/or https://example.org/a/b") == (
        "20 k/40 k and/or https://example.org/a/b"
    )
    assert cell_len(toast_text("word " * 1_000)) <= MAX_TOAST_CELLS


@given(st.text(alphabet=st.one_of(st.characters(), st.sampled_from("…≈·×–—‘’“”→░█▉▏ aé汉"))))
@settings(max_examples=300)
def test_the_short_way_to_a_texts_cells_gives_the_same(text: str) -> None:
    assert text_cells(text) == cell_len(text)
