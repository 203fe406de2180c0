"""All that is known of one project's saves, fact by fact: the page shows them, the command some."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from ...core.saves.project_saves import MANY_PENDING, PENDING_DAYS
from ...core.saves.save_metrics import LEAK_LINES, LEAK_REDUCTION, LEAK_TOKENS
from ...core.saves.save_status import NEEDS_ATTENTION, SaveState
from ...core.saves.selected_files import written_ms
from . import saves_text
from .formats import NOTHING, age, duration, format_bytes, percent, plural, tokens

if TYPE_CHECKING:
    from ...core.model.config_records import SaveError
    from ...core.saves.project_saves import ProjectSaves
    from ...core.saves.save_metrics import TriggerCrossing
    from ...core.saves.save_noise import SaveNoise
    from ...core.saves.save_status import SaveStatus

_PLAIN: Final = "$foreground"
_QUIET: Final = "$quiet"
_WARNING: Final = "$level-warning"


class SaveFact(NamedTuple):
    label: str
    text: str  # may hold foreign text: it is never parsed as markup
    style: str = _QUIET

    @property
    def is_warning(self) -> bool:
        return self.style == _WARNING


def save_facts(found: ProjectSaves, now_ms: int) -> Iterator[SaveFact]:
    """Yield the facts of a project's saves, the most important ones first."""
    yield from _state_facts(found, now_ms)
    yield from _file_facts(found, now_ms)
    yield from _hook_facts(found)
    if found.saves:
        yield from _noise_facts(found, found.saves[-1].noise)
    if found.refires:
        times = plural(found.refires, "time")
        yield SaveFact("fired again", f"{times} for the same save", _WARNING)
    if change := saves_text.change_text(found):
        yield SaveFact("change", change, _PLAIN)
    yield from _history_facts(found)
    yield from map(_crossing_fact, found.crossings)
    if found.status.source_file:
        path = found.status.source_file.path.removeprefix(f"{found.project}/")
        yield SaveFact("from", f"{path} ({found.status.source_file.generation.value})")


def saved_text(status: SaveStatus) -> str:
    """Write the titles of the memories that were saved and their categories; empty if unknown."""
    is_whole = status.state is SaveState.SAVED
    categories = ", ".join(status.saved_categories or (status.categories if is_whole else ()))
    titles = ", ".join(status.titles)
    return f"{titles} ({categories})" if titles and categories else titles or categories


def error_text(error: SaveError) -> str:
    told = f"{error.category}: {error.error}" if error.category else error.error
    is_ours = saves_text.is_bootstrap_error(error.error)
    return f"{told or NOTHING}{' (the plugin’s own environment)' if is_ours else ''}"


def _state_facts(found: ProjectSaves, now_ms: int) -> Iterator[SaveFact]:
    status, message = found.status, found.plugin_message
    yield SaveFact("why", status.reason, _PLAIN)
    if saved := saved_text(status):
        yield SaveFact("saved", saved, _PLAIN)
    if status.state is not SaveState.SAVED and status.categories:
        yield SaveFact("to save", ", ".join(status.categories), _PLAIN)
    for error in status.errors:
        yield SaveFact("error", error_text(error), _WARNING)
    if message.blind_spots:
        yield SaveFact("but", saves_text.plugin_text(message), _WARNING)
    elif message.text and status.state in NEEDS_ATTENTION:
        yield SaveFact("plugin says", message.text)
    if found.was_confirmed is not None:
        yield SaveFact("confirmed", "yes, at a prompt" if found.was_confirmed else "not yet")
    if found.other_save:
        ago = age(found.other_save.at, now_ms)
        yield SaveFact(
            "elsewhere", f"Memories saved in project: {found.other_save.name}, {ago} ago"
        )


def _file_facts(found: ProjectSaves, now_ms: int) -> Iterator[SaveFact]:
    if found.staged_files:
        size = format_bytes(sum(file.mark.size for file in found.staged_files))
        oldest = age(min(map(written_ms, found.staged_files)), now_ms)
        text = f"{plural(len(found.staged_files), 'staged file')}, {size}, oldest {oldest}"
        label, style = ("left behind", _WARNING) if found.has_leftovers else ("staged", _QUIET)
        yield SaveFact(label, text, style)
    for each in found.odd_transitions:
        yield SaveFact("sentinel", f"went {each}, which the plugin never does", _WARNING)
    if found.is_deferred:
        text = "triage.save_mode is deferred: few of such saves are ever made"
        yield SaveFact("save mode", text, _WARNING)
    if found.recent_pending:
        text = f"{plural(found.recent_pending, 'save')} in {PENDING_DAYS} days waited for you"
        yield SaveFact(
            "pending", text, _WARNING if found.recent_pending >= MANY_PENDING else _QUIET
        )


def _hook_facts(found: ProjectSaves) -> Iterator[SaveFact]:
    if found.hook:
        style = _WARNING if found.hook.timed_out else _QUIET
        yield SaveFact("hook", saves_text.hook_text(found.hook), style)
    if reason := (found.hook and found.hook.reason) or found.block_reason:
        yield SaveFact("hook reason", reason)
    if found.skips:
        counts = (f"{plural(count, 'time')} by {guard}" for guard, count in found.skips.items())
        yield SaveFact("hook skipped", ", ".join(counts))


def _noise_facts(found: ProjectSaves, noise: SaveNoise) -> Iterator[SaveFact]:
    band = saves_text.band_text(found.saves[-1])
    counts = saves_text.lines_and_items(noise.lines, noise.items)
    text = f"{counts}, {saves_text.noise_tokens_text(noise)} tokens in the last save · {band}"
    yield SaveFact("noise", text, _WARNING if band.startswith("✗") else _PLAIN)
    if noise.leaked_calls:
        yield SaveFact("leak", leak_text(found), _WARNING)
    if noise.agents_in_background:
        yield SaveFact(
            "background", "the save agent runs by itself: the session does not wait for it"
        )
    if noise.save_agents > 1:
        yield SaveFact("save agents", f"{noise.save_agents}; one is expected", _WARNING)
    if found.is_degraded:
        yield SaveFact("degraded", "the triage data was inline", _WARNING)
    if found.missing_file:
        text = f"the triage data is missing: {found.missing_file}"
        yield SaveFact("degraded", text, _WARNING)


def leak_text(found: ProjectSaves) -> str:
    """Write what of a save agent is in the main transcript, and what that takes (004-19)."""
    last = found.saves[-1]
    calls = plural(last.noise.leaked_calls, "call")
    seen = f"{calls}, {plural(last.noise.leaked_lines, 'line')} of the save agent in the main"
    lines = f"{LEAK_LINES.low} to {LEAK_LINES.high} lines"
    sizes = f"{tokens(LEAK_TOKENS.low)} to {tokens(LEAK_TOKENS.high)} tokens"
    verdict = saves_text.expected_band(last)
    usual = saves_text.reduction_span(verdict.band.reduction) if verdict else ""
    less = f"; {percent(LEAK_REDUCTION)} less at most, not {usual}" if usual else ""
    return f"{seen} transcript; {lines} and {sizes} more are expected{less}"


def _history_facts(found: ProjectSaves) -> Iterator[SaveFact]:
    if found.durations:
        took = found.durations
        times = {"median": took.p50_ms, "p95": took.p95_ms, "longest": took.max_ms}
        words = (f"{name} {duration(round(time_ms))}" for name, time_ms in times.items())
        yield SaveFact("took", f"{', '.join(words)} in {plural(took.count, 'save')}")
    if found.success_rate.total:
        rate = found.success_rate
        share = "" if rate.share is None else f", {percent(rate.share)}"
        yield SaveFact("succeeded", f"{rate.hits} of {plural(rate.total, 'save')}{share}")


def _crossing_fact(crossing: TriggerCrossing) -> SaveFact:
    ends = "the next save crosses it" if crossing.would_cross else "a save fits"
    left = f"{tokens(crossing.tokens_to_trigger)} to the compaction, a save takes ≈"
    style = _WARNING if crossing.would_cross else _QUIET
    text = f"{crossing.session_id[:8]}: {left}{tokens(crossing.cost.tokens)}: {ends}"
    return SaveFact("ahead", text, style)
