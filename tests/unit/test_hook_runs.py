"""How long Stop hooks took, against the timeouts of their settings."""

from __future__ import annotations

from typing import Any

import pytest
from ctxtop.core.measure.hook_runs import time_hooks
from ctxtop.core.model.config_records import HookHandler
from ctxtop.core.model.stored_rows import HookRun


def run(duration_ms: int, at: int = 0, **fields: Any) -> HookRun:  # noqa: ANN401 -- any field
    made: dict[str, Any] = {"event": "Stop", "command": "check", "reason": None}
    return HookRun(session_id="s", cwd="/x", at=at, duration_ms=duration_ms, **(made | fields))


def test_the_runs_of_a_command_are_measured_together() -> None:
    runs = [run(10, 1), run(900, 2, reason="no tests"), run(20, 3), run(5, 9, command="other")]
    other, check = time_hooks(runs, [HookHandler("Stop", "command", "check", 0.9)])
    assert (other.command, other.runs) == ("other", 1)
    assert (check.runs, check.median_ms, check.longest_ms) == (3, 20, 900)
    assert (check.last.duration_ms, check.last.at, check.reason) == (20, 3, "no tests")
    assert (check.timeout_ms, check.has_default_timeout, check.timed_out) == (900, False, True)
    assert (other.timeout_ms, other.has_default_timeout, other.timed_out) == (600_000, True, False)


@pytest.mark.parametrize(
    ("handler", "timeout_ms"),
    [
        (HookHandler("Stop", "agent", "check"), 60_000),
        (HookHandler("Stop", "prompt", "check"), 30_000),
        (HookHandler("Stop", "prompt", "check", 7), 7_000),
        (HookHandler("SubagentStop", "prompt", "check", 7), 600_000),
        (HookHandler("Stop", "command", "check --all", 7), 600_000),
    ],
)
def test_the_timeout_is_that_of_the_hook_of_the_event(
    handler: HookHandler, timeout_ms: int
) -> None:
    (timing,) = time_hooks([run(1)], [handler])
    assert timing.timeout_ms == timeout_ms


def test_a_hook_with_a_status_message_is_found_by_it() -> None:
    """The client records that in place of the command, or of an agent hook's prompt."""
    handler = HookHandler("Stop", "agent", "Look at all of it", 180, "Saving memories")
    (timing,) = time_hooks([run(1, command="Saving memories")], [handler])
    assert (timing.timeout_ms, timing.has_default_timeout) == (180_000, False)
    (timing,) = time_hooks([run(1, command="Look at all of it")], [handler])
    assert timing.has_default_timeout


def test_a_plugin_s_hook_is_found_in_its_folder() -> None:
    handler = HookHandler("Stop", "command", 'python3 "${CLAUDE_PLUGIN_ROOT}/t.py"', 60)
    (timing,) = time_hooks([run(1, command='python3 "/p/memory/t.py"')], [handler])
    assert timing.timeout_ms == 60_000
    (timing,) = time_hooks([run(1, command='ruby "/p/memory/t.py"')], [handler])
    assert timing.has_default_timeout
