"""Screens with a permission prompt, as the client drew them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ctxtop.collectors.terminal.tmux_panes import PaneScreen

SCREENS: Final = Path(__file__).with_name("permission_prompts")
"""What 2.1.329 drew, with the cursor's column and row before it."""

CWD: Final = "/home/me/project"
"""The folder that the client worked in."""


def screen_of(name: str) -> PaneScreen:
    cursor, text = (SCREENS / f"{name}.txt").read_text(encoding="utf-8").split("\n", 1)
    column, row = cursor.split(",")
    return PaneScreen(text, (int(column), int(row)))


def change(name: str, old: str, new: str) -> PaneScreen:
    screen = screen_of(name)
    assert old in screen.text
    return PaneScreen(screen.text.replace(old, new), screen.cursor)
