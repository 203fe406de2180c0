"""What the person forbids stays forbidden, whatever a project's file says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .kinds import words
from .policy import Ignored, Resolved
from .trust import ADDED, STRICTER

if TYPE_CHECKING:
    from collections.abc import Mapping


def restrain(
    found: Mapping[str, Resolved],
    of_project: Mapping[str, Resolved],
    of_person: Mapping[str, Resolved],
) -> tuple[dict[str, Resolved], list[Ignored]]:
    """Return what holds of the keys that both set, and what the project's file says in vain."""
    held, ignored = {}, []
    for name, project in of_project.items():
        person = of_person.get(name)
        if person is None:
            continue
        if name in ADDED:
            held[name] = _together(person, project)
        elif found[name] is project and _is_looser(name, person, project):
            held[name] = person
            ignored.append(_forbidden(person, project))
    return held, ignored


def _together(person: Resolved, project: Resolved) -> Resolved:
    if not (isinstance(person.value, tuple) and isinstance(project.value, tuple)):
        return person
    own = tuple(str(each) for each in person.value)
    more = tuple(str(each) for each in project.value if each not in own)
    return Resolved(project.key, (*own, *more), project.origin, project.where) if more else person


def _is_looser(name: str, person: Resolved, project: Resolved) -> bool:
    order = STRICTER.get(name, ())
    if person.value not in order:
        return False
    return project.value not in order[: order.index(person.value) + 1]


def _forbidden(person: Resolved, project: Resolved) -> Ignored:
    why = f"your own file says {words(person.value)}, which a project's file does not loosen"
    remedy = f"change {project.key.name} in {person.where}"
    return Ignored(project.key.name, words(project.value), project.where, why, remedy)
