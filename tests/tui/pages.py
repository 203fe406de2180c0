"""Every page there is and the way to it: what holds of all of them is tested in one loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ctxtop.tui.navigation import ROUTES
from ctxtop.tui.page_kit.page import Page

if TYPE_CHECKING:
    from .support import Opened


@dataclass(frozen=True, slots=True)
class Way:
    """A page and the keys that lead to it from the fleet."""

    name: str
    keys: tuple[str, ...]


WAYS: Final = (
    Way("session", ("1", "enter")),
    Way("agent", ("2", "G", "enter")),
    Way("summary", ("3", "enter")),
    *(Way(each.name, ("1", each.key.split(",")[0])) for each in ROUTES),
    Way("all settings", ("1", "P", "2")),
)


async def go(it: Opened, way: Way) -> bool:
    """Go to a page; False where there is nothing that it could show."""
    await it.press(*way.keys)
    try:
        await it.until(lambda: is_there(it), 3)
    except AssertionError:
        await back(it)
        return False
    await it.calm()
    return True


def is_there(it: Opened) -> bool:
    """Whether a page is open and drawn."""
    screen = it.app.screen
    return isinstance(screen, Page) and screen.is_mounted and bool(it.lines[0].strip())


async def back(it: Opened) -> None:
    """Go back to the fleet as a person does."""
    for _ in range(5):
        if it.app.screen is it.app.fleet:
            break
        await it.press("escape")
    assert it.app.screen is it.app.fleet, it.words
