"""How large a model's window is: the strongest evidence decides."""

from __future__ import annotations

import pytest
from ctxtop.core.window import (
    LARGE_WINDOW,
    SMALL_WINDOW,
    WindowEvidence,
    WindowSource,
    find_window,
    table_window,
)
from msgspec.structs import replace

ALL = WindowEvidence(
    model="claude-opus-4-6",
    status_line_tokens=500_000,
    session_peak_tokens=300_000,
    limit_tokens=400_000,
    model_peak_tokens=600_000,
)


def test_the_evidence_counts_in_its_order() -> None:
    found = []
    evidence = ALL
    for weaker in (
        {"status_line_tokens": None},
        {"session_peak_tokens": 200_000},
        {"limit_tokens": None},
        {"model_peak_tokens": 200_000},
        {"model": "some-other-model"},
        {},
    ):
        window = find_window(evidence)
        found.append((window.source, window.tokens))
        assert window.why
        evidence = replace(evidence, **weaker)

    assert found == [
        (WindowSource.STATUS_LINE, 500_000),
        (WindowSource.SESSION_USAGE, LARGE_WINDOW),
        (WindowSource.API_ERROR, 400_000),
        (WindowSource.MODEL_USAGE, LARGE_WINDOW),
        (WindowSource.MODEL_TABLE, SMALL_WINDOW),
        (WindowSource.ASSUMED, SMALL_WINDOW),
    ]


def test_a_status_line_that_was_outgrown_loses() -> None:
    evidence = replace(ALL, status_line_tokens=200_000, session_peak_tokens=200_001)

    assert find_window(evidence).source is WindowSource.SESSION_USAGE


def test_a_status_line_that_is_just_filled_wins() -> None:
    evidence = replace(ALL, status_line_tokens=200_000, session_peak_tokens=200_000)

    assert find_window(evidence).source is WindowSource.STATUS_LINE


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        ("claude-opus-5-5", LARGE_WINDOW),
        ("claude-haiku-4-5-20251001", SMALL_WINDOW),
        ("claude-haiku-4-5", SMALL_WINDOW),
        ("claude-opus-4-20250514", SMALL_WINDOW),
        ("claude-opus-4-6", SMALL_WINDOW),
        ("claude-opus-4-6[1m]", LARGE_WINDOW),
        ("claude-sonnet-4-5-20250929[1m]", LARGE_WINDOW),
        ("claude-3-5-sonnet-20241022", SMALL_WINDOW),
        ("claude-3-5-haiku-latest", SMALL_WINDOW),
        ("claude-3-7-sonnet@20250219", SMALL_WINDOW),
        ("us.anthropic.claude-haiku-4-5-20251001-v1:0", SMALL_WINDOW),
        ("anthropic.claude-opus-4-8-v1", LARGE_WINDOW),
        ("arn:aws:bedrock:us-east-1:1:inference-profile/eu.anthropic.claude-opus-5", LARGE_WINDOW),
        ("claude-opus-55", None),
        ("claude-opus-5-6", None),
        ("gpt-9", None),
        ("<synthetic>", None),
        ("", None),
        (None, None),
    ],
)
def test_the_table_knows_ids_with_dates_and_prefixes(model: str | None, tokens: int | None) -> None:
    assert table_window(model) == tokens
