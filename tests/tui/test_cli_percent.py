"""Amounts as shares of the plan's limits, as commands say them."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.tui.text.formats import iso_time

from ..transcripts import PROJECT, SESSION, assistant, usage, user, write
from .test_limits import report

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .ended import Ended

STEPS = 8
STEP_S = 600
TOKENS = 225_000
STEP_PERCENT = 5


@pytest.fixture
def run(tmp_path: Path, call_ctxtop: Callable[..., Ended]) -> Callable[..., Ended]:
    """Run ctxtop on a session, cold by now, of which every answer used as much of the limits."""
    config, store = tmp_path / ".claude", tmp_path / "state" / "s.db"
    began_ms = time.time_ns() // 1_000_000 - (STEPS * STEP_S + 4000) * 1000
    fields: dict[str, Any] = {"cwd": str(tmp_path)}
    lines = [user(timestamp=iso_time(began_ms), **fields)]
    for number in range(STEPS):
        at = iso_time(began_ms + number * STEP_S * 1000)
        counts = usage(TOKENS, input_tokens=0, cache_creation_input_tokens=10)
        lines.append(assistant(f"m{number}", counts=counts, timestamp=at, **fields))
    path = write(config / "projects" / PROJECT / f"{SESSION}.jsonl", lines)
    os.utime(path, (time.time() - 4000, time.time() - 4000))

    def run_here(*words: str) -> Ended:
        return call_ctxtop("--config-dir", str(config), "--db", str(store), *words)

    assert run_here("sessions").code == 0  # creates the store
    for number in range(STEPS + 1):
        at_ms = began_ms + number * STEP_S * 1000 - 1000
        report(store, at_ms, number * STEP_PERCENT, began_ms + 18_000_000)
    return run_here


def test_a_command_says_the_share_first_and_json_has_it(run: Callable[..., Ended]) -> None:
    (size,) = run("limits", "--json").json["percent_sizes"]
    found = run("resume", SESSION, "--print", "--json").json
    ratio = found["cold_rewrite_usd"] / size["dollars"] / 100
    assert found["cold_rewrite_limit_ratio"] == {"five_hour": pytest.approx(ratio)}
    said = run("resume", SESSION, "--print").err
    assert f"rewrites ≈225 k, ≈{ratio:.0%} of 5h ($0.28)".replace("%", " %") in said
    (session,) = run("sessions", "--json").json
    assert session["cold_rewrite_limit_ratio"] == found["cold_rewrite_limit_ratio"]
    assert f"≈{ratio:.0%} of 5h ($0.28)".replace("%", " %") in run("cache", SESSION).out
