"""What is known of every project's saves: state, words of the plugin, noise, what comes next."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from ..policy.layers import COMMON
from ..sessions import project_name
from ..store import save_queries
from ..store import surroundings_queries as surroundings
from ..store.surroundings_facts import Generation
from .bands import BandVerdict, judge
from .blind_spots import PluginSays, plugin_says
from .blocks import Form, read_block
from .compat import Compat, judge_plugin
from .crossing import Cost, Crossing, crossing, expected_cost
from .flow import Flow, gather, says, whose, written_ms
from .limits import Limits, limits_of
from .metrics import (
    BeforeAfter,
    Durations,
    Rate,
    before_after,
    durations,
    fire_distribution,
    phase_means,
    refires,
    trigger_rates,
)
from .noise import Noise, unpack
from .states import SECOND_MS, Heard, SaveState, Standing, stands
from .told import Told, read_closing, read_note

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from ..policy.layers import Policies
    from ..sessions import Session
    from ..store.save_queries import BlockRow, NoteRow
    from ..store.surroundings_facts import SaveEventFact, SaveFileFact

NO_PROJECT = ""
"""The project of a global result that names none."""


class MeasuredSave(msgspec.Struct, frozen=True):
    """One save that a transcript tells of; a place is the file's, below the projects folder."""

    session_id: str
    path: str
    offset: int
    noise: Noise
    bands: tuple[BandVerdict, ...]


class ProjectSave(msgspec.Struct, frozen=True):
    """All that is known of one project's saves; times are milliseconds since 1970."""

    project: str
    """Its folder."""
    name: str
    standing: Standing
    says: PluginSays
    saves: tuple[MeasuredSave, ...]
    """Oldest first."""
    confirmed: bool | None
    """A prompt was told of the result; None where there is none to tell of."""
    confirmed_at: int | None
    is_fresh: bool
    staged: tuple[SaveFileFact, ...]
    """Triage data and context files that lie there."""
    refires: int
    fires: dict[str, int]
    durations: Durations | None
    phases_ms: dict[str, float]
    triggers: dict[str, Rate]
    success: Rate
    clients: tuple[str, ...]
    """Versions of the client that saves were seen with, in their order."""
    change: BeforeAfter
    cost: Cost
    crossings: tuple[Crossing, ...]
    is_degraded: bool
    """The triage's data came inline although a version of the plugin writes it to a file."""
    last_at: int | None
    """Newest sign of any save."""

    @property
    def leftovers(self) -> bool:
        """A save has ended, and what was staged for it is still there (004-43)."""
        return self.standing.state is SaveState.SAVED and bool(self.staged)

    def age_s(self, now_ms: int) -> int | None:
        """Whole seconds since the state began; None where nothing says when."""
        at = self.standing.at
        return None if at is None else (now_ms - at) // SECOND_MS


class SavesReport(msgspec.Struct, frozen=True):
    """Every project with a sign of a save, the newest first, and the plugin's installations."""

    projects: tuple[ProjectSave, ...] = ()
    plugins: tuple[Compat, ...] = ()

    @property
    def next_at(self) -> int | None:
        """When time alone changes a state, in milliseconds since 1970."""
        moments = [each.standing.next_at for each in self.projects]
        return min((at for at in moments if at is not None), default=None)


NO_SAVES = SavesReport()


class SaveRows(msgspec.Struct, frozen=True):
    """What the store holds of saves, as rows."""

    files: list[SaveFileFact]
    past: list[SaveFileFact]
    blocks: list[BlockRow]
    notes: list[NoteRow]
    events: dict[str, list[SaveEventFact]]
    plugins: tuple[Compat, ...]


def read_rows(db: sqlite3.Connection) -> SaveRows:
    """Read them at one commit."""
    logs = {log.project for log, _ in surroundings.save_logs(db).values()}
    return SaveRows(
        files=surroundings.save_files(db),
        past=surroundings.past_save_files(db),
        blocks=save_queries.stop_blocks(db),
        notes=save_queries.memory_notes(db),
        events={project: surroundings.save_events(db, project) for project in sorted(logs)},
        plugins=tuple(map(judge_plugin, surroundings.save_plugins(db))),
    )


def read_saves(
    db: sqlite3.Connection,
    sessions: Sequence[Session],
    now_ms: int,
    policies: Policies = COMMON,
) -> SavesReport:
    """Say what is known of every project's saves at `now_ms`."""
    return report(read_rows(db), sessions, now_ms, policies)


def report(
    rows: SaveRows, sessions: Sequence[Session], now_ms: int, policies: Policies = COMMON
) -> SavesReport:
    """Say what rows mean at `now_ms`."""
    measured = _measured(rows.blocks)
    every = [each.noise for found in measured.values() for each in found]
    names = {whose(file) or NO_PROJECT for file in (*rows.files, *rows.past)} | measured.keys()
    names |= rows.events.keys()
    known = _Known(rows, sessions, measured, every, now_ms, policies)
    found = [each for name in sorted(names) if (each := known.project(name))]
    found.sort(key=lambda each: (-(each.last_at or 0), each.project))
    return SavesReport(tuple(found), rows.plugins)


class _Known:
    """Rows of all projects, from which each takes its own."""

    def __init__(
        self,
        rows: SaveRows,
        sessions: Sequence[Session],
        measured: dict[str, list[MeasuredSave]],
        every: list[Noise],
        now_ms: int,
        policies: Policies,
    ) -> None:
        self._rows = rows
        self._sessions = sessions
        self._measured = measured
        self._every = every
        self._now_ms = now_ms
        self._policies = policies
        self._writes_file = any(each.plugin.triage_writes_file for each in rows.plugins)

    def project(self, name: str) -> ProjectSave | None:
        rows, now_ms = self._rows, self._now_ms
        limits = limits_of(self._policies.of(name))
        flow = gather(name, _named(rows.files, name), rows.past, limits)
        saves = self._measured.get(name, [])
        events = rows.events.get(name, [])
        if flow.is_empty and not saves and not events:
            return None
        standing = stands(flow, now_ms, limits, self._heard(name, saves))
        own = [each.noise for each in saves]
        cost = expected_cost(own or self._every)
        confirmed_at = self._confirmed_at(flow, name, standing)
        blocks = [each for each in rows.blocks if each.cwd == name and _is_ours(each)]
        by_session: dict[str, list[int | None]] = {}
        for block in blocks:
            by_session.setdefault(block.session_id, []).append(block.at)
        again = sum(refires(each, limits.sentinel_ttl_s) for each in by_session.values())
        counted = says(flow.fire_count).count if flow.fire_count else None
        return ProjectSave(
            project=name,
            name=project_name(name, "") if name else "(no project named)",
            standing=standing,
            says=plugin_says(flow, standing),
            saves=tuple(saves),
            confirmed=_was_confirmed(flow, standing, confirmed_at),
            confirmed_at=confirmed_at,
            is_fresh=_is_fresh(standing, now_ms, limits),
            staged=flow.staged,
            refires=max(again, (counted or 1) - 1),
            fires=fire_distribution(map(len, by_session.values())),
            durations=durations(_taken(flow, events)),
            phases_ms=phase_means(says(each).phase_ms or {} for each in _results(flow)),
            triggers=trigger_rates(list(_triggered(events))),
            success=_success(flow, events),
            clients=tuple(
                dict.fromkeys(each.client_version for each in blocks if each.client_version)
            ),
            change=before_after(own),
            cost=cost,
            crossings=tuple(self._crossings(name, cost)),
            is_degraded=self._is_degraded(own),
            last_at=max(
                (at for at in (standing.at, *(each.last_at for each in own)) if at), default=None
            ),
        )

    def _is_degraded(self, own: list[Noise]) -> bool:
        if not own or own[-1].form is not Form.INLINE:
            return False
        return self._writes_file or any(each.form is Form.FILE for each in own)

    def _notes(self, name: str) -> Iterable[Told]:
        for note in self._rows.notes:
            if note.cwd == name and (told := read_note(note.text, note.at)):
                yield told

    def _heard(self, name: str, saves: list[MeasuredSave]) -> Heard:
        at_work = [each.noise.last_at for each in saves if not each.noise.closed]
        notes = list(self._notes(name))
        noted = max((told.at for told in notes), default=0)
        # Of two words on one save the plugin's count: with an agent in the background they
        # come before the closing line (client 2.1.329).
        closing = [
            told
            for each in saves
            if (each.noise.at or 0) > noted and (told := read_closing(each.noise))
        ]
        return Heard(
            alive_ms=max((at for at in at_work if at is not None), default=None),
            told=max((*closing, *notes), key=lambda each: each.at, default=None),
        )

    def _confirmed_at(self, flow: Flow, name: str, standing: Standing) -> int | None:
        if standing.state not in {SaveState.SAVED, SaveState.PARTIAL}:
            return None
        result = flow.result or (flow.past[0] if flow.past else None)
        since = written_ms(result) if result else standing.at or 0
        return next((told.at for told in self._notes(name) if told.at >= since), None)

    def _crossings(self, name: str, cost: Cost) -> Iterable[Crossing]:
        for session in self._sessions:
            if session.live and session.cwd == name:
                trigger = session.context.trigger
                found = crossing(
                    session.session_id,
                    session.context.numbers.counter,
                    trigger.tokens if trigger else None,
                    cost,
                )
                if found:
                    yield found


def _named(files: list[SaveFileFact], name: str) -> list[SaveFileFact]:
    """Give a global file that names no project to the project without a name."""
    if name != NO_PROJECT:
        return files
    return [
        replace(file, project=NO_PROJECT)
        for file in files
        if file.generation is Generation.GLOBAL and whose(file) is None
    ]


def _measured(blocks: list[BlockRow]) -> dict[str, list[MeasuredSave]]:
    found: dict[str, list[MeasuredSave]] = {}
    for block in blocks:
        noise = unpack(block.noise)
        if noise and block.cwd:
            save = MeasuredSave(block.session_id, block.path, block.offset, noise, judge(noise))
            found.setdefault(block.cwd, []).append(save)
    for saves in found.values():
        saves.sort(key=lambda each: (each.noise.at or 0, each.path, each.offset))
    return found


def _is_ours(block: BlockRow) -> bool:
    return read_block(block.text) is not None


def _is_fresh(standing: Standing, now_ms: int, limits: Limits) -> bool:
    at = standing.at
    return at is not None and now_ms - at < limits.fresh_for_s * SECOND_MS


def _was_confirmed(flow: Flow, standing: Standing, confirmed_at: int | None) -> bool | None:
    """Say whether a prompt was told: by its own words, or because the result is gone (004-52)."""
    result = standing.file
    if confirmed_at is not None:
        return True
    if result is None or result not in (flow.result, *flow.past):
        return None
    return result != flow.result


def _results(flow: Flow) -> list[SaveFileFact]:
    return [each for each in (flow.result, *flow.past) if each]


def _taken(flow: Flow, events: Iterable[SaveEventFact]) -> list[float]:
    """List how long saves took: by the log, else by the results (R004-10, R004-02)."""
    logged = [each.duration_ms for each in events if each.event == _COMPLETE]
    told = [(says(each).phase_ms or {}).get(_TOTAL) for each in _results(flow)]
    return [each for each in (logged if any(logged) else told) if each is not None]


def _success(flow: Flow, events: Iterable[SaveEventFact]) -> Rate:
    """Count the saves that went without an error: by the log, else by the results."""
    failed = [each.error is not None for each in events if each.event == _COMPLETE]
    failed = failed or [bool(says(each).errors) for each in _results(flow)]
    return Rate(failed.count(False), len(failed))


def _triggered(events: Iterable[SaveEventFact]) -> Iterable[list[str]]:
    """List which categories each triage wanted to be saved (R004-10)."""
    for event in events:
        if event.event == _SCORE and event.data:
            yield [each.category for each in _scored(event.data) if each.category]


def _scored(data: str) -> list[_Scored]:
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
