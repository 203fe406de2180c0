"""The projects whose policy files the user trusts, by folder and by the file's content."""

from __future__ import annotations

import hashlib
import math
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from ..core.files.safe_open import open_regular
from ..core.policy.policy import ProjectTrust

TRUST_FILE_VERSION: Final = 1  # of the file; one of another form trusts nothing
MAX_TRUST_BYTES: Final = 4 << 20  # bytes; ten thousand projects make less
WRITABLE_BY_OTHERS: Final = 0o022


class TrustedProject(msgspec.Struct, frozen=True):
    """One project's file as the person saw it."""

    sha256: str
    at: int  # when, in ms since 1970


class _TrustFileContent(msgspec.Struct, frozen=True):
    form: int
    projects: dict[str, TrustedProject] = {}


class TrustFileError(Exception):
    """The file cannot be used: what is wrong with it, and what to do."""


class TrustFile:
    """The file, read again when it changed; one that others could have written trusts nothing."""

    def __init__(self, path: Path | None) -> None:
        self.path: Final = path
        self._stamp: tuple[int, int, int] | None = None
        self._projects: Mapping[str, TrustedProject] = {}
        self.problem = ""
        """Why the file says nothing; empty where it does, or is not there."""

    def refresh(self) -> bool:
        """Read it if it changed, and return whether it says something else now."""
        before, self.problem = self._projects, ""
        try:
            self._read()
        except FileNotFoundError:
            self._stamp, self._projects = None, {}
        except (OSError, TrustFileError) as error:
            self._stamp, self._projects = None, {}
            self.problem = str(error)
        return self._projects != before

    def state(self, folder: str, sha256: str) -> ProjectTrust:
        """What the person said of a folder's file with this content."""
        found = self._projects.get(os.path.realpath(folder))
        if found is None:
            return ProjectTrust.UNTRUSTED
        return ProjectTrust.TRUSTED if found.sha256 == sha256 else ProjectTrust.CHANGED

    @property
    def projects(self) -> Mapping[str, TrustedProject]:
        """What is trusted, by folder without links."""
        return self._projects

    def trust(self, folder: str, sha256: str) -> None:
        """Remember that the person trusts this content; raises OSError or TrustFileError."""
        with self._editing() as projects:
            now_ms = time.time_ns() // 1_000_000
            projects[os.path.realpath(folder)] = TrustedProject(sha256, now_ms)

    def revoke(self, folder: str) -> bool:
        """Forget a folder, and return whether it was there; raises as `trust` does."""
        with self._editing() as projects:
            return projects.pop(os.path.realpath(folder), None) is not None

    @contextmanager
    def _editing(self) -> Iterator[dict[str, TrustedProject]]:
        from ..core.files.file_operations import file_lock, write_file_atomically  # hooks only read

        if self.path is None:
            raise TrustFileError("this run has no place for what you trust")
        with file_lock(self.path.with_name(f"{self.path.name}.lock"), math.inf):
            self.refresh()
            if self.problem:
                raise TrustFileError(self.problem)
            projects = dict(self._projects)
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
            mark = (status.st_ino, status.st_mtime_ns, status.st_size)
            check_owner(status, self.path)
            if status.st_mode & WRITABLE_BY_OTHERS:
                raise TrustFileError(
                    f"{self.path}: others can write it: chmod 600 it, or remove it"
                )
            if mark == self._stamp:
                return
            data = file.read(MAX_TRUST_BYTES + 1)
        try:
            content = msgspec.json.decode(data, type=_TrustFileContent)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise TrustFileError(f"{self.path}: is damaged ({error}): remove it") from error
        if content.form != TRUST_FILE_VERSION:
            raise TrustFileError(f"{self.path}: is of another ctxtop: remove it")
        self._stamp, self._projects = mark, content.projects


def content_sha256(data: bytes) -> str:
    """Return what a file's content is remembered by."""
    return hashlib.sha256(data).hexdigest()


def own_uid() -> int:
    """Return who runs this process."""
    return os.geteuid()


def check_owner(status: os.stat_result, path: Path) -> None:
    """Raise TrustFileError where a file belongs to another user."""
    if status.st_uid != own_uid():
        raise TrustFileError(f"{path}: belongs to another user (uid {status.st_uid})")


def check_project_file(status: os.stat_result, path: Path) -> None:
    """Raise TrustFileError where another user may have written a project's file.

    A group may write it, as many systems give each user a group of his own; a change of a
    trusted file is noticed anyway.
    """
    check_owner(status, path)
    if status.st_mode & stat.S_IWOTH:
        raise TrustFileError(f"{path}: everybody can write it")
