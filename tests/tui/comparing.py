"""Pictures of screens: a change of how they look is seen, and accepted or not."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from .support import Opened

PICTURES: Final = Path(__file__).with_name("pictures")
REPORT: Final = Path(__file__).with_name("report")
ACCEPT: Final = "CTXTOP_ACCEPT"

THEMES: Final = ("ctxtop-dark", "ctxtop-light")
SIZES: Final = ((80, 24), (120, 40), (200, 60))
every_size = pytest.mark.parametrize("size", SIZES, ids=[f"{w}x{h}" for w, h in SIZES])
"""Opens a screen in three sizes; `compare_themes` takes its picture in two themes each."""


def compare(it: Opened, name: str) -> None:
    """Compare the screen with the picture of this name, line by line."""
    svg = it.app.export_screenshot(title="ctxtop")
    # The only part that differs from run to run; and a line an element, so that a diff is read.
    drawn = re.sub(r"terminal-\d+", "terminal", svg).replace("><", ">\n<")
    accepted = PICTURES / f"{name}.svg"
    if os.environ.get(ACCEPT):
        PICTURES.mkdir(exist_ok=True)
        accepted.write_text(drawn, encoding="utf-8")
        return
    before = accepted.read_text(encoding="utf-8") if accepted.exists() else ""
    if drawn == before:
        return
    REPORT.mkdir(exist_ok=True)
    now = REPORT / f"{name}.svg"
    now.write_text(drawn, encoding="utf-8")
    others = [one for one in drawn.split("\n") if one not in before.split("\n")][:5]
    pytest.fail(
        f"{name} looks different: see {now} beside {accepted}; where it is right, accept it with"
        f" `{ACCEPT}=1 make test`. The first lines that are new:\n" + "\n".join(others)
    )


async def compare_themes(it: Opened, screen: str, size: tuple[int, int]) -> None:
    """Compare a screen with its pictures in each of two themes."""
    for theme in THEMES:
        it.app.theme = theme
        await it.calm()
        compare(it, f"{screen}-{size[0]}x{size[1]}-{theme}")
    it.app.theme = THEMES[0]
    await it.calm()


async def counted(it: Opened) -> None:
    """Wait for the tokens of every text: they are estimated after the first scan is shown."""

    def is_counted() -> bool:
        rows = it.rows("summaries").values()
        return bool(rows) and all("≈" in row for row in rows)

    await it.until(is_counted)
