"""Pictures of screens: a change of how they look is seen, and accepted or not."""

from __future__ import annotations

import asyncio
import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from .support import Opened

PICTURES: Final = Path(__file__).with_name("pictures")
REPORT: Final = Path(__file__).with_name("report")
ACCEPT: Final = "CTXTOP_ACCEPT"

DARK: Final = "ctxtop-dark"
LIGHT: Final = "ctxtop-light"
SIZES: Final = ((120, 40), (200, 60), (80, 24))
LIGHT_SIZE: Final = (120, 40)
"""The size of the one picture of each screen in the light theme."""
ACCEPT_S: Final = 1.0
MATCH_S: Final = 5.0
"""How long a screen may take to show what it reads after a resize."""


async def compare(it: Opened, name: str) -> None:
    """Compare the screen with the accepted picture of this name, line by line."""
    accepted = PICTURES / f"{name}.svg"
    if os.environ.get(ACCEPT):
        picture(it)  # What is in sight is read once it was drawn.
        await asyncio.sleep(ACCEPT_S)
        await it.calm()
        PICTURES.mkdir(exist_ok=True)
        accepted.write_text(picture(it), encoding="utf-8")
        return
    before = accepted.read_text(encoding="utf-8") if accepted.exists() else ""
    end = time.monotonic() + MATCH_S
    while (drawn := picture(it)) != before and time.monotonic() < end:
        await asyncio.sleep(0.05)
        await it.calm()
    if drawn != before:
        # A slow machine has not read yet what the screen asked for.
        await it.answered()
        drawn = picture(it)
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


def picture(it: Opened) -> str:
    svg = it.app.export_screenshot(title="ctxtop")
    # The only part that differs from run to run; and a line an element, so that a diff is read.
    return re.sub(r"terminal-\d+", "terminal", svg).replace("><", ">\n<")


async def compare_sizes(it: Opened, screen: str) -> None:
    """Compare a screen with its pictures at three sizes, at one of them in the light theme too."""
    for size in SIZES:
        await it.resize(size)
        name = f"{screen}-{size[0]}x{size[1]}"
        await compare(it, f"{name}-{DARK}")
        if size == LIGHT_SIZE:
            it.app.theme = LIGHT
            await it.calm()
            await compare(it, f"{name}-{LIGHT}")
            it.app.theme = DARK
            await it.calm()
    await it.resize(SIZES[0])


async def counted(it: Opened) -> None:
    """Wait for the tokens of every text: they are estimated after the first scan is shown."""

    def is_counted() -> bool:
        rows = it.rows("summaries").values()
        return bool(rows) and all("≈" in row for row in rows)

    await it.until(is_counted)
