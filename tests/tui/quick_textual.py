"""Cheaper forms of what Textual does in a test: waiting, drawing and parsing style sheets."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from textual._compositor import Compositor
from textual._context import visible_screen_stack
from textual.app import ScreenStackError
from textual.css.stylesheet import Stylesheet
from textual.pilot import Pilot

if TYPE_CHECKING:
    from collections.abc import Hashable

    import pytest
    from rich.console import RenderableType
    from textual._queue import Queue
    from textual.css.model import RuleSet
    from textual.css.types import CSSLocation
    from textual.message import Message
    from textual.message_pump import MessagePump
    from textual.screen import Screen

_parse_rules = Stylesheet._parse_rules
_parsed: dict[Hashable, list[RuleSet]] = {}
_ask_every_widget = Pilot._wait_for_screen

TURNS: Final = 5
"""Of the event loop, as many as asking takes: what threads and tasks post arrives meanwhile."""
MOST_TURNS: Final = 50
"""Work that takes more is waited for as Textual does."""


async def yield_once(min_sleep: float = 0.0, max_sleep: float = 1.0) -> None:
    """Replace Textual's wait for an idle processor: tests wait for what they want to see."""
    await asyncio.sleep(0)


def has_nothing_to_do(pump: MessagePump) -> bool:
    """Whether it has handled every message, and waits for the next one."""
    queue: Queue[Message | None] = pump._message_queue
    return queue.empty() and bool(queue.ready_event._waiters)


async def wait_for_the_busy(pilot: Pilot[Any]) -> bool:
    """Ask every widget whether it is done only if one is not.

    A message to each and its answer, twice a key, took a fifth of a test's time.
    """
    for _ in range(TURNS):
        await asyncio.sleep(0)
    for _ in range(MOST_TURNS):
        await asyncio.sleep(0)
        try:
            screen = pilot.app.screen
        except ScreenStackError:
            return False
        pumps = (pilot.app, *screen.walk_children(with_self=True))
        if all(map(has_nothing_to_do, pumps)):
            return True
    return await _ask_every_widget(pilot)


def draw_when_asked(
    compositor: Compositor,
    full: bool = False,
    screen_stack: list[Screen[Any]] | None = None,
    simplify: bool = False,
) -> RenderableType | None:
    """Draw only whole screens: a third of a test's time went into parts that nobody sees."""
    visible_screen_stack.set(screen_stack or [])
    if full:
        return compositor.render_full_update(simplify=simplify)
    compositor._dirty_regions.clear()
    return None


def parse_rules_once(
    sheet: Stylesheet,
    css: str,
    read_from: CSSLocation,
    is_default_rules: bool = False,
    tie_breaker: int = 0,
    scope: str = "",
) -> list[RuleSet]:
    """Parse each sheet once for all apps that have the same colors."""
    variables = frozenset(sheet._variables.items())
    key = (css, read_from, is_default_rules, tie_breaker, scope, variables)
    if key not in _parsed:
        _parsed[key] = _parse_rules(sheet, css, read_from, is_default_rules, tie_breaker, scope)
    return _parsed[key]


def hurry_textual(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace Textual's own forms for one test."""
    monkeypatch.setattr("textual.app.wait_for_idle", yield_once)
    monkeypatch.setattr("textual.pilot.wait_for_idle", yield_once)
    monkeypatch.setattr(Pilot, "_wait_for_screen", wait_for_the_busy)
    monkeypatch.setattr(Compositor, "render_update", draw_when_asked)
    monkeypatch.setattr(Stylesheet, "_parse_rules", parse_rules_once)
