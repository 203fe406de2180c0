"""What the feed sends while the screen takes it, and while it does not."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from ctxtop.tui.app_state.feed import Feed
from ctxtop.tui.base.messages import ViewChanged

from .writing import answer, append, prompt, session_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.message import Message

    from .support import Stage

PATIENCE_S: Final = 60.0


def until(met: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not met():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_views_do_not_pile_up_for_a_screen_that_takes_none(stage: Stage) -> None:
    path = session_file(stage.root, 1)
    append(path, prompt("Fill it", 0), answer(100_000, 0))
    sent: list[Message] = []
    feed = Feed(stage.places, sent.append, lambda: stage.clock.ms)

    def views() -> list[ViewChanged]:
        return [each for each in sent if isinstance(each, ViewChanged)]

    feed.start()
    try:
        until(lambda: bool(views()))
        for number in range(1, 8):
            append(path, answer(100_000 + 1000 * number, number))
            time.sleep(0.4)
        assert len(views()) == 1
        # What changed meanwhile is in the next one.
        feed.view_received()
        until(lambda: len(views()) == 2)
        (session,) = views()[-1].view.sessions
        assert session.context.tokens == 107_000
    finally:
        feed.stop()
