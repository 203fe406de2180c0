"""The page of all summaries: its list, its search, its filters, its text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxtop.tui.screens.summaries import SummariesScreen

from .support import opened

if TYPE_CHECKING:
    from .support import Opened, Stage


def page(it: Opened) -> SummariesScreen:
    screen = it.app.screen
    assert isinstance(screen, SummariesScreen)
    return screen


async def all_summaries(it: Opened) -> SummariesScreen:
    """Open the page and wait until its rows and its text are there."""
    await it.press("S")
    await listed(it)
    return page(it)


async def listed(it: Opened) -> None:
    """Wait until what is in sight was read."""

    def met() -> bool:
        screen = page(it)
        return (
            screen._listing is not None
            and not screen._list_asker._busy
            and not screen._text_asker._busy
            and not any(line.strip(" │▁") == "…" for line in it.lines)
        )

    await it.until(met)


async def test_it_lists_all_by_days_newest_first(demo: Stage) -> None:
    async with opened(demo) as it:
        screen = await all_summaries(it)
        assert len(screen.rows.ids) == 18
        print(it.words)
        assert "Today, Friday 20 November" in it.words
