"""What is known of every project's saves: state, words of the plugin, noise, what comes next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from ..policy.layers import COMMON
from ..sessions import project_name
from .blind_spots import PluginSays, plugin_says
from .blocks import Form
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
from .own_rows import MeasuredSave, read_rows
from .states import SECOND_MS, Heard, SaveState, Standing, stands
from .told import read_closing

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from ..policy.layers import Policies
    from ..sessions import Session
    from ..store.surroundings_facts import SaveEventFact, SaveFileFact
    from .compat import Compat
    from .noise import Noise
    from .own_rows import OwnRows, SortedRows

MODULE: Final = "save-flow"
"""The word of `disabled_modules` that leaves saves out."""


class ProjectSave(msgspec.Struct, frozen=True):
    """All that is known of one project's saves; times are milliseconds since 1970."""

    project: str
    """Its folder."""
    name: str
    status: Standing
    plugin_message: PluginSays
    saves: tuple[MeasuredSave, ...]
    """Oldest first."""
    was_confirmed: bool | None
    """A prompt was told of the result; None where there is none to tell of."""
    confirmed_at: int | None
    is_fresh: bool
    staged_files: tuple[SaveFileFact, ...]
    """Triage data and context files that lie there."""
    refires: int
    fire_counts: dict[str, int]
    durations: Durations | None
    phases_ms: dict[str, float]
    trigger_rates: dict[str, Rate]
    success_rate: Rate
    client_versions: tuple[str, ...]
    """Versions of the client that saves were seen with, in their order."""
    before_after: BeforeAfter
    expected_cost: Cost
    crossings: tuple[Crossing, ...]
    is_degraded: bool
    """The triage's data came inline although a version of the plugin writes it to a file."""
    last_at: int | None
    """Newest sign of any save."""

    @property
    def has_leftovers(self) -> bool:
        """A save has ended, and what was staged for it is still there (004-43)."""
        return self.status.state is SaveState.SAVED and bool(self.staged_files)

    def age_s(self, now_ms: int) -> int | None:
        """Whole seconds since the state began; None where nothing says when."""
        at = self.status.since_ms
        return None if at is None else (now_ms - at) // SECOND_MS


class SavesReport(msgspec.Struct, frozen=True):
    """Every project with a sign of a save, the newest first, and the plugin's installations."""

    projects: tuple[ProjectSave, ...] = ()
    plugins: tuple[Compat, ...] = ()

    @property
    def next_change_ms(self) -> int | None:
        """When time alone changes a state, in milliseconds since 1970."""
        moments = [each.status.next_change_ms for each in self.projects]
        return min((at for at in moments if at is not None), default=None)


NO_SAVES = SavesReport()


def read_saves(
    db: sqlite3.Connection,
    sessions: Sequence[Session],
    now_ms: int,
    policies: Policies = COMMON,
) -> SavesReport:
    """Say what is known of every project's saves at `now_ms`."""
    return report(read_rows(db), sessions, now_ms, policies)


def report(
    rows: SortedRows, sessions: Sequence[Session], now_ms: int, policies: Policies = COMMON
) -> SavesReport:
    """Say what rows mean at `now_ms`; a project whose policy leaves them out is left out."""
    at_work: dict[str | None, list[Session]] = {}
    for session in sessions:
        if session.live:
            at_work.setdefault(session.cwd, []).append(session)
    found = []
    for name, own in rows.projects.items():
        policy = policies.for_project(name)
        if MODULE not in policy.texts("disabled_modules"):
            project = _Project(name, own, rows, limits_of(policy), now_ms)
            made = project.evaluate(at_work.get(name, []))
            found += [made] if made else []
    found.sort(key=lambda each: (-(each.last_at or 0), each.project))
    return SavesReport(tuple(found), rows.plugins)


class _Project:
    """One project's rows at one moment."""

    def __init__(
        self, name: str, own: OwnRows, rows: SortedRows, limits: Limits, now_ms: int
    ) -> None:
        self._name = name
        self._own = own
        self._rows = rows
        self._limits = limits
        self._now_ms = now_ms

    def evaluate(self, sessions: Sequence[Session]) -> ProjectSave | None:
        name, own, limits, now_ms = self._name, self._own, self._limits, self._now_ms
        shared = [each for each in self._rows.shared_files if whose(each) != name]
        flow = gather(name, [*own.files, *shared], own.earlier_files, limits)
        if flow.is_empty and not own.saves and not own.events:
            return None
        standing = stands(flow, now_ms, limits, self._signs())
        noises = [each.noise for each in own.saves]
        cost = expected_cost(noises or self._rows.all_noise)
        confirmed_at = self._confirmed_at(flow, standing)
        by_session: dict[str, list[int | None]] = {}
        for block in own.blocks:
            by_session.setdefault(block.session_id, []).append(block.at)
        again = sum(refires(each, limits.sentinel_ttl_s) for each in by_session.values())
        counted = says(flow.fire_count).count if flow.fire_count else None
        return ProjectSave(
            project=name,
            name=project_name(name, "") if name else "(no project named)",
            status=standing,
            plugin_message=plugin_says(flow, standing),
            saves=tuple(own.saves),
            was_confirmed=_was_confirmed(flow, standing, confirmed_at),
            confirmed_at=confirmed_at,
            is_fresh=_is_fresh(standing, now_ms, limits),
            staged_files=flow.staged_files,
            refires=max(again, (counted or 1) - 1),
            fire_counts=fire_distribution(map(len, by_session.values())),
            durations=durations(_taken(flow, own.events)),
            phases_ms=phase_means(says(each).phase_ms or {} for each in _results(flow)),
            trigger_rates=trigger_rates(list(_triggered(own.events))),
            success_rate=_success(flow, own.events),
            client_versions=tuple(
                dict.fromkeys(each.client_version for each in own.blocks if each.client_version)
            ),
            before_after=before_after(noises),
            expected_cost=cost,
            crossings=tuple(_crossings(sessions, cost)),
            is_degraded=self._is_degraded(noises),
            last_at=max(
                (at for at in (standing.since_ms, *(each.last_at for each in noises)) if at),
                default=None,
            ),
        )

    def _is_degraded(self, noises: list[Noise]) -> bool:
        if not noises or noises[-1].form is not Form.INLINE:
            return False
        writes_file = any(each.plugin.triage_writes_file for each in self._rows.plugins)
        return writes_file or any(each.form is Form.FILE for each in noises)

    def _signs(self) -> Heard:
        own = self._own
        at_work = [each.noise.last_at for each in own.saves if not each.noise.closed]
        noted = max((told.at for told in own.notes), default=0)
        # Of two words on one save the plugin's count: with an agent in the background they
        # come before the closing line (client 2.1.329).
        closing = [
            told
            for each in own.saves
            if (each.noise.at or 0) > noted and (told := read_closing(each.noise))
        ]
        return Heard(
            last_sign_ms=max((at for at in at_work if at is not None), default=None),
            confirmation=max((*closing, *own.notes), key=lambda each: each.at, default=None),
        )

    def _confirmed_at(self, flow: Flow, standing: Standing) -> int | None:
        if standing.state not in {SaveState.SAVED, SaveState.PARTIAL}:
            return None
        result = flow.result or (flow.earlier_results[0] if flow.earlier_results else None)
        since = written_ms(result) if result else standing.since_ms or 0
        return next((told.at for told in self._own.notes if told.at >= since), None)


def _crossings(sessions: Iterable[Session], cost: Cost) -> Iterable[Crossing]:
    for session in sessions:
        trigger = session.context.trigger
        found = crossing(
            session.session_id,
            session.context.token_counts.counter,
            trigger.tokens if trigger else None,
            cost,
        )
        if found:
            yield found


def _is_fresh(standing: Standing, now_ms: int, limits: Limits) -> bool:
    at = standing.since_ms
    return at is not None and now_ms - at < limits.fresh_for_s * SECOND_MS


def _was_confirmed(flow: Flow, standing: Standing, confirmed_at: int | None) -> bool | None:
    """Say whether a prompt was told: by its own words, or because the result is gone (004-52)."""
    result = standing.source_file
    if standing.state is SaveState.PARTIAL and flow.result:
        # What was saved is told of beside what is pending (004-57).
        result = flow.result
    if confirmed_at is not None:
        return True
    if result is None or result not in (flow.result, *flow.earlier_results):
        return None
    return result != flow.result


def _results(flow: Flow) -> list[SaveFileFact]:
    return [each for each in (flow.result, *flow.earlier_results) if each]


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
