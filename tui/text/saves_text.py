"""The text of claude-memory's saves that the page and the command share."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ...core.saves.save_metrics import BandPosition, BandVerdict
from ...core.saves.save_noise import SaveNoise
from ...core.saves.save_plugin import BLIND_SPOT_TEXTS, PluginMessage
from .formats import NOTHING, plural, tokens

_BOOTSTRAP_PATTERN: Final = re.compile(
    r"\bvenv\b|ModuleNotFoundError|No module named|bootstrap", re.I
)


def is_bootstrap_error(error: str) -> bool:
    """Whether an error comes from the plugin's own environment (004-46)."""
    return _BOOTSTRAP_PATTERN.search(error) is not None


def noise_text(noise: SaveNoise) -> str:
    """Write lines, items and tokens of one save."""
    sign = "≈" if noise.is_estimated else ""
    counted = f"{plural(noise.lines, 'line')}, {plural(noise.items, 'item')}"
    return f"{counted}, {sign}{tokens(noise.tokens)} tokens"


def band_text(verdicts: Sequence[BandVerdict]) -> str:
    """Format how a save compares with its expected band."""
    found = next((each for each in verdicts if each.is_expected), None)
    if found is None:
        return NOTHING
    if found.is_met:
        return f"✓ as expected of {found.band.label}"
    over = [
        name
        for name, place in (("lines", found.lines), ("tokens", found.tokens))
        if place is BandPosition.ABOVE
    ]
    return f"✗ more {' and '.join(over)} than expected of {found.band.label}"


def plugin_text(report: PluginMessage) -> str:
    """Format the plugin's message, or the blind spots that make it unreliable."""
    if report.blind_spots:
        return "; ".join(BLIND_SPOT_TEXTS[each] for each in report.blind_spots)
    return report.text or NOTHING
