"""The stylesheets: Textual merges them, and ids are not unique in the whole app."""

from __future__ import annotations

from pathlib import Path

import ctxtop.tui
import pytest
from ctxtop.tui.base.theme import DARK, fallback_colors
from textual.css.model import SelectorType
from textual.css.stylesheet import Stylesheet

VARIABLES = DARK.to_color_system().generate() | fallback_colors(DARK)
STYLESHEETS = sorted(Path(ctxtop.tui.__file__).parent.rglob("*.tcss"))


@pytest.mark.parametrize("path", STYLESHEETS, ids=lambda path: path.name)
def test_an_id_or_a_class_is_styled_only_inside_a_named_screen_or_widget(path: Path) -> None:
    stylesheet = Stylesheet(variables=VARIABLES)
    stylesheet.read(path)
    rules = stylesheet.rules
    assert rules
    reach_everywhere = [
        selector_set.selectors
        for rule in rules
        for selector_set in rule.selector_set
        if any(one.type in {SelectorType.ID, SelectorType.CLASS} for one in selector_set.selectors)
        and selector_set.selectors[0].type is not SelectorType.TYPE
    ]
    assert reach_everywhere == []
