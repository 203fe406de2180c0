"""One project's save files: the newest valid one of each kind, and what was there before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import msgspec

from ..store.config_records import SaveFileContent, SaveFileKind, SaveFileRecord, StagingLocation

if TYPE_CHECKING:
    from ..policy.policy import Policy


_LOCATIONS: Final = {
    "all": frozenset(StagingLocation),
    "project": frozenset({StagingLocation.PROJECT}),
    "user": frozenset({StagingLocation.GLOBAL, StagingLocation.CACHE}),
    "temporary": frozenset(StagingLocation)
    - {StagingLocation.PROJECT, StagingLocation.GLOBAL, StagingLocation.CACHE},
}


class SaveLimits(msgspec.Struct, frozen=True):
    """The values of `saveflow.*`; seconds (004-52, 004-63, R004-03)."""

    orphan_after_s: int = 300
    fresh_for_s: int = 86_400
    sentinel_ttl_s: int = 1800
    locations: frozenset[StagingLocation] = _LOCATIONS["all"]


def save_limits(policy: Policy) -> SaveLimits:
    return SaveLimits(
        orphan_after_s=policy.integer("saveflow.orphan_after_s") or 0,
        fresh_for_s=policy.integer("saveflow.fresh_for_s") or 0,
        sentinel_ttl_s=policy.integer("saveflow.sentinel_ttl_s") or 0,
        locations=_LOCATIONS[policy.text("saveflow.locations")],
    )


_LOCATION_ORDER: Final = {generation: place for place, generation in enumerate(StagingLocation)}

_NS_PER_MS: Final = 1_000_000

_NO_CONTENT: Final = "says nothing of a save"


class ProjectSaveFiles(msgspec.Struct, frozen=True):
    """What stands of a project's save, and what stood there before."""

    project: str
    result: SaveFileRecord | None = None
    triage: SaveFileRecord | None = None
    pending: SaveFileRecord | None = None
    handled: SaveFileRecord | None = None
    fire_count: SaveFileRecord | None = None
    invalid: tuple[SaveFileRecord, ...] = ()
    """That nothing newer of their kind stands for, the newest first."""
    other_results: tuple[SaveFileRecord, ...] = ()
    """Results that the plugin sees here and that are another project's."""
    staged_files: tuple[SaveFileRecord, ...] = ()
    """Triage data and context files, which a save that succeeded cleans away."""
    earlier_results: tuple[SaveFileRecord, ...] = ()  # results that were there, the newest first

    @property
    def is_empty(self) -> bool:
        """Nothing of this project stands anywhere."""
        return not (
            self.result
            or self.triage
            or self.pending
            or self.handled
            or self.invalid
            or self.staged_files
            or self.earlier_results
        )


def select_save_files(
    project: str,
    files: Iterable[SaveFileRecord],
    past: Iterable[SaveFileRecord],
    limits: SaveLimits,
) -> ProjectSaveFiles:
    """Choose among all files those of one project (T-18: the newest that is valid wins)."""
    seen = [
        each for each in map(_with_problem_if_empty, files) if each.generation in limits.locations
    ]
    # The global result belongs to the project that it names (004-50), the others to their place.
    own = [each for each in seen if owning_project(each) == project]
    by_kind: dict[SaveFileKind, list[SaveFileRecord]] = {}
    for each in sorted(own, key=_newest_first):
        by_kind.setdefault(each.kind, []).append(each)
    chosen = {kind: _first_valid(found) for kind, found in by_kind.items()}
    broken = [
        found[0]
        for kind, found in by_kind.items()
        if found[0].problem and kind in _STATE_KINDS and found[0] != chosen[kind]
    ]
    before = [
        each
        for each in map(_with_problem_if_empty, past)
        if each.kind is SaveFileKind.RESULT
        and each.content
        and each.generation in limits.locations
        and owning_project(each) == project
    ]
    return ProjectSaveFiles(
        project=project,
        result=chosen.get(SaveFileKind.RESULT),
        triage=chosen.get(SaveFileKind.TRIAGE),
        pending=chosen.get(SaveFileKind.PENDING),
        handled=chosen.get(SaveFileKind.HANDLED),
        fire_count=chosen.get(SaveFileKind.FIRE_COUNT),
        invalid=tuple(sorted(broken, key=_newest_first)),
        other_results=tuple(
            each
            for each in seen
            if each.generation is StagingLocation.GLOBAL and owning_project(each) != project
        ),
        staged_files=tuple(
            each for each in own if each.kind in {SaveFileKind.TRIAGE, SaveFileKind.CONTEXT}
        ),
        earlier_results=tuple(sorted(before, key=_newest_first)),
    )


def owning_project(file: SaveFileRecord) -> str | None:
    """Name the project whose file it is; None for a global result that names none."""
    if file.project is not None:
        return file.project
    named = file.content.project if file.content else None
    return named.rstrip("/") or named if named else None


def written_ms(file: SaveFileRecord) -> int:
    """Return a file's modification time in ms since 1970, by the file system's clock."""
    return file.mark.mtime_ns // _NS_PER_MS


def content_of(file: SaveFileRecord) -> SaveFileContent:
    """Return a file's content; empty if it could not be read."""
    return file.content or SaveFileContent()


_STATE_KINDS: Final = frozenset(
    {SaveFileKind.RESULT, SaveFileKind.TRIAGE, SaveFileKind.PENDING, SaveFileKind.HANDLED}
)
"""Kinds that say how a save stands; a torn counter or lock says nothing of that."""


def _with_problem_if_empty(file: SaveFileRecord) -> SaveFileRecord:
    """Mark a result as torn if it has no field of any known schema."""
    content = file.content
    if file.kind is not SaveFileKind.RESULT or file.problem or content is None:
        return file
    silent = (content.at, content.categories, content.titles, content.errors) == (None,) * 4
    return msgspec.structs.replace(file, problem=_NO_CONTENT) if silent else file


def _first_valid(found: list[SaveFileRecord]) -> SaveFileRecord | None:
    return next((each for each in found if each.problem is None), None)


def _newest_first(file: SaveFileRecord) -> tuple[int, int, str]:
    return -file.mark.mtime_ns, -_LOCATION_ORDER[file.generation], file.path
