"""What `ctxtop saves` prints: an object a project for programs, a row a project for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...core.saves.states import NEEDS_SOMEONE, SaveState
from ..formats import NOTHING, age, plural, tokens
from ..saves_words import is_bootstrap, plugin_words
from .columns import Cell, Column, draw, one_line, terminal_width
from .times import time_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...core.saves.bands import BandVerdict
    from ...core.saves.compat import Compat
    from ...core.saves.metrics import Amount, Durations, Rate
    from ...core.saves.noise import Noise
    from ...core.saves.own_rows import MeasuredSave
    from ...core.saves.report import ProjectSave, SavesReport
    from .as_json import Record

_COLOURS: Final = {
    SaveState.SAVED: "ok",
    SaveState.PARTIAL: "warning",
    SaveState.PENDING: "warning",
    SaveState.ORPHANED: "bad",
    SaveState.FAILED_UNKNOWN: "bad",
    SaveState.CORRUPT: "bad",
    SaveState.NONE: "quiet",
}

TRANSCRIPT: Final = "transcript"
"""The origin of a state that no file of the save flow tells of."""


def record(found: ProjectSave, report: SavesReport, now_ms: int) -> Record:
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
                "class": "env_bootstrap" if is_bootstrap(each.error) else None,
            }
            for each in standing.errors
        ],
        "age_s": found.age_s(now_ms),
        "noise_lines": last.lines if last else None,
        "noise_tokens": last.tokens if last else None,
        "origin": origin(found),
        "path": standing.source_file.path if standing.source_file else None,
        "reason": standing.reason,
        "at": time_of(standing.since_ms),
        "saved": list(standing.saved_categories),
        "needs_someone": standing.state in NEEDS_SOMEONE,
        "fresh": found.is_fresh,
        "confirmed": found.was_confirmed,
        "confirmed_at": time_of(found.confirmed_at),
        "plugin_says": found.plugin_message.text,
        "blind_spots": [each.value for each in found.plugin_message.blind_spots],
        "staged_files": len(found.staged_files),
        "staged_bytes": sum(each.mark.size for each in found.staged_files),
        "staging_leak": found.has_leftovers,
        "degraded": "inline" if found.is_degraded else None,
        "noise_items": last.items if last else None,
        "noise_estimated": last.is_estimated if last else None,
        "saves": [_save(each) for each in found.saves],
        "refires": found.refires,
        "sessions_by_fires": found.fire_counts,
        "before": _amount(found.before_after.before),
        "after": _amount(found.before_after.after),
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
        "durations": _durations(found.durations),
        "phases_ms": found.phases_ms,
        "triggers": {name: _rate(each) for name, each in found.trigger_rates.items()},
        "success": _rate(found.success_rate),
        "clients": list(found.client_versions),
        "plugins": [_plugin(each) for each in report.plugins],
    }


def origin(found: ProjectSave) -> str | None:
    """Name where the state comes from: a generation of places, or a transcript."""
    if found.status.source_file:
        return found.status.source_file.generation.value
    return TRANSCRIPT if found.status.since_ms is not None else None


def table(report: SavesReport, now_ms: int) -> list[str]:
    """Lay out `ctxtop saves`."""
    if not report.projects:
        return []
    columns = [
        Column("project", flexible=True),
        Column("state"),
        Column("age", right=True, priority=2),
        Column("what", flexible=True),
        Column("saves", right=True, priority=6),
        Column("noise, tokens", right=True, priority=3),
        Column("expected", priority=5),
        Column("origin", priority=7),
    ]
    rows: list[list[Cell | str]] = [
        [
            each.name,
            Cell(each.status.state.value, _COLOURS.get(each.status.state, "")),
            NOTHING if (seconds := each.age_s(now_ms)) is None else age(seconds * 1000),
            what(each),
            str(len(each.saves) or ""),
            _noise(each.saves[-1].noise) if each.saves else NOTHING,
            _expected(each.saves[-1].bands) if each.saves else NOTHING,
            origin(each) or NOTHING,
        ]
        for each in report.projects
    ]
    return [*draw(columns, rows, terminal_width()), *_notes(report)]


def what(found: ProjectSave) -> str:
    """Say in a row what was saved or is to be, and why the state is what it is."""
    standing = found.status
    names = ", ".join(standing.categories)
    if standing.state is SaveState.SAVED:
        return ", ".join(standing.titles) or names or standing.reason
    return f"{standing.reason}: {names}" if names else standing.reason


def _notes(report: SavesReport) -> list[str]:
    notes = [f"{each.plugin.plugin_id}: {each.reason}" for each in report.plugins]
    for found in report.projects:
        notes += [f"{found.name}: {each}" for each in _notes_of(found)]
    return ["", *map(one_line, notes)] if notes else []


def _expected(bands: Sequence[BandVerdict]) -> str:
    found = next((each for each in bands if each.is_expected), None)
    return NOTHING if found is None else "✓ met" if found.is_met else "✗ above"


def _noise(noise: Noise) -> str:
    return f"{plural(noise.lines, 'line')}, {'≈' * noise.is_estimated}{tokens(noise.tokens)}"


def _notes_of(found: ProjectSave) -> Iterator[str]:
    if found.plugin_message.blind_spots:
        yield plugin_words(found.plugin_message)
    if found.has_leftovers:
        yield f"{plural(len(found.staged_files), 'staged file')} left behind"
    if found.refires:
        yield f"the Stop hook fired again {plural(found.refires, 'time')}"
    for each in found.crossings:
        if each.would_cross:
            yield (
                f"session {each.session_id[:8]} has {tokens(each.tokens_to_trigger)} to its compaction,"
                f" and a save takes ≈{tokens(each.cost.tokens)}"
            )


def _save(found: MeasuredSave) -> Record:
    noise = found.noise
    return {
        "session_id": found.session_id,
        "transcript": found.path,
        "offset": found.offset,
        "end_offset": noise.end_offset,
        "lines_of_transcript": noise.end_line,
        "at": time_of(noise.at),
        "last_at": time_of(noise.last_at),
        "ended": noise.closed,
        "categories": list(noise.categories),
        "triage": noise.form.value,
        "saver": noise.saver.value if noise.saver else None,
        "said": list(noise.said),
        "lines": noise.lines,
        "items": noise.items,
        "tokens": noise.tokens,
        "estimated": noise.is_estimated,
        "classes": _classes(noise),
        "agents": noise.agents,
        "agents_in_background": noise.agents_in_background,
        "leaked_calls": noise.leaked_calls,
        "leaked_lines": noise.leaked_lines,
        "compacted": noise.was_compacted,
        "bands": [_band(each) for each in found.bands],
    }


def _classes(noise: Noise) -> Record:
    return {
        name.value: {
            "lines": share.lines,
            "items": share.items,
            "tokens": share.estimated_tokens,
        }
        for name, share in noise.classes.items()
    }


def _band(found: BandVerdict) -> Record:
    return {
        "band": found.band.name,
        "what": found.band.label,
        "expected": found.is_expected,
        "lines": found.lines.value,
        "tokens": found.tokens.value,
        "met": found.is_met,
    }


def _amount(found: Amount | None) -> Record | None:
    if found is None:
        return None
    return {
        "saves": found.saves,
        "lines": found.lines,
        "items": found.items,
        "tokens": found.tokens,
    }


def _rate(found: Rate) -> Record:
    return {"hits": found.hits, "of": found.total, "rate": found.share}


def _durations(found: Durations | None) -> Record | None:
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


def _plugin(found: Compat) -> Record:
    return {
        "plugin_id": found.plugin.plugin_id,
        "version": found.plugin.version,
        "install_path": found.plugin.install_path,
        "fit": found.fit.value,
        "architecture": found.architecture.value,
        "why": found.reason,
    }
