"""Our themes by numbers: what is read stands out, and no color blindness makes two levels one."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Final

import pytest
from ctxtop.tui.base.theme import COLOR_BLIND_SAFE, HIGH_CONTRAST, THEMES
from textual.color import Color

if TYPE_CHECKING:
    from textual.theme import Theme

LEVELS: Final = ("calm", "notice", "warning", "high", "emergency")
GROUNDS: Final = (
    "background",
    "panel",
    "block-cursor-background",
    "block-cursor-blurred-background",
)
WORDS: Final = (
    *(f"level-{level}" for level in LEVELS),
    *("waiting", "broken"),
    *("foreground", "quiet", "accent", "primary", "secondary", "success", "warning", "error"),
)
DRAWN: Final = ("bar-mark", "bar-trigger")

TEXT: Final = 4.5
"""WCAG 2.2, 1.4.3; in high contrast 7 (1.4.6)."""
TEXT_HIGH: Final = 7.0
GRAPHICS: Final = 3.0
"""WCAG 2.2, 1.4.11."""

APART: Final = 0.04
"""In OKLab, where 0.02 is just seen."""
APART_SAFE: Final = 0.10

Triple = tuple[float, float, float]

# Machado, Oliveira and Fernandes 2009, at full severity, over linear RGB.
VISIONS: Final[dict[str, tuple[Triple, Triple, Triple]]] = {
    "normal": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}


def color(theme: Theme, name: str) -> Color:
    found = theme.variables.get(name) or getattr(theme, name)
    assert isinstance(found, str)
    return Color.parse(found)


def linear(color: Color) -> Triple:
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in color.normalized
    )
    return red, green, blue


def contrast(one: Color, other: Color) -> float:
    dark, light = sorted(
        0.2126 * red + 0.7152 * green + 0.0722 * blue
        for red, green, blue in (linear(one), linear(other))
    )
    return (light + 0.05) / (dark + 0.05)


def times(rows: tuple[Triple, Triple, Triple], values: Triple) -> Triple:
    one, two, three = (sum(a * b for a, b in zip(row, values, strict=True)) for row in rows)
    return one, two, three


def oklab(values: Triple) -> Triple:
    """Björn Ottosson, 2020."""
    cones = times(
        (
            (0.4122214708, 0.5363325363, 0.0514459929),
            (0.2119034982, 0.6806995451, 0.1073969566),
            (0.0883024619, 0.2817188376, 0.6299787005),
        ),
        values,
    )
    one, two, three = (value ** (1 / 3) for value in cones)
    return times(
        (
            (0.2104542553, 0.7936177850, -0.0040720468),
            (1.9779984951, -2.4285922050, 0.4505937099),
            (0.0259040371, 0.7827717662, -0.8086757660),
        ),
        (one, two, three),
    )


def seen(color: Color, vision: str) -> Triple:
    red, green, blue = (min(1.0, max(0.0, v)) for v in times(VISIONS[vision], linear(color)))
    return oklab((red, green, blue))


def apart(theme: Theme, one: str, other: str, vision: str) -> float:
    """Return the distance of two colors in OKLab."""
    colors = (seen(color(theme, name), vision) for name in (one, other))
    return float(sum((a - b) ** 2 for a, b in zip(*colors, strict=True)) ** 0.5)


def named(theme: Theme) -> str:
    return theme.name


@pytest.mark.parametrize("theme", THEMES, ids=named)
def test_what_is_read_stands_out_from_what_it_stands_on(theme: Theme) -> None:
    least = TEXT_HIGH if theme is HIGH_CONTRAST else TEXT
    weak = {
        (word, ground): round(ratio, 2)
        for word in WORDS
        for ground in GROUNDS
        if (ratio := contrast(color(theme, word), color(theme, ground))) < least
    }
    assert weak == {}


@pytest.mark.parametrize("theme", THEMES, ids=named)
def test_what_is_drawn_stands_out(theme: Theme) -> None:
    ground = color(theme, "background")
    weak = [name for name in DRAWN if contrast(color(theme, name), ground) < GRAPHICS]
    assert weak == []


@pytest.mark.parametrize("vision", VISIONS)
@pytest.mark.parametrize("theme", THEMES, ids=named)
def test_no_two_levels_look_alike(theme: Theme, vision: str) -> None:
    least = APART_SAFE if theme is COLOR_BLIND_SAFE else APART
    alike = {
        (one, other): round(distance, 3)
        for one, other in combinations(LEVELS, 2)
        if (distance := apart(theme, f"level-{one}", f"level-{other}", vision)) < least
    }
    assert alike == {}


MEANINGS: Final = ("level-warning", "waiting", "broken", "bar-trigger", "level-emergency")
"""What must be told apart without reading: a warning, a session that waits, a broken rule, the
auto-compact mark, and what failed."""


@pytest.mark.parametrize("vision", VISIONS)
@pytest.mark.parametrize("theme", THEMES, ids=named)
def test_one_color_has_one_meaning(theme: Theme, vision: str) -> None:
    least = APART_SAFE if theme is COLOR_BLIND_SAFE else APART
    alike = {
        pair: round(distance, 3)
        for pair in combinations(MEANINGS, 2)
        if (distance := apart(theme, *pair, vision)) < least
    }
    assert alike == {}


@pytest.mark.parametrize("theme", THEMES, ids=named)
def test_the_marked_row_is_seen(theme: Theme) -> None:
    ground = color(theme, "background")
    marked = contrast(color(theme, "block-cursor-background"), ground)
    assert marked > 1.15
    assert "bold" in theme.variables["block-cursor-text-style"]
