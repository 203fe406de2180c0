"""Each project's saves: state, cost and rates; the plugin's fit and its messages."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

import msgspec
from msgspec.structs import replace

from ..measure.hook_runs import HookTiming, find_handler, time_hooks
from ..measure.retention import DAY_MS
from ..measure.session_building import project_name
from ..model.config_records import HookHandler, SaveEventRecord, SaveFileRecord, StagingLocation
from ..model.session import Session
from ..model.stored_rows import HookRun
from ..policy.resolve import DEFAULT_POLICIES, Policies
from ..store.queries.config_queries import MemoryNoteRow, StopBlockRow
from . import save_log, save_metrics
from .memory_plugin import (
    PluginCompatibility,
    PluginMessage,
    next_plugin_message,
)
from .save_metrics import (
    BandVerdict,
    BeforeAfter,
    Durations,
    ExpectedSaveCost,
    Rate,
    TriggerCrossing,
)
from .save_noise import (
    STOP_FEEDBACK_PREFIX,
    SaveNoise,
    TriageDataForm,
    decode_noise,
    parse_triage_block,
)
from .save_status import (
    MS_PER_SECOND,
    SAME_SAVE_MS,
    LostRequest,
    SaveConfirmation,
    SaveSigns,
    SaveState,
    SaveStatus,
    find_save_status,
    is_same_save,
    named_time_ms,
    parse_closing_line,
    parse_save_note,
)
from .selected_files import (
    ProjectSaveFiles,
    SaveLimits,
    content_of,
    owning_project,
    save_limits,
    select_save_files,
    written_ms,
)

TRIAGE_SCRIPT: Final = "memory_triage"  # what the plugin's Stop hook runs
NO_PROJECT: Final = ""  # the project of a global result that names none
SAVES_MODULE: Final = "save-flow"  # in `disabled_modules` it leaves saves out


class MeasuredSave(msgspec.Struct, frozen=True):
    session_id: str
    path: str  # of the transcript, below the projects folder
    offset: int
    noise: SaveNoise
    bands: tuple[BandVerdict, ...]


class ProjectRows(msgspec.Struct):
    files: list[SaveFileRecord] = []
    earlier_files: list[SaveFileRecord] = []
    blocks: list[StopBlockRow] = []  # of the plugin's hook only
    saves: list[MeasuredSave] = []  # oldest first
    notes: list[SaveConfirmation] = []  # oldest first
    events: list[SaveEventRecord] = []
    hook_runs: list[HookRun] = []  # of the plugin's Stop hook, oldest first


class SavesByProject(msgspec.Struct, frozen=True):
    """All rows, by project; the other fields are of all projects."""

    projects: dict[str, ProjectRows]
    shared_files: list[SaveFileRecord]  # files of the oldest location, which all projects share
    all_noise: list[SaveNoise]
    plugins: tuple[PluginCompatibility, ...]
    hook_handlers: tuple[HookHandler, ...] = ()


def group_by_project(
    files: Sequence[SaveFileRecord],
    earlier_files: Sequence[SaveFileRecord],
    blocks: Iterable[StopBlockRow],
    notes: Iterable[MemoryNoteRow],
    events: Mapping[str, Iterable[SaveEventRecord]],
    plugins: tuple[PluginCompatibility, ...],
    hook_runs: Iterable[HookRun] = (),
    hook_handlers: Sequence[HookHandler] = (),
) -> SavesByProject:
    """Group the rows by project; a block belongs to the folder that its session works in."""
    projects: dict[str, ProjectRows] = defaultdict(ProjectRows)
    for file in map(_with_project, files):
        projects[owning_project(file) or NO_PROJECT].files.append(file)
    for file in map(_with_project, earlier_files):
        projects[owning_project(file) or NO_PROJECT].earlier_files.append(file)
    for block in blocks:
        if block.cwd is not None and parse_triage_block(block.text) is not None:
            projects[block.cwd].blocks.append(block)
            if noise := decode_noise(block.noise):
                bands = save_metrics.compare_with_bands(noise)
                save = MeasuredSave(block.session_id, block.path, block.offset, noise, bands)
                projects[block.cwd].saves.append(save)
    for note in notes:
        confirmation = parse_save_note(note.text, note.at)
        if confirmation and note.cwd is not None:
            projects[note.cwd].notes.append(confirmation)
    for name, logged in events.items():
        projects[name].events.extend(logged)
    is_triage: dict[tuple[str, str], bool] = {}  # by event and recorded command
    for run in hook_runs:
        if run.cwd in projects:
            key = run.event, run.command
            if key not in is_triage:
                handler = find_handler(run, hook_handlers)
                is_triage[key] = TRIAGE_SCRIPT in (handler.command if handler else run.command)
            if is_triage[key]:
                projects[run.cwd].hook_runs.append(run)
    for own in projects.values():
        own.saves.sort(key=lambda save: (save.noise.at or 0, save.path, save.offset))
    return SavesByProject(
        projects=dict(projects),
        shared_files=[file for file in files if file.generation is StagingLocation.GLOBAL],
        all_noise=[save.noise for own in projects.values() for save in own.saves],
        plugins=plugins,
        hook_handlers=tuple(hook_handlers),
    )


def _with_project(file: SaveFileRecord) -> SaveFileRecord:
    return replace(file, project=NO_PROJECT) if owning_project(file) is None else file


class OtherSave(msgspec.Struct, frozen=True):
    """A save of another project, of which the plugin says no more than that (004-51)."""

    name: str  # of the project
    at: int  # milliseconds since 1970


PENDING_DAYS: Final = 7
MANY_PENDING: Final = 3  # in that time: most deferred saves are never made (004-65)


class ProjectSaves(msgspec.Struct, frozen=True):
    """All that is known of one project's saves; times are milliseconds since 1970."""

    project: str  # its folder
    name: str
    status: SaveStatus
    plugin_message: PluginMessage
    saves: tuple[MeasuredSave, ...]  # oldest first
    was_confirmed: bool | None  # a prompt reported the result; None if there is none to report
    confirmed_at: int | None
    is_fresh: bool
    staged_files: tuple[SaveFileRecord, ...]  # triage data and context files
    refires: int
    fire_counts: dict[str, int]
    durations: Durations | None
    phases_ms: dict[str, float]
    trigger_rates: dict[str, Rate]
    success_rate: Rate
    client_versions: tuple[str, ...]  # that saves were seen with, in their order
    before_after: BeforeAfter
    expected_cost: ExpectedSaveCost
    crossings: tuple[TriggerCrossing, ...]
    is_degraded: bool  # the data came inline although the plugin can write it to a file
    missing_file: str | None  # named as the triage data by the newest block, and never there
    last_at: int | None  # newest sign of any save
    hook: HookTiming | None = None  # of the plugin's Stop hook
    block_reason: str | None = None  # its first line, of the newest block
    other_save: OtherSave | None = None  # the newest result of another project that is seen here
    odd_transitions: tuple[str, ...] = ()  # of the sentinel, as `saved → saving` (R004-03)
    skips: dict[str, int] = {}  # how often the Stop hook did nothing, by its guard (R004-10)
    recent_pending: int = 0  # saves in PENDING_DAYS that were left to a person (004-65)
    is_deferred: bool = False  # all are, by the project's configuration (004-68)

    @property
    def has_leftovers(self) -> bool:
        """A save has ended, and what was staged for it is still there (004-43)."""
        return self.status.state is SaveState.SAVED and bool(self.staged_files)

    def age_s(self, now_ms: int) -> int | None:
        """Whole seconds since the state began; None if its time is unknown."""
        at = self.status.since_ms
        return None if at is None else (now_ms - at) // MS_PER_SECOND


class SavesReport(msgspec.Struct, frozen=True):
    """Every project with a sign of a save, the newest first, and the plugin's installations."""

    projects: tuple[ProjectSaves, ...] = ()
    plugins: tuple[PluginCompatibility, ...] = ()

    @property
    def next_change_ms(self) -> int | None:
        """When time alone changes a state, in milliseconds since 1970."""
        moments = [project.status.next_change_ms for project in self.projects]
        return min((at for at in moments if at is not None), default=None)


EMPTY_SAVES_REPORT = SavesReport()


def make_saves_report(
    rows: SavesByProject,
    sessions: Sequence[Session],
    now_ms: int,
    policies: Policies = DEFAULT_POLICIES,
) -> SavesReport:
    """Evaluate the rows at `now_ms`; projects whose policy disables saves are left out."""
    live: dict[str | None, list[Session]] = {}
    for session in sessions:
        if session.live:
            live.setdefault(session.cwd, []).append(session)
    projects = []
    for name in rows.projects:
        policy = policies.for_project(name)
        if SAVES_MODULE not in policy.texts("disabled_modules"):
            project = _evaluate(name, rows, save_limits(policy), live.get(name, []), now_ms)
            projects += [project] if project else []
    projects.sort(key=lambda project: (-(project.last_at or 0), project.project))
    return SavesReport(tuple(projects), rows.plugins)


def _evaluate(
    name: str, rows: SavesByProject, limits: SaveLimits, sessions: Sequence[Session], now_ms: int
) -> ProjectSaves | None:
    own = rows.projects[name]
    shared = [file for file in rows.shared_files if owning_project(file) != name]
    flow = select_save_files(name, [*own.files, *shared], own.earlier_files, limits)
    if flow.is_empty and not own.saves and not own.events:
        return None
    lost = _lost_request(own, flow)
    status = find_save_status(flow, now_ms, limits, _signs(own, lost))
    noises = [save.noise for save in own.saves]
    cost = save_metrics.expected_cost(noises or rows.all_noise)
    confirmed_at = _confirmed_at(own, flow, status)
    by_session: dict[str, list[int | None]] = {}
    for block in own.blocks:
        by_session.setdefault(block.session_id, []).append(block.at)
    fires = by_session.values()
    refires = sum(save_metrics.count_refires(times, limits.sentinel_ttl_s) for times in fires)
    counted = content_of(flow.fire_count).count if flow.fire_count else None
    since = status.since_ms
    signs = (since, *(noise.last_at for noise in noises))
    return ProjectSaves(
        project=name,
        name=project_name(name, "") if name else "(no project named)",
        status=status,
        plugin_message=next_plugin_message(flow, status),
        saves=tuple(own.saves),
        was_confirmed=_was_confirmed(flow, status, confirmed_at),
        confirmed_at=confirmed_at,
        is_fresh=since is not None and now_ms - since < limits.fresh_for_s * MS_PER_SECOND,
        staged_files=flow.staged_files,
        refires=max(refires, (counted or 1) - 1),
        fire_counts=save_metrics.fire_distribution(map(len, fires)),
        durations=save_metrics.summarize_durations(save_log.durations_ms(flow, own.events)),
        phases_ms=save_metrics.phase_means(
            content_of(file).phase_ms or {} for file in flow.results
        ),
        trigger_rates=save_metrics.trigger_rates(list(save_log.triggered_categories(own.events))),
        success_rate=save_log.success_rate(flow, own.events),
        client_versions=tuple(
            dict.fromkeys(block.client_version for block in own.blocks if block.client_version)
        ),
        before_after=save_metrics.compare_before_after(noises),
        expected_cost=cost,
        crossings=tuple(_crossings(sessions, cost)),
        is_degraded=_is_degraded(noises, rows.plugins),
        missing_file=lost.data_file if lost else None,
        last_at=max((at for at in signs if at), default=None),
        hook=next(iter(time_hooks(own.hook_runs, rows.hook_handlers)), None),
        block_reason=_block_reason(own.blocks[-1].text) if own.blocks else None,
        other_save=_other_save(flow, now_ms, limits),
        odd_transitions=_odd_transitions(flow),
        skips=save_log.count_skips(own.events),
        recent_pending=_recent_pending(flow, now_ms),
        is_deferred=flow.is_deferred,
    )


def _lost_request(own: ProjectRows, flow: ProjectSaveFiles) -> LostRequest | None:
    """Return the newest save if its triage data was never there, and its session did nothing."""
    noise = own.saves[-1].noise if own.saves else None
    if noise is None or noise.data_file is None or noise.saver or noise.at is None:
        return None
    if any(written_ms(file) >= noise.at - SAME_SAVE_MS for file in flow.triage_versions):
        return None
    told = [written_ms(file) for file in (*flow.results, *flow.earlier_pending)]
    told += [note.at for note in own.notes]
    if logged := save_log.logged_end(own.events):
        told.append(logged.at)
    if noise.said or max(told, default=0) >= noise.at:
        return None
    last_at = max(noise.at, noise.last_at or 0)
    return LostRequest(noise.at, last_at, noise.data_file, noise.categories)


def _other_save(flow: ProjectSaveFiles, now_ms: int, limits: SaveLimits) -> OtherSave | None:
    named = [file for file in flow.other_results if owning_project(file) and not file.problem]
    newest = max(named, key=named_time_ms, default=None)
    if newest is None or now_ms - named_time_ms(newest) >= limits.fresh_for_s * MS_PER_SECOND:
        return None
    return OtherSave(project_name(owning_project(newest), ""), named_time_ms(newest))


_TRANSITIONS: Final = frozenset(
    {("pending", "saving"), ("pending", "failed"), ("saving", "saved"), ("saving", "failed")}
)
"""Of the sentinel (R004-03); besides, another triage sets it to pending again."""


def _odd_transitions(flow: ProjectSaveFiles) -> tuple[str, ...]:
    """List the transitions of one session's sentinel that the plugin never makes itself."""
    files = [file for file in (flow.handled, *flow.earlier_handled) if file]
    states = [content_of(file) for file in sorted(files, key=written_ms)]
    odd = [
        f"{before.state} → {after.state}"
        for before, after in pairwise(states)
        if before.session_id == after.session_id
        and before.state
        and after.state not in {None, "pending", before.state}
        and (before.state, after.state) not in _TRANSITIONS
    ]
    return tuple(dict.fromkeys(odd))


def _recent_pending(flow: ProjectSaveFiles, now_ms: int) -> int:
    files = [file for file in (flow.pending, *flow.earlier_pending) if file]
    return sum(now_ms - written_ms(file) < PENDING_DAYS * DAY_MS for file in files)


def _block_reason(text: str) -> str:
    """Return the first line of a reason, without the client's own words before it."""
    lines = text.removeprefix(STOP_FEEDBACK_PREFIX).strip().splitlines()
    return lines[0].strip() if lines else ""


def _is_degraded(noises: Sequence[SaveNoise], plugins: Iterable[PluginCompatibility]) -> bool:
    if not noises or noises[-1].form is not TriageDataForm.INLINE:
        return False
    writes_file = any(each.plugin.triage_writes_file for each in plugins)
    return writes_file or any(noise.form is TriageDataForm.FILE for noise in noises)


def _signs(own: ProjectRows, lost: LostRequest | None) -> SaveSigns:
    open_saves = [save.noise.last_at for save in own.saves if not save.noise.closed]
    noted = max((note.at for note in own.notes), default=0)
    # If a save has two reports, the plugin's counts: with an agent in the background it
    # comes before the closing line (client 2.1.329).
    closing = [
        line
        for save in own.saves
        if (save.noise.at or 0) > noted and (line := parse_closing_line(save.noise))
    ]
    return SaveSigns(
        last_sign_ms=max((at for at in open_saves if at is not None), default=None),
        confirmation=max((*closing, *own.notes), key=lambda report: report.at, default=None),
        logged=save_log.logged_end(own.events),
        lost=lost,
    )


def _confirmed_at(own: ProjectRows, flow: ProjectSaveFiles, status: SaveStatus) -> int | None:
    if status.state not in {SaveState.SAVED, SaveState.PARTIAL}:
        return None
    since = written_ms(flow.results[0]) if flow.results else status.since_ms or 0
    return next((note.at for note in own.notes if note.at >= since), None)


def _crossings(sessions: Iterable[Session], cost: ExpectedSaveCost) -> Iterator[TriggerCrossing]:
    for session in sessions:
        crossing = save_metrics.check_crossing(session.session_id, session.context, cost)
        if crossing:
            yield crossing


def _was_confirmed(
    flow: ProjectSaveFiles, status: SaveStatus, confirmed_at: int | None
) -> bool | None:
    """Whether a prompt reported the save; None if unknown.

    It did if that was seen, or if the result file is gone (004-52).
    """
    result = status.source_file
    if status.state is SaveState.PARTIAL and flow.pending:
        # What was saved is reported beside what is pending (004-57).
        result = next((each for each in flow.results if is_same_save(each, flow.pending)), result)
    if confirmed_at is not None:
        return True
    if result is None or result not in (flow.result, *flow.earlier_results):
        return None
    return result != flow.result
