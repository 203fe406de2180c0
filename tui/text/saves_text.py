"""The text of claude-memory's saves that the page and the command share."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ...core.saves.memory_plugin import BLIND_SPOT_TEXTS, PluginFit, PluginMessage
from ...core.saves.save_metrics import BandVerdict
from ...core.saves.save_noise import SaveNoise
from .formats import NOTHING, duration, percent, plural, reduction, seconds, tokens

if TYPE_CHECKING:
    from ...core.measure.hook_runs import HookTiming
    from ...core.saves.memory_plugin import PluginCompatibility
    from ...core.saves.project_saves import MeasuredSave, ProjectSaves
    from ...core.saves.save_metrics import AverageSave

_BOOTSTRAP_PATTERN: Final = re.compile(
    r"\bvenv\b|ModuleNotFoundError|No module named|bootstrap", re.I
)


def is_bootstrap_error(error: str) -> bool:
    """Whether an error comes from the plugin's own environment (004-46)."""
    return _BOOTSTRAP_PATTERN.search(error) is not None


def expected_band(save: MeasuredSave) -> BandVerdict | None:
    return next((each for each in save.bands if each.is_expected), None)


def expected_max_tokens(save: MeasuredSave) -> int | None:
    """Return the most tokens that are expected of a save; None if there is no maximum."""
    verdict = expected_band(save)
    return verdict.band.tokens.high if verdict else None


def noise_tokens_text(noise: SaveNoise) -> str:
    return f"{'≈' * noise.is_estimated}{tokens(noise.tokens)}"


def save_age(found: ProjectSaves, now_ms: int) -> str:
    seconds = found.age_s(now_ms)
    return duration(None if seconds is None else seconds * 1000)


def band_sign(save: MeasuredSave) -> tuple[str, str]:
    """Return the sign for whether a save is within its expected band, and the sign's style."""
    verdict = expected_band(save)
    if verdict is None:
        return " ", "$quiet"
    return ("✓", "$level-calm") if verdict.is_met else ("✗", "$level-warning")


def tokens_of_maximum_text(save: MeasuredSave) -> str:
    most = expected_max_tokens(save)
    return f"{noise_tokens_text(save.noise)} of {tokens(most) if most else NOTHING}"


def band_text(save: MeasuredSave) -> str:
    found = expected_band(save)
    if found is None:
        return NOTHING
    if found.is_met:
        return f"✓ as expected for {found.band.label}"
    over = []
    if found.lines_over:
        over.append(plural(found.lines_over, "line"))
    if found.tokens_over:
        over.append(f"{tokens(found.tokens_over)} tokens")
    return f"✗ {' and '.join(over)} more than expected for {found.band.label}"


def change_text(found: ProjectSaves) -> str:
    """Write by how much a save reduces what is added, and what is expected (004-16 to 004-18)."""
    change = found.before_after
    if change.before is None or change.after is None or change.reduction is None:
        return ""
    amounts = f"{_average_text(change.before)} → {_average_text(change.after)}"
    shares = (
        f"{_less_text(change.reduction, 'lines')}, {_less_text(change.token_reduction, 'tokens')}"
    )
    return f"{amounts} ({shares}{_expected_reduction(found.saves[-1])})"


def _less_text(share: float | None, what: str) -> str:
    if share is not None and share < 0:
        return f"{reduction(-share)} more {what}"
    return f"{reduction(share)} fewer {what}"


def _expected_reduction(save: MeasuredSave) -> str:
    verdict = expected_band(save)
    span = reduction_span(verdict.reduction if verdict else None)
    return f"; {span} expected for {verdict.band.label}" if verdict and span else ""


def reduction_span(span: tuple[float, float] | None) -> str:
    """Write how much less is expected; empty if nothing is."""
    if span is None:
        return ""
    least, most = map(percent, span)
    return least if least == most else f"{least} to {most}"


def _average_text(found: AverageSave) -> str:
    return f"{lines_and_items(found.lines, found.items)}, {tokens(round(found.tokens))} tokens"


def lines_and_items(lines: float, items: float) -> str:
    return f"{plural(round(lines), 'line')}, {plural(round(items), 'item')}"


def hook_text(timing: HookTiming) -> str:
    """Write the duration of the plugin's Stop hook beside its timeout."""
    default = " (default)" if timing.has_default_timeout else ""
    late = ", and was stopped at its timeout" if timing.timed_out else ""
    return (
        f"the Stop hook took {seconds(timing.last.duration_ms)}, at most"
        f" {seconds(timing.longest_ms)} in {plural(timing.runs, 'run')}, of"
        f" {seconds(timing.timeout_ms)} allowed{default}{late}"
    )


def plugin_text(report: PluginMessage) -> str:
    if report.blind_spots:
        return "; ".join(BLIND_SPOT_TEXTS[each] for each in report.blind_spots)
    return report.text or NOTHING


def installation_text(found: PluginCompatibility) -> str:
    """Write whether the halves of an installation fit together; BROKEN comes first."""
    broken = "BROKEN: " * (found.fit is PluginFit.BROKEN)
    return f"{found.plugin.plugin_id} {found.plugin.version or NOTHING}: {broken}{found.reason}"
