"""Where the client compacts by itself: by what is set, what was seen, and what is known."""

from __future__ import annotations

from typing import Any

import pytest
from ctxtop.core.claims import Claim, Source
from ctxtop.core.client_setup import NOTHING_SET, ClientSetup, Percent
from ctxtop.core.trigger import (
    BUFFER,
    OLD_RESERVE,
    RESERVE,
    Compacted,
    Trigger,
    TriggerEvidence,
    find_trigger,
    trigger_tokens,
)

NOW = (2, 1, 329)
SMALL = "claude-sonnet-4-6"
LARGE = "claude-opus-5-5"
FOUR_FIVE = "claude-haiku-4-5"


def trigger(model: str = SMALL, window: int = 200_000, **fields: Any) -> Trigger:  # noqa: ANN401
    return find_trigger(TriggerEvidence(model, fields.pop("version", NOW), window, **fields))


def declared(tokens: int, source: Source = Source.SETTINGS) -> ClientSetup:
    return ClientSetup(window=Claim(tokens, source))


def test_the_constants_are_those_of_the_reference() -> None:
    assert (RESERVE, BUFFER, OLD_RESERVE) == (20_000, 13_000, 32_000)


@pytest.mark.parametrize(
    ("window", "tokens"), [(200_000, 167_000), (400_000, 367_000), (1_000_000, 967_000)]
)
def test_the_formula_gives_the_references_table(window: int, tokens: int) -> None:
    assert trigger_tokens(window, NOTHING_SET, LARGE, NOW) == tokens


@pytest.mark.parametrize(
    ("version", "tokens"), [((2, 1, 20), 155_000), ((2, 1, 21), 167_000), (None, 167_000)]
)
def test_clients_before_2_1_21_kept_the_whole_answer_free(
    version: tuple[int, ...] | None, tokens: int
) -> None:
    assert trigger_tokens(200_000, NOTHING_SET, SMALL, version) == tokens


@pytest.mark.parametrize(
    ("setup", "tokens"),
    [
        (ClientSetup(percent=Percent(50, Source.SETTINGS)), 90_000),
        (ClientSetup(percent=Percent(12.5, Source.SETTINGS)), 22_500),
        (ClientSetup(percent=Percent(99, Source.SETTINGS)), 167_000),
        (ClientSetup(max_output=8_000), 179_000),
        (ClientSetup(max_output=64_000), 167_000),
    ],
)
def test_what_is_set_moves_it_as_it_moves_the_clients(setup: ClientSetup, tokens: int) -> None:
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

    assert found.source is Source.TABLE
    assert (found.tokens is not None) is armed
    assert ("not armed" in found.why) is not armed


def test_a_declared_window_arms_and_ends_it_earlier() -> None:
    assert trigger(FOUR_FIVE, setup=declared(200_000)).tokens == 167_000
    assert trigger(LARGE, 1_000_000, setup=declared(150_000)) == Trigger(117_000, Source.SETTINGS)
    assert trigger(FOUR_FIVE, setup=declared(500_000)).tokens == 167_000


def test_a_percentage_alone_arms_nothing() -> None:
    half = ClientSetup(percent=Percent(50, Source.ENVIRONMENT))

    assert trigger(FOUR_FIVE, setup=half).tokens is None
    assert trigger(LARGE, 1_000_000, setup=half).tokens == 490_000


@pytest.mark.parametrize("who", [Source.SETTINGS, Source.ENVIRONMENT])
def test_switched_off_is_not_armed_and_says_who_did_it(who: Source) -> None:
    setup = ClientSetup(disabled_by=who, window=Claim(150_000, who))
    found = trigger(LARGE, 1_000_000, setup=setup)

    assert (found.tokens, found.source) == (None, who)
    assert "switched off" in found.why


def test_an_agents_definition_can_only_lower_it() -> None:
    low = trigger(LARGE, 1_000_000, declared=120_000, setup=declared(150_000))
    high = trigger(LARGE, 1_000_000, declared=400_000, setup=declared(150_000))

    assert low == Trigger(87_000, Source.DEFINITION)
    assert high == Trigger(117_000, Source.SETTINGS)


def test_own_compactions_confirm_the_formula() -> None:
    own = (Compacted(160_000, 167_081), Compacted(120_000, 178_144))

    assert trigger(own=own) == Trigger(167_000, Source.SESSION_COMPACTION)


def test_own_compactions_that_the_formula_does_not_explain_are_believed() -> None:
    own = (Compacted(140_000, 151_000), Compacted(130_000, 148_000))
    found = trigger(own=own, others=(Compacted(160_000, 167_500),))

    assert (found.tokens, found.source) == (148_000, Source.SESSION_COMPACTION)
    assert found.contradicting == (Claim(167_000, Source.OTHER_SESSIONS),)


def test_other_sessions_speak_where_the_own_one_is_silent() -> None:
    others = (Compacted(160_000, 167_500),)

    assert trigger(others=others) == Trigger(167_000, Source.OTHER_SESSIONS)
    assert trigger(FOUR_FIVE, others=others) == Trigger(167_000, Source.OTHER_SESSIONS)


def test_a_compaction_after_a_refused_prompt_tells_no_trigger() -> None:
    assert trigger(own=(Compacted(0, 3_842),)).source is Source.TABLE


def test_one_that_came_before_its_request_corrects_the_table_however_low_it_is() -> None:
    own = (Compacted(86_000, 99_016, armed=True),)
    assert trigger(LARGE, 1_000_000, own=own) == Trigger(99_016, Source.SESSION_COMPACTION)
    refused = (Compacted(86_000, 599_016, armed=False),)
    assert trigger(LARGE, 1_000_000, own=refused).source is Source.TABLE


def test_what_the_session_has_passed_by_is_no_trigger_any_more() -> None:
    own = (Compacted(86_000, 99_016, armed=True),)
    report = Claim(87_000, Source.CONTEXT_REPORT)
    assert trigger(LARGE, 1_000_000, own=own, report=report, counter=98_000).tokens == 99_016
    found = trigger(LARGE, 1_000_000, own=own, report=report, counter=150_000)
    assert (found.tokens, found.source) == (967_000, Source.TABLE)


def test_one_that_came_at_the_windows_end_tells_that_nothing_was_armed() -> None:
    found = trigger(own=(Compacted(190_000, 196_049),))

    assert (found.tokens, found.source) == (None, Source.SESSION_COMPACTION)
    assert "window's end" in found.why


def test_a_compaction_where_the_environment_asks_for_it_contradicts_nobody() -> None:
    own = (Compacted(116_515, 118_015, armed=True),)
    setup = declared(150_000, Source.ENVIRONMENT)

    assert trigger(LARGE, 1_000_000, own=own, setup=setup) == Trigger(117_000, Source.ENVIRONMENT)


def test_what_is_set_now_contradicts_what_was_seen_before() -> None:
    own = (Compacted(160_000, 167_081),)
    found = trigger(own=own, setup=declared(150_000), report=Claim(170_000, Source.CONTEXT_REPORT))

    assert found == Trigger(
        117_000,
        Source.SETTINGS,
        (Claim(167_000, Source.SESSION_COMPACTION), Claim(170_000, Source.CONTEXT_REPORT)),
    )
