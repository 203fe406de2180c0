"""The one toast: what joins it, how long it is shown, and that the log has all of it."""

from __future__ import annotations

from time import time
from typing import TYPE_CHECKING

import pytest
from ctxtop.tui.app_state import toasts
from ctxtop.tui.app_state.dashboard import Dashboard
from ctxtop.tui.app_state.notifications import Notification, NotificationKind
from ctxtop.tui.app_state.toasts import MAX_NOTICES, MIN_TOAST_S, TOAST_S, Toast
from ctxtop.tui.text.severity import EventSeverity
from textual.widgets import Button
from textual.widgets._toast import Toast as ToastWidget

from .support import opened
from .test_keymap import staged

if TYPE_CHECKING:
    from .support import Stage


def test_an_expired_toast_still_has_time_for_its_timer() -> None:
    expired = Toast("saved", timeout=1, raised_at=0)
    assert expired.has_expired
    assert expired.time_left == MIN_TOAST_S
    shown = Toast("saved", timeout=60)
    assert not shown.has_expired
    assert shown.time_left > MIN_TOAST_S


async def test_the_dashboard_shows_such_toasts_and_removes_them() -> None:
    app = Dashboard()
    async with app.run_test(notifications=True) as pilot:
        app.notify("saved", timeout=MIN_TOAST_S)
        while not app.screen.query(ToastWidget):
            await pilot.pause()
        (widget,) = app.screen.query(ToastWidget)
        assert isinstance(widget._notification, Toast)
        while app.screen.query(ToastWidget):
            await pilot.pause(MIN_TOAST_S)


def shown(app: Dashboard) -> list[str]:
    return [f"{each.title}: {each.message}" for each in app._notifications]


@pytest.mark.parametrize("is_one_frame", [True, False])
async def test_what_comes_while_a_toast_is_shown_joins_it(is_one_frame: bool) -> None:
    app = Dashboard()
    async with app.run_test(notifications=True) as pilot:
        app.toast("saved", "settings")
        if not is_one_frame:
            await pilot.pause()
        app.notify("is full", title="disk", severity="error")
        if not is_one_frame:
            await pilot.pause()
        app.toast("saved", "settings")
        await pilot.pause()
        # The same again is the newest, and stands there once.
        assert shown(app) == ["disk: is full\n\nsettings\nsaved"]
        (widget,) = app.screen.query(ToastWidget)
        assert widget._notification.severity == "error"
        assert (widget._notification.timeout, TOAST_S) == (TOAST_S, 4)


async def test_a_toast_that_was_closed_is_joined_by_nothing() -> None:
    app = Dashboard()
    async with app.run_test(notifications=True) as pilot:
        app.toast("the first")
        await pilot.pause()
        (toast,) = app._notifications
        app._unnotify(toast)
        app.toast("the second")
        await pilot.pause()
        assert shown(app) == [": the second"]


async def test_a_notice_leaves_the_toast_after_its_own_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Textual has the function itself, and sees the last notice as new.
    now = [time() - 6]
    monkeypatch.setattr("time.time", lambda: now[0])
    app = Dashboard()
    async with app.run_test(notifications=True) as pilot:
        app.toast("the first")
        now[0] += 3
        app.toast("the second")
        now[0] += 3
        app.toast("the third")
        await pilot.pause()
        assert shown(app) == [": the second\n\nthe third"]


async def test_many_notices_are_counted_and_all_are_in_the_log() -> None:
    app = Dashboard()
    async with app.run_test(notifications=True) as pilot:
        for number in range(MAX_NOTICES + 2):
            app.toast(f"no. {number}")
        await pilot.pause()
        assert shown(app) == [": no. 2\n\nno. 3\n\nno. 4\n\nand 2 more before: L shows the log"]
        assert [each.text for each in app.event_log.all] == [f"no. {n}" for n in range(5)]


async def test_the_log_keeps_what_every_notice_said(stage: Stage) -> None:
    whole = "words of a problem " * 40
    async with opened(stage) as it:
        it.app.toast(whole, "a title", "error")
        waits = Notification(NotificationKind.WAITING, "k", "shop", "it waits for you")
        it.app.notifier._show([waits])
        it.app.copy("the text", "a plan")
        logged = [
            (each.severity, each.source, each.where, each.text) for each in it.app.event_log.all
        ]
        assert logged == [
            (EventSeverity.PROBLEM, "ctxtop", "a title", whole.strip()),
            (EventSeverity.NOTE, "waiting", "shop", "it waits for you"),
            (EventSeverity.NOTE, "ctxtop", "copied a plan", "the text"),
        ]
        # Of an end, a noted problem and a warning level the log has the event itself.
        it.app._show_end("shop", "compacted", failed=False)
        level = Notification(NotificationKind.LEVEL, "l", "shop", "80 % of the window")
        it.app.notifier._show([level])
        assert [each.source for each in it.app.event_log.all[3:]] == ["you"]


async def test_a_notice_of_the_command_line_joins_those_of_the_settings(stage: Stage) -> None:
    wrong = staged(stage, sort="p")
    async with opened(wrong, notice="there is no folder /x") as it:
        await it.until(lambda: it.app._notifications)
        (toast,) = shown(it.app)
        assert "p is the key of pause" in toast
        assert toast.endswith("there is no folder /x")


async def test_a_toast_is_gone_with_its_page(demo: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toasts, "TOAST_GRACE_S", 60.0)
    async with opened(demo) as it:
        it.app.notify("of the fleet", timeout=60)
        await it.pilot.pause()
        await it.press("L")
        assert [each.message for each in it.app._notifications] == ["of the fleet"], "too new"
        monkeypatch.setattr(toasts, "TOAST_GRACE_S", 0.0)
        it.app.confirm("Sure?", "what", "Do it", lambda: None)
        await it.pilot.pause()
        assert len(it.app._notifications) == 1, "a dialog is the same page"
        await it.press("escape", "escape")
        await it.until(lambda: it.app.screen is it.app.fleet)
        assert not it.app._notifications
        it.app.notify("of the fleet again", timeout=60)
        await it.pilot.pause()
        await it.press("D")
        await it.until(lambda: it.app.screen is not it.app.fleet)
        assert not it.app._notifications


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (40, 24)])
async def test_a_toast_covers_no_button(demo: Stage, size: tuple[int, int]) -> None:
    async with opened(demo) as it:
        await it.resize(size)
        for name in ("compact", "a question"):
            if name == "compact":
                it.app.action_go(name)
            else:
                it.app.confirm("Sure?", "what " * 60, "Do it", lambda: None)
            await it.until(lambda: it.app.screen.query(Button))
            it.app.toast("words " * 40, "a title")
            await it.until(lambda: it.app.screen.query(ToastWidget))
            await it.calm()
            # A dialog shows none.
            shown = [each.region for each in it.app.screen.query(ToastWidget) if each.region]
            assert bool(shown) != it.app.screen.is_modal
            for button in it.app.screen.query(Button):
                assert not any(button.region.overlaps(each) for each in shown), button
            it.app.clear_notifications()
            it.app.pop_screen()
            await it.until(lambda: it.app.screen is it.app.fleet)
