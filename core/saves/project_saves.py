"""Everything known about each project's saves: state, the plugin's message, cost and rates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from ..model.session import Session, project_name
from ..policy.resolve import DEFAULT_POLICIES, Policies
from ..store.config_records import SaveEventRecord, SaveFileRecord, StagingLocation
from ..store.queries.config_queries import MemoryNoteRow, StopBlockRow
from .project_save_files import (
    ProjectSaveFiles,
    SaveLimits,
    content_of,
    owning_project,
    save_limits,
    select_save_files,
    written_ms,
)
from .save_metrics import (
    BandVerdict,
    BeforeAfter,
    Durations,
    ExpectedSaveCost,
    Rate,
    TriggerCrossing,
    check_crossing,
    compare_before_after,
    compare_with_bands,
    count_refires,
    expected_cost,
    fire_distribution,
    phase_means,
    summarize_durations,
    trigger_rates,
)
from .save_noise import SaveNoise, TriageDataForm, decode_noise, parse_triage_block
from .save_plugin import PluginCompatibility, PluginMessage, next_plugin_message
from .save_status import (
    MS_PER_SECOND,
    SaveConfirmation,
    SaveState,
    SaveStatus,
    TranscriptSigns,
    find_save_status,
    parse_closing_line,
    parse_save_note,
)

NO_PROJECT: Final = ""  # the project of a global result that names none


class MeasuredSave(msgspec.Struct, frozen=True):
    """One save that a transcript tells of; a place is the file's, below the projects folder."""

    session_id: str
    path: str
    offset: int
    noise: SaveNoise
    bands: tuple[BandVerdict, ...]


class SaveRows(msgspec.Struct, frozen=True):
    """What the store holds of saves, as rows."""

    files: list[SaveFileRecord]
    earlier_files: list[SaveFileRecord]
    blocks: list[StopBlockRow]
    notes: list[MemoryNoteRow]
    events: dict[str, list[SaveEventRecord]]
    plugins: tuple[PluginCompatibility, ...]


class ProjectRows(msgspec.Struct):
    """What belongs to one project."""

    files: list[SaveFileRecord] = []
    earlier_files: list[SaveFileRecord] = []
    blocks: list[StopBlockRow] = []  # of the plugin's hook alone
    saves: list[MeasuredSave] = []  # oldest first
    notes: list[SaveConfirmation] = []  # oldest first
    events: list[SaveEventRecord] = []


class SavesByProject(msgspec.Struct, frozen=True):
    """All rows, by project; what every project sees stands beside them."""

    projects: dict[str, ProjectRows]
    shared_files: list[SaveFileRecord]  # files of the oldest place, which is one for all projects
    all_noise: list[SaveNoise]
    plugins: tuple[PluginCompatibility, ...]


def group_by_project(rows: SaveRows) -> SavesByProject:
    """Group the rows by project; a block belongs to the folder that its session works in."""
    found: dict[str, ProjectRows] = {}

    def own(name: str) -> ProjectRows:
        return found.setdefault(name, ProjectRows())

    for file in rows.files:
        mine = _with_project(file)
        own(mine[0]).files.append(mine[1])
    for file in rows.earlier_files:
        mine = _with_project(file)
        own(mine[0]).earlier_files.append(mine[1])
    for block in rows.blocks:
        if block.cwd is None or parse_triage_block(block.text) is None:
            continue
        own(block.cwd).blocks.append(block)
        noise = decode_noise(block.noise)
        if noise:
            save = MeasuredSave(
                block.session_id, block.path, block.offset, noise, compare_with_bands(noise)
            )
            own(block.cwd).saves.append(save)
    for note in rows.notes:
        told = parse_save_note(note.text, note.at)
        if told and note.cwd is not None:
            own(note.cwd).notes.append(told)
    for name, events in rows.events.items():
        own(name).events.extend(events)
    for each in found.values():
        each.saves.sort(key=lambda save: (save.noise.at or 0, save.path, save.offset))
    return SavesByProject(
        projects=found,
        shared_files=[each for each in rows.files if each.generation is StagingLocation.GLOBAL],
        all_noise=[save.noise for each in found.values() for save in each.saves],
        plugins=rows.plugins,
    )


def _with_project(file: SaveFileRecord) -> tuple[str, SaveFileRecord]:
    """Name a file's project; a global one that names none is given to the one without a name."""
    name = owning_project(file)
    return (NO_PROJECT, replace(file, project=NO_PROJECT)) if name is None else (name, file)


SAVES_MODULE: Final = "save-flow"  # the word of `disabled_modules` that leaves saves out


class ProjectSaves(msgspec.Struct, frozen=True):
    """All that is known of one project's saves; times are milliseconds since 1970."""

    project: str  # its folder
    name: str
    status: SaveStatus
    plugin_message: PluginMessage
    saves: tuple[MeasuredSave, ...]  # oldest first
    was_confirmed: bool | None
    """A prompt was told of the result; None where there is none to tell of."""
    confirmed_at: int | None
    is_fresh: bool
    staged_files: tuple[SaveFileRecord, ...]  # triage data and context files that lie there
    refires: int
    fire_counts: dict[str, int]
    durations: Durations | None
    phases_ms: dict[str, float]
    trigger_rates: dict[str, Rate]
    success_rate: Rate
    client_versions: tuple[str, ...]
    """Versions of the client that saves were seen with, in their order."""
    before_after: BeforeAfter
    expected_cost: ExpectedSaveCost
    crossings: tuple[TriggerCrossing, ...]
    is_degraded: bool
    """The triage's data came inline although a version of the plugin writes it to a file."""
    last_at: int | None  # newest sign of any save

    @property
    def has_leftovers(self) -> bool:
        """A save has ended, and what was staged for it is still there (004-43)."""
        return self.status.state is SaveState.SAVED and bool(self.staged_files)

    def age_s(self, now_ms: int) -> int | None:
        """Whole seconds since the state began; None where nothing says when."""
        at = self.status.since_ms
        return None if at is None else (now_ms - at) // MS_PER_SECOND


class SavesReport(msgspec.Struct, frozen=True):
    """Every project with a sign of a save, the newest first, and the plugin's installations."""

    projects: tuple[ProjectSaves, ...] = ()
    plugins: tuple[PluginCompatibility, ...] = ()

    @property
    def next_change_ms(self) -> int | None:
        """When time alone changes a state, in milliseconds since 1970."""
        moments = [each.status.next_change_ms for each in self.projects]
        return min((at for at in moments if at is not None), default=None)


EMPTY_SAVES_REPORT = SavesReport()


def make_saves_report(
    rows: SavesByProject,
    sessions: Sequence[Session],
    now_ms: int,
    policies: Policies = DEFAULT_POLICIES,
) -> SavesReport:
    """Evaluate the rows at `now_ms`; projects whose policy disables saves are left out."""
    at_work: dict[str | None, list[Session]] = {}
    for session in sessions:
        if session.live:
            at_work.setdefault(session.cwd, []).append(session)
    found = []
    for name, own in rows.projects.items():
        policy = policies.for_project(name)
        if SAVES_MODULE not in policy.texts("disabled_modules"):
            project = _ProjectAtMoment(name, own, rows, save_limits(policy), now_ms)
            made = project.evaluate(at_work.get(name, []))
            found += [made] if made else []
    found.sort(key=lambda each: (-(each.last_at or 0), each.project))
    return SavesReport(tuple(found), rows.plugins)


class _ProjectAtMoment:
    """One project's rows at one moment."""

    def __init__(
        self, name: str, own: ProjectRows, rows: SavesByProject, limits: SaveLimits, now_ms: int
    ) -> None:
        self._name = name
        self._own = own
        self._rows = rows
        self._limits = limits
        self._now_ms = now_ms

    def evaluate(self, sessions: Sequence[Session]) -> ProjectSaves | None:
        name, own, limits, now_ms = self._name, self._own, self._limits, self._now_ms
        shared = [each for each in self._rows.shared_files if owning_project(each) != name]
        flow = select_save_files(name, [*own.files, *shared], own.earlier_files, limits)
        if flow.is_empty and not own.saves and not own.events:
            return None
        standing = find_save_status(flow, now_ms, limits, self._signs())
        noises = [each.noise for each in own.saves]
        cost = expected_cost(noises or self._rows.all_noise)
        confirmed_at = self._confirmed_at(flow, standing)
        by_session: dict[str, list[int | None]] = {}
        for block in own.blocks:
            by_session.setdefault(block.session_id, []).append(block.at)
        again = sum(count_refires(each, limits.sentinel_ttl_s) for each in by_session.values())
        counted = content_of(flow.fire_count).count if flow.fire_count else None
        return ProjectSaves(
            project=name,
            name=project_name(name, "") if name else "(no project named)",
            status=standing,
            plugin_message=next_plugin_message(flow, standing),
            saves=tuple(own.saves),
            was_confirmed=_was_confirmed(flow, standing, confirmed_at),
            confirmed_at=confirmed_at,
            is_fresh=_is_fresh(standing, now_ms, limits),
            staged_files=flow.staged_files,
            refires=max(again, (counted or 1) - 1),
            fire_counts=fire_distribution(map(len, by_session.values())),
            durations=summarize_durations(_durations_ms(flow, own.events)),
            phases_ms=phase_means(content_of(each).phase_ms or {} for each in _results(flow)),
            trigger_rates=trigger_rates(list(_triggered(own.events))),
            success_rate=_success(flow, own.events),
            client_versions=tuple(
                dict.fromkeys(each.client_version for each in own.blocks if each.client_version)
            ),
            before_after=compare_before_after(noises),
            expected_cost=cost,
            crossings=tuple(_crossings(sessions, cost)),
            is_degraded=self._is_degraded(noises),
            last_at=max(
                (at for at in (standing.since_ms, *(each.last_at for each in noises)) if at),
                default=None,
            ),
        )

    def _is_degraded(self, noises: list[SaveNoise]) -> bool:
        if not noises or noises[-1].form is not TriageDataForm.INLINE:
            return False
        writes_file = any(each.plugin.triage_writes_file for each in self._rows.plugins)
        return writes_file or any(each.form is TriageDataForm.FILE for each in noises)

    def _signs(self) -> TranscriptSigns:
        own = self._own
        at_work = [each.noise.last_at for each in own.saves if not each.noise.closed]
        noted = max((told.at for told in own.notes), default=0)
        # Of two words on one save the plugin's count: with an agent in the background they
        # come before the closing line (client 2.1.329).
        closing = [
            told
            for each in own.saves
            if (each.noise.at or 0) > noted and (told := parse_closing_line(each.noise))
        ]
        return TranscriptSigns(
            last_sign_ms=max((at for at in at_work if at is not None), default=None),
            confirmation=max((*closing, *own.notes), key=lambda each: each.at, default=None),
        )

    def _confirmed_at(self, flow: ProjectSaveFiles, standing: SaveStatus) -> int | None:
        if standing.state not in {SaveState.SAVED, SaveState.PARTIAL}:
            return None
        result = flow.result or (flow.earlier_results[0] if flow.earlier_results else None)
        since = written_ms(result) if result else standing.since_ms or 0
        return next((told.at for told in self._own.notes if told.at >= since), None)


def _crossings(sessions: Iterable[Session], cost: ExpectedSaveCost) -> Iterable[TriggerCrossing]:
    for session in sessions:
        trigger = session.context.trigger
        found = check_crossing(
            session.session_id,
            session.context.token_counts.counter,
            trigger.tokens if trigger else None,
            cost,
        )
        if found:
            yield found


def _is_fresh(standing: SaveStatus, now_ms: int, limits: SaveLimits) -> bool:
    at = standing.since_ms
    return at is not None and now_ms - at < limits.fresh_for_s * MS_PER_SECOND


def _was_confirmed(
    flow: ProjectSaveFiles, standing: SaveStatus, confirmed_at: int | None
) -> bool | None:
    """Whether a prompt reported the save; None if unknown.

    It did if it was seen to, or if the result file is gone (004-52).
    """
    result = standing.source_file
    if standing.state is SaveState.PARTIAL and flow.result:
        # What was saved is told of beside what is pending (004-57).
        result = flow.result
    if confirmed_at is not None:
        return True
    if result is None or result not in (flow.result, *flow.earlier_results):
        return None
    return result != flow.result


def _results(flow: ProjectSaveFiles) -> list[SaveFileRecord]:
    return [each for each in (flow.result, *flow.earlier_results) if each]


def _durations_ms(flow: ProjectSaveFiles, events: Iterable[SaveEventRecord]) -> list[float]:
    """List how long saves took: by the log, else by the results (R004-10, R004-02)."""
    logged = [each.duration_ms for each in events if each.event == _COMPLETE]
    told = [(content_of(each).phase_ms or {}).get(_TOTAL) for each in _results(flow)]
    return [each for each in (logged if any(logged) else told) if each is not None]


def _success(flow: ProjectSaveFiles, events: Iterable[SaveEventRecord]) -> Rate:
    """Count the saves that went without an error: by the log, else by the results."""
    failed = [each.error is not None for each in events if each.event == _COMPLETE]
    failed = failed or [bool(content_of(each).errors) for each in _results(flow)]
    return Rate(failed.count(False), len(failed))


def _triggered(events: Iterable[SaveEventRecord]) -> Iterable[list[str]]:
    """List which categories each triage wanted to be saved (R004-10)."""
    for event in events:
        if event.event == _SCORE and event.data:
            yield [each.category for each in _scored_categories(event.data) if each.category]


def _scored_categories(data: str) -> list[_Scored]:
    try:
        return msgspec.json.decode(data, type=_Scores).triggered
    except msgspec.DecodeError:
        # Of another shape than any version wrote: nothing is known of it.
        return []


class _Scored(msgspec.Struct):
    category: str | None = None


class _Scores(msgspec.Struct):
    triggered: list[_Scored] = []


_SCORE = "triage.score"
_COMPLETE = "save.complete"
_TOTAL = "total_ms"
