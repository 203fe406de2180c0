"""Cheaper forms of what Textual does in a test: waiting, drawing and parsing style sheets."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from textual._compositor import Compositor
from textual._context import visible_screen_stack
from textual.css.stylesheet import Stylesheet

if TYPE_CHECKING:
    from collections.abc import Hashable

    import pytest
    from rich.console import RenderableType
    from textual.css.model import RuleSet
    from textual.css.types import CSSLocation
    from textual.screen import Screen

_parse_rules = Stylesheet._parse_rules
_parsed: dict[Hashable, list[RuleSet]] = {}


async def yield_once(min_sleep: float = 0.0, max_sleep: float = 1.0) -> None:
    """Replace Textual's wait for an idle processor: tests wait for what they want to see."""
    await asyncio.sleep(0)


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
    monkeypatch.setattr(Compositor, "render_update", draw_when_asked)
    monkeypatch.setattr(Stylesheet, "_parse_rules", parse_rules_once)
