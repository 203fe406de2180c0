"""The files in which claude-memory records how a save proceeds, in every place it has ever used."""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from ....core.store.config_records import (
    SaveError,
    SaveFileContent,
    SaveFileKind,
    SaveFileRecord,
    StagingFolderRecord,
    StagingLocation,
    TriageCategory,
)
from .config_files import (
    MAX_JSON_ITEMS,
    ConfigPath,
    FileTooLargeError,
    InvalidJsonError,
    as_bool,
    as_float,
    as_int,
    as_list,
    as_ms,
    as_object,
    as_title,
    as_titles,
    decode_json,
    read_config_file,
    read_problem,
)

_MANAGED_FOLDERS: Final = {
    "darwin": Path("/Library/Application Support/ClaudeCode"),
    "win32": Path(r"C:\Program Files\ClaudeCode"),
}
_DEFAULT_MANAGED_FOLDER: Final = Path("/etc/claude-code")

_DARWIN_USER_TEMP: Final = 65537
"""_CS_DARWIN_USER_TEMP_DIR of macOS's <unistd.h>, which Python does not name."""


class SystemFolders(msgspec.Struct, frozen=True):
    """Folders that belong to the machine or its user, not to a project."""

    managed_folder: Path  # the administrator's settings (claude-code-formats 1.6)
    staging_roots: tuple[tuple[StagingLocation, Path], ...]
    """Below which versions of claude-memory made their staging folders (R004-01)."""
    user_id: int  # whose files are trusted there


def find_system_folders(environ: Mapping[str, str], home: Path) -> SystemFolders:
    """Name the folders of this machine and this user."""
    user_id = os.geteuid() if hasattr(os, "geteuid") else 0
    tmp = Path("/tmp").resolve()  # noqa: S108 -- read only, and owner and mode are checked
    staging: dict[Path, StagingLocation] = {}
    for generation, place in (
        (StagingLocation.XDG_RUNTIME, _absolute_path(environ.get("XDG_RUNTIME_DIR"))),
        (StagingLocation.RUN_USER, Path(f"/run/user/{user_id}")),
        (StagingLocation.MAC_TEMP, _mac_temp_folder()),
        (StagingLocation.CACHE, _cache_folder(environ, home)),
    ):
        if place is not None:
            staging.setdefault(place, generation)
    return SystemFolders(
        managed_folder=_MANAGED_FOLDERS.get(sys.platform, _DEFAULT_MANAGED_FOLDER),
        staging_roots=(
            (StagingLocation.TMP, tmp),
            (StagingLocation.TMP_OF_USER, tmp),
            *((generation, place) for place, generation in staging.items()),
        ),
        user_id=user_id,
    )


def _cache_folder(environ: Mapping[str, str], home: Path) -> Path:
    cache = _absolute_path(environ.get("XDG_CACHE_HOME")) or home / ".cache"
    return cache / "claude-memory" / "staging"


def _absolute_path(value: str | None) -> Path | None:
    return Path(value) if value and Path(value).is_absolute() else None


def _mac_temp_folder() -> Path | None:
    if sys.platform != "darwin":
        return None
    try:
        return _absolute_path(os.confstr(_DARWIN_USER_TEMP))
    except (OSError, ValueError):
        return None


MAX_SAVE_FILE_BYTES: Final = 256 * 1024
"""Bytes; a result has at most 10 KB (R004-02), triage data about 4 KB."""

RESULT_FILE: Final = "last-save-result.json"
STOP_FLAG_FILE: Final = ".stop_hook_active"
"""Stands in the project's .claude/ itself, beside the staging folder's files."""

STAGING_PREFIX: Final = ".claude-memory-staging-"
"""What the names of staging folders outside a project begin with (R004-01)."""

HASH_CHARS: Final = 12  # of the sha256 that follows it
_KIND_BY_NAME: Final = {
    RESULT_FILE: SaveFileKind.RESULT,
    "triage-data.json": SaveFileKind.TRIAGE,
    ".triage-pending.json": SaveFileKind.PENDING,
    ".triage-handled": SaveFileKind.HANDLED,
    STOP_FLAG_FILE: SaveFileKind.STOP_FLAG,
    ".stop_hook_lock": SaveFileKind.LOCK,
    ".triage-fire-count": SaveFileKind.FIRE_COUNT,
}

_OTHERS_MODE_BITS: Final = 0o077  # bits of a mode that let others in


class StagingFolder(msgspec.Struct, frozen=True):
    """A folder that may hold one project's files."""

    path: Path
    generation: StagingLocation
    project: str | None


def list_staging_folders(machine: SystemFolders, project: str, real: Path) -> list[StagingFolder]:
    """Name one project's staging folders outside of it, oldest generation first.

    `real` is the project's folder without links.
    """
    plain = _path_hash(str(real))
    of_user = _path_hash(f"{machine.user_id}:{real}")
    return [
        StagingFolder(
            base / (STAGING_PREFIX + (plain if generation is StagingLocation.TMP else of_user)),
            generation,
            project,
        )
        for generation, base in machine.staging_roots
    ]


def check_staging_folder(
    found: ConfigPath, staging: StagingFolder, user_id: int
) -> StagingFolderRecord:
    """Record a staging folder, with the problem that forbids reading it, if any (R004-16)."""
    mode = stat.S_IMODE(found.status.st_mode)
    return StagingFolderRecord(
        path=str(staging.path),
        generation=staging.generation,
        project=staging.project or "",
        mode=mode,
        problem=_folder_problem(found, staging, user_id, mode),
    )


def save_file_kind(name: str) -> SaveFileKind | None:
    """Return what a memory-save file is for; None if files of this name are not tracked."""
    if name.startswith("context-") and name.endswith(".txt"):
        return SaveFileKind.CONTEXT
    return _KIND_BY_NAME.get(name)


def read_save_file(
    found: ConfigPath, kind: SaveFileKind, staging: StagingFolder, user_id: int
) -> SaveFileRecord:
    """Read one file; a torn or foreign one is kept as that.

    Raises OSError where it cannot be read now.
    """
    fact = SaveFileRecord(
        path=str(found.path),
        folder=str(staging.path),
        kind=kind,
        generation=staging.generation,
        project=staging.project,
        mark=found.mark,
        problem=read_problem(found) or _owner_problem(found, user_id),
    )
    if fact.problem or kind is SaveFileKind.CONTEXT:
        return fact
    try:
        data = read_config_file(found, MAX_SAVE_FILE_BYTES)
    except FileTooLargeError as error:
        return msgspec.structs.replace(fact, problem=error.strerror)
    try:
        return msgspec.structs.replace(fact, content=_READERS[kind](data))
    except InvalidJsonError as error:
        return msgspec.structs.replace(fact, problem=str(error))


def _path_hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:HASH_CHARS]


def _folder_problem(
    found: ConfigPath, staging: StagingFolder, user_id: int, mode: int
) -> str | None:
    if found.problem:
        return found.problem
    if not stat.S_ISDIR(found.status.st_mode):
        return "is not a folder"
    # Inside a project the folder has the project's own permissions.
    if staging.generation is not StagingLocation.PROJECT and mode & _OTHERS_MODE_BITS:
        return f"lets others in (mode {mode:04o})"
    return _owner_problem(found, user_id)


def _owner_problem(found: ConfigPath, user_id: int) -> str | None:
    owner = found.status.st_uid
    return None if owner == user_id else f"belongs to user {owner}, not to {user_id}"


def _decode_object(data: bytes) -> dict[str, Any]:
    said = decode_json(data)
    if not isinstance(said, dict):
        raise InvalidJsonError("is not a JSON object")
    return said


def _read_result(data: bytes) -> SaveFileContent:
    said = _decode_object(data)
    timing = as_object(said.get("phase_timing"))
    return SaveFileContent(
        at=as_ms(said.get("saved_at")),
        session_id=as_title(said.get("session_id")),
        project=as_title(said.get("project")),
        categories=_names_or_none(said, "categories"),
        titles=_names_or_none(said, "titles"),
        errors=_errors_or_none(said),
        phase_ms={
            as_title(name) or "": taken
            for name, value in list(timing.items())[:MAX_JSON_ITEMS]
            if (taken := as_float(value)) is not None
        }
        or None,
    )


def _read_pending(data: bytes) -> SaveFileContent:
    said = _decode_object(data)
    return SaveFileContent(
        at=as_ms(said.get("timestamp")),
        session_id=as_title(said.get("session_id")),
        reason=as_title(said.get("reason")),
        categories=_names_or_none(said, "categories"),
        succeeded=_names_or_none(said, "succeeded_categories"),
        errors=_errors_or_none(said),
    )


def _read_triage(data: bytes) -> SaveFileContent:
    said = _decode_object(data)
    parallel = as_object(said.get("parallel_config"))
    models = as_object(parallel.get("category_models")) | {
        "default": parallel.get("default_model"),
        "verification": parallel.get("verification_model"),
    }
    wanted = [
        TriageCategory(
            category=name,
            score=as_float(entry.get("score")),
            context_file=as_title(entry.get("context_file")),
            description=as_title(entry.get("description")),
        )
        for entry in map(as_object, as_list(said.get("categories")))
        if (name := as_title(entry.get("category")))
    ]
    return SaveFileContent(
        at=as_ms(said.get("triage_start_ts")),
        categories=_names_or_none(said, "categories"),
        triage=tuple(wanted),
        models={
            as_title(name) or "": model
            for name, value in list(models.items())[:MAX_JSON_ITEMS]
            if (model := as_title(value))
        }
        or None,
        parallel=as_bool(parallel.get("enabled")),
    )


def _read_state(data: bytes) -> SaveFileContent:
    """Read a JSON state, or the plain time of earlier versions (R004-03)."""
    text = data.strip(b"\0 \t\r\n")
    if not text:
        return SaveFileContent()
    if text[:1] not in {b"{", b"["}:
        return SaveFileContent(at=_plain_time(text))
    said = _decode_object(text)
    return SaveFileContent(
        at=as_ms(said.get("timestamp")),
        session_id=as_title(said.get("session_id")),
        state=as_title(said.get("state")),
        pid=as_int(said.get("pid")),
    )


def _read_count(data: bytes) -> SaveFileContent:
    count = as_int(decode_json(data.strip()))
    if count is None:
        raise InvalidJsonError("is not a number")
    return SaveFileContent(count=count)


def _plain_time(text: bytes) -> int | None:
    try:
        return as_ms(decode_json(text))
    except InvalidJsonError:
        return as_ms(text.decode("ascii", "replace"))


def _names_or_none(said: dict[str, Any], key: str) -> tuple[str, ...] | None:
    """Return a list of names; an empty list means something else than None, a missing one."""
    value = said.get(key)
    return (
        as_titles(as_list(value), "category", "title", "name") if isinstance(value, list) else None
    )


def _errors_or_none(said: dict[str, Any]) -> tuple[SaveError, ...] | None:
    value = said.get("errors")
    if not isinstance(value, list):
        return None
    return tuple(_to_save_error(each) for each in as_list(value))


def _to_save_error(value: object) -> SaveError:
    said = as_object(value)
    if said:
        return SaveError(as_title(said.get("category")) or "", as_title(said.get("error")) or "")
    return SaveError("", as_title(value) or "")


_READERS: Final = {
    SaveFileKind.RESULT: _read_result,
    SaveFileKind.PENDING: _read_pending,
    SaveFileKind.TRIAGE: _read_triage,
    SaveFileKind.HANDLED: _read_state,
    SaveFileKind.STOP_FLAG: _read_state,
    SaveFileKind.LOCK: _read_state,
    SaveFileKind.FIRE_COUNT: _read_count,
}
