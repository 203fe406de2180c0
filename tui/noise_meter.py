"""What a save put into its session, as a meter against what is expected of such a save."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.content import Content

from .formats import NOTHING, bar, fit_right, tokens

if TYPE_CHECKING:
    from ..core.saves.bands import BandVerdict, Span
    from ..core.saves.noise import Noise
    from ..core.saves.own_rows import MeasuredSave

SCALE: Final = 2.0
"""The end of the meter: so many times what is expected at the most, which lies in its middle."""

MARK: Final = "▏"
_TRACK: Final = "▁"


def meter(value: int, maximum: int | None, cells: int) -> Content:
    """Draw a number against the most that is expected of it; without one only the track."""
    if not maximum:
        return Content.styled(_TRACK * cells, "$bar-track")
    ratio = value / maximum
    style = _style(ratio)
    drawn = bar(ratio / SCALE, cells)
    mark = int(cells / SCALE)
    rest = Content("").join(
        Content.styled(*((MARK, "$bar-trigger") if cell == mark else (_TRACK, "$bar-track")))
        for cell in range(len(drawn), cells)
    )
    return Content.styled(drawn, style) + rest


def _style(ratio: float) -> str:
    if ratio <= 1:
        return "$level-calm"
    return "$level-high" if ratio <= SCALE else "$level-emergency"


def expected(save: MeasuredSave) -> BandVerdict | None:
    """Give the verdict by the band that is meant for such a save; None where none is."""
    return next((each for each in save.bands if each.is_expected), None)


def most_of(save: MeasuredSave, what: str) -> int | None:
    """Give the most lines or tokens that are expected; None where nothing is."""
    verdict = expected(save)
    if verdict is None:
        return None
    span: Span = verdict.band.tokens if what == "tokens" else verdict.band.lines
    return span.high


def sign(save: MeasuredSave) -> tuple[str, str]:
    """Say whether a save is as expected: a sign and its style."""
    verdict = expected(save)
    if verdict is None:
        return " ", "$quiet"
    return ("✓", "$level-calm") if verdict.is_met else ("✗", "$level-warning")


def amount(noise: Noise) -> str:
    """Write the tokens of a save, with ≈ where they are estimated."""
    return f"{'≈' * noise.is_estimated}{tokens(noise.tokens)}"


def of_most(save: MeasuredSave, cells: int) -> str:
    """Write its tokens and the most that is expected, at the right edge of so many cells."""
    most = most_of(save, "tokens")
    return fit_right(f"{amount(save.noise)} of {tokens(most) if most else NOTHING}", cells)
