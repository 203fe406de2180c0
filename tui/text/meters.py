"""Numbers as blocks: a sparkline, and a memory save's meter against what is expected of it."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from textual.content import Content

from .formats import NOTHING, fit_right, half_cell_bar, tokens

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...core.saves.project_saves import MeasuredSave
    from ...core.saves.save_metrics import BandVerdict, IntRange
    from ...core.saves.save_noise import SaveNoise


BLOCKS: Final = "▁▂▃▄▅▆▇█"

GAP: Final = " "
"""Where there is no number."""


def sparkline(numbers: Sequence[float | None], cells: int, top: float | None = None) -> str:
    """Draw numbers from 0 to `top`, or to the largest, oldest first, in at most so many cells.

    Where they are more than the cells, a cell shows the largest of its share of them.
    """
    if not numbers or cells < 1:
        return ""
    shown = _bucket_peaks(numbers, min(cells, len(numbers)))
    most = top or max((each for each in shown if each is not None), default=0) or 1
    return "".join(GAP if each is None else _block(each / most) for each in shown)


def _block(share: float) -> str:
    return BLOCKS[min(max(int(share * len(BLOCKS)), 0), len(BLOCKS) - 1)]


def _bucket_peaks(numbers: Sequence[float | None], cells: int) -> list[float | None]:
    edges = [round(place * len(numbers) / cells) for place in range(cells + 1)]
    parts = (numbers[start:end] for start, end in pairwise(edges))
    return [max((each for each in part if each is not None), default=None) for part in parts]


METER_SCALE: Final = 2.0
"""The end of the meter: so many times what is expected at the most, which lies in its middle."""

EXPECTED_MARK: Final = "▏"
_TRACK: Final = "▁"


def noise_meter(value: int, maximum: int | None, cells: int) -> Content:
    """Draw a number against the most that is expected of it; without one only the track."""
    if not maximum:
        return Content.styled(_TRACK * cells, "$bar-track")
    ratio = value / maximum
    style = _meter_style(ratio)
    drawn = half_cell_bar(ratio / METER_SCALE, cells)
    mark = int(cells / METER_SCALE)
    rest = Content("").join(
        Content.styled(
            *((EXPECTED_MARK, "$bar-trigger") if cell == mark else (_TRACK, "$bar-track"))
        )
        for cell in range(len(drawn), cells)
    )
    return Content.styled(drawn, style) + rest


def _meter_style(ratio: float) -> str:
    if ratio <= 1:
        return "$level-calm"
    return "$level-high" if ratio <= METER_SCALE else "$level-emergency"


def expected_band(save: MeasuredSave) -> BandVerdict | None:
    """Return the verdict for the band expected of this save; None if none is expected."""
    return next((each for each in save.bands if each.is_expected), None)


def expected_maximum(save: MeasuredSave, what: str) -> int | None:
    """Return the expected maximum of lines or tokens; None if there is none."""
    verdict = expected_band(save)
    if verdict is None:
        return None
    span: IntRange = verdict.band.tokens if what == "tokens" else verdict.band.lines
    return span.high


def band_sign(save: MeasuredSave) -> tuple[str, str]:
    """Return the sign for whether a save is within its expected band, and the sign's style."""
    verdict = expected_band(save)
    if verdict is None:
        return " ", "$quiet"
    return ("✓", "$level-calm") if verdict.is_met else ("✗", "$level-warning")


def noise_tokens_text(noise: SaveNoise) -> str:
    """Write the tokens of a save, with ≈ where they are estimated."""
    return f"{'≈' * noise.is_estimated}{tokens(noise.tokens)}"


def tokens_of_maximum_text(save: MeasuredSave, cells: int) -> str:
    """Write its tokens and the most that is expected, at the right edge of so many cells."""
    most = expected_maximum(save, "tokens")
    return fit_right(
        f"{noise_tokens_text(save.noise)} of {tokens(most) if most else NOTHING}", cells
    )
