"""Full collections stop the screen: they come rarely, and look through little."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

from ctxtop.tui.app import freeze_long_lived_objects

from .support import opened

if TYPE_CHECKING:
    import pytest

    from .support import Stage


async def test_what_lasts_is_not_looked_through_again(
    demo: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ctxtop.tui.app.freeze_long_lived_objects", freeze_long_lived_objects)
    usual = gc.get_threshold()
    async with opened(demo) as it:
        await it.until(lambda: gc.get_freeze_count() > 0)
        assert len(gc.get_objects()) < gc.get_freeze_count()
        assert gc.get_threshold()[2] > usual[2]
    assert gc.get_freeze_count() == 0
    assert gc.get_threshold() == usual
