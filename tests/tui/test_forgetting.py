"""What was left is let go: a dashboard stays open for days."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING

from textual._styles_cache import StylesCache
from textual.widget import Widget

from .pages import WAYS, back, go
from .support import opened

if TYPE_CHECKING:
    from .support import Opened, Stage

DRAWN_SINCE = 20
"""Widgets; more than one step draws anew."""


async def forget(it: Opened) -> None:
    """Drop the references that the test itself holds, and collect garbage."""
    await it.settle()
    it.messages.clear()
    gc.collect()


async def test_no_page_is_held_that_was_left(demo: Stage) -> None:
    async with opened(demo) as it:
        await it.mark("Ship the wishlist")
        pages = {}
        for way in WAYS:
            if await go(it, way):
                pages[way.name] = weakref.ref(it.app.screen)
                await back(it)
        # The last page's drawing is let go with the next one's.
        await go(it, WAYS[0])
        await back(it)
        assert len(pages) > 8

        def held() -> list[str]:
            it.messages.clear()
            gc.collect()
            return [name for name, page in pages.items() if page() is not None]

        await forget(it)
        # A page's last question to the store may still be on its way back.
        await it.until(lambda: held() == [], 10)


async def test_what_was_drawn_is_let_go_with_its_widget(demo: Stage) -> None:
    async with opened(demo) as it:
        for _ in range(4):
            for way in WAYS[:3]:
                await go(it, way)
                await back(it)
        await forget(it)
        shown = len(list(it.app.screen.walk_children(Widget)))
        assert StylesCache.get_inner_outer.cache_info().currsize < 2 * shown + DRAWN_SINCE
