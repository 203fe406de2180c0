"""Reading what the policy is to be: the environment, the user's file, and the projects' files."""

from __future__ import annotations

import os
import time
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..core.policy.layers import Given, Policies, flatten, resolve
from ..core.policy.policy import Origin, PolicyNotice
from .clean import clean_path, clean_title
from .policy_sources import PolicySources
from .regular import open_regular

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..core.policy.policy import Policy

PROJECT_FILE: Final = ".ctxtop.toml"

VARIABLE: Final = "CTXTOP_POLICY_"
"""Begins a variable's name; the key follows, with two underscores for each dot."""

SHORT_VARIABLES: Final = {"CTXTOP_ASCII": "ui.ascii"}
"""Variables with a name of their own: what a person says of a terminal, not of a project."""

LARGEST: Final = 64 * 1024
"""Bytes; every key said ten times makes less."""

AGAIN_S: Final = 10.0
"""Between two looks at a file: as often as the whole tree is looked at."""

Mark = tuple[int, int, int]
"""Size, time and inode: how to tell that a file did not change."""


class _File:
    """A policy's file, read again when it changed."""

    def __init__(self, path: Path, origin: Origin) -> None:
        self._path: Final = path
        self._origin: Final = origin
        self._mark: Mark | None = None
        self.given: tuple[Given, ...] = ()
        self.notices: tuple[PolicyNotice, ...] = ()

    def look(self) -> bool:
        """Say whether it says something else by now; what cannot be read says nothing."""
        before = self.given, self.notices
        try:
            mark = _mark(self._path)
            if mark == self._mark:
                return False
            self._mark, self.given, self.notices = mark, (), ()
            self.given = self._read()
        except (FileNotFoundError, NotADirectoryError):
            self._mark, self.given, self.notices = None, (), ()
        except OSError as error:
            # It may become readable without a change of its own.
            self._mark, self.given = None, ()
            what = f"cannot be read ({error.strerror or error})"
            self.notices = (self._wrong(what, "mend it or remove it"),)
        except (ValueError, RecursionError) as error:
            what = f"is not TOML ({clean_title(str(error))})"
            self.notices = (self._wrong(what, "mend it; until then it says nothing"),)
        return before != (self.given, self.notices)

    def _read(self) -> tuple[Given, ...]:
        with open_regular(self._path) as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise OSError(0, f"it is larger than {LARGEST >> 10} KiB", str(self._path))
        where = clean_path(str(self._path))
        return tuple(
            Given(clean_title(key), _clean(value), self._origin, where)
            for key, value in flatten(tomllib.loads(data.decode())).items()
        )

    def _wrong(self, what: str, remedy: str) -> PolicyNotice:
        return PolicyNotice("", clean_path(str(self._path)), self._origin, what, remedy)


class PolicyFiles:
    """The policies of all projects. One thread looks; any may read `policies`."""

    def __init__(self, sources: PolicySources | None = None) -> None:
        self._sources: Final = sources or PolicySources()
        self._fixed: Final = (
            *_from_command_line(self._sources.command_line),
            *_from_environment(self._sources.environ.items()),
        )
        user = self._sources.user_file
        # The user's own file may be a link, as keepers of dotfiles make them.
        self._user: Final = _File(Path(os.path.realpath(user)), Origin.USER_FILE) if user else None
        self._projects: Final[dict[str, _File]] = {}
        self._looked: Final[dict[str, float]] = {}
        self.policies = Policies(resolve(self._fixed))
        self.look(())

    def look(self, folders: Iterable[str]) -> bool:
        """Look at the user's file and at those of projects' folders; say whether any changed.

        Never raises: what is wrong with a file is a notice.
        """
        is_new = self._user.look() if self._user and self._is_due("") else False
        changed: list[str] = []
        for folder in folders:
            if not Path(folder).is_absolute() or not self._is_due(folder):
                continue
            file = self._projects.get(folder)
            if file is None:
                file = _File(Path(folder, PROJECT_FILE), Origin.PROJECT_FILE)
                self._projects[folder] = file
            if file.look():
                changed.append(folder)
        if not is_new and not changed:
            return False
        common = self._resolve(()) if is_new else self.policies.common
        kept = {} if is_new else dict(self.policies.projects)
        for folder in self._projects if is_new else changed:
            given, notices = self._projects[folder].given, self._projects[folder].notices
            kept.pop(folder, None)
            if given or notices:
                kept[folder] = self._resolve(given)
        # Taken over at once: another thread reads it meanwhile.
        self.policies = Policies(common, kept)
        return True

    def look_soon(self) -> None:
        """Let the next look be at every file, however short the last one is ago; any thread may."""
        self._looked.clear()

    @property
    def notices(self) -> tuple[PolicyNotice, ...]:
        """Everything that was said and does not hold, each once."""
        files = (self._user, *self._projects.values())
        unread = [notice for file in files if file for notice in file.notices]
        said = [notice for policy in self.policies.all for notice in policy.notices]
        return tuple(dict.fromkeys((*unread, *said)))

    def _resolve(self, project: tuple[Given, ...]) -> Policy:
        user = self._user.given if self._user else ()
        return resolve((*self._fixed, *project, *user))

    def _is_due(self, place: str) -> bool:
        now = time.monotonic()
        if now - self._looked.get(place, -AGAIN_S) < AGAIN_S:
            return False
        self._looked[place] = now
        return True


def _mark(path: Path) -> Mark:
    status = path.lstat()
    return (status.st_size, status.st_mtime_ns, status.st_ino)


def _from_command_line(said: Iterable[tuple[str, str]]) -> list[Given]:
    return [
        Given(
            clean_title(key),
            clean_title(value),
            Origin.COMMAND_LINE,
            "--preset" if key == "preset" else "--set",
        )
        for key, value in said
    ]


def _from_environment(variables: Iterable[tuple[str, str]]) -> list[Given]:
    return [
        Given(
            SHORT_VARIABLES.get(name) or clean_title(_key(name)),
            clean_title(value),
            Origin.ENVIRONMENT,
            clean_title(name),
        )
        for name, value in sorted(variables)
        # An empty variable is one that was taken back.
        if (name.startswith(VARIABLE) or name in SHORT_VARIABLES) and value
    ]


def _key(variable: str) -> str:
    return variable.removeprefix(VARIABLE).lower().replace("__", ".")


def _clean(value: object) -> object:
    """Take out of what a file holds what a terminal could obey; unknown kinds become words."""
    if isinstance(value, dict):
        return {clean_title(str(name)): _clean(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_clean(each) for each in value]
    return value if isinstance(value, (bool, int, float)) else clean_title(str(value))
