"""docs/security.md says what the code does: every test and key that it names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ctxtop.core.injection.injected_text import MAX_PROMPT_CHARS
from ctxtop.core.policy.policy import (
    MAX_THRESHOLDS,
    MIN_COOLDOWN_S,
    MIN_HYSTERESIS,
    MIN_THRESHOLD_SHARE,
    MIN_THRESHOLD_TOKENS,
    UNTRUSTED_KEYS,
)

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
WORDS = " ".join(PAGE.split())
TESTS = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)))


@pytest.mark.parametrize(("file", "name"), TESTS)
def test_each_test_of_the_table_exists(file: str, name: str) -> None:
    assert re.search(rf"^(async )?def {name}\(", (ROOT / file).read_text("utf-8"), re.MULTILINE)


def test_each_threat_names_what_stops_it_and_a_test() -> None:
    table = PAGE.partition("## Threats")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 20
    for row in rows:
        assert len(row.strip("|").split(" | ")) == 5, row
        assert "::test_" in row, row


def test_the_keys_and_limits_of_an_untrusted_project_are_the_code_s() -> None:
    listed = WORDS.partition("key by key")[2].partition("These change what")[0]
    assert set(re.findall(r"`([a-z_]+(?:\.[a-z_]+)?)`", listed)) == UNTRUSTED_KEYS
    said = (
        f"from {MIN_THRESHOLD_SHARE:.0%} of the window ({MIN_THRESHOLD_TOKENS:,} tokens)".replace(
            "%", " %"
        )
    )
    assert said in WORDS
    assert f"at most {MAX_THRESHOLDS} of them" in WORDS
    assert f"`rearm.cooldown_s` from {MIN_COOLDOWN_S}" in WORDS
    assert f"`rearm.hysteresis` from {MIN_HYSTERESIS}" in WORDS
    assert f"at most {MAX_PROMPT_CHARS} characters" in WORDS
