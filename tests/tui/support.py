"""Opening the dashboard on a folder, and reading what stands on its screen."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from ctxtop.tui.app import CtxtopApp
from ctxtop.tui.app_state.toasts import Notice, Toast
from ctxtop.tui.page_kit.dialogs import QuestionScreen
from ctxtop.tui.page_kit.page import ReadingScreen
from ctxtop.tui.screens.session.session_screen import SessionScreen
from ctxtop.tui.screens.session.session_tabs import SessionTab, row_detail, tab_listing
from ctxtop.tui.screens.summaries.summary_screen import SummaryScreen
from ctxtop.tui.widgets.header_footer import StatusLine
from ctxtop.tui.widgets.row_list import RowList
from ctxtop.tui.widgets.whole_text_pane import WholeTextPane
from textual.notifications import Notify

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from ctxtop.collectors.demo import DemoSession
    from ctxtop.collectors.locations.places import Places
    from textual.message import Message
    from textual.pilot import Pilot

NOW: Final = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
NOW_MS: Final = int(NOW.timestamp() * 1000)
WIDE: Final = (120, 40)
ROOMY: Final = (200, 40)
"""Here a session's row has every column."""
DEADLINE_S: Final = 60.0
"""A test that waits longer hangs."""
RECHECK_S: Final = 0.1  # for what changes without a message, such as a file
MOST_HOPS: Final = 100
"""More than any chain of messages has; a screen that never comes to rest is not waited for."""


@dataclass
class Clock:
    """What the dashboard takes for the time."""

    ms: int = NOW_MS


@dataclass
class Stage:
    """A folder of the client's, its store, the clock, and the truth about its sessions."""

    places: Places
    clock: Clock
    sessions: tuple[DemoSession, ...] = ()

    @property
    def root(self) -> Path:
        return self.places.config_dir

    def titled(self, start: str) -> DemoSession:
        return next(session for session in self.sessions if session.title.startswith(start))


@dataclass
class Opened:
    """The dashboard in a test's hands."""

    app: CtxtopApp
    pilot: Pilot[None]
    stage: Stage
    messages: list[Message] = field(default_factory=list)
    arrival: asyncio.Event = field(default_factory=asyncio.Event)  # set by each message
    toasts: list[str] = field(default_factory=list)  # all that were shown, in their order

    async def until(self, met: Callable[[], object], seconds: float = DEADLINE_S) -> None:
        """Check a condition after each message; the failure shows the screen."""
        end = time.monotonic() + seconds
        while True:
            await self.calm()
            self.arrival.clear()
            if met():
                return
            if time.monotonic() > end:
                shown = "\n".join(self.lines)
                raise AssertionError(f"not within {seconds} s; the screen is\n{shown}")
            with suppress(TimeoutError):
                await asyncio.wait_for(self.arrival.wait(), RECHECK_S)

    async def calm(self) -> None:
        """Wait until every message that is on its way has arrived."""
        for _ in range(MOST_HOPS):
            await self.pilot.pause()
            pumps = (self.app, *self.app.screen.walk_children(with_self=True))
            if all(pump._message_queue.empty() for pump in pumps):
                break

    async def press(self, *keys: str) -> None:
        for key in keys:
            await self.pilot.press(key)
            await self.calm()

    async def click(self, name: str, row: int, times: int = 1) -> None:
        """Click at a line of a pane's rows."""
        await self.pilot.click(self.pane(name).rows, offset=(20, row), times=times)
        await self.calm()

    async def resize(self, size: tuple[int, int]) -> None:
        await self.pilot.resize_terminal(*size)
        await self.until(lambda: self.app.screen._compositor.size == size)

    async def settle(self) -> None:
        """Wait until the panes show what the marked row asks for."""

        def met() -> bool:
            view = self.app.fleet._view
            return (
                view is not None
                and view.scanned
                and view.request.session_id == self.app.fleet.marked
                and view.request.search == self.app.fleet.search
            )

        await self.until(met)

    async def mark(self, title: str) -> None:
        """Go down to a session with the keys."""
        ids = {one.session_id for one in self.app.fleet.shown if one.title.startswith(title)}
        for _ in range(MOST_HOPS):  # each time that they are put in another order meanwhile
            place = next(n for n, key in enumerate(self.rows()) if key in ids)
            await self.press("g", *["j"] * place)
            await self.settle()
            if self.app.fleet.marked in ids:
                break

    async def read_question(self) -> None:
        """Wait for a question, and read all of it: it cannot be approved before."""

        def is_open() -> bool:
            return isinstance(self.app.screen, QuestionScreen) and self.app.screen.takes_keys

        await self.until(is_open)
        pane = self.app.screen.query_one(WholeTextPane)
        while not pane.is_seen:
            await self.press("pagedown")
        await self.until(is_open)

    async def answered(self) -> None:
        """Wait until every question so far is answered."""
        done: list[object] = []
        for worker in (self.app.lookup_worker, self.app.quick_worker):
            worker.submit(lambda: None, done.append)
        await self.until(lambda: len(done) == 2)

    async def reading(self) -> None:
        """Wait for a text to read, whole."""

        def met() -> bool:
            screen = self.app.screen
            if isinstance(screen, SessionScreen):
                return screen.is_mounted and _has_read_all(screen)
            if isinstance(screen, SummaryScreen):
                return screen.is_mounted and screen.reader.report is not None
            return isinstance(screen, ReadingScreen) and screen.is_mounted

        await self.until(met)

    @property
    def text(self) -> str:
        """All of the text to read, also what is not in sight."""
        screen = self.app.screen
        if isinstance(screen, SessionScreen):
            return "\n".join(
                [*self.lines, *(line for part in SessionTab for line in self.part(part))]
            )
        assert isinstance(screen, ReadingScreen)
        return screen._content.plain

    def part(self, part: SessionTab, width: int = 100) -> list[str]:
        """All that a part of a session's page says: its head, its rows, and what is beside them."""
        screen = self.app.screen
        assert isinstance(screen, SessionScreen)
        shown = screen._shown()
        found = tab_listing(part, shown, width)
        beside = [row_detail(shown, row.item, width).plain for row in found.rows]
        rows = [row.content.plain for row in found.rows]
        words = [found.head.plain, *rows, *beside] if rows else [found.empty]
        return "\n".join(words).split("\n")

    def pane(self, name: str) -> RowList:
        return self.app.fleet.query_one(f"#{name}", RowList)

    def rows(self, name: str = "sessions") -> dict[str, str]:
        """The words of a pane's rows, by key, in their order."""
        return {row.key: row.content.plain for row in self.pane(name).shown}

    def titles(self) -> list[str]:
        """The shown sessions' titles in their order."""
        return [session.title for session in self.app.fleet.shown]

    @property
    def is_home(self) -> bool:
        """No page and no question lies above the sessions."""
        return self.app.screen is self.app.fleet

    @property
    def status(self) -> str:
        """The line at the top as it is drawn."""
        line = self.app.fleet.query_one(StatusLine)
        return "".join(segment.text for segment in line.render_line(0))

    @property
    def trouble(self) -> str:
        """What is wrong, as it stands on the screen, without its line breaks."""
        told = self.app.fleet.query_one("#trouble")
        if not told.display:
            return ""
        shown = self.lines[told.region.y : told.region.bottom]
        return " ".join(line.strip() for line in shown)

    @property
    def lines(self) -> list[str]:
        """What stands on the screen, line by line."""
        strips = self.app.screen._compositor.render_strips()
        return ["".join(segment.text for segment in strip) for strip in strips]

    @property
    def words(self) -> str:
        return "\n".join(self.lines)


@asynccontextmanager
async def opened(
    stage: Stage, size: tuple[int, int] = WIDE, notice: str = ""
) -> AsyncIterator[Opened]:
    """Open the dashboard and wait until the first scan is on the screen."""
    async with just_opened(stage, size, notice) as it:
        await it.settle()
        yield it


@asynccontextmanager
async def just_opened(
    stage: Stage, size: tuple[int, int] = WIDE, notice: str = ""
) -> AsyncIterator[Opened]:
    """Open the dashboard and wait for the fleet's screen alone."""
    async with run(CtxtopApp(stage.places, notice=notice), stage, size) as it:
        await it.until(lambda: it.app._fleet is not None and it.app._fleet.is_attached)
        yield it


@asynccontextmanager
async def run(app: CtxtopApp, stage: Stage, size: tuple[int, int] = WIDE) -> AsyncIterator[Opened]:
    """Run a dashboard; what it posts and tells is kept."""
    app.animation_level = "none"
    messages: list[Message] = []
    arrival = asyncio.Event()
    toasts: list[str] = []
    told: list[Notice] = []

    def receive(message: Message) -> None:
        messages.append(message)
        if isinstance(message, Notify):
            toast = message.notification
            assert isinstance(toast, Toast)
            # What joined the toast; the rest was told before.
            new = [each for each in toast.notices if each not in told]
            told.extend(new)
            toasts.append(
                "\n\n".join([f"{new[0].title}\n{new[0].text}", *(each.whole for each in new[1:])])
            )
        arrival.set()

    async with app.run_test(size=size, notifications=True, message_hook=receive) as pilot:
        try:
            yield Opened(app, pilot, stage, messages, arrival, toasts)
        finally:
            # As a person leaves it; run_test alone takes the screen away under a running app.
            app.exit()


def _has_read_all(page: SessionScreen) -> bool:
    """Whether everything that a session's page asked for is shown."""
    turn = page._past
    return (
        page._details is not None
        and page._timeline is not None
        and (None if turn is None else turn.last_offset) in page._turns
        and not page._is_reading_turn
        and page._settling is None
    )
