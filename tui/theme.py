"""The themes; every colour that a bar or a level takes is named here."""

from __future__ import annotations

from typing import Final

from textual.theme import Theme

DARK: Final = Theme(
    name="ctxtop-dark",
    primary="#7aa2f7",
    secondary="#b39be3",
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
        "level-calm": "#47b5a7",
        "level-notice": "#d9c96d",
        "level-warning": "#e9a04d",
        "level-high": "#fc671e",
        "level-emergency": "#f8778e",
        "bar-track": "#2b3045",
        "bar-mark": "#626c99",
        "bar-trigger": "#e9a04d",
        "quiet": "#8f98bb",
        "pane": "#3b4261",
        "block-cursor-background": "#242b4a",
        "block-cursor-foreground": "#e4e9fb",
        "block-cursor-text-style": "bold",
        "block-cursor-blurred-background": "#1c2030",
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
    success="#376d1a",
    warning="#8a5a00",
    error="#b01c57",
    foreground="#2b3040",
    background="#f7f7f4",
    surface="#f7f7f4",
    panel="#ebebe6",
    dark=False,
    variables={
        "level-calm": "#0c6a5f",
        "level-notice": "#856200",
        "level-warning": "#8a4200",
        "level-high": "#6f1c1d",
        "level-emergency": "#b01c57",
        "bar-track": "#dcdcd5",
        "bar-mark": "#85878f",
        "bar-trigger": "#8a4200",
        "quiet": "#5a6072",
        "pane": "#b9bbc4",
        "block-cursor-background": "#dde7fa",
        "block-cursor-foreground": "#161a26",
        "block-cursor-text-style": "bold",
        "block-cursor-blurred-background": "#e9ecf3",
        "block-cursor-blurred-foreground": "#2b3040",
        "footer-key-foreground": "#2e5fb8",
        "footer-background": "#f7f7f4",
    },
)

# Blue to orange, after Okabe and Ito: told apart with every common colour blindness.
COLOUR_BLIND_SAFE: Final = Theme(
    name="ctxtop-colour-blind-safe",
    primary="#56b4e9",
    secondary="#d58fb5",
    accent="#56b4e9",
    success="#56b4e9",
    warning="#f1e545",
    error="#f7774a",
    foreground="#e6e6e6",
    background="#121212",
    surface="#121212",
    panel="#1e1e1e",
    dark=True,
    variables={
        "level-calm": "#4ba0e2",
        "level-notice": "#8dcdf5",
        "level-warning": "#f1e545",
        "level-high": "#fbac04",
        "level-emergency": "#f7774a",
        "bar-track": "#303030",
        "bar-mark": "#7a7a7a",
        "bar-trigger": "#f1e545",
        "quiet": "#a2a2a2",
        "pane": "#4a4a4a",
        "block-cursor-background": "#1d3446",
        "block-cursor-foreground": "#ffffff",
        "block-cursor-text-style": "bold",
        "block-cursor-blurred-background": "#242424",
        "block-cursor-blurred-foreground": "#e6e6e6",
        "footer-key-foreground": "#56b4e9",
        "footer-background": "#121212",
    },
)

HIGH_CONTRAST: Final = Theme(
    name="ctxtop-contrast",
    primary="#ffffff",
    secondary="#ffff00",
    accent="#00ffff",
    success="#00ff7f",
    warning="#ffff00",
    error="#f7b1ba",
    foreground="#ffffff",
    background="#000000",
    surface="#000000",
    panel="#111111",
    dark=True,
    variables={
        "level-calm": "#00ff7f",
        "level-notice": "#ffff00",
        "level-warning": "#f8d53e",
        "level-high": "#ffa838",
        "level-emergency": "#f7b1ba",
        "bar-track": "#444444",
        "bar-mark": "#bbbbbb",
        "bar-trigger": "#f8d53e",
        "quiet": "#cfcfcf",
        "pane": "#bbbbbb",
        "block-cursor-background": "#00257a",
        "block-cursor-foreground": "#ffffff",
        "block-cursor-text-style": "bold underline",
        "block-cursor-blurred-background": "#262626",
        "block-cursor-blurred-foreground": "#ffffff",
        "footer-key-foreground": "#00ffff",
        "footer-background": "#000000",
    },
)

THEMES: Final = (DARK, LIGHT, COLOUR_BLIND_SAFE, HIGH_CONTRAST)

_FALLBACK_COLOURS: Final = {
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


def fallback_colours(theme: Theme) -> dict[str, str]:
    """Name the colours that a theme which is not ours does not know."""
    colors = theme.to_color_system().generate()
    return {name: colors[other] for name, other in _FALLBACK_COLOURS.items()}
