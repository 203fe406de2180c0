"""Which settings file is meant: the user's, a project's, or one's own of a project."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ..surroundings.surroundings import LOCAL_SETTINGS, SETTINGS


class SettingsScope(StrEnum):
    """Whose sessions the settings are for."""

    USER = "user"
    PROJECT = "project"
    LOCAL = "local"


@dataclass(frozen=True, slots=True)
class Place:
    """A settings file, and the folders in which it may stand when it is a link."""

    scope: SettingsScope
    settings: Path
    roots: tuple[Path, ...]


def place_of(scope: SettingsScope, config_dir: Path, project: Path) -> Place:
    """Name the settings file of a scope.

    The user's own may be a link to anywhere in the user's folders, a project's only within
    the project: whoever wrote the project could let it lead to any file.
    """
    if scope is SettingsScope.USER:
        return Place(scope, config_dir / SETTINGS, (config_dir, Path.home()))
    name = SETTINGS if scope is SettingsScope.PROJECT else LOCAL_SETTINGS
    return Place(scope, project / ".claude" / name, (project,))
