"""Pausing sessions before a break: the fleet's key, its preview, the command and its codes."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors import pause_targets
from ctxtop.collectors.terminal import client_compaction
from ctxtop.core.actions.session_access import (
    ClientCompactResult,
    CompactFailure,
    NotCompactedError,
    Via,
)
from ctxtop.core.store.automation_records import read_pauses
from ctxtop.core.store.database import open_reader
from ctxtop.tui.cli import printing
from ctxtop.tui.page_kit.dialogs import ConfirmScreen, QuestionScreen

from .support import NOW_MS, opened

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ctxtop.collectors.terminal.client_compaction import ClientCompactTarget

    from .ended import Ended
    from .support import Opened, Stage

WARM = ("Fix the flaky checkout tests", "Ship the wishlist: API, page, review")
"""The demo's sessions that are idle, large and warm."""

HAND_OFF = ("--set", "pause.ways=hand-off")
COLD = "Split the ingest worker from the API"
WAITING = "Rotate the database password"
BUSY = "Move checkout to the new tax API"


class Clients:
    """What the sessions' clients do when they are asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[str] = []
        self.fails: dict[str, NotCompactedError] = {}
        monkeypatch.setattr(pause_targets, "_find_way", lambda *_: Via.PLUGIN)
        monkeypatch.setattr(client_compaction, "ask_to_compact", self.compact)

    def compact(self, target: ClientCompactTarget, via: Via, _text: str) -> ClientCompactResult:
        self.asked.append(target.session_id)
        if target.session_id in self.fails:
            raise self.fails[target.session_id]
        return ClientCompactResult(target.session_id, via, NOW_MS, "b-1", 163_400, 24_000, 1.0)


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> Clients:
    return Clients(monkeypatch)


@pytest.fixture
def pause(
    demo: Stage,
    call_ctxtop: Callable[..., Ended],
    clients: Clients,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., Ended]:
    """The command, at the moment at which the demo was made."""
    assert clients.asked == []
    monkeypatch.setattr(time, "time_ns", lambda: NOW_MS * 1_000_000)
    folders = ("--config-dir", str(demo.places.config_dir), "--db", str(demo.places.store))
    return lambda *words, **given: call_ctxtop("pause", *words, *folders, **given)


def ids(demo: Stage, *titles: str) -> list[str]:
    return [demo.titled(title).session_id for title in titles]


async def preview(it: Opened) -> None:
    await it.press("B")
    await it.until(lambda: isinstance(it.app.screen, QuestionScreen))
    await it.answered()


async def test_the_key_shows_what_a_break_costs_and_pauses_what_is_confirmed(
    demo: Stage, clients: Clients
) -> None:
    async with opened(demo) as it:
        await preview(it)
        shown = it.words
        assert f"{WARM[0]}  163 k, warm until" in shown
        assert "/compact: ≈ $0.10 instead of ≈ $0.20" in shown
        assert f"{WAITING}  71 k · left: it waits for you" in shown
        assert f"{COLD}  412 k · left: its prompt cache is cold" in shown
        assert clients.asked == []
        await it.until(
            lambda: isinstance(it.app.screen, ConfirmScreen) and it.app.screen.takes_keys
        )
        await it.press("y")
        await it.until(lambda: len(clients.asked) == 2)
        await it.until(lambda: sum("compacted by Claude Code" in each for each in it.toasts) == 2)
        assert sorted(clients.asked) == sorted(ids(demo, *WARM))
        logged = [each.text for each in it.app.event_log.all]
        assert sum("compacted by Claude Code" in each for each in logged) == 2


async def test_only_the_marked_sessions_are_paused(demo: Stage, clients: Clients) -> None:
    async with opened(demo) as it:
        await it.mark(COLD)
        await it.press("space")
        await preview(it)
        assert "nothing to pause" in it.words
        assert f"{WARM[0]}  163 k" not in it.words
        await it.press("escape")
        assert clients.asked == []


async def test_a_no_pauses_nothing(demo: Stage, clients: Clients) -> None:
    async with opened(demo) as it:
        await preview(it)
        await it.press("n")
        await it.settle()
        assert clients.asked == []
        with open_reader(demo.places.store) as db:
            assert read_pauses(db) == []


def test_a_dry_run_says_what_each_session_costs(
    pause: Callable[..., Ended], clients: Clients, demo: Stage
) -> None:
    ended = pause("--all", "--dry-run", "--json")
    assert ended.code == 0, ended.err
    found = {each["title"]: each for each in ended.json["sessions"]}
    assert ended.json["paused"] == 0
    assert {name for name, each in found.items() if each["check"] is None} == set(WARM)
    assert found[COLD]["check"] == "cold"
    ways = found[WARM[0]]["costs"]["ways"]
    assert list(ways) == ["leave", "client", "hand-off"]
    assert ways["client"]["total_paused"] < ways["leave"]["total_paused"]
    assert found[WARM[0]]["result"] is None
    assert clients.asked == []
    text = pause("--all", "--dry-run").out
    assert "2 of 8 sessions: ≈ $0.48 up to the first prompt after the break" in text
    assert demo.titled(WARM[0]).session_id[:8] in text


def test_a_terminal_shows_the_preview_in_colors(
    pause: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(printing, "wants_colors", lambda: True)
    text = pause("--all", "--dry-run").out
    assert "\x1b[32m/compact" in text
    assert "\x1b[2mleave it" in text


def test_each_session_is_paused_once(
    pause: Callable[..., Ended], clients: Clients, demo: Stage, call_ctxtop: Callable[..., Ended]
) -> None:
    first = pause("--all", "--yes", "--json")
    assert first.code == 0, first.err
    assert first.json["paused"] == 2
    assert sorted(clients.asked) == sorted(ids(demo, *WARM))
    again = pause("--all", "--yes", "--json")
    assert again.code == 2
    checks = {each["title"]: each["check"] for each in again.json["sessions"]}
    assert {checks[title] for title in WARM} == {"paused"}
    assert len(clients.asked) == 2
    folders = ("--config-dir", str(demo.places.config_dir), "--db", str(demo.places.store))
    listed = call_ctxtop("history", "--all", "--json", *folders).json
    paused = [each for each in listed if each["mode"] == "pause, client"]
    assert {each["session_id"] for each in paused} == set(ids(demo, *WARM))


def test_a_session_that_fails_stops_no_other_and_is_not_tried_again(
    pause: Callable[..., Ended], clients: Clients, demo: Stage
) -> None:
    (failing, other) = ids(demo, *WARM)
    clients.fails[failing] = NotCompactedError(CompactFailure.FAILED, "the API did not answer")
    ended = pause("--all", "--yes")
    assert ended.code == 1
    assert f"failed: {failing[:8]}" in ended.out
    assert f"paused: {other[:8]}" in ended.out
    assert pause("--all", "--yes").code == 2
    assert clients.asked.count(failing) == 1


def test_a_session_that_became_busy_meanwhile_is_left_and_may_be_paused_later(
    pause: Callable[..., Ended], clients: Clients, demo: Stage
) -> None:
    (session_id,) = ids(demo, WARM[0])
    clients.fails[session_id] = NotCompactedError(CompactFailure.LIVE, "it is busy")
    assert pause(session_id, "--yes").code == 3
    clients.fails.clear()
    assert pause(session_id, "--yes").code == 0


@pytest.mark.parametrize(("title", "code"), [(BUSY, 3), (WAITING, 4), (COLD, 2)])
def test_the_code_says_why_a_session_is_left(
    title: str, code: int, pause: Callable[..., Ended], demo: Stage
) -> None:
    assert pause(*ids(demo, title), "--yes").code == code


def test_a_note_is_written_once_and_changes_nothing_else(
    pause: Callable[..., Ended], demo: Stage, clients: Clients
) -> None:
    (session_id,) = ids(demo, WARM[0])
    files = transcripts(demo)
    ended = pause(session_id, "--yes", "--json", *HAND_OFF)
    assert ended.code == 0, ended.err
    (session,) = ended.json["sessions"]
    new = session["result"]["resume_command"].split()[-1]
    after = transcripts(demo)
    assert {path.stem for path in after.keys() - files.keys()} == {new}
    assert {path: after[path] for path in files} == files
    assert pause(session_id, "--yes", *HAND_OFF).code == 2
    assert transcripts(demo) == after
    assert clients.asked == []


def transcripts(demo: Stage) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in demo.root.rglob("*.jsonl")}


def test_nothing_is_paused_without_a_yes(pause: Callable[..., Ended], clients: Clients) -> None:
    ended = pause("--all")
    assert ended.code == 2
    assert "pass --yes" in ended.err
    assert clients.asked == []


@pytest.mark.parametrize("words", [(), ("--all", "abc")])
def test_sessions_are_named_or_all(words: tuple[str, ...], pause: Callable[..., Ended]) -> None:
    ended = pause(*words)
    assert ended.code == 2
    assert "name sessions, or pass --all" in ended.err
    assert json.dumps(ended.out) == '""'
