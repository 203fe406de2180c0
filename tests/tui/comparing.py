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
LOOKS: Final = tuple((size, theme) for size in SIZES for theme in THEMES)

every_look = pytest.mark.parametrize(
    ("size", "theme"), LOOKS, ids=[f"{w}x{h}-{theme}" for (w, h), theme in LOOKS]
)
"""Takes the picture of a screen in three sizes and two themes."""


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


def named(screen: str, size: tuple[int, int], theme: str) -> str:
    """Name the picture of a screen."""
    return f"{screen}-{size[0]}x{size[1]}-{theme}"


async def counted(it: Opened) -> None:
    """Wait for the tokens of every text: they are estimated after the first scan is shown."""

    def is_counted() -> bool:
        rows = it.rows("summaries").values()
        return bool(rows) and all("≈" in row for row in rows)

    await it.until(is_counted)
