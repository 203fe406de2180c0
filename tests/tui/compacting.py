"""The pages that compact and take back, in a test's hands."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from ctxtop.core.compaction.receipts import ReceiptStore
from ctxtop.core.store.database import state_folder
from ctxtop.tui.screens.compact.compact_panes import OperationPane
from ctxtop.tui.screens.compact.compact_screen import CompactScreen
from ctxtop.tui.screens.history.history_screen import ReceiptsScreen
from ctxtop.tui.screens.history.receipt_screen import ReceiptScreen
from ctxtop.tui.widgets.row_list import RowList

from .support import WIDE, opened

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from ctxtop.core.compaction.receipts import CompactionReceipt
    from ctxtop.tui.page_kit.page import Page

    from .support import Opened, Stage

LARGE = "Rewrite the OpenAPI generator"
"""A session of the demo that is over, with a dozen things that may go."""

LIVE = "Fix the flaky"
"""One that is open and idle."""


def page(it: Opened) -> CompactScreen:
    screen = it.app.screen
    assert isinstance(screen, CompactScreen)
    return screen


async def planned(it: Opened) -> None:
    """Wait until the plan stands, and until it is known whether it may be done in place."""

    def met() -> bool:
        screen = it.app.screen
        if not isinstance(screen, CompactScreen) or screen.is_stale:
            return False
        return screen._planned is not None and screen._in_place_checked and not waits(it)

    await it.until(met)
    await it.answered()


def waits(it: Opened) -> bool:
    """Something is still to be planned."""
    worker = page(it)._planner._worker
    return not worker._waiting.empty()


@asynccontextmanager
async def compacting(
    stage: Stage, title: str = LARGE, size: tuple[int, int] = WIDE
) -> AsyncIterator[Opened]:
    """Open the page of a session, with its plan."""
    async with opened(stage, size) as it:
        await it.mark(title)
        await it.press("c")
        await planned(it)
        yield it


def rows(it: Opened) -> list[str]:
    """The rows of the list that the page shows."""
    return [row.content.plain for row in it.app.screen.query_one(RowList).shown]


def boxes(it: Opened) -> str:
    """The boxes of the rows, one sign each."""
    return "".join(row[1] for row in rows(it))


async def mark_row(it: Opened, words: str) -> None:
    """Go down to the first row with some words."""
    place = next(n for n, row in enumerate(rows(it)) if words in row)
    await it.press("g", *["j"] * place)


def pane(it: Opened) -> OperationPane:
    return it.app.screen.query_one(OperationPane)


async def confirmed(it: Opened) -> None:
    """Answer a question with the button that is not safe."""
    await it.read_question()
    await it.press("right", "enter")


async def shown(it: Opened, kind: type[Page]) -> None:
    """Wait for a page of a kind, with its rows."""

    def met() -> bool:
        screen = it.app.screen
        return isinstance(screen, kind) and bool(list(screen.query(RowList)) and rows(it))

    await it.until(met)


async def receipt_shown(it: Opened) -> ReceiptScreen:
    await shown(it, ReceiptScreen)
    screen = it.app.screen
    assert isinstance(screen, ReceiptScreen)
    return screen


async def receipts_shown(it: Opened) -> ReceiptsScreen:
    await shown(it, ReceiptsScreen)
    screen = it.app.screen
    assert isinstance(screen, ReceiptsScreen)
    return screen


def kept(stage: Stage) -> list[CompactionReceipt]:
    """All receipts, newest first."""
    return ReceiptStore(state_folder(stage.places.store)).all()


def transcript(stage: Stage, title: str) -> Path:
    session_id = stage.titled(title).session_id
    return next((stage.root / "projects").glob(f"*/{session_id}.jsonl"))


def everything(stage: Stage) -> dict[str, bytes]:
    """All files of the client's, byte for byte."""
    files = (each for each in stage.root.rglob("*") if each.is_file())
    return {str(each.relative_to(stage.root)): each.read_bytes() for each in files}
