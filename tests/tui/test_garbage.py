"""Looking for garbage stops all other work: it comes rarely, and looks through little."""

from __future__ import annotations

import gc
import subprocess
import sys
from typing import TYPE_CHECKING, Final

from ctxtop.tui.base.garbage import COMMAND_THRESHOLD, freeze_long_lived_objects, rare_collections

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


def test_a_command_looks_for_garbage_rarely() -> None:
    usual = gc.get_threshold()
    with rare_collections():
        assert gc.get_threshold() == (COMMAND_THRESHOLD, *usual[1:])
    assert gc.get_threshold() == usual


PROBE: Final = """
import atexit, gc, sys
atexit.register(lambda: print(len(gc.get_objects()) < gc.get_freeze_count()))
from ctxtop.tui.cli import main
sys.argv = ["ctxtop", "--version"]
main()
"""


def test_the_exit_looks_through_nothing() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROBE], capture_output=True, text=True, check=True, timeout=60
    )
    assert ended.stdout.splitlines()[1:] == ["True"]
