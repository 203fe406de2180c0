"""What the answers of a hook load: the client waits for them."""

from __future__ import annotations

import subprocess
import sys

import pytest

SLOW = ("textual", "rich", "click", "sqlite_utils", "watchfiles", "tiktoken", "psutil", "yaml")

SHOW = "import sys; import ctxtop.collectors.plugin.answers.{0} as it; print(*sys.modules)"


@pytest.mark.parametrize("feature", ["inject", "steer", "remember"])
def test_an_answer_loads_nothing_that_takes_long(feature: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-I", "-c", SHOW.format(feature)], capture_output=True, check=True
    )
    loaded = {name.partition(".")[0] for name in ended.stdout.decode().split()}
    assert not loaded & set(SLOW)
    assert "ctxtop" in loaded


@pytest.mark.parametrize("feature", ["remember", "cold"])
def test_a_prompt_after_which_nothing_is_left_to_say_loads_hardly_anything(feature: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-I", "-c", SHOW.format(feature)], capture_output=True, check=True
    )
    loaded = set(ended.stdout.decode().split())
    assert not {"msgspec", "sqlite3", "ctxtop.core.summaries"} & loaded
