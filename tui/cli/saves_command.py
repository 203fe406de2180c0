"""`ctxtop saves`: claude-memory's saves, project by project."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import click

from ...collectors.collector_thread import Collector
from ...core.readers.saves_reader import read_saves
from ...core.saves.save_status import NEEDS_ATTENTION, SaveState
from ...core.saves.selected_files import written_ms
from ...core.transcript.sanitize import one_line
from ..text import save_facts, saves_text
from ..text.formats import NOTHING, iso_time, plural
from ..text.tables import Cell, Column, TextColumn
from .command_options import options_of, store_command
from .command_store import open_snapshot
from .hook_runs_command import hook_timing_record
from .json_records import Record, record_of, records_of
from .printing import draw_table, print_result

if TYPE_CHECKING:
    from ...core.saves.project_saves import MeasuredSave, ProjectSaves, SavesReport


@store_command()
def saves(context: click.Context) -> int:
    """List the state of claude-memory's saves by project. Newest first.

    Reads every place that a version of the plugin has used, and changes nothing.
    """
    with open_snapshot(options_of(context), Collector.scan_and_measure_saves) as snapshot:
        report = read_saves(snapshot.db, snapshot.sessions(), snapshot.now_ms, snapshot.policies)
        return print_result(
            context,
            [_save_record(each, report, snapshot.now_ms) for each in report.projects],
            lambda: _saves_table(report, snapshot.now_ms),
            f"no saves of claude-memory yet in {snapshot.places.config_dir}",
        )


def _save_record(project: ProjectSaves, report: SavesReport, now_ms: int) -> Record:
    status = project.status
    last = project.saves[-1].noise if project.saves else None
    return {
        "project": project.project or None,
        **record_of(status, "state categories titles"),
        "errors": [
            {
                "category": each.category or None,
                "error": each.error,
                "class": "env_bootstrap" if saves_text.is_bootstrap_error(each.error) else None,
            }
            for each in status.errors
        ],
        "age_s": project.age_s(now_ms),
        **record_of(last, "noise_lines=lines noise_tokens=tokens"),
        "origin": _origin(project),
        **record_of(status, "path=source_file.path reason at=since_ms saved=saved_categories"),
        "needs_someone": status.state in NEEDS_ATTENTION,
        **record_of(
            project,
            "fresh=is_fresh confirmed=was_confirmed confirmed_at plugin_says=plugin_message.text"
            " blind_spots=plugin_message.blind_spots",
        ),
        "staged_files": len(project.staged_files),
        "staged_bytes": sum(each.mark.size for each in project.staged_files),
        "staging_leak": project.has_leftovers,
        "staged_since": iso_time(min(map(written_ms, project.staged_files), default=None)),
        "degraded": _degradation(project),
        **record_of(
            project,
            "missing_file odd_transitions skips recent_pending deferred=is_deferred",
        ),
        "other_save": project.other_save and record_of(project.other_save, "project=name at"),
        **record_of(last, "noise_items=items noise_estimated=is_estimated"),
        "saves": [_measured_save_record(each) for each in project.saves],
        **record_of(
            project,
            "refires sessions_by_fires=fire_counts before=before_after.before"
            " after=before_after.after reduction=before_after.reduction"
            " token_reduction=before_after.token_reduction"
            " expected_tokens=expected_cost.tokens expected_from=expected_cost.sample_count",
        ),
        "crossings": records_of(
            project.crossings,
            "session_id left_tokens=tokens_to_trigger window_share would_cross",
        ),
        **record_of(project, "durations phases_ms"),
        "triggers": {
            name: record_of(rate, _RATE_KEYS) for name, rate in project.trigger_rates.items()
        },
        "success": record_of(project.success_rate, _RATE_KEYS),
        "hook": hook_timing_record(project.hook) if project.hook else None,
        **record_of(project, "block_reason"),
        "clients": list(project.client_versions),
        "plugins": records_of(
            report.plugins,
            "plugin_id=plugin.plugin_id version=plugin.version install_path=plugin.install_path"
            " fit architecture why=reason",
        ),
    }


_RATE_KEYS: Final = "hits of=total rate=share"


def _measured_save_record(save: MeasuredSave) -> Record:
    return {
        **record_of(
            save,
            "session_id transcript=path offset end_offset=noise.end_offset"
            " lines_of_transcript=noise.end_line at=noise.at last_at=noise.last_at"
            " ended=noise.closed categories=noise.categories triage=noise.form"
            " saver=noise.saver said=noise.said lines=noise.lines items=noise.items"
            " tokens=noise.tokens estimated=noise.is_estimated",
        ),
        "classes": {
            name.value: record_of(share, "lines items tokens=estimated_tokens")
            for name, share in save.noise.classes.items()
        },
        **record_of(
            save.noise,
            "agents agents_in_background save_agents commands leaked_calls leaked_lines"
            " compacted=was_compacted data_file",
        ),
        "bands": records_of(
            save.bands,
            "band=band.name what=band.label expected=is_expected lines tokens met=is_met"
            " lines_over tokens_over reduction",
        ),
    }


def _degradation(project: ProjectSaves) -> str | None:
    """Return how the triage data came instead of in its file, if it did not come in that."""
    if project.missing_file:
        return "missing_file"
    return "inline" if project.is_degraded else None


def _origin(project: ProjectSaves) -> str | None:
    """Return which generation of places, the log or a transcript the state comes from."""
    if project.status.source_file:
        return project.status.source_file.generation.value
    if project.status.is_logged:
        return "log"
    return "transcript" if project.status.since_ms is not None else None


def _saves_table(report: SavesReport, now_ms: int) -> list[str]:
    columns: list[TextColumn[ProjectSaves]] = [
        Column("project", lambda each: each.name, flexible=True),
        Column("state", _state_cell),
        Column("age", lambda each: saves_text.save_age(each, now_ms), right=True, priority=2),
        Column("what", _save_text, flexible=True),
        Column("saves", lambda each: str(len(each.saves) or ""), right=True, priority=6),
        Column("noise, tokens", _noise_text, right=True, priority=3),
        Column("expected", _expected_text, priority=5),
        Column("origin", lambda each: _origin(each) or NOTHING, priority=7),
    ]
    if not report.projects:
        return []
    notes = [saves_text.installation_text(each) for each in report.plugins]
    for project in report.projects:
        notes += [f"{project.name}: {note}" for note in _project_notes(project, now_ms)]
    lines = draw_table(columns, report.projects)
    return [*lines, "", *map(one_line, notes)] if notes else lines


_STATE_COLORS: Final = {
    SaveState.SAVED: "ok",
    SaveState.PARTIAL: "warning",
    SaveState.PENDING: "warning",
    SaveState.ORPHANED: "bad",
    SaveState.FAILED_UNKNOWN: "bad",
    SaveState.CORRUPT: "bad",
    SaveState.NONE: "quiet",
}


def _state_cell(project: ProjectSaves) -> Cell:
    state = project.status.state
    return Cell(state.value, _STATE_COLORS.get(state, ""))


def _save_text(project: ProjectSaves) -> str:
    status = project.status
    names = ", ".join(status.categories)
    if status.state is SaveState.SAVED:
        return save_facts.saved_text(status) or status.reason
    return f"{status.reason} ({names})" if names else status.reason


def _expected_text(project: ProjectSaves) -> str:
    band = saves_text.expected_band(project.saves[-1]) if project.saves else None
    return NOTHING if band is None else "✓ met" if band.is_met else "✗ above"


def _noise_text(project: ProjectSaves) -> str:
    if not project.saves:
        return NOTHING
    noise = project.saves[-1].noise
    return f"{plural(noise.lines, 'line')}, {saves_text.noise_tokens_text(noise)}"


_NOTED: Final = frozenset({"hook", "hook skipped", "took", "change"})
"""Labels of facts that the command notes besides warnings; the page and JSON have all."""


def _project_notes(project: ProjectSaves, now_ms: int) -> Iterator[str]:
    if project.status.state is SaveState.SAVED and project.status.saved_categories:
        yield project.status.reason
    for fact in save_facts.save_facts(project, now_ms):
        if fact.is_warning or fact.label in _NOTED:
            yield f"{fact.label}: {fact.text}"
