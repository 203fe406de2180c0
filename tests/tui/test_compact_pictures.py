"""How the pages look that compact, recover and take back."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

import pytest
from ctxtop.core.compaction import apply as engine
from ctxtop.tui.screens.recover_screen import RecoverScreen

from .compacting import (
    LARGE,
    LIVE,
    mark_row,
    planned,
    receipt_shown,
    receipts_shown,
)
from .comparing import compare_sizes
from .support import NOW_MS, opened

if TYPE_CHECKING:
    from .support import Opened, Stage

FORK: Final = uuid.UUID("5e1ec7ed-0000-4000-8000-c0ffee000001")


@pytest.fixture(autouse=True)
def _same_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "new_receipt_id", lambda: "5e1ec7ed")
    monkeypatch.setattr(engine, "_now_ms", lambda: NOW_MS - 60_000)
    monkeypatch.setattr(uuid, "uuid4", lambda: FORK)


async def at(it: Opened, title: str) -> None:
    await it.mark(title)
    await it.press("c")
    await planned(it)


async def test_compact(demo: Stage) -> None:
    async with opened(demo) as it:
        await at(it, LARGE)
        await it.press("g", "j", "j", "space")
        await planned(it)
        await it.until(lambda: "index.py" in str(it.app.screen.query_one("#change").render()))
        await compare_sizes(it, "compact")


async def test_compact_of_an_open_session(demo: Stage) -> None:
    async with opened(demo) as it:
        await at(it, LIVE)
        await compare_sizes(it, "compact-open")


async def test_receipt_and_receipts(demo: Stage) -> None:
    async with opened(demo) as it:
        await at(it, LARGE)
        await it.press("f")
        await receipt_shown(it)
        it.app.clear_notifications()
        await mark_row(it, "Bash pytest -q")
        await it.until(lambda: "Bash" in str(it.app.screen.query_one("#change").render()))
        await it.calm()
        await compare_sizes(it, "receipt")
        await it.press("R")
        await receipts_shown(it)
        await compare_sizes(it, "receipts")


async def test_recover(demo: Stage) -> None:
    async with opened(demo) as it:
        await it.mark("Explain the invoice run")
        await it.press("r")
        await it.until(lambda: isinstance(it.app.screen, RecoverScreen))
        await it.answered()
        await compare_sizes(it, "recover")
