"""Reads the policy from options, the environment, the user's file and trusted projects' files."""

from __future__ import annotations

import math
import os
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from ...core.files.digests import sha256
from ...core.files.safe_open import open_regular
from ...core.policy import resolve
from ...core.policy.policy import IgnoredValue, Policy, PolicyNotice, PolicyOrigin, ProjectTrust
from ...core.transcript.sanitize import sanitize_path, sanitize_title
from ...core.transcript.stored_paths import find_folder
from .places import PolicySources

PROJECT_POLICY_NAME: Final = ".ctxtop.toml"

VARIABLE_PREFIX: Final = "CTXTOP_POLICY_"  # then the key, with `__` for each dot
SHORT_VARIABLES: Final = {"CTXTOP_ASCII": "ui.ascii"}  # of the terminal, not the project
MAX_POLICY_BYTES: Final = 64 * 1024  # bytes; every key set ten times makes less
REFRESH_INTERVAL_S: Final = 10.0  # as often as the whole tree is scanned
FileStamp = tuple[int, int, int]  # size, mtime and inode: the same while a file did not change


def _file_stamp(status: os.stat_result) -> FileStamp:
    return (status.st_size, status.st_mtime_ns, status.st_ino)


TRUST_FILE_VERSION: Final = 1  # of the file's format; a file of another version trusts nothing
MAX_TRUST_BYTES: Final = 4 << 20  # bytes; ten thousand projects make less


class TrustedProject(msgspec.Struct, frozen=True):
    sha256: str
    at: int  # in ms since 1970


class _TrustFileContent(msgspec.Struct, frozen=True):
    form: int
    projects: dict[str, TrustedProject] = {}


class TrustFileError(Exception): ...


class TrustFile:
    """The projects whose policy files the user trusts, by folder and by the file's content.

    Read again when it changes; a file that others could have written trusts nothing.
    """

    def __init__(self, path: Path | None) -> None:
        self.path: Final = path
        self._stamp: FileStamp | None = None
        self.projects: Mapping[str, TrustedProject] = {}  # by folder without links
        self.problem = ""  # why the file is not read; empty if it is missing

    @classmethod
    def load(cls, path: Path | None) -> TrustFile:
        file = cls(path)
        file.refresh()
        if file.problem:
            raise TrustFileError(file.problem)
        return file

    def refresh(self) -> bool:
        """Read the file if it changed, and return whether other projects are trusted now."""
        before, self.problem = self.projects, ""
        try:
            self._read()
        except FileNotFoundError:
            self._stamp, self.projects = None, {}
        except (OSError, TrustFileError) as error:
            self._stamp, self.projects = None, {}
            self.problem = str(error)
        return self.projects != before

    def state(self, folder: str, sha256: str) -> ProjectTrust:
        trusted = self.projects.get(os.path.realpath(folder))
        if trusted is None:
            return ProjectTrust.UNTRUSTED
        return ProjectTrust.TRUSTED if trusted.sha256 == sha256 else ProjectTrust.CHANGED

    def trust(self, folder: str, sha256: str) -> None:
        """Remember that the user trusts this content; raises OSError or TrustFileError."""
        with self._editing() as projects:
            now_ms = time.time_ns() // 1_000_000
            projects[os.path.realpath(folder)] = TrustedProject(sha256, now_ms)

    def revoke(self, folder: str) -> bool:
        """Forget a folder, and return whether it was trusted; raises as `trust` does."""
        with self._editing() as projects:
            return projects.pop(os.path.realpath(folder), None) is not None

    @contextmanager
    def _editing(self) -> Iterator[dict[str, TrustedProject]]:
        from ...core.files.file_operations import (  # hooks only read
            file_lock,
            write_file_atomically,
        )

        if self.path is None:
            raise TrustFileError("this run has no state folder for trusted projects")
        with file_lock(self.path.with_name(f"{self.path.name}.lock"), math.inf):
            self.refresh()
            if self.problem:
                raise TrustFileError(self.problem)
            projects = dict(self.projects)
            yield projects
            write_file_atomically(
                self.path, msgspec.json.encode(_TrustFileContent(TRUST_FILE_VERSION, projects))
            )
            self.refresh()

    def _read(self) -> None:
        if self.path is None:
            return
        with open_regular(self.path) as file:
            status = os.fstat(file.fileno())
            _check_owner(status, self.path)
            if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise TrustFileError(
                    f"{self.path}: other users can write it: run chmod 600 on it, or remove it"
                )
            if _file_stamp(status) == self._stamp:
                return
            data = file.read(MAX_TRUST_BYTES + 1)
        try:
            content = msgspec.json.decode(data, type=_TrustFileContent)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise TrustFileError(f"{self.path}: is damaged ({error}): remove it") from error
        if content.form != TRUST_FILE_VERSION:
            raise TrustFileError(f"{self.path}: is from another version of ctxtop: remove it")
        self._stamp, self.projects = _file_stamp(status), content.projects


def content_sha256(data: bytes) -> str:
    return sha256(data).hexdigest()


def own_uid() -> int:
    return os.geteuid()


def _check_owner(status: os.stat_result, path: Path) -> None:
    if status.st_uid != own_uid():
        raise TrustFileError(f"{path}: belongs to another user (uid {status.st_uid})")


def check_project_file(status: os.stat_result, path: Path) -> None:
    """Raise TrustFileError if another user may have written a project's file.

    Group write is allowed, as many systems give each user a group of their own; a change of a
    trusted file is noticed anyway.
    """
    _check_owner(status, path)
    if status.st_mode & stat.S_IWOTH:
        raise TrustFileError(f"{path}: everyone can write it")


class _PolicyFile:
    def __init__(self, path: Path, origin: PolicyOrigin) -> None:
        self._path: Final = path
        self._origin: Final = origin
        self._stamp: FileStamp | None = None
        self.values: tuple[resolve.RawValue, ...] = ()
        self.notices: tuple[PolicyNotice, ...] = ()
        self.sha256 = ""  # of what was read

    @property
    def folder(self) -> str:
        return str(self._path.parent)

    def refresh(self) -> bool:
        """Read the file again if it changed; return whether what it sets or its notices changed.

        A file that cannot be read sets nothing. A notice says why, unless the file is missing.
        """
        before = self.values, self.notices, self.sha256
        try:
            stamp = _file_stamp(self._path.lstat())
            if stamp == self._stamp:
                return False
            self._stamp, self.values, self.notices = stamp, (), ()
            self.values = self._read()
        except (FileNotFoundError, NotADirectoryError):
            self._stamp, self.values, self.notices = None, (), ()
        except TrustFileError as error:
            # The notice names the place already.
            self._fail(
                sanitize_title(str(error).rpartition(": ")[2]),
                "it is ignored: remove it, or change its owner or permissions",
            )
        except OSError as error:
            self._fail(f"cannot be read ({error.strerror or error})", "correct it or delete it")
        except (ValueError, RecursionError) as error:
            what = f"is not valid TOML ({sanitize_title(str(error))})"
            self.notices = (self._notice(what, "it has no effect until it is corrected"),)
        return before != (self.values, self.notices, self.sha256)

    def _read(self) -> tuple[resolve.RawValue, ...]:
        is_project = self._origin is PolicyOrigin.PROJECT_FILE
        data = _read_policy(self._path, is_project=is_project)
        self.sha256 = content_sha256(data)
        return _parse_policy(data, self._path, self._origin)

    def _fail(self, what: str, fix: str) -> None:
        # It may become readable without a change of its own.
        self._stamp, self.values, self.notices = None, (), (self._notice(what, fix),)

    def _notice(self, what: str, fix: str) -> PolicyNotice:
        return PolicyNotice("", sanitize_path(str(self._path)), self._origin, what, fix)


def read_project_policy(path: Path) -> bytes:
    """Read a project's file; raises TrustFileError too if another user may have written it."""
    return _read_policy(path, is_project=True)


def _read_policy(path: Path, *, is_project: bool) -> bytes:
    with open_regular(path) as file:
        if is_project:
            check_project_file(os.fstat(file.fileno()), path)
        data = file.read(MAX_POLICY_BYTES + 1)
    if len(data) > MAX_POLICY_BYTES:
        raise OSError(0, f"it is larger than {MAX_POLICY_BYTES >> 10} KiB", str(path))
    return data


def _parse_policy(data: bytes, path: Path, origin: PolicyOrigin) -> tuple[resolve.RawValue, ...]:
    """List what a file sets; raises ValueError or RecursionError if it is not valid TOML."""
    import tomllib  # most people have no such file

    where = sanitize_path(str(path))
    return tuple(
        resolve.RawValue(sanitize_title(key), _sanitize_value(value), origin, where)
        for key, value in resolve.flatten_tables(tomllib.loads(data.decode())).items()
    )


def _sanitize_value(value: object) -> object:
    """Sanitize every text in a TOML value; other types, such as dates, become text."""
    if isinstance(value, dict):
        return {sanitize_title(str(name)): _sanitize_value(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_sanitize_value(item) for item in value]
    return value if isinstance(value, (bool, int, float)) else sanitize_title(str(value))


class PolicyFiles:
    """The policies of all projects. One thread refreshes; any may read `policies`."""

    def __init__(self, sources: PolicySources | None = None) -> None:
        self._sources: Final = sources or PolicySources()
        self._fixed_values: Final = (
            *_from_command_line(self._sources.command_line),
            *_from_environment(self._sources.environ.items()),
        )
        user = self._sources.user_file
        # The user's own file may be a link, as dotfile managers make them.
        self._user: Final = (
            _PolicyFile(Path(os.path.realpath(user)), PolicyOrigin.USER_FILE) if user else None
        )
        self._projects: Final[dict[str, _PolicyFile]] = {}
        self._trust: Final = TrustFile(self._sources.trust_file)
        self._checked_at: Final[dict[str, float]] = {}
        self.policies = resolve.Policies(resolve.resolve_policy(self._fixed_values))
        self.refresh(())

    def refresh(self, folders: Iterable[str]) -> bool:
        """Read the user's file and those of projects' folders; return whether any changed.

        Never raises: a problem with a file is a notice.
        """
        is_new = False
        if self._is_due(""):
            is_new = self._user.refresh() if self._user else False
            is_new = self._trust.refresh() or is_new
        changed: list[str] = []
        for folder in folders:
            if not Path(folder).is_absolute() or not self._is_due(folder):
                continue
            file = self._projects.get(folder)
            if file is None:
                if (real := find_folder(folder)) is None:
                    continue
                file = _PolicyFile(Path(real, PROJECT_POLICY_NAME), PolicyOrigin.PROJECT_FILE)
                self._projects[folder] = file
            if file.refresh():
                changed.append(folder)
        if not is_new and not changed:
            return False
        common = resolve.resolve_policy(self.user_values) if is_new else self.policies.common
        shown = {} if is_new else dict(self.policies.projects)
        acting = {} if is_new else dict(self.policies.acting_projects)
        for folder in self._projects if is_new else changed:
            shown.pop(folder, None)
            acting.pop(folder, None)
            file = self._projects[folder]
            if file.values or file.notices:
                trust = self._trust.state(file.folder, file.sha256)
                project = resolve.ProjectFile(sanitize_path(folder), file.values, trust)
                resolved = resolve.resolve_project_policy(self.user_values, project)
                shown[folder], acting[folder] = resolved.shown, resolved.acting
        # Replaced in one step: another thread reads it meanwhile.
        self.policies = resolve.Policies(common, shown, acting)
        return True

    def refresh_soon(self) -> None:
        """Make the next refresh check every file, however recent its last check. Thread-safe."""
        self._checked_at.clear()

    @property
    def notices(self) -> tuple[PolicyNotice, ...]:
        """Everything that was set and has no effect, each once."""
        files = (self._user, *self._projects.values())
        unread = [notice for file in files if file for notice in file.notices]
        if self._trust.problem:
            where, _, what = sanitize_path(self._trust.problem).partition(": ")
            fix = "until then no project is trusted"
            unread.append(PolicyNotice("", where, PolicyOrigin.USER_FILE, what, fix))
        invalid = [notice for policy in self.policies.all for notice in policy.notices]
        return tuple(dict.fromkeys((*unread, *invalid)))

    @property
    def user_values(self) -> tuple[resolve.RawValue, ...]:
        """What the user sets: by options, the environment and the user's own file."""
        return (*self._fixed_values, *(self._user.values if self._user else ()))

    def _is_due(self, place: str) -> bool:
        now = time.monotonic()
        if now - self._checked_at.get(place, -REFRESH_INTERVAL_S) < REFRESH_INTERVAL_S:
            return False
        self._checked_at[place] = now
        return True


def read_acting_policy(sources: PolicySources, folder: str | None) -> Policy:
    """Read once the policy for what ctxtop does in a project's folder."""
    files = PolicyFiles(sources)
    files.refresh([folder] if folder else [])
    return files.policies.acting.for_project(folder)


def _from_command_line(options: Iterable[tuple[str, str]]) -> list[resolve.RawValue]:
    return [
        resolve.RawValue(
            sanitize_title(key),
            sanitize_title(value),
            PolicyOrigin.COMMAND_LINE,
            "--preset" if key == "preset" else "--set",
        )
        for key, value in options
    ]


def _from_environment(variables: Iterable[tuple[str, str]]) -> list[resolve.RawValue]:
    return [
        resolve.RawValue(
            SHORT_VARIABLES.get(name)
            or sanitize_title(name.removeprefix(VARIABLE_PREFIX).lower().replace("__", ".")),
            sanitize_title(value),
            PolicyOrigin.ENVIRONMENT,
            sanitize_title(name),
        )
        for name, value in sorted(variables)
        # An empty variable counts as unset.
        if (name.startswith(VARIABLE_PREFIX) or name in SHORT_VARIABLES) and value
    ]


class TrustPreview(msgspec.Struct, frozen=True):
    folder: str  # without links
    path: Path
    text: str
    sha256: str
    trust: ProjectTrust
    changes: tuple[resolve.TrustChange, ...]
    still_ignored: tuple[IgnoredValue, ...]
    notices: tuple[PolicyNotice, ...]  # values that are not valid, and keys that do not exist


class TrustedFolder(msgspec.Struct, frozen=True):
    folder: str
    at: int  # in ms since 1970
    state: str  # trusted, changed, gone, or why it cannot be read


def preview_trust(sources: PolicySources, folder: Path) -> TrustPreview:
    real = Path(os.path.realpath(folder))
    path = real / PROJECT_POLICY_NAME
    data = _read_existing(path)
    try:
        values = _parse_policy(data, path, PolicyOrigin.PROJECT_FILE)
        text = data.decode()
    except (ValueError, RecursionError) as error:
        raise TrustFileError(f"{path} is not valid TOML ({error}): correct it first") from error
    trusted = TrustFile.load(sources.trust_file)
    user_values = PolicyFiles(sources).user_values
    file = resolve.ProjectFile(str(real), values, ProjectTrust.TRUSTED)
    sha256 = content_sha256(data)
    shown = resolve.resolve_project_policy(user_values, file).shown
    return TrustPreview(
        folder=str(real),
        path=path,
        text=text,
        sha256=sha256,
        trust=trusted.state(str(real), sha256),
        changes=tuple(resolve.changes_if_trusted(user_values, file)),
        still_ignored=shown.ignored,
        notices=tuple(each for each in shown.notices if each.origin is PolicyOrigin.PROJECT_FILE),
    )


def list_trusted(trust_file: Path | None) -> list[TrustedFolder]:
    trusted = TrustFile.load(trust_file)
    return [
        TrustedFolder(folder, project.at, _trust_state(trusted, folder))
        for folder, project in sorted(trusted.projects.items())
    ]


def _trust_state(trusted: TrustFile, folder: str) -> str:
    path = Path(folder, PROJECT_POLICY_NAME)
    try:
        return trusted.state(folder, content_sha256(read_project_policy(path))).value
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
            f"there is no {PROJECT_POLICY_NAME} in {path.parent}: nothing to trust"
        ) from error
    except OSError as error:
        raise TrustFileError(f"{path} cannot be read ({error.strerror or error})") from error
