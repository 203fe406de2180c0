"""Which files belong to a project's save: the newest valid ones of every staging location."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import msgspec

from ..model.config_records import SaveFileContent, SaveFileKind, SaveFileRecord, StagingLocation

if TYPE_CHECKING:
    from ..policy.policy import Policy


_NS_PER_MS: Final = 1_000_000

_PROJECT: Final = frozenset({StagingLocation.PROJECT})
_USER: Final = frozenset({StagingLocation.GLOBAL, StagingLocation.CACHE})
_LOCATIONS: Final = {
    "all": frozenset(StagingLocation),
    "project": _PROJECT,
    "user": _USER,
    "temporary": frozenset(StagingLocation) - _PROJECT - _USER,
}
_LOCATION_ORDER: Final = {location: place for place, location in enumerate(StagingLocation)}


class SaveLimits(msgspec.Struct, frozen=True):
    """The values of `saveflow.*`; seconds (004-52, 004-63, R004-03)."""

    orphan_after_s: int = 300
    fresh_for_s: int = 86_400
    sentinel_ttl_s: int = 1800
    locations: frozenset[StagingLocation] = _LOCATIONS["all"]


def save_limits(policy: Policy) -> SaveLimits:
    return SaveLimits(
        orphan_after_s=policy.count("saveflow.orphan_after_s"),
        fresh_for_s=policy.count("saveflow.fresh_for_s"),
        sentinel_ttl_s=policy.count("saveflow.sentinel_ttl_s"),
        locations=_LOCATIONS[policy.text("saveflow.locations")],
    )


class ProjectSaveFiles(msgspec.Struct, frozen=True):
    """The newest valid files of a project's save, and what there was before."""

    project: str
    result: SaveFileRecord | None = None
    triage: SaveFileRecord | None = None
    pending: SaveFileRecord | None = None
    handled: SaveFileRecord | None = None
    fire_count: SaveFileRecord | None = None
    invalid: tuple[SaveFileRecord, ...] = ()  # newer than the valid ones, the newest first
    other_results: tuple[SaveFileRecord, ...] = ()  # of other projects, seen here by the plugin
    staged_files: tuple[SaveFileRecord, ...] = ()
    """Triage data and context files, which a save that succeeded cleans away."""
    earlier_results: tuple[SaveFileRecord, ...] = ()  # results that were there, the newest first
    earlier_pending: tuple[SaveFileRecord, ...] = ()  # what was pending, the newest first
    earlier_handled: tuple[SaveFileRecord, ...] = ()  # the sentinel before, the newest first
    triage_versions: tuple[SaveFileRecord, ...] = ()  # the triage data, now and before
    is_deferred: bool = False  # the project's configuration leaves saves to a person (004-68)

    @property
    def results(self) -> list[SaveFileRecord]:
        """The result and the earlier ones, the newest first."""
        return [file for file in (self.result, *self.earlier_results) if file]

    @property
    def is_empty(self) -> bool:
        files = (self.triage, self.pending, self.handled)
        others = (self.results, self.earlier_pending, self.invalid, self.staged_files)
        return not (any(files) or any(others))


def select_save_files(
    project: str,
    files: Iterable[SaveFileRecord],
    past: Iterable[SaveFileRecord],
    limits: SaveLimits,
) -> ProjectSaveFiles:
    """Choose among all files those of one project (T-18: the newest valid one wins)."""
    seen = [file for file in map(_checked, files) if file.generation in limits.locations]
    # The global result belongs to the project that it names (004-50), the others to their place.
    own = [file for file in seen if owning_project(file) == project]
    by_kind: dict[SaveFileKind, list[SaveFileRecord]] = {}
    for file in sorted(own, key=_newest_first):
        by_kind.setdefault(file.kind, []).append(file)
    valid = {
        kind: next((file for file in found if file.problem is None), None)
        for kind, found in by_kind.items()
    }
    newest = [found[0] for kind, found in by_kind.items() if kind in _STATE_KINDS]
    earlier = [
        file
        for file in sorted(map(_checked, past), key=_newest_first)
        if file.content and file.generation in limits.locations and owning_project(file) == project
    ]
    config = valid.get(SaveFileKind.CONFIG)
    return ProjectSaveFiles(
        project=project,
        result=valid.get(SaveFileKind.RESULT),
        triage=valid.get(SaveFileKind.TRIAGE),
        pending=valid.get(SaveFileKind.PENDING),
        handled=valid.get(SaveFileKind.HANDLED),
        fire_count=valid.get(SaveFileKind.FIRE_COUNT),
        invalid=tuple(sorted((file for file in newest if file.problem), key=_newest_first)),
        other_results=tuple(
            file
            for file in seen
            if file.generation is StagingLocation.GLOBAL and owning_project(file) != project
        ),
        staged_files=tuple(
            file for file in own if file.kind in {SaveFileKind.TRIAGE, SaveFileKind.CONTEXT}
        ),
        earlier_results=tuple(file for file in earlier if file.kind is SaveFileKind.RESULT),
        earlier_pending=tuple(file for file in earlier if file.kind is SaveFileKind.PENDING),
        earlier_handled=tuple(file for file in earlier if file.kind is SaveFileKind.HANDLED),
        triage_versions=tuple(
            file for file in (*own, *earlier) if file.kind is SaveFileKind.TRIAGE
        ),
        is_deferred=content_of(config).save_mode == "deferred" if config else False,
    )


def owning_project(file: SaveFileRecord) -> str | None:
    """Return a file's project; None for a global result that names none."""
    if file.project is not None:
        return file.project
    named = content_of(file).project
    return named.rstrip("/") or named if named else None


def written_ms(file: SaveFileRecord) -> int:
    """Return a file's modification time in ms since 1970, by the file system's clock."""
    return file.mark.mtime_ns // _NS_PER_MS


_NO_CONTENT: Final = SaveFileContent()


def content_of(file: SaveFileRecord) -> SaveFileContent:
    """Return a file's content; empty if it could not be read."""
    return file.content or _NO_CONTENT


_STATE_KINDS: Final = frozenset(
    {SaveFileKind.RESULT, SaveFileKind.TRIAGE, SaveFileKind.PENDING, SaveFileKind.HANDLED}
)
"""Kinds that determine a save's state; a torn counter or lock does not."""


def _checked(file: SaveFileRecord) -> SaveFileRecord:
    """Mark a result as invalid if it has no field of any known schema."""
    content = file.content
    if file.kind is not SaveFileKind.RESULT or file.problem or content is None:
        return file
    if (content.at, content.categories, content.titles, content.errors) != (None,) * 4:
        return file
    return msgspec.structs.replace(file, problem="does not mention a save")


def _newest_first(file: SaveFileRecord) -> tuple[int, int, str]:
    return -file.mark.mtime_ns, -_LOCATION_ORDER[file.generation], file.path
