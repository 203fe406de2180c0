"""The screens as pictures: a change of how they look is seen, and accepted or not."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from .support import opened

if TYPE_CHECKING:
    from .support import Opened, Stage

PICTURES: Final = Path(__file__).with_name("pictures")
REPORT: Final = Path(__file__).with_name("report")
ACCEPT: Final = "CTXTOP_ACCEPT"

LEADER: Final = "Ship the wishlist"
THEMES: Final = ("ctxtop-dark", "ctxtop-light")
SIZES: Final = ((80, 24), (120, 40))


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


async def counted(it: Opened) -> None:
    """Wait for the tokens of every text: they are estimated after the first scan is shown."""

    def is_counted() -> bool:
        rows = it.rows("summaries").values()
        return bool(rows) and all("≈" in row for row in rows)

    await it.until(is_counted)


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("size", SIZES, ids=["80x24", "120x40"])
async def test_the_fleet(demo: Stage, size: tuple[int, int], theme: str) -> None:
    async with opened(demo, size) as it:
        it.app.theme = theme
        await counted(it)
        await it.mark(LEADER)
        compare(it, f"fleet-{size[0]}x{size[1]}-{theme}")


async def test_a_report(demo: Stage) -> None:
    async with opened(demo, (100, 40)) as it:
        await it.mark("Explain the invoice run")
        await it.press("enter")
        await it.reading()
        compare(it, "report")


async def test_a_summary(demo: Stage) -> None:
    async with opened(demo, (80, 24)) as it:
        await it.press("3", "enter")
        await it.reading()
        compare(it, "summary")


async def test_the_help(demo: Stage) -> None:
    async with opened(demo, (100, 42)) as it:
        await counted(it)
        await it.press("question_mark")
        compare(it, "help")


async def test_nothing_to_show(stage: Stage) -> None:
    async with opened(stage, (80, 24)) as it:
        # The folder's name differs from run to run.
        it.pane("sessions").empty = "No sessions yet in ~/.claude."
        await it.calm()
        compare(it, "empty")
