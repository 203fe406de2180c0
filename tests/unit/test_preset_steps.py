"""What a preset does at each step, beside the default."""

from __future__ import annotations

import pytest
from ctxtop.core.actions.preset_steps import preset_steps
from ctxtop.core.policy.schema import DEFAULT_PRESET, PRESETS


def texts(preset: str) -> dict[str, str]:
    return {
        each.step: each.text.replace("\N{NO-BREAK SPACE}", " ") for each in preset_steps(preset)
    }


def test_the_default_differs_from_itself_in_nothing() -> None:
    assert all(each.text == each.default_text for each in preset_steps(DEFAULT_PRESET))


@pytest.mark.parametrize("preset", [name for name in PRESETS if name != DEFAULT_PRESET])
def test_a_preset_differs_from_every_other_one(preset: str) -> None:
    others = [texts(name) for name in PRESETS if name != preset]
    assert texts(preset) not in others


def test_the_steps_of_a_preset_are_its_values() -> None:
    shown = texts("not-agent")
    assert shown["warns"] == "at 75 %: compacts; above 80 %: tells you; above 100 %: warns you"
    assert shown["window"] == "100,000 tokens"
    assert shown["keeps"] == "the newest 4 messages, fewer of a session that has hardly more"
    assert texts("omo-2.6")["keeps"] == "the newest 5 turns with tools, at least 10,000 tokens"
    assert texts("omo-doc")["recovers"] == (
        "by itself once you set mode = auto yourself, if a prompt is too long: truncate_largest,"
        " fix_empty, summarize; only if you confirm it: revert; off: aggressive"
        " (recovery.aggressive)"
    )
    assert texts("omo-latest")["warns"] == "at 78 %: compacts"
    assert "input + cache read + output only" in texts("omo-2.6")["counts"]
    assert texts("not-agent")["counts"] == "the text only, as characters / 4"
    assert texts("hybrid-buffer")["counts"].endswith("cl100k_base, 4 tokens around each message")
    assert texts("hybrid-buffer")["window"].startswith("80 % of the model's; of an unknown model")
    never = "never by itself; when you ask, a plan by levels, the least harmful changes first"
    assert {texts(name)["compacts"] for name in ("clnode", "native", "claude-memory")} == {never}
    assert texts("default")["compacts"].startswith("a plan by levels")
