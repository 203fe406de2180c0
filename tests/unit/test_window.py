"""How large a model's window is: the strongest evidence decides."""

from __future__ import annotations

import pytest
from ctxtop.core.measure.evidence import ContextEvidence, Evidence, ReportedWindow
from ctxtop.core.measure.window import AutoCompactConfig, WindowEvidence, find_window
from ctxtop.core.model.claude_models import LARGE_WINDOW, SMALL_WINDOW, find_by_model, table_window
from ctxtop.core.model.context import StoredTokenCounts
from ctxtop.core.model.context_window import Claim, ClaimSource
from ctxtop.core.model.evidence_rows import EvidenceRows, WindowRow
from ctxtop.core.policy.policy import PolicyOrigin
from ctxtop.core.policy.resolve import Policies, RawValue, resolve_policy
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

ALL = WindowEvidence(
    model="claude-opus-5",
    config=AutoCompactConfig(large_window_disabled_by=ClaimSource.SETTINGS),
    status_line_tokens=500_000,
    session_peak_tokens=190_000,
    compacted_window=300_000,
    report_tokens=350_000,
    limit_tokens=400_000,
    others_tokens=600_000,
)


def test_the_evidence_counts_in_its_order() -> None:
    found = []
    evidence = replace(ALL, plugin_tokens=450_000)
    for weaker in (
        {"plugin_tokens": None},
        {"status_line_tokens": None},
        {"config": AutoCompactConfig(), "session_peak_tokens": 210_000},
        {"session_peak_tokens": 190_000},
        {"compacted_window": None},
        {"report_tokens": None},
        {"limit_tokens": None},
        {"others_tokens": None},
        {"model": "some-other-model"},
        {},
    ):
        window = find_window(evidence)
        found.append((window.source, window.tokens))
        assert window.why
        evidence = replace(evidence, **weaker)

    assert found == [
        (ClaimSource.PLUGIN, 450_000),
        (ClaimSource.STATUS_LINE, 500_000),
        (ClaimSource.SETTINGS, SMALL_WINDOW),
        (ClaimSource.SESSION_USAGE, LARGE_WINDOW),
        (ClaimSource.SESSION_COMPACTION, 300_000),
        (ClaimSource.CONTEXT_REPORT, 350_000),
        (ClaimSource.API_ERROR, 400_000),
        (ClaimSource.OTHER_SESSIONS, 600_000),
        (ClaimSource.TABLE, LARGE_WINDOW),
        (ClaimSource.ASSUMED, LARGE_WINDOW),
    ]


def test_what_contradicts_the_winner_is_kept() -> None:
    evidence = replace(ALL, others_tokens=500_000)

    assert find_window(evidence).contradicting == (
        Claim(200_000, ClaimSource.SETTINGS),
        Claim(300_000, ClaimSource.SESSION_COMPACTION),
        Claim(350_000, ClaimSource.CONTEXT_REPORT),
        Claim(400_000, ClaimSource.API_ERROR),
    )


def test_what_the_session_outgrew_is_no_evidence() -> None:
    evidence = WindowEvidence("claude-opus-5", session_peak_tokens=700_000, report_tokens=600_000)

    window = find_window(evidence)

    assert (window.tokens, window.source) == (LARGE_WINDOW, ClaimSource.SESSION_USAGE)
    assert window.contradicting == ()


@pytest.mark.parametrize(
    ("version", "tokens"),
    [(None, LARGE_WINDOW), ((2, 1, 329), LARGE_WINDOW), ((2, 1, 193), SMALL_WINDOW)],
)
def test_what_is_not_known_is_assumed_as_the_client_does(
    version: tuple[int, ...] | None, tokens: int
) -> None:
    window = find_window(WindowEvidence("my-own-model", version=version))

    assert (window.tokens, window.source) == (tokens, ClaimSource.ASSUMED)


def test_a_variable_tells_the_window_of_an_unknown_model_only() -> None:
    setup = AutoCompactConfig(max_context=Claim(300_000, ClaimSource.ENVIRONMENT))

    unknown = find_window(WindowEvidence("my-own-model", config=setup))
    known = find_window(WindowEvidence("claude-haiku-4-5", config=setup))

    assert (unknown.tokens, unknown.source) == (300_000, ClaimSource.ENVIRONMENT)
    assert (known.tokens, known.source) == (SMALL_WINDOW, ClaimSource.TABLE)


def test_the_mark_asks_for_the_large_window_unless_that_is_switched_off() -> None:
    asked = WindowEvidence("claude-sonnet-4-6", asked_model="claude-sonnet-4-6[1m]")
    held = replace(
        asked, config=AutoCompactConfig(large_window_disabled_by=ClaimSource.ENVIRONMENT)
    )

    assert find_window(asked).tokens == LARGE_WINDOW
    assert (find_window(held).tokens, find_window(held).source) == (
        SMALL_WINDOW,
        ClaimSource.ENVIRONMENT,
    )


def test_a_client_before_2_1_117_held_opus_4_7_to_the_small_window() -> None:
    assert table_window("claude-opus-4-7", (2, 1, 116)) == SMALL_WINDOW
    assert table_window("claude-opus-4-7", (2, 1, 117)) == LARGE_WINDOW


def test_a_status_line_that_was_outgrown_loses() -> None:
    evidence = replace(ALL, status_line_tokens=200_000, session_peak_tokens=200_001)

    assert find_window(evidence).source is ClaimSource.SESSION_USAGE


def test_a_status_line_that_is_just_filled_wins() -> None:
    evidence = replace(ALL, status_line_tokens=200_000, session_peak_tokens=200_000)

    assert find_window(evidence).source is ClaimSource.STATUS_LINE


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


def test_a_persons_own_window_is_above_all_evidence_and_what_it_contradicts_is_named() -> None:
    window = find_window(
        WindowEvidence("house-model", policy_tokens=64_000, status_line_tokens=200_000)
    )

    assert (window.tokens, window.source) == (64_000, ClaimSource.POLICY)
    assert window.contradicting == (Claim(200_000, ClaimSource.STATUS_LINE),)


def test_the_policys_window_is_asked_for_by_the_sessions_project_and_model() -> None:
    own = resolve_policy(
        [
            RawValue(
                "limit.override",
                {"claude-haiku-4-5": 64_000},
                PolicyOrigin.PROJECT_FILE,
                ".ctxtop.toml",
            )
        ]
    )
    evidence = Evidence(EvidenceRows(), Policies(projects={"/p": own}))

    windows = [
        evidence.window_of(ContextEvidence(session_id="s", model=model, project_root=root)).tokens
        for model, root in (
            ("claude-haiku-4-5", "/p"),
            ("claude-haiku-4-5", "/q"),
            ("claude-opus-4-5", "/p"),
            ("claude-haiku-4-5-20251001", "/p"),
            ("us.anthropic.claude-haiku-4-5-20251001-v1:0", "/p"),
        )
    ]
    assert windows == [64_000, 200_000, 200_000, 64_000, 64_000]


def test_a_value_by_model_is_found_without_its_date() -> None:
    values = {"claude-sonnet-4-5": 1, "claude-sonnet-4-5[1m]": 2, "house-model": 3}
    exact = {"claude-sonnet-4-5": 1, "claude-sonnet-4-5-20250929": 4}
    assert find_by_model(values, "claude-sonnet-4-5-20250929") == 1
    assert find_by_model(values, "claude-sonnet-4-5-20250929[1m]") == 2
    assert find_by_model(values, "house-model") == 3
    assert find_by_model(values, "house-model-20250929") is None
    assert find_by_model(values, "claude-sonnet-4-20250514") is None
    assert find_by_model(values, None) is None
    assert find_by_model(exact, "claude-sonnet-4-5-20250929") == 4
    assert find_by_model({"claude-sonnet-4-5-20250929": 5}, "claude-sonnet-4-5") == 5


TOLD = EvidenceRows(
    reported_windows=(
        WindowRow("other", "claude-opus-5", None, "2.1.329", 400_000),
        WindowRow("own", "claude-haiku-4-5", None, "2.1.329", 150_000),
    )
)
SIZES = (0, 1, 64_000, 150_000, 200_000, 200_001, 400_000, 400_001, 1_000_000, 1_000_001)


@given(
    st.lists(
        st.builds(
            ContextEvidence,
            session_id=st.sampled_from(["own", "other", "third"]),
            model=st.sampled_from(["claude-opus-5", "claude-haiku-4-5", "house-model", None]),
            client_version=st.sampled_from(["2.1.329", "2.0.1"]),
            project_root=st.sampled_from([None, "/p"]),
            peak_tokens=st.sampled_from(SIZES),
            limit_tokens=st.sampled_from([None, 180_000]),
            report=st.sampled_from([None, ReportedWindow(400_000, 367_000)]),
        ),
        min_size=2,
        max_size=12,
    )
)
def test_a_session_is_measured_the_same_alone_and_after_others_of_its_kind(
    contexts: list[ContextEvidence],
) -> None:
    own = resolve_policy(
        [
            RawValue(
                "limit.override", {"house-model": 64_000}, PolicyOrigin.PROJECT_FILE, ".ctxtop.toml"
            )
        ]
    )
    policies = Policies(projects={"/p": own})
    evidence = Evidence(TOLD, policies)
    for seen in contexts:
        counted = StoredTokenCounts(answer=seen.peak_tokens)
        alone = Evidence(TOLD, policies)
        window = alone.window_of(seen)
        found = evidence.measure(seen, counted)
        assert (found.window, found.trigger) == (window, alone.trigger_of(seen, window))
