"""Notifications outside of the page: which way, harmless words, and programs without a shell."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from ctxtop.tui.app_state import notifications
from ctxtop.tui.app_state.notifications import (
    TMUX_PASSTHROUGH_HINT,
    Notification,
    NotificationKind,
    channel_hint,
    choose_channel,
    desktop_notification,
    run_program,
)
from ctxtop.tui.app_state.notifier import BellLock
from ctxtop.tui.text.severity import EventSeverity

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = "a;b\x1b]52;c;x\x07\x1b\\ \x9c<b>\n\u202e&"
NOTICE = Notification(NotificationKind.TEST, "k", "ti;tle\x1b\\", HOSTILE, EventSeverity.WARNING)


@pytest.mark.parametrize("how", ["osc9", "osc777", "osc99"])
def test_nothing_of_the_words_ends_a_sequence(how: str) -> None:
    way = desktop_notification(NOTICE, how, {})
    assert isinstance(way, str)
    bodies = way.replace("\x1b\\", "\x07").rstrip("\x07").split("\x07")
    assert len(bodies) == (2 if how == "osc99" else 1)
    for body in bodies:
        assert body.startswith("\x1b]")
        assert not any(ord(each) < 32 or 0x7F <= ord(each) < 0xA0 for each in body[1:])
    assert "]52," in way
    assert "\u202e" not in way


def test_the_sequences_are_those_of_their_terminals() -> None:
    plain = Notification(NotificationKind.TEST, "k", "high", "86 %")
    assert desktop_notification(plain, "osc9", {}) == "\x1b]9;ctxtop: high: 86 %\x07"
    assert desktop_notification(plain, "osc777", {}) == "\x1b]777;notify;ctxtop: high;86 %\x1b\\"
    assert (
        desktop_notification(plain, "osc99", {})
        == "\x1b]99;i=ctxtop:d=0;ctxtop: high\x1b\\\x1b]99;i=ctxtop:p=body;86 %\x1b\\"
    )
    assert desktop_notification(plain, "off", {}) is None


def test_tmux_is_asked_to_pass_it_on() -> None:
    plain = Notification(NotificationKind.TEST, "k", "high", "86 %")
    way = desktop_notification(plain, "osc9", {"TMUX": "/tmp/tmux-0/default,1,0"})
    assert way == "\x1bPtmux;\x1b\x1b]9;ctxtop: high: 86 %\x07\x1b\\"
    assert channel_hint("osc9", {"TMUX": "x"}) == TMUX_PASSTHROUGH_HINT
    assert channel_hint("notify-send", {"TMUX": "x"}) == ""


def test_a_program_gets_its_words_as_they_are() -> None:
    way = desktop_notification(
        Notification(NotificationKind.TEST, "k", "--help", "-x <b>&"), "notify-send", {}
    )
    assert isinstance(way, tuple)
    assert way[-3:] == ("--", "ctxtop: --help", "-x &lt;b&gt;&amp;")
    apple = desktop_notification(
        Notification(NotificationKind.TEST, "k", "t", '" & do shell script "x'), "osascript", {}
    )
    assert isinstance(apple, tuple)
    assert apple[-3:] == ("--", "ctxtop: t", '" & do shell script "x')


@pytest.mark.parametrize(
    ("environ", "platform", "how"),
    [
        ({"TERM": "xterm-kitty"}, "linux", "osc99"),
        ({"TERM": "xterm-kitty", "SSH_CONNECTION": "x"}, "linux", "osc99"),
        ({"TERM_PROGRAM": "WezTerm"}, "darwin", "osc9"),
        ({"LC_TERMINAL": "iTerm2", "TERM_PROGRAM": "tmux"}, "darwin", "osc9"),
        ({"TERM": "foot"}, "linux", "osc777"),
        ({"TERM": "xterm-256color", "DISPLAY": ":0"}, "linux", "notify-send"),
        ({"TERM": "xterm-256color", "DISPLAY": ":0", "SSH_CONNECTION": "x"}, "linux", "off"),
        ({"TERM": "xterm-256color"}, "linux", "off"),
        ({"TERM_PROGRAM": "Apple_Terminal"}, "darwin", "osascript"),
    ],
)
def test_auto_takes_what_is_known_to_work(
    environ: dict[str, str], platform: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifications, "find_program", lambda name: f"/usr/bin/{name}")
    assert choose_channel("auto", environ, platform) == how
    assert choose_channel("osc9", environ, platform) == "osc9"


def test_a_program_that_fails_says_so_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    python = sys.executable
    assert run_program((python, "-c", "print('x')")) == ""
    assert "ended with code 3" in run_program((python, "-c", "raise SystemExit(3)"))
    assert "is not installed" in run_program(("/nowhere/notify-send", "x"))
    monkeypatch.setattr(notifications, "PROGRAM_TIMEOUT_S", 0.2)
    assert "did not end" in run_program((python, "-c", "import time; time.sleep(9)"))


def test_of_two_dashboards_one_rings(tmp_path: Path) -> None:
    first, second = (BellLock(tmp_path / "store.db") for _ in range(2))
    assert [first.acquire(), second.acquire(), first.acquire()] == [True, False, True]
    first.release()
    assert second.acquire()
    assert (tmp_path / "store.db.bell").stat().st_mode & 0o777 == 0o600
    second.release()
