"""Where the client compacts by itself: by what is set, what was seen, and what is known."""

from __future__ import annotations

from typing import Any

import pytest
from ctxtop.core.measure.window import (
    DEFAULT_AUTO_COMPACT,
    OLD_OUTPUT_RESERVE,
    AutoCompactConfig,
    AutoCompaction,
    PercentClaim,
    TriggerEvidence,
    find_trigger,
    trigger_tokens,
)
from ctxtop.core.model.context_window import (
    OUTPUT_RESERVE,
    TRIGGER_BUFFER,
    Claim,
    ClaimSource,
    Trigger,
)

NOW = (2, 1, 329)
SMALL = "claude-sonnet-4-6"
LARGE = "claude-opus-5-5"
FOUR_FIVE = "claude-haiku-4-5"


def trigger(model: str = SMALL, window: int = 200_000, **fields: Any) -> Trigger:  # noqa: ANN401
    return find_trigger(TriggerEvidence(model, fields.pop("version", NOW), window, **fields))


def declared(tokens: int, source: ClaimSource = ClaimSource.SETTINGS) -> AutoCompactConfig:
    return AutoCompactConfig(window=Claim(tokens, source))


def test_the_constants_are_those_of_the_reference() -> None:
    assert (OUTPUT_RESERVE, TRIGGER_BUFFER, OLD_OUTPUT_RESERVE) == (20_000, 13_000, 32_000)


@pytest.mark.parametrize(
    ("window", "tokens"), [(200_000, 167_000), (400_000, 367_000), (1_000_000, 967_000)]
)
def test_the_formula_gives_the_references_table(window: int, tokens: int) -> None:
    assert trigger_tokens(window, DEFAULT_AUTO_COMPACT, LARGE, NOW) == tokens


@pytest.mark.parametrize(
    ("version", "tokens"), [((2, 1, 20), 155_000), ((2, 1, 21), 167_000), (None, 167_000)]
)
def test_clients_before_2_1_21_kept_the_whole_answer_free(
    version: tuple[int, ...] | None, tokens: int
) -> None:
    assert trigger_tokens(200_000, DEFAULT_AUTO_COMPACT, SMALL, version) == tokens


@pytest.mark.parametrize(
    ("setup", "tokens"),
    [
        (AutoCompactConfig(percent=PercentClaim(50, ClaimSource.SETTINGS)), 90_000),
        (AutoCompactConfig(percent=PercentClaim(12.5, ClaimSource.SETTINGS)), 22_500),
        (AutoCompactConfig(percent=PercentClaim(99, ClaimSource.SETTINGS)), 167_000),
        (AutoCompactConfig(max_output=8_000), 179_000),
        (AutoCompactConfig(max_output=64_000), 167_000),
    ],
)
def test_what_is_set_moves_it_as_it_moves_the_clients(
    setup: AutoCompactConfig, tokens: int
) -> None:
    assert trigger_tokens(200_000, setup, SMALL, NOW) == tokens


@pytest.mark.parametrize(
    ("model", "window", "version", "armed"),
    [
        (SMALL, 200_000, NOW, True),
        ("claude-opus-4-6", 200_000, NOW, True),
        (SMALL + "[1m]", 1_000_000, NOW, False),
        (LARGE, 1_000_000, NOW, True),
        (LARGE, 200_000, NOW, True),
        ("claude-sonnet-5", 1_000_000, (2, 1, 217), True),
        ("claude-opus-5", 1_000_000, (2, 1, 217), False),
        ("claude-opus-5", 1_000_000, NOW, True),
        ("claude-opus-5", 200_000, (2, 1, 217), True),
        (FOUR_FIVE, 200_000, NOW, False),
        ("claude-sonnet-4-5", 200_000, NOW, False),
        (FOUR_FIVE, 200_000, (2, 1, 45), True),
        ("my-own-model", 1_000_000, NOW, True),
    ],
)
def test_which_sessions_are_armed_where_nothing_is_set(
    model: str, window: int, version: tuple[int, ...], armed: bool
) -> None:
    found = trigger(model, window, version=version)

    assert found.source is ClaimSource.TABLE
    assert (found.tokens is not None) is armed
    assert ("not armed" in found.why) is not armed


def test_a_declared_window_arms_and_ends_it_earlier() -> None:
    assert trigger(FOUR_FIVE, config=declared(200_000)).tokens == 167_000
    assert trigger(LARGE, 1_000_000, config=declared(150_000)) == Trigger(
        117_000, ClaimSource.SETTINGS
    )
    assert trigger(FOUR_FIVE, config=declared(500_000)).tokens == 167_000


def test_a_percentage_alone_arms_nothing() -> None:
    half = AutoCompactConfig(percent=PercentClaim(50, ClaimSource.ENVIRONMENT))

    assert trigger(FOUR_FIVE, config=half).tokens is None
    assert trigger(LARGE, 1_000_000, config=half).tokens == 490_000


@pytest.mark.parametrize("who", [ClaimSource.SETTINGS, ClaimSource.ENVIRONMENT])
def test_switched_off_is_not_armed_and_says_who_did_it(who: ClaimSource) -> None:
    setup = AutoCompactConfig(disabled_by=who, window=Claim(150_000, who))
    found = trigger(LARGE, 1_000_000, config=setup)

    assert (found.tokens, found.source) == (None, who)
    assert "turned off" in found.why


def test_an_agents_definition_can_only_lower_it() -> None:
    low = trigger(LARGE, 1_000_000, declared_window=120_000, config=declared(150_000))
    high = trigger(LARGE, 1_000_000, declared_window=400_000, config=declared(150_000))

    assert low == Trigger(87_000, ClaimSource.DEFINITION)
    assert high == Trigger(117_000, ClaimSource.SETTINGS)


def test_own_compactions_confirm_the_formula() -> None:
    own = (AutoCompaction(160_000, 167_081), AutoCompaction(120_000, 178_144))

    assert trigger(own_compactions=own) == Trigger(167_000, ClaimSource.SESSION_COMPACTION)


def test_own_compactions_that_the_formula_does_not_explain_are_believed() -> None:
    own = (AutoCompaction(140_000, 151_000), AutoCompaction(130_000, 148_000))
    found = trigger(own_compactions=own, other_compactions=(AutoCompaction(160_000, 167_500),))

    assert (found.tokens, found.source) == (148_000, ClaimSource.SESSION_COMPACTION)
    assert found.contradicting == (Claim(167_000, ClaimSource.OTHER_SESSIONS),)


def test_a_trigger_that_was_widened_is_learned_from_the_first_compaction_that_shows_it() -> None:
    """A client with the flag sends requests beyond its trigger while the summary is prepared."""
    before = (AutoCompaction(160_000, 167_081), AutoCompaction(161_000, 168_300))
    assert trigger(own_compactions=before).tokens == 167_000
    wide = AutoCompaction(171_000, 176_500)
    found = trigger(own_compactions=(*before, wide), answer_tokens=20_000)
    assert (found.tokens, found.source) == (176_500, ClaimSource.SESSION_COMPACTION)
    # And when the flag is off again.
    found = trigger(own_compactions=(*before, wide, AutoCompaction(159_000, 167_200)))
    assert found.tokens == 167_000


def test_a_summary_that_was_ready_when_a_prompt_was_refused_shows_where_the_client_compacts() -> (
    None
):
    ready = AutoCompaction(185_000, 199_000, armed=True, is_precomputed=True)
    found = trigger(own_compactions=(AutoCompaction(160_000, 167_081), ready))
    assert (found.tokens, found.source) == (199_000, ClaimSource.SESSION_COMPACTION)
    # It was armed: the prompt was refused because the client waited for that.
    assert trigger(own_compactions=(ready,)).tokens == 199_000


def test_other_sessions_speak_where_the_own_one_is_silent() -> None:
    others = (AutoCompaction(160_000, 167_500),)

    assert trigger(other_compactions=others) == Trigger(167_000, ClaimSource.OTHER_SESSIONS)
    assert trigger(FOUR_FIVE, other_compactions=others) == Trigger(
        167_000, ClaimSource.OTHER_SESSIONS
    )


def test_a_compaction_after_a_refused_prompt_tells_no_trigger() -> None:
    assert trigger(own_compactions=(AutoCompaction(0, 3_842),)).source is ClaimSource.TABLE


def test_one_that_came_before_its_request_corrects_the_table_however_low_it_is() -> None:
    own = (AutoCompaction(86_000, 99_016, armed=True),)
    assert trigger(LARGE, 1_000_000, own_compactions=own) == Trigger(
        99_016, ClaimSource.SESSION_COMPACTION
    )
    refused = (AutoCompaction(86_000, 599_016, armed=False),)
    assert trigger(LARGE, 1_000_000, own_compactions=refused).source is ClaimSource.TABLE


def test_what_the_session_has_passed_by_is_no_trigger_any_more() -> None:
    own = (AutoCompaction(86_000, 99_016, armed=True),)
    report = Claim(87_000, ClaimSource.CONTEXT_REPORT)
    assert (
        trigger(LARGE, 1_000_000, own_compactions=own, report=report, answer_tokens=98_000).tokens
        == 99_016
    )
    found = trigger(LARGE, 1_000_000, own_compactions=own, report=report, answer_tokens=150_000)
    assert (found.tokens, found.source) == (967_000, ClaimSource.TABLE)


def test_one_that_came_at_the_windows_end_tells_that_nothing_was_armed() -> None:
    found = trigger(own_compactions=(AutoCompaction(190_000, 196_049),))

    assert (found.tokens, found.source) == (None, ClaimSource.SESSION_COMPACTION)
    assert "end of its window" in found.why


SHORT_ANSWERS = AutoCompactConfig(max_output=8_000)


@pytest.mark.parametrize(
    ("seen", "config", "tokens"),
    [
        # A turn passed 179,000 by, while its summary was prepared: there was room for an answer.
        (AutoCompaction(181_000, 183_038), SHORT_ANSWERS, 183_038),
        (AutoCompaction(170_000, 183_038), SHORT_ANSWERS, 179_000),
        # The client records its requests, and the API refused none.
        (AutoCompaction(181_000, 183_038, armed=True), DEFAULT_AUTO_COMPACT, 183_038),
        (AutoCompaction(185_000, 196_049, armed=True), DEFAULT_AUTO_COMPACT, 196_049),
        # A single turn grew that far.
        (AutoCompaction(120_000, 196_049, armed=True), DEFAULT_AUTO_COMPACT, 167_000),
        # It had to be compacted, each time.
        (AutoCompaction(190_000, 196_049), SHORT_ANSWERS, None),
        (AutoCompaction(190_000, 196_049), DEFAULT_AUTO_COMPACT, None),
        (AutoCompaction(190_000, 196_049, armed=False), DEFAULT_AUTO_COMPACT, None),
    ],
)
def test_a_check_that_came_late_is_told_from_one_that_never_comes(
    seen: AutoCompaction, config: AutoCompactConfig, tokens: int | None
) -> None:
    found = trigger(own_compactions=(seen,), config=config)
    assert (found.tokens, found.source) == (tokens, ClaimSource.SESSION_COMPACTION)


def test_a_turn_that_grew_beyond_the_window_at_once_tells_nothing() -> None:
    for refused in (None, False):
        grown = (AutoCompaction(120_000, 196_049, armed=refused),)
        assert trigger(own_compactions=grown).source is ClaimSource.TABLE


def test_one_late_check_is_enough_to_know_that_it_is_armed() -> None:
    forced = AutoCompaction(190_000, 196_049, armed=False)
    late = AutoCompaction(176_000, 181_200, armed=True)
    assert trigger(own_compactions=(forced, late)).tokens == 181_200
    assert trigger(own_compactions=(late, forced)).tokens == 181_200


def test_a_compaction_where_the_environment_asks_for_it_contradicts_nobody() -> None:
    own = (AutoCompaction(116_515, 118_015, armed=True),)
    setup = declared(150_000, ClaimSource.ENVIRONMENT)

    assert trigger(LARGE, 1_000_000, own_compactions=own, config=setup) == Trigger(
        117_000, ClaimSource.ENVIRONMENT
    )


def test_what_is_set_now_contradicts_what_was_seen_before() -> None:
    own = (AutoCompaction(160_000, 167_081),)
    found = trigger(
        own_compactions=own,
        config=declared(150_000),
        report=Claim(170_000, ClaimSource.CONTEXT_REPORT),
    )

    assert found == Trigger(
        117_000,
        ClaimSource.SETTINGS,
        (
            Claim(167_000, ClaimSource.SESSION_COMPACTION),
            Claim(170_000, ClaimSource.CONTEXT_REPORT),
        ),
    )
