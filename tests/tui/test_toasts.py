"""Toasts that are drawn at the very end of their time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ctxtop.tui import dashboard
from ctxtop.tui.dashboard import MIN_TOAST_S, TOAST_S, Dashboard, Toast
from textual.widgets import Button
from textual.widgets._toast import Toast as ToastWidget

from .support import opened

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


async def test_one_toast_at_a_time_for_four_seconds() -> None:
    app = Dashboard()
    async with app.run_test(notifications=True) as pilot:
        app.toast("the first")
        await pilot.pause()
        app.toast("the second", severity="error")
        await pilot.pause()
        (shown,) = app._notifications
        assert shown.message == "the second"
        assert (shown.timeout, app.NOTIFICATION_TIMEOUT) == (TOAST_S, TOAST_S)
        assert TOAST_S == 4


async def test_a_toast_is_gone_with_its_page(demo: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(demo) as it:
        it.app.toast("of the fleet")
        await it.pilot.pause()
        await it.press("L")
        assert [each.message for each in it.app._notifications] == ["of the fleet"], "too new"
        monkeypatch.setattr(dashboard, "TOAST_GRACE_S", 0.0)
        it.app.confirm("Sure?", "what", "Do it", lambda: None)
        await it.pilot.pause()
        assert len(it.app._notifications) == 1, "a dialog is the same page"
        await it.press("escape", "escape")
        await it.until(lambda: it.app.screen is it.app.fleet)
        assert not it.app._notifications
        it.app.toast("of the fleet again")
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
