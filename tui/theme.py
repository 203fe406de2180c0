"""Themes of our own; every colour that a bar or a level takes is named here."""

from __future__ import annotations

from typing import Final

from textual.theme import Theme

DARK: Final = Theme(
    name="ctxtop-dark",
    primary="#7aa2f7",
    secondary="#9d7cd8",
    accent="#7dcfff",
    success="#8fc06a",
    warning="#e0af68",
    error="#f7768e",
    foreground="#c8d0e8",
    background="#14161f",
    surface="#14161f",
    panel="#1d2030",
    dark=True,
    variables={
        "level-calm": "#5fb89a",
        "level-notice": "#d3c06a",
        "level-warning": "#e8a04f",
        "level-high": "#f08050",
        "level-emergency": "#f7768e",
        "bar-track": "#2b3045",
        "bar-mark": "#565f89",
        "bar-trigger": "#e8a04f",
        "quiet": "#7680a8",
        "pane": "#3b4261",
        "block-cursor-background": "#2c3356",
        "block-cursor-foreground": "#e4e9fb",
        "block-cursor-text-style": "bold",
        "block-cursor-blurred-background": "#202539",
        "block-cursor-blurred-foreground": "#c8d0e8",
        "footer-key-foreground": "#7dcfff",
        "footer-background": "#14161f",
        "input-selection-background": "#7aa2f7 35%",
    },
)

LIGHT: Final = Theme(
    name="ctxtop-light",
    primary="#2e5fb8",
    secondary="#7847bd",
    accent="#006c86",
    success="#3f7a1f",
    warning="#8a5a00",
    error="#b3243f",
    foreground="#2b3040",
    background="#f7f7f4",
    surface="#f7f7f4",
    panel="#ebebe6",
    dark=False,
    variables={
        "level-calm": "#1f8a6d",
        "level-notice": "#8a7500",
        "level-warning": "#a85f00",
        "level-high": "#b8451a",
        "level-emergency": "#b3243f",
        "bar-track": "#dcdcd5",
        "bar-mark": "#8d8f99",
        "bar-trigger": "#a85f00",
        "quiet": "#646a7d",
        "pane": "#b9bbc4",
        "block-cursor-background": "#cfdcf5",
        "block-cursor-foreground": "#161a26",
        "block-cursor-text-style": "bold",
        "block-cursor-blurred-background": "#e4e7ee",
        "block-cursor-blurred-foreground": "#2b3040",
        "footer-key-foreground": "#2e5fb8",
        "footer-background": "#f7f7f4",
    },
)

# Blue to orange, by Okabe and Ito: told apart with every common colour blindness.
SAFE: Final = Theme(
    name="ctxtop-colour-blind-safe",
    primary="#56b4e9",
    secondary="#cc79a7",
    accent="#56b4e9",
    success="#56b4e9",
    warning="#f0e442",
    error="#e69f00",
    foreground="#e6e6e6",
    background="#121212",
    surface="#121212",
    panel="#1e1e1e",
    dark=True,
    variables={
        "level-calm": "#0072b2",
        "level-notice": "#56b4e9",
        "level-warning": "#f0e442",
        "level-high": "#e69f00",
        "level-emergency": "#ff8a3c",
        "bar-track": "#303030",
        "bar-mark": "#7a7a7a",
        "bar-trigger": "#f0e442",
        "quiet": "#9a9a9a",
        "pane": "#4a4a4a",
        "block-cursor-background": "#28465c",
        "block-cursor-foreground": "#ffffff",
        "block-cursor-text-style": "bold",
        "block-cursor-blurred-background": "#242424",
        "block-cursor-blurred-foreground": "#e6e6e6",
        "footer-key-foreground": "#56b4e9",
        "footer-background": "#121212",
    },
)

CONTRAST: Final = Theme(
    name="ctxtop-contrast",
    primary="#ffffff",
    secondary="#ffff00",
    accent="#00ffff",
    success="#00ff7f",
    warning="#ffff00",
    error="#ff6a6a",
    foreground="#ffffff",
    background="#000000",
    surface="#000000",
    panel="#111111",
    dark=True,
    variables={
        "level-calm": "#00ff7f",
        "level-notice": "#ffff00",
        "level-warning": "#ffc000",
        "level-high": "#ff9040",
        "level-emergency": "#ff6a6a",
        "bar-track": "#444444",
        "bar-mark": "#bbbbbb",
        "bar-trigger": "#ffc000",
        "quiet": "#cfcfcf",
        "pane": "#bbbbbb",
        "block-cursor-background": "#ffffff",
        "block-cursor-foreground": "#000000",
        "block-cursor-text-style": "bold",
        "block-cursor-blurred-background": "#333333",
        "block-cursor-blurred-foreground": "#ffffff",
        "footer-key-foreground": "#00ffff",
        "footer-background": "#000000",
    },
)

THEMES: Final = (DARK, LIGHT, SAFE, CONTRAST)

_STAND_INS: Final = {
    "level-calm": "success",
    "level-notice": "warning",
    "level-warning": "warning",
    "level-high": "error",
    "level-emergency": "error",
    "bar-track": "panel",
    "bar-mark": "foreground-darken-3",
    "bar-trigger": "foreground",
    "quiet": "foreground-darken-2",
    "pane": "panel-lighten-2",
}


def stand_ins(theme: Theme) -> dict[str, str]:
    """Name the colours that a theme which is not ours does not know."""
    colors = theme.to_color_system().generate()
    return {name: colors[other] for name, other in _STAND_INS.items()}
