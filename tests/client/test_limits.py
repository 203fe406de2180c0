"""The plan's limits through the real client: what the API says is what ctxtop shows, with its age.

The client fills `rate_limits` from the headers of the API's answers where a subscriber is logged
in (an OAuth token whose scopes include user:inference), and never with an API key.
"""

from __future__ import annotations

import json
import shutil
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.collectors.claude_code.own_files import own_log_folder
from ctxtop.collectors.plugin.statusline import render_status_line
from ctxtop.core.measure.plan_limits import FIVE_HOURS, WEEK, PlanLimit
from ctxtop.core.model.transcript_records import LogKind
from ctxtop.core.readers.limits_reader import read_plan_limits
from ctxtop.core.store.database import open_reader
from ctxtop.tui.cli.commands import run as run_command
from ctxtop.tui.text.limits_text import reading_text

if TYPE_CHECKING:
    from .lab import Lab
    from .screen import Screen

pytestmark = pytest.mark.usefixtures("terminal")

TOKEN = "sk-ant-oat01-lab-0000000000000000000000000000"
HOUR_S = 3600


def log_in(lab: Lab) -> None:
    """Log the client in as a subscriber, with the scopes that such a token has by default."""
    lab.variables |= {"ANTHROPIC_API_KEY": "", "CLAUDE_CODE_OAUTH_TOKEN": TOKEN}


def ask(screen: Screen, **windows: tuple[float, int]) -> dict[str, Any]:
    """Ask once; the API's answer says how much is used of each window, and when it is reset."""
    said = ",".join(f"{name}={used}@{resets_at}" for name, (used, resets_at) in windows.items())
    return screen.ask(f"Hi. [[say:ok&&&usage:21000&&&limits:{said}]]")


def limits(lab: Lab, now_ms: int | None = None) -> dict[str, PlanLimit]:
    """What ctxtop shows of the client's status lines so far."""
    log = own_log_folder(lab.store) / LogKind.STATUS_LINE
    log.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(lab.status_log, log)
    lab.ctxtop()
    with closing(open_reader(lab.store)) as db:
        found = read_plan_limits(db, now_ms or time.time_ns() // 1_000_000)
    return {each.window: each for each in found}


def test_what_the_api_says_is_shown(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    log_in(lab)
    screen = lab.interactive()
    five, week = int(time.time()) + 2 * HOUR_S, int(time.time()) + 90 * HOUR_S
    status = ask(screen, **{"5h": (0.625, five), "7d": (0.411, week)})
    found = limits(lab)
    assert {name: (each.used_ratio, each.resets_at) for name, each in found.items()} == {
        FIVE_HOURS: (0.625, five * 1000),
        WEEK: (0.411, week * 1000),
    }
    resets = time.strftime("%H:%M", time.localtime(five))
    assert render_status_line(status, {}).endswith(f" · 5h 63%, resets {resets}")

    options = ["--config-dir", str(lab.config), "--db", str(lab.store)]
    capsys.readouterr()
    assert run_command(["limits", "--json", *options]) == 0
    shown = json.loads(capsys.readouterr().out)["limits"]
    assert [(each["window"], each["used_ratio"], each["stale"]) for each in shown] == [
        (FIVE_HOURS, 0.625, False),
        (WEEK, 0.411, False),
    ]
    assert all(0 <= each["age_s"] < 60 for each in shown)
    assert shown[0]["used_by"]["sessions"][0]["session_id"] == screen.session_id


def test_a_repeated_reading_grows_old_and_a_reset_makes_it_stale(lab: Lab) -> None:
    log_in(lab)
    screen = lab.interactive()
    resets_at = int(time.time()) + 2 * HOUR_S
    ask(screen, **{"5h": (0.5, resets_at)})
    before = limits(lab)[FIVE_HOURS]
    time.sleep(2)
    # The status line runs again, without an answer of the API.
    screen.press("BTab")
    screen.settle()
    again = limits(lab)[FIVE_HOURS]
    assert again.read_at > before.read_at
    assert again.fresh_at == before.fresh_at
    assert again.age_ms(again.read_at) >= 1000
    ask(screen, **{"5h": (0.5, resets_at)})
    renewed = limits(lab)[FIVE_HOURS]
    assert renewed.fresh_at > before.fresh_at

    later = (resets_at + 60) * 1000
    stale = limits(lab, later)[FIVE_HOURS]
    assert stale.is_stale(later)
    assert stale.exhaustion is None
    reset = time.strftime("%H:%M", time.localtime(resets_at))
    assert reading_text(stale, later).startswith(f"stale, window reset at {reset}")


def test_a_window_that_is_over_is_not_repeated_by_the_client(lab: Lab) -> None:
    log_in(lab)
    screen = lab.interactive()
    soon = int(time.time()) + 15
    ask(screen, **{"5h": (0.9, soon), "7d": (0.3, soon + 90 * HOUR_S)})
    time.sleep(max(0.0, soon + 1 - time.time()))
    screen.press("BTab")
    assert set(screen.settle()["rate_limits"]) == {WEEK}


def test_with_an_api_key_there_are_no_limits(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    screen = lab.interactive()
    status = ask(screen, **{"5h": (0.625, int(time.time()) + 2 * HOUR_S)})
    assert "rate_limits" not in status
    assert limits(lab) == {}
    capsys.readouterr()
    options = ["--config-dir", str(lab.config), "--db", str(lab.store)]
    assert run_command(["limits", *options]) == 0
    assert "never with an API key" in capsys.readouterr().out
    assert "5h" not in render_status_line(status, {})
