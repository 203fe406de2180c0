"""The themes; every color that a bar or a level takes is named here."""

from typing import Any, Final

from textual.theme import Theme

_THEMES: Final = {
    "ctxtop-dark": True,
    "ctxtop-light": False,
    # Blue to orange, after Okabe and Ito: distinct with every common color blindness.
    "ctxtop-color-blind-safe": True,
    "ctxtop-contrast": True,
}  # whether each is dark

_COLORS: Final = {
    "primary": ("#7aa2f7", "#2e5fb8", "#56b4e9", "#ffffff"),
    "secondary": ("#b39be3", "#7847bd", "#d58fb5", "#ffff00"),
    "accent": ("#7dcfff", "#006c86", "#56b4e9", "#00ffff"),
    "success": ("#8fc06a", "#376d1a", "#56b4e9", "#00ff7f"),
    "warning": ("#e0af68", "#8a5a00", "#f1e545", "#ffff00"),
    "error": ("#f7768e", "#b01c57", "#f7774a", "#f7b1ba"),
    "foreground": ("#c8d0e8", "#2b3040", "#e6e6e6", "#ffffff"),
    "background": ("#14161f", "#f7f7f4", "#121212", "#000000"),
    "panel": ("#1d2030", "#ebebe6", "#1e1e1e", "#111111"),
    "level-calm": ("#47b5a7", "#0c6a5f", "#4ba0e2", "#00ff7f"),
    "level-notice": ("#d9c96d", "#856200", "#8dcdf5", "#ffff00"),
    "level-warning": ("#e9a04d", "#8a4200", "#f1e545", "#f8d53e"),
    "level-high": ("#fc671e", "#6f1c1d", "#fbac04", "#ffa838"),
    "level-emergency": ("#f8778e", "#b01c57", "#f7774a", "#f7b1ba"),
    "waiting": ("#ff8cff", "#a300a3", "#63d8c0", "#8ee8ff"),
    "broken": ("#a98bff", "#5a33d6", "#bb84e0", "#b7b7fe"),
    "bar-trigger": ("#f4f6ff", "#101218", "#ffffff", "#ffffff"),
    "bar-track": ("#2b3045", "#dcdcd5", "#303030", "#444444"),
    "bar-mark": ("#626c99", "#85878f", "#7a7a7a", "#bbbbbb"),
    "quiet": ("#8f98bb", "#5a6072", "#a2a2a2", "#cfcfcf"),
    "pane": ("#3b4261", "#b9bbc4", "#4a4a4a", "#bbbbbb"),
    "block-cursor-background": ("#242b4a", "#dde7fa", "#1d3446", "#00257a"),
    "block-cursor-foreground": ("#e4e9fb", "#161a26", "#ffffff", "#ffffff"),
    "block-cursor-text-style": ("bold", "bold", "bold", "bold underline"),
    "block-cursor-blurred-background": ("#1c2030", "#e9ecf3", "#242424", "#262626"),
    "footer-key-foreground": ("#7dcfff", "#2e5fb8", "#56b4e9", "#00ffff"),
}  # in each theme, each with one meaning; the first nine are Textual's, the others of style sheets

_SAME_AS: Final = {
    "surface": "background",
    "block-cursor-blurred-foreground": "foreground",
    "footer-background": "background",
}
_BASE_COLORS: Final = (*list(_COLORS)[:9], "surface")


def _theme(place: int, name: str) -> Theme:
    colors = {key: values[place] for key, values in _COLORS.items()}
    colors |= {key: colors[other] for key, other in _SAME_AS.items()}
    base: dict[str, Any] = {key: colors.pop(key) for key in _BASE_COLORS}
    return Theme(name, **base, dark=_THEMES[name], variables=colors)


THEMES: Final = tuple(_theme(place, name) for place, name in enumerate(_THEMES))
DARK, LIGHT, COLOR_BLIND_SAFE, HIGH_CONTRAST = THEMES
DARK.variables["input-selection-background"] = "#7aa2f7 35%"

_FALLBACK_COLORS: Final = {
    "level-calm": "success",
    "level-notice": "warning",
    "level-warning": "warning",
    "level-high": "error",
    "level-emergency": "error",
    "waiting": "accent",
    "broken": "secondary",
    "bar-track": "panel",
    "bar-mark": "foreground-darken-3",
    "bar-trigger": "foreground",
    "quiet": "foreground-darken-2",
    "pane": "panel-lighten-2",
}


def fallback_colors(theme: Theme) -> dict[str, str]:
    """Return values of our colors for a theme that is not ours."""
    colors = theme.to_color_system().generate()
    return {name: colors[other] for name, other in _FALLBACK_COLORS.items()}
