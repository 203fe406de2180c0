"""Which settings hold in a project, each with where it comes from."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Final

import msgspec

from .store.surroundings_facts import Scope

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .store.surroundings_facts import HookFact, Scalar, SettingsFact

DROP_INS: Final = "managed-settings.d"
"""Folder of the administrator's further files, each over the ones before it (2.1.83)."""


class Setting(msgspec.Struct, frozen=True):
    """A value that holds, and the file that it comes from."""

    value: Scalar
    scope: Scope
    path: str


class Hook(msgspec.Struct, frozen=True):
    """A handler that runs, and the first file that names it."""

    fact: HookFact
    scope: Scope
    path: str


def resolve_settings(files: Iterable[SettingsFact], project: str | None) -> dict[str, Setting]:
    """Find the winning value of each key for one project's folder; None is no project.

    Managed wins over local, project and user (claude-code-formats 1.6). Objects merge, so
    each dotted key is decided by itself. What the command line, a server or MDM set is not
    seen: it stands in no file that ctxtop reads.
    """
    found: dict[str, Setting] = {}
    for file in _in_order(files, project):
        for key, value in file.values.items():
            found.setdefault(key, Setting(value, file.scope, file.path))
    return found


def resolve_hooks(files: Iterable[SettingsFact], project: str | None) -> list[Hook]:
    """List the handlers of all files for one project's folder; identical ones once.

    Hooks of all files merge (claude-code-formats 1.6). Whether they run at all is said by
    the settings `disableAllHooks` and `allowManagedHooksOnly`.
    """
    found: dict[tuple[str, str, str], Hook] = {}
    for file in _in_order(files, project):
        for fact in file.hooks:
            identity = (fact.event, fact.matcher, fact.mark)
            found.setdefault(identity, Hook(fact, file.scope, file.path))
    return list(found.values())


_SCOPES: Final = list(Scope)


def _in_order(files: Iterable[SettingsFact], project: str | None) -> list[SettingsFact]:
    chosen = [file for file in files if file.project in {None, project}]
    # Twice, as sorting keeps the order of equals: the last drop-in first, then the scopes.
    chosen.sort(key=_drop_in, reverse=True)
    chosen.sort(key=lambda file: _SCOPES.index(file.scope))
    return chosen


def _drop_in(file: SettingsFact) -> tuple[bool, str]:
    path = PurePath(file.path)
    return path.parent.name == DROP_INS, path.name
