"""What `ctxtop saves` prints: an object a project for programs, a row a project for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ....core.saves.save_metrics import AverageSave, BandVerdict, Durations, Rate
from ....core.saves.save_noise import SaveNoise
from ....core.saves.save_plugin import PluginCompatibility
from ....core.saves.save_status import NEEDS_ATTENTION, SaveState
from ...tables import Cell, Column, TextColumn
from ...text.formats import NOTHING, iso_time, plural, tokens
from ...text.saves_text import (
    expected_band,
    is_bootstrap_error,
    noise_tokens_text,
    plugin_text,
    save_age,
)
from .printing import clean_line, draw_table

if TYPE_CHECKING:
    from ....core.saves.project_saves import MeasuredSave, ProjectSaves, SavesReport
    from .json_records import Record


_STATE_COLOURS: Final = {
    SaveState.SAVED: "ok",
    SaveState.PARTIAL: "warning",
    SaveState.PENDING: "warning",
    SaveState.ORPHANED: "bad",
    SaveState.FAILED_UNKNOWN: "bad",
    SaveState.CORRUPT: "bad",
    SaveState.NONE: "quiet",
}

TRANSCRIPT_ORIGIN: Final = "transcript"
"""The origin of a state that no file of the save flow tells of."""


def save_record(found: ProjectSaves, report: SavesReport, now_ms: int) -> Record:
    """One object of `ctxtop saves`."""
    standing = found.status
    last = found.saves[-1].noise if found.saves else None
    return {
        "project": found.project or None,
        "state": standing.state.value,
        "categories": list(standing.categories),
        "titles": list(standing.titles),
        "errors": [
            {
                "category": each.category or None,
                "error": each.error,
                "class": "env_bootstrap" if is_bootstrap_error(each.error) else None,
            }
            for each in standing.errors
        ],
        "age_s": found.age_s(now_ms),
        "noise_lines": last.lines if last else None,
        "noise_tokens": last.tokens if last else None,
        "origin": save_origin(found),
        "path": standing.source_file.path if standing.source_file else None,
        "reason": standing.reason,
        "at": iso_time(standing.since_ms),
        "saved": list(standing.saved_categories),
        "needs_someone": standing.state in NEEDS_ATTENTION,
        "fresh": found.is_fresh,
        "confirmed": found.was_confirmed,
        "confirmed_at": iso_time(found.confirmed_at),
        "plugin_says": found.plugin_message.text,
        "blind_spots": [each.value for each in found.plugin_message.blind_spots],
        "staged_files": len(found.staged_files),
        "staged_bytes": sum(each.mark.size for each in found.staged_files),
        "staging_leak": found.has_leftovers,
        "degraded": "inline" if found.is_degraded else None,
        "noise_items": last.items if last else None,
        "noise_estimated": last.is_estimated if last else None,
        "saves": [_measured_save_record(each) for each in found.saves],
        "refires": found.refires,
        "sessions_by_fires": found.fire_counts,
        "before": _amount_record(found.before_after.before),
        "after": _amount_record(found.before_after.after),
        "reduction": found.before_after.reduction,
        "expected_tokens": found.expected_cost.tokens,
        "expected_from": found.expected_cost.sample_count,
        "crossings": [
            {
                "session_id": each.session_id,
                "left_tokens": each.tokens_to_trigger,
                "share_of_trigger": each.share,
                "would_cross": each.would_cross,
            }
            for each in found.crossings
        ],
        "durations": _durations_record(found.durations),
        "phases_ms": found.phases_ms,
        "triggers": {name: _rate_record(each) for name, each in found.trigger_rates.items()},
        "success": _rate_record(found.success_rate),
        "clients": list(found.client_versions),
        "plugins": [_plugin_record(each) for each in report.plugins],
    }


def save_origin(found: ProjectSaves) -> str | None:
    """Name where the state comes from: a generation of places, or a transcript."""
    if found.status.source_file:
        return found.status.source_file.generation.value
    return TRANSCRIPT_ORIGIN if found.status.since_ms is not None else None


def saves_table(report: SavesReport, now_ms: int) -> list[str]:
    """Lay out `ctxtop saves`."""
    columns: list[TextColumn[ProjectSaves]] = [
        Column("project", lambda each: each.name, flexible=True),
        Column("state", _state_cell),
        Column("age", lambda each: save_age(each, now_ms), right=True, priority=2),
        Column("what", save_text, flexible=True),
        Column("saves", lambda each: str(len(each.saves) or ""), right=True, priority=6),
        Column("noise, tokens", _noise_text, right=True, priority=3),
        Column("expected", _expected_text, priority=5),
        Column("origin", lambda each: save_origin(each) or NOTHING, priority=7),
    ]
    if not report.projects:
        return []
    return [*draw_table(columns, report.projects), *_report_notes(report)]


def _state_cell(found: ProjectSaves) -> Cell:
    state = found.status.state
    return Cell(state.value, _STATE_COLOURS.get(state, ""))


def save_text(found: ProjectSaves) -> str:
    """Format for a table row what was or will be saved, and the reason for the state."""
    standing = found.status
    names = ", ".join(standing.categories)
    if standing.state is SaveState.SAVED:
        return ", ".join(standing.titles) or names or standing.reason
    return f"{standing.reason}: {names}" if names else standing.reason


def _report_notes(report: SavesReport) -> list[str]:
    notes = [f"{each.plugin.plugin_id}: {each.reason}" for each in report.plugins]
    for found in report.projects:
        notes += [f"{found.name}: {each}" for each in _project_notes(found)]
    return ["", *map(clean_line, notes)] if notes else []


def _expected_text(found: ProjectSaves) -> str:
    band = expected_band(found.saves[-1]) if found.saves else None
    return NOTHING if band is None else "✓ met" if band.is_met else "✗ above"


def _noise_text(found: ProjectSaves) -> str:
    if not found.saves:
        return NOTHING
    noise = found.saves[-1].noise
    return f"{plural(noise.lines, 'line')}, {noise_tokens_text(noise)}"


def _project_notes(found: ProjectSaves) -> Iterator[str]:
    if found.plugin_message.blind_spots:
        yield plugin_text(found.plugin_message)
    if found.has_leftovers:
        yield f"{plural(len(found.staged_files), 'staged file')} left behind"
    if found.refires:
        yield f"the Stop hook fired again {plural(found.refires, 'time')}"
    for each in found.crossings:
        if each.would_cross:
            yield (
                f"session {each.session_id[:8]} has {tokens(each.tokens_to_trigger)} to its"
                " compaction,"
                f" and a save takes ≈{tokens(each.cost.tokens)}"
            )


def _measured_save_record(found: MeasuredSave) -> Record:
    noise = found.noise
    return {
        "session_id": found.session_id,
        "transcript": found.path,
        "offset": found.offset,
        "end_offset": noise.end_offset,
        "lines_of_transcript": noise.end_line,
        "at": iso_time(noise.at),
        "last_at": iso_time(noise.last_at),
        "ended": noise.closed,
        "categories": list(noise.categories),
        "triage": noise.form.value,
        "saver": noise.saver.value if noise.saver else None,
        "said": list(noise.said),
        "lines": noise.lines,
        "items": noise.items,
        "tokens": noise.tokens,
        "estimated": noise.is_estimated,
        "classes": _noise_class_records(noise),
        "agents": noise.agents,
        "agents_in_background": noise.agents_in_background,
        "leaked_calls": noise.leaked_calls,
        "leaked_lines": noise.leaked_lines,
        "compacted": noise.was_compacted,
        "bands": [_band_record(each) for each in found.bands],
    }


def _noise_class_records(noise: SaveNoise) -> Record:
    return {
        name.value: {
            "lines": share.lines,
            "items": share.items,
            "tokens": share.estimated_tokens,
        }
        for name, share in noise.classes.items()
    }


def _band_record(found: BandVerdict) -> Record:
    return {
        "band": found.band.name,
        "what": found.band.label,
        "expected": found.is_expected,
        "lines": found.lines.value,
        "tokens": found.tokens.value,
        "met": found.is_met,
    }


def _amount_record(found: AverageSave | None) -> Record | None:
    if found is None:
        return None
    return {
        "saves": found.saves,
        "lines": found.lines,
        "items": found.items,
        "tokens": found.tokens,
    }


def _rate_record(found: Rate) -> Record:
    return {"hits": found.hits, "of": found.total, "rate": found.share}


def _durations_record(found: Durations | None) -> Record | None:
    if found is None:
        return None
    return {
        "count": found.count,
        "mean_ms": found.mean_ms,
        "p50_ms": found.p50_ms,
        "p95_ms": found.p95_ms,
        "max_ms": found.max_ms,
        "buckets": list(found.buckets),
    }


def _plugin_record(found: PluginCompatibility) -> Record:
    return {
        "plugin_id": found.plugin.plugin_id,
        "version": found.plugin.version,
        "install_path": found.plugin.install_path,
        "fit": found.fit.value,
        "architecture": found.architecture.value,
        "why": found.reason,
    }
