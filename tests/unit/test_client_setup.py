"""How settings and environment decide when a client compacts by itself."""

from __future__ import annotations

import pytest
from ctxtop.collectors.claude_code.registry import autocompact_option
from ctxtop.core.measure.effective_config import ResolvedSetting
from ctxtop.core.measure.window import (
    AUTO_COMPACT_OPTION,
    DEFAULT_AUTO_COMPACT,
    AutoCompactConfig,
    PercentClaim,
    read_auto_compact_config,
)
from ctxtop.core.model.config_records import ConfigScope, SettingValue
from ctxtop.core.model.context_window import Claim, ClaimSource

MODEL = "claude-opus-5-5"
WINDOW = "CLAUDE_CODE_AUTO_COMPACT_WINDOW"
PERCENT = "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE"


def setup(
    settings: dict[str, SettingValue] | None = None, environment: dict[str, str] | None = None
) -> AutoCompactConfig:
    held = {
        name: ResolvedSetting(value, ConfigScope.USER, "s.json")
        for name, value in (settings or {}).items()
    }
    return read_auto_compact_config(held, environment or {}, MODEL)


def test_nothing_is_set_where_nobody_set_anything() -> None:
    assert setup({"model": "opus"}, {"PATH": "/bin"}) == DEFAULT_AUTO_COMPACT


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("150000", 150_000),
        (" 200000 ", 200_000),
        ("500k", 500_000),
        ("1M", 1_000_000),
        ("50000", 100_000),
        ("2000000", 1_000_000),
    ],
)
def test_the_variable_is_read_and_clamped_as_the_client_does(text: str, tokens: int) -> None:
    assert setup(environment={WINDOW: text}).window == Claim(tokens, ClaimSource.ENVIRONMENT)


@pytest.mark.parametrize("text", ["", "auto", "-5", "0", "1.5e5", "many"])
def test_a_variable_that_is_no_number_sets_nothing(text: str) -> None:
    assert setup(environment={WINDOW: text}).window is None


@pytest.mark.parametrize(
    ("settings", "window"),
    [
        ({"autoCompactWindow": 150_000}, 150_000),
        ({"autoCompactWindow": 50_000}, None),
        ({"autoCompactWindow": "auto"}, None),
        ({"autoCompactWindow": True}, None),
        ({f"modelSettings.{MODEL}.autoCompactWindow": 150_000}, 150_000),
        ({"modelSettings.opus.autoCompactWindow": 150_000}, 150_000),
        ({"modelSettings.haiku.autoCompactWindow": 150_000}, None),
        (
            {"autoCompactWindow": 300_000, "modelSettings.opus.autoCompactWindow": 150_000},
            150_000,
        ),
        (
            {"autoCompactWindow": 300_000, "modelSettings.opus.autoCompactWindow": "auto"},
            300_000,
        ),
    ],
)
def test_a_setting_for_the_model_wins_over_one_for_all(
    settings: dict[str, SettingValue], window: int | None
) -> None:
    expected = None if window is None else Claim(window, ClaimSource.SETTINGS)

    assert setup(settings).window == expected


def test_a_variable_wins_over_a_setting_and_the_settings_own_over_the_shells() -> None:
    shell = {WINDOW: "400000"}
    assert setup({"autoCompactWindow": 300_000}, shell).window == Claim(
        400_000, ClaimSource.ENVIRONMENT
    )
    own: dict[str, SettingValue] = {"autoCompactWindow": 300_000, f"env.{WINDOW}": "200000"}
    assert setup(own, shell).window == Claim(200_000, ClaimSource.SETTINGS)
    assert setup({f"env.{WINDOW}": 200_000}).window == Claim(200_000, ClaimSource.SETTINGS)


@pytest.mark.parametrize(
    ("settings", "environment", "who"),
    [
        ({"autoCompactEnabled": False}, {}, ClaimSource.SETTINGS),
        ({"autoCompactEnabled": True}, {}, None),
        ({}, {"DISABLE_AUTO_COMPACT": "1"}, ClaimSource.ENVIRONMENT),
        ({}, {"DISABLE_COMPACT": "true"}, ClaimSource.ENVIRONMENT),
        ({}, {"DISABLE_COMPACT": "0"}, None),
        ({"env.DISABLE_AUTO_COMPACT": "yes"}, {}, ClaimSource.SETTINGS),
        ({"env.DISABLE_AUTO_COMPACT": True}, {}, ClaimSource.SETTINGS),
    ],
)
def test_who_switched_it_off(
    settings: dict[str, SettingValue], environment: dict[str, str], who: ClaimSource | None
) -> None:
    assert setup(settings, environment).disabled_by is who


@pytest.mark.parametrize(
    ("text", "value"),
    [("50", 50.0), ("12.5", 12.5), ("100", 100.0), ("0", None), ("101", None), ("half", None)],
)
def test_a_percentage_counts_above_0_and_up_to_100(text: str, value: float | None) -> None:
    expected = None if value is None else PercentClaim(value, ClaimSource.ENVIRONMENT)

    assert setup(environment={PERCENT: text}).percent == expected


def test_the_other_variables() -> None:
    found = setup(
        environment={
            "CLAUDE_CODE_DISABLE_1M_CONTEXT": "1",
            "CLAUDE_CODE_MAX_CONTEXT_TOKENS": "300000",
            "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "8000",
        }
    )

    assert found.large_window_disabled_by is ClaimSource.ENVIRONMENT
    assert found.max_context == Claim(300_000, ClaimSource.ENVIRONMENT)
    assert found.max_output == 8_000


@pytest.mark.parametrize(
    ("option", "tokens"),
    [("130000", 130_000), ("500k", 500_000), ("200", 200_000), ("2m", 1_000_000)],
)
def test_the_option_of_the_command_line_stands_between_variable_and_setting(
    option: str, tokens: int
) -> None:
    environment = {AUTO_COMPACT_OPTION: option}
    held: dict[str, SettingValue] = {"autoCompactWindow": 300_000}
    assert setup(held, environment).window == Claim(tokens, ClaimSource.COMMAND_LINE)
    both = environment | {WINDOW: "400000"}
    assert setup(held, both).window == Claim(400_000, ClaimSource.ENVIRONMENT)


def test_the_option_auto_takes_the_setting_away() -> None:
    assert setup({"autoCompactWindow": 300_000}, {AUTO_COMPACT_OPTION: "auto"}).window is None


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (["claude", "--autocompact", "150k", "--model", "opus"], "150k"),
        (["claude", "--autocompact=AUTO"], "auto"),
        (["claude", "--autocompact", "100000", "--autocompact", "200000"], "200000"),
        (["claude", "-p", "--autocompact is what?"], None),
        (["claude", "--", "--autocompact", "150k"], None),
        (["claude", "--autocompact"], None),
        (["claude", "--autocompact", "my secret prompt"], None),
    ],
)
def test_the_option_is_found_among_the_words(words: list[str], value: str | None) -> None:
    assert autocompact_option(words) == value
