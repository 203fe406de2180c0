"""Notices of a running dashboard: by toast, bell and desktop, once, together, in quiet hours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors.locations.places import PolicySources
from ctxtop.core.actions.automation import AUTOMATIC_SUFFIX
from ctxtop.core.model.problem import Problem
from ctxtop.core.model.session import SessionStatus
from ctxtop.core.model.session_activity import PromptCache
from ctxtop.tui.app import CtxtopApp
from ctxtop.tui.app_state import notifications, notifier
from ctxtop.tui.app_state.notifications import Notification, NotificationKind
from ctxtop.tui.app_state.notifier import BellLock
from ctxtop.tui.base.messages import FleetView, NoticeReported, ViewRequest
from msgspec.structs import replace

from .makers import session
from .support import NOW_MS, Stage, opened
from .writing import answer, append, prompt, session_file

if TYPE_CHECKING:
    from .support import Opened


class Heard(list[str]):
    """What the terminal was given, and the programs that were run."""


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Heard:
    said = Heard()

    def run(program: tuple[str, ...]) -> str:
        said.append(program[0])
        return "no bus"

    monkeypatch.setattr(CtxtopApp, "bell", lambda _: said.append("bell"))
    monkeypatch.setattr(CtxtopApp, "write_sequence", lambda _, text: said.append(text))
    monkeypatch.setattr(notifications, "run_program", run)
    monkeypatch.setattr(notifications, "terminal_environment", dict)
    return said


def want(stage: Stage, **values: str) -> None:
    said = tuple((f"notify.{name}", value) for name, value in values.items())
    stage.places = replace(stage.places, policy=PolicySources(command_line=said))


def tell(it: Opened, *keys: str) -> None:
    for key in keys:
        it.app.notifier.notify(
            Notification(NotificationKind.DONE, key, "done", f"job {key}", subject=f"job {key}")
        )


async def test_a_test_notice_takes_every_way_that_is_on(stage: Stage, heard: Heard) -> None:
    want(stage, bell="on", desktop="osc9")
    async with opened(stage) as it:
        it.app.notifier.send_test()
        await it.until(lambda: len(heard) == 2)
        assert heard[0] == "bell"
        assert heard[1].startswith("\x1b]9;ctxtop: a test")
        assert "notified by toast, bell, osc9" in it.toasts[0]


async def test_it_stands_in_the_palette(stage: Stage, heard: Heard) -> None:
    async with opened(stage) as it:
        await it.press("colon")
        await it.press(*"test notif")
        await it.until(lambda: "Send a test notification" in it.words)
        await it.press("enter", "enter")
        await it.until(lambda: it.toasts)
        assert heard == []


async def test_what_is_off_says_nothing(stage: Stage, heard: Heard) -> None:
    want(stage, toast="off")
    async with opened(stage) as it:
        tell(it, "a")
        it.app.notifier.send_test()
        await it.calm()
        assert (it.toasts, heard) == ([], [])


async def test_in_quiet_hours_there_are_toasts_alone(stage: Stage, heard: Heard) -> None:
    want(stage, bell="on", desktop="osc9", quiet="00:00-23:59")
    async with opened(stage) as it:
        it.app.notifier.send_test()
        await it.until(lambda: it.toasts)
        assert "muted now" in it.toasts[0]
        assert heard == []


async def test_the_same_is_told_once_and_many_as_one(stage: Stage, heard: Heard) -> None:
    async with opened(stage) as it:
        tell(it, *"abcdefghij", *"abc")
        await it.until(lambda: it.toasts)
        assert it.toasts == ["10 jobs finished\njob a, job b, job c and 7 more"]
        tell(it, "a")
        tell(it, "k")
        await it.until(lambda: len(it.toasts) == 2)
        assert it.toasts[1] == "done\njob k"


async def test_another_dashboard_on_this_store_rings_already(stage: Stage, heard: Heard) -> None:
    want(stage, bell="on")
    async with opened(stage) as it:
        other = BellLock(stage.places.store)
        assert other.acquire()
        tell(it, "a")
        await it.until(lambda: it.toasts)
        await it.calm()
        assert heard == []
        other.release()
        tell(it, "b")
        await it.until(lambda: heard == ["bell"])


async def test_a_program_that_fails_stands_in_the_log(stage: Stage, heard: Heard) -> None:
    want(stage, desktop="notify-send")
    async with opened(stage) as it:
        tell(it, "a")
        await it.until(lambda: heard == ["notify-send"])
        happened = it.app.event_log
        await it.until(lambda: any(each.text == "no bus" for each in happened.all))


async def test_ten_sessions_that_reach_a_level_are_one_notice(
    stage: Stage, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifier, "GROUPING_S", 1.0)
    for number in range(10):
        append(session_file(stage.root, number), prompt(f"Job {number}"), answer(100_000))
    async with opened(stage) as it:
        for number in range(10):
            append(session_file(stage.root, number), answer(150_000, 1))
        await it.until(lambda: it.toasts, 20)
        assert len(it.toasts) < 5
        assert any("contexts reached a warning level" in toast for toast in it.toasts)


async def test_a_cache_that_expires_is_told_once_though_no_file_changes(
    stage: Stage, heard: Heard
) -> None:
    def view(*, used_at: int) -> FleetView:
        cache = PromptCache(NOW_MS + 120_100, tokens=225_000, used_at=used_at)
        idle = session(status=SessionStatus.IDLE, live=True, cache=cache)
        return FleetView((idle,), (), (), ViewRequest(), NOW_MS, None, scanned=True)

    want(stage, bell="on")
    async with opened(stage) as it:
        it.app.notifier.compare_view(view(used_at=1))
        await it.calm()
        assert it.toasts == []
        stage.clock.ms += 200
        await it.until(lambda: it.toasts)
        assert it.toasts[0].startswith("prompt cache expires in 2 min")
        await it.until(lambda: heard == ["bell"])
        it.app.notifier.compare_view(view(used_at=1))
        it.app.notifier.compare_view(view(used_at=2))
        await it.until(lambda: len(it.toasts) == 2)
        await it.calm()
        assert heard == ["bell", "bell"]


async def test_what_ctxtop_did_by_itself_is_told(stage: Stage, heard: Heard) -> None:
    async with opened(stage) as it:
        it.app.post_message(
            NoticeReported(Problem(f"compacted session a {AUTOMATIC_SUFFIX}", "≈ 9k", "undo: x"))
        )
        await it.until(lambda: it.toasts)
        assert "undo: x" in it.toasts[0]
        # Its run is in the store, which the log reads.
        assert it.app.event_log.all == ()


@pytest.mark.parametrize("first", ["automatic", "recovered"])
async def test_a_recovery_by_this_dashboard_is_told_once(stage: Stage, first: str) -> None:
    """Of one run both the automation and the next view report it, in either order."""
    fork_id = "f0000000-1111-4222-8333-444444444444"
    place, todo = f"recovered session 1111{AUTOMATIC_SUFFIX}", f"resume with: --resume {fork_id}"
    automatic = NoticeReported(Problem(place, "truncate_largest in a fork", todo))
    recovered = Notification(
        NotificationKind.RECOVERED, f"recovered 1111 {fork_id}", "the session was recovered", "x"
    )
    async with opened(stage) as it:
        for each in (first, "automatic", "recovered"):
            if each == "automatic":
                it.app.notifier.handle_notice(automatic.problem)
            else:
                it.app.notifier.notify(recovered)
        await it.until(lambda: it.toasts)
        await it.calm()
        assert len(it.toasts) == 1
        tell(it, f"about {fork_id}")
        await it.until(lambda: len(it.toasts) == 2)


async def test_a_notice_about_a_transcript_names_its_session_once(demo: Stage) -> None:
    async with opened(demo) as it:
        session = demo.titled("Ship the wishlist")
        path = f"-home-dev-shop/{session.session_id}.jsonl"
        it.app.post_message(NoticeReported(Problem(path, "was rewritten", "it was re-read")))
        toast = f"{session.title}\nwas rewritten; it was re-read"
        await it.until(lambda: toast in it.toasts)
        assert path in it.app.event_log.all[-1].where


async def test_the_end_of_an_act_is_told_outside_too(stage: Stage, heard: Heard) -> None:
    want(stage, desktop="osc9")
    async with opened(stage) as it:
        it.app.notifier.log_end("Fix the tests", "in a fork: 90 k tokens freed", failed=False)
        await it.until(lambda: heard)
        assert heard == ["\x1b]9;ctxtop: Fix the tests: in a fork: 90 k tokens freed\x07"]
        # The page itself has said so.
        assert it.toasts == []
        (entry,) = it.app.event_log.all
        assert (entry.source, entry.where) == ("you", "Fix the tests")
