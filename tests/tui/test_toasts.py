"""Toasts that are drawn at the very end of their time."""

from __future__ import annotations

from ctxtop.tui.dashboard import MIN_TOAST_S, Dashboard, Toast
from textual.widgets._toast import Toast as ToastWidget


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
