"""One project's files of the save flow, put side by side: of each kind the newest that is valid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from ..store.surroundings_facts import Generation, SaveContent, SaveFileFact, SaveKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .limits import Limits

_ORDER: Final = {generation: place for place, generation in enumerate(Generation)}

_NS_A_MS: Final = 1_000_000

_SAYS_NOTHING: Final = "says nothing of a save"


class Flow(msgspec.Struct, frozen=True):
    """What stands of a project's save, and what stood there before."""

    project: str
    result: SaveFileFact | None = None
    triage: SaveFileFact | None = None
    pending: SaveFileFact | None = None
    handled: SaveFileFact | None = None
    fire_count: SaveFileFact | None = None
    invalid: tuple[SaveFileFact, ...] = ()
    """That nothing newer of their kind stands for, the newest first."""
    other_results: tuple[SaveFileFact, ...] = ()
    """Results that the plugin sees here and that are another project's."""
    staged_files: tuple[SaveFileFact, ...] = ()
    """Triage data and context files, which a save that succeeded cleans away."""
    earlier_results: tuple[SaveFileFact, ...] = ()
    """Results that were there, the newest first."""

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


def gather(
    project: str,
    files: Iterable[SaveFileFact],
    past: Iterable[SaveFileFact],
    limits: Limits,
) -> Flow:
    """Choose among all files those of one project (T-18: the newest that is valid wins)."""
    seen = [each for each in map(_judged, files) if each.generation in limits.locations]
    # The global result belongs to the project that it names (004-50), the others to their place.
    own = [each for each in seen if whose(each) == project]
    by_kind: dict[SaveKind, list[SaveFileFact]] = {}
    for each in sorted(own, key=_newest_first):
        by_kind.setdefault(each.kind, []).append(each)
    chosen = {kind: _first_valid(found) for kind, found in by_kind.items()}
    broken = [
        found[0]
        for kind, found in by_kind.items()
        if found[0].problem and kind in _TELLING and found[0] != chosen[kind]
    ]
    before = [
        each
        for each in map(_judged, past)
        if each.kind is SaveKind.RESULT
        and each.content
        and each.generation in limits.locations
        and whose(each) == project
    ]
    return Flow(
        project=project,
        result=chosen.get(SaveKind.RESULT),
        triage=chosen.get(SaveKind.TRIAGE),
        pending=chosen.get(SaveKind.PENDING),
        handled=chosen.get(SaveKind.HANDLED),
        fire_count=chosen.get(SaveKind.FIRE_COUNT),
        invalid=tuple(sorted(broken, key=_newest_first)),
        other_results=tuple(
            each for each in seen if each.generation is Generation.GLOBAL and whose(each) != project
        ),
        staged_files=tuple(
            each for each in own if each.kind in {SaveKind.TRIAGE, SaveKind.CONTEXT}
        ),
        earlier_results=tuple(sorted(before, key=_newest_first)),
    )


def whose(file: SaveFileFact) -> str | None:
    """Name the project whose file it is; None for a global result that names none."""
    if file.project is not None:
        return file.project
    named = file.content.project if file.content else None
    return named.rstrip("/") or named if named else None


def written_ms(file: SaveFileFact) -> int:
    """Say when a file was written, in milliseconds since 1970: by the file system's clock."""
    return file.mark.mtime_ns // _NS_A_MS


def says(file: SaveFileFact) -> SaveContent:
    """Give what a file says; nothing where it could not be read."""
    return file.content or SaveContent()


_TELLING: Final = frozenset({SaveKind.RESULT, SaveKind.TRIAGE, SaveKind.PENDING, SaveKind.HANDLED})
"""Kinds that say how a save stands; a torn counter or lock says nothing of that."""


def _judged(file: SaveFileFact) -> SaveFileFact:
    """Take a result without a word of any schema for what it is: torn."""
    content = file.content
    if file.kind is not SaveKind.RESULT or file.problem or content is None:
        return file
    silent = (content.at, content.categories, content.titles, content.errors) == (None,) * 4
    return msgspec.structs.replace(file, problem=_SAYS_NOTHING) if silent else file


def _first_valid(found: list[SaveFileFact]) -> SaveFileFact | None:
    return next((each for each in found if each.problem is None), None)


def _newest_first(file: SaveFileFact) -> tuple[int, int, str]:
    return -file.mark.mtime_ns, -_ORDER[file.generation], file.path
