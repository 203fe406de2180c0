"""Reads the policy from options, the environment, the user's file and projects' files.

And previews what trusting a project's file would change.
"""

from __future__ import annotations

import os
import time
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from ..core.files.safe_open import open_regular
from ..core.policy.policy import IgnoredValue, PolicyNotice, PolicyOrigin, ProjectTrust
from ..core.policy.resolve import (
    Policies,
    ProjectFile,
    RawValue,
    TrustChange,
    changes_if_trusted,
    flatten_tables,
    resolve_policy,
    resolve_project_policy,
)
from ..core.transcript.sanitize import sanitize_path, sanitize_title
from .places import PolicySources
from .trust_file import TrustFile, TrustFileError, check_project_file, content_sha256

PROJECT_POLICY_NAME: Final = ".ctxtop.toml"

VARIABLE_PREFIX: Final = "CTXTOP_POLICY_"
"""Begins a variable's name; the key follows, with two underscores for each dot."""

SHORT_VARIABLES: Final = {"CTXTOP_ASCII": "ui.ascii"}
"""Variables with a name of their own: what a person says of a terminal, not of a project."""

MAX_POLICY_BYTES: Final = 64 * 1024  # bytes; every key said ten times makes less
REFRESH_INTERVAL_S: Final = 10.0
"""Between two looks at a file: as often as the whole tree is looked at."""

FileStamp = tuple[int, int, int]  # size, time and inode: how to tell that a file did not change


class _PolicyFile:
    """A policy's file, read again when it changed."""

    def __init__(self, path: Path, origin: PolicyOrigin) -> None:
        self._path: Final = path
        self._origin: Final = origin
        self._stamp: FileStamp | None = None
        self.values: tuple[RawValue, ...] = ()
        self.notices: tuple[PolicyNotice, ...] = ()
        self.sha256 = ""
        """Of what was read."""

    def refresh(self) -> bool:
        """Read the file again if it changed; return whether what it sets or its notices changed.

        A file that cannot be read sets nothing. A notice says why, unless the file is missing.
        """
        before = self.values, self.notices, self.sha256
        try:
            mark = _file_stamp(self._path)
            if mark == self._stamp:
                return False
            self._stamp, self.values, self.notices = mark, (), ()
            self.values = self._read()
        except (FileNotFoundError, NotADirectoryError):
            self._stamp, self.values, self.notices = None, (), ()
        except TrustFileError as error:
            self._stamp, self.values = None, ()
            self.notices = (
                self._notice(_problem_text(error), "it is not obeyed: remove it or own it"),
            )
        except OSError as error:
            # It may become readable without a change of its own.
            self._stamp, self.values = None, ()
            what = f"cannot be read ({error.strerror or error})"
            self.notices = (self._notice(what, "mend it or remove it"),)
        except (ValueError, RecursionError) as error:
            what = f"is not TOML ({sanitize_title(str(error))})"
            self.notices = (self._notice(what, "mend it; until then it says nothing"),)
        return before != (self.values, self.notices, self.sha256)

    def _read(self) -> tuple[RawValue, ...]:
        data = read_project_policy(self._path) if self._is_project else read_policy_file(self._path)
        self.sha256 = content_sha256(data)
        return parse_policy(data, self._path, self._origin)

    @property
    def _is_project(self) -> bool:
        return self._origin is PolicyOrigin.PROJECT_FILE

    def _notice(self, what: str, fix: str) -> PolicyNotice:
        return PolicyNotice("", sanitize_path(str(self._path)), self._origin, what, fix)


def read_policy_file(path: Path) -> bytes:
    """Read a policy's file; raises OSError where it cannot be read or is too large."""
    with open_regular(path) as file:
        return _read_limited(file, path)


def read_project_policy(path: Path) -> bytes:
    """Read a project's file; raises TrustFileError too where another user may have written it."""
    with open_regular(path) as file:
        check_project_file(os.fstat(file.fileno()), path)
        return _read_limited(file, path)


def parse_policy(data: bytes, path: Path, origin: PolicyOrigin) -> tuple[RawValue, ...]:
    """List what a file says; raises ValueError or RecursionError where it is not TOML."""
    where = sanitize_path(str(path))
    return tuple(
        RawValue(sanitize_title(key), _sanitize_value(value), origin, where)
        for key, value in flatten_tables(tomllib.loads(data.decode())).items()
    )


def _read_limited(file: BinaryIO, path: Path) -> bytes:
    data = file.read(MAX_POLICY_BYTES + 1)
    if len(data) > MAX_POLICY_BYTES:
        raise OSError(0, f"it is larger than {MAX_POLICY_BYTES >> 10} KiB", str(path))
    return data


def _problem_text(error: TrustFileError) -> str:
    # The place stands in the notice already.
    return sanitize_title(str(error).rpartition(": ")[2])


class PolicyFiles:
    """The policies of all projects. One thread looks; any may read `policies`."""

    def __init__(self, sources: PolicySources | None = None) -> None:
        self._sources: Final = sources or PolicySources()
        self._fixed_values: Final = (
            *_from_command_line(self._sources.command_line),
            *_from_environment(self._sources.environ.items()),
        )
        user = self._sources.user_file
        # The user's own file may be a link, as keepers of dotfiles make them.
        self._user: Final = (
            _PolicyFile(Path(os.path.realpath(user)), PolicyOrigin.USER_FILE) if user else None
        )
        self._projects: Final[dict[str, _PolicyFile]] = {}
        self._trust: Final = TrustFile(self._sources.trust_file)
        self._looked: Final[dict[str, float]] = {}
        self.policies = Policies(resolve_policy(self._fixed_values))
        self.refresh(())

    def refresh(self, folders: Iterable[str]) -> bool:
        """Look at the user's file and at those of projects' folders; say whether any changed.

        Never raises: what is wrong with a file is a notice.
        """
        is_new = self._refresh_own() if self._is_due("") else False
        changed: list[str] = []
        for folder in folders:
            if not Path(folder).is_absolute() or not self._is_due(folder):
                continue
            file = self._projects.get(folder)
            if file is None:
                file = _PolicyFile(Path(folder, PROJECT_POLICY_NAME), PolicyOrigin.PROJECT_FILE)
                self._projects[folder] = file
            if file.refresh():
                changed.append(folder)
        if not is_new and not changed:
            return False
        common = resolve_policy(self.user_values) if is_new else self.policies.common
        shown = {} if is_new else dict(self.policies.projects)
        acting = {} if is_new else dict(self.policies.acting_projects)
        for folder in self._projects if is_new else changed:
            shown.pop(folder, None)
            acting.pop(folder, None)
            file = self._projects[folder]
            if file.values or file.notices:
                trust = self._trust.state(folder, file.sha256)
                said = ProjectFile(sanitize_path(folder), file.values, trust)
                found = resolve_project_policy(self.user_values, said)
                shown[folder], acting[folder] = found.shown, found.acting
        # Taken over at once: another thread reads it meanwhile.
        self.policies = Policies(common, shown, acting)
        return True

    def _refresh_own(self) -> bool:
        is_new = self._user.refresh() if self._user else False
        return self._trust.refresh() or is_new

    def refresh_soon(self) -> None:
        """Make the next refresh check every file, however recent its last check. Thread-safe."""
        self._looked.clear()

    @property
    def notices(self) -> tuple[PolicyNotice, ...]:
        """Everything that was said and does not hold, each once."""
        files = (self._user, *self._projects.values())
        unread = [notice for file in files if file for notice in file.notices]
        if self._trust.problem:
            where, _, what = sanitize_path(self._trust.problem).partition(": ")
            remedy = "until then no project is trusted"
            unread.append(PolicyNotice("", where, PolicyOrigin.USER_FILE, what, remedy))
        said = [notice for policy in self.policies.all for notice in policy.notices]
        return tuple(dict.fromkeys((*unread, *said)))

    @property
    def user_values(self) -> tuple[RawValue, ...]:
        """What the person says: by options, the environment and the user's own file."""
        return (*self._fixed_values, *(self._user.values if self._user else ()))

    def _is_due(self, place: str) -> bool:
        now = time.monotonic()
        if now - self._looked.get(place, -REFRESH_INTERVAL_S) < REFRESH_INTERVAL_S:
            return False
        self._looked[place] = now
        return True


def _file_stamp(path: Path) -> FileStamp:
    status = path.lstat()
    return (status.st_size, status.st_mtime_ns, status.st_ino)


def _from_command_line(said: Iterable[tuple[str, str]]) -> list[RawValue]:
    return [
        RawValue(
            sanitize_title(key),
            sanitize_title(value),
            PolicyOrigin.COMMAND_LINE,
            "--preset" if key == "preset" else "--set",
        )
        for key, value in said
    ]


def _from_environment(variables: Iterable[tuple[str, str]]) -> list[RawValue]:
    return [
        RawValue(
            SHORT_VARIABLES.get(name) or sanitize_title(_variable_key(name)),
            sanitize_title(value),
            PolicyOrigin.ENVIRONMENT,
            sanitize_title(name),
        )
        for name, value in sorted(variables)
        # An empty variable is one that was taken back.
        if (name.startswith(VARIABLE_PREFIX) or name in SHORT_VARIABLES) and value
    ]


def _variable_key(variable: str) -> str:
    return variable.removeprefix(VARIABLE_PREFIX).lower().replace("__", ".")


def _sanitize_value(value: object) -> object:
    """Sanitize every text in a TOML value; other types, such as dates, become text."""
    if isinstance(value, dict):
        return {sanitize_title(str(name)): _sanitize_value(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_sanitize_value(each) for each in value]
    return value if isinstance(value, (bool, int, float)) else sanitize_title(str(value))


class TrustPreview(msgspec.Struct, frozen=True):
    """A project's file as it was read, and what begins to count once it is trusted."""

    folder: str  # without links
    path: Path
    text: str
    sha256: str
    trust: ProjectTrust
    changes: tuple[TrustChange, ...]
    still_ignored: tuple[IgnoredValue, ...]


class TrustedFolder(msgspec.Struct, frozen=True):
    """A folder that the person trusted, and how its file stands now."""

    folder: str
    at: int  # in ms since 1970
    state: str  # trusted, changed, gone, or why it cannot be read


def preview_trust(sources: PolicySources, folder: Path) -> TrustPreview:
    """Read a folder's file; raises TrustFileError where there is none that could be trusted."""
    real = Path(os.path.realpath(folder))
    path = real / PROJECT_POLICY_NAME
    data = _read_existing(path)
    try:
        given = parse_policy(data, path, PolicyOrigin.PROJECT_FILE)
        text = data.decode()
    except (ValueError, RecursionError) as error:
        raise TrustFileError(f"{path} is not TOML ({error}): mend it first") from error
    found = TrustFile(sources.trust_file)
    found.refresh()
    if found.problem:
        raise TrustFileError(found.problem)
    person = PolicyFiles(sources).user_values
    file = ProjectFile(str(real), given, ProjectTrust.TRUSTED)
    sha256 = content_sha256(data)
    return TrustPreview(
        folder=str(real),
        path=path,
        text=text,
        sha256=sha256,
        trust=found.state(str(real), sha256),
        changes=tuple(changes_if_trusted(person, file)),
        still_ignored=resolve_project_policy(person, file).shown.ignored,
    )


def list_trusted(trust_file: Path | None) -> list[TrustedFolder]:
    """List what is trusted, by folder; raises TrustFileError where nobody can say."""
    found = TrustFile(trust_file)
    found.refresh()
    if found.problem:
        raise TrustFileError(found.problem)
    return [
        TrustedFolder(folder, each.at, _trust_state(found, folder))
        for folder, each in sorted(found.projects.items())
    ]


def _trust_state(found: TrustFile, folder: str) -> str:
    path = Path(folder, PROJECT_POLICY_NAME)
    try:
        return found.state(folder, content_sha256(read_project_policy(path))).value
    except (FileNotFoundError, NotADirectoryError):
        return "gone"
    except TrustFileError as error:
        return str(error).removeprefix(f"{path}: ")
    except OSError as error:
        return f"cannot be read ({error.strerror or error})"


def _read_existing(path: Path) -> bytes:
    try:
        return read_project_policy(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise TrustFileError(
            f"no {PROJECT_POLICY_NAME} in {path.parent}: nothing to trust"
        ) from error
    except OSError as error:
        raise TrustFileError(f"{path} cannot be read ({error.strerror or error})") from error
