"""The files in which claude-memory records a save's progress, wherever versions put them."""

import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from ....core.files.digests import sha256
from ....core.model.config_records import (
    SaveError,
    SaveFileContent,
    SaveFileKind,
    SaveFileRecord,
    StagingFolderRecord,
    StagingLocation,
    TriageCategory,
)
from . import config_files

_MANAGED_FOLDERS: Final = {
    "darwin": Path("/Library/Application Support/ClaudeCode"),
    "win32": Path(r"C:\Program Files\ClaudeCode"),
}
_DARWIN_USER_TEMP: Final = 65537  # _CS_DARWIN_USER_TEMP_DIR of macOS's <unistd.h>


class SystemFolders(msgspec.Struct, frozen=True):
    managed_folder: Path  # the administrator's settings (claude-code-formats 1.6)
    staging_roots: tuple[tuple[StagingLocation, Path], ...]
    """Where versions of claude-memory made their staging folders (R004-01)."""
    user_id: int  # whose files are trusted there


def find_system_folders(environ: Mapping[str, str], home: Path) -> SystemFolders:
    user_id = os.geteuid() if hasattr(os, "geteuid") else 0
    tmp = Path("/tmp").resolve()  # noqa: S108 -- read only, and owner and mode are checked
    cache = _absolute_path(environ.get("XDG_CACHE_HOME")) or home / ".cache"
    staging: dict[Path, StagingLocation] = {}
    for generation, place in (
        (StagingLocation.XDG_RUNTIME, _absolute_path(environ.get("XDG_RUNTIME_DIR"))),
        (StagingLocation.RUN_USER, Path(f"/run/user/{user_id}")),
        (StagingLocation.MAC_TEMP, _mac_temp_folder()),
        (StagingLocation.CACHE, cache / "claude-memory" / "staging"),
    ):
        if place is not None:
            staging.setdefault(place, generation)
    return SystemFolders(
        managed_folder=_MANAGED_FOLDERS.get(sys.platform, Path("/etc/claude-code")),
        staging_roots=(
            (StagingLocation.TMP, tmp),
            (StagingLocation.TMP_OF_USER, tmp),
            *((generation, place) for place, generation in staging.items()),
        ),
        user_id=user_id,
    )


def _absolute_path(value: str | None) -> Path | None:
    return Path(value) if value and Path(value).is_absolute() else None


def _mac_temp_folder() -> Path | None:
    if sys.platform != "darwin":
        return None
    try:
        return _absolute_path(os.confstr(_DARWIN_USER_TEMP))
    except (OSError, ValueError):
        return None


MAX_SAVE_FILE_BYTES: Final = 256 * 1024  # results have up to 10 KB (R004-02), triage data 4
RESULT_FILE: Final = "last-save-result.json"
CONFIG_FILE: Final = "memory-config.json"  # in .claude/memory/ itself
STOP_FLAG_FILE: Final = ".stop_hook_active"  # in .claude/ itself, not in the staging folder
STAGING_PREFIX: Final = ".claude-memory-staging-"  # outside projects (R004-01)
_KIND_BY_NAME: Final = {
    RESULT_FILE: SaveFileKind.RESULT,
    "triage-data.json": SaveFileKind.TRIAGE,
    ".triage-pending.json": SaveFileKind.PENDING,
    ".triage-handled": SaveFileKind.HANDLED,
    STOP_FLAG_FILE: SaveFileKind.STOP_FLAG,
    ".stop_hook_lock": SaveFileKind.LOCK,
    ".triage-fire-count": SaveFileKind.FIRE_COUNT,
    CONFIG_FILE: SaveFileKind.CONFIG,
}


class StagingFolder(msgspec.Struct, frozen=True):
    path: Path
    generation: StagingLocation
    project: str | None


def list_staging_folders(machine: SystemFolders, project: str, real: Path) -> list[StagingFolder]:
    """List a project's outer staging folders, oldest first; `real` is its path without links."""
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
    found: config_files.ConfigPath, staging: StagingFolder, user_id: int
) -> StagingFolderRecord:
    """Describe a staging folder, with the problem that forbids reading it, if any (R004-16)."""
    mode = stat.S_IMODE(found.status.st_mode)
    return StagingFolderRecord(
        path=str(staging.path),
        generation=staging.generation,
        project=staging.project or "",
        mode=mode,
        problem=_folder_problem(found, staging, user_id, mode),
    )


def save_file_kind(name: str) -> SaveFileKind | None:
    if name.startswith("context-") and name.endswith(".txt"):
        return SaveFileKind.CONTEXT
    return _KIND_BY_NAME.get(name)


def read_save_file(
    found: config_files.ConfigPath, staging: StagingFolder, user_id: int
) -> SaveFileRecord:
    """Read a file of a known kind, or the problem that it has; raises OSError."""
    kind = save_file_kind(found.path.name) or SaveFileKind.CONTEXT
    record = SaveFileRecord(
        path=str(found.path),
        folder=str(staging.path),
        kind=kind,
        generation=staging.generation,
        project=staging.project,
        mark=found.mark,
        problem=config_files.read_problem(found) or _owner_problem(found, user_id),
    )
    if kind is SaveFileKind.CONTEXT:
        return record
    read = _READERS[kind]
    return config_files.add_content(
        record, found, MAX_SAVE_FILE_BYTES, lambda data: {"content": read(data)}
    )


def _path_hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:12]


def _folder_problem(
    found: config_files.ConfigPath, staging: StagingFolder, user_id: int, mode: int
) -> str | None:
    if found.problem:
        return found.problem
    if not stat.S_ISDIR(found.status.st_mode):
        return "is not a folder"
    # Inside a project the folder has the project's own permissions.
    if staging.generation is not StagingLocation.PROJECT and mode & 0o077:
        return f"is accessible to other users (mode {mode:04o})"
    return _owner_problem(found, user_id)


def _owner_problem(found: config_files.ConfigPath, user_id: int) -> str | None:
    owner = found.status.st_uid
    return None if owner == user_id else f"belongs to user {owner}, not to {user_id}"


def _read_result(data: bytes) -> SaveFileContent:
    fields = config_files.decode_object(data)
    durations = list(config_files.as_object(fields.get("phase_timing")).items())[
        : config_files.MAX_JSON_ITEMS
    ]
    return SaveFileContent(
        at=config_files.as_ms(fields.get("saved_at")),
        session_id=config_files.as_title(fields.get("session_id")),
        project=config_files.as_title(fields.get("project")),
        categories=_names_or_none(fields, "categories"),
        titles=_names_or_none(fields, "titles"),
        errors=_errors_or_none(fields),
        phase_ms={
            config_files.as_title(name) or "": duration
            for name, value in durations
            if (duration := config_files.as_float(value)) is not None
        }
        or None,
    )


def _read_pending(data: bytes) -> SaveFileContent:
    fields = config_files.decode_object(data)
    return SaveFileContent(
        at=config_files.as_ms(fields.get("timestamp")),
        session_id=config_files.as_title(fields.get("session_id")),
        reason=config_files.as_title(fields.get("reason")),
        categories=_names_or_none(fields, "categories"),
        succeeded=_names_or_none(fields, "succeeded_categories"),
        errors=_errors_or_none(fields),
    )


def _read_triage(data: bytes) -> SaveFileContent:
    fields = config_files.decode_object(data)
    categories = [
        TriageCategory(
            category=name,
            score=config_files.as_float(entry.get("score")),
            description=config_files.as_title(entry.get("description")),
        )
        for entry in map(config_files.as_object, config_files.as_list(fields.get("categories")))
        if (name := config_files.as_title(entry.get("category")))
    ]
    return SaveFileContent(
        at=config_files.as_ms(fields.get("triage_start_ts")),
        categories=_names_or_none(fields, "categories"),
        triage=tuple(categories),
    )


def _read_state(data: bytes) -> SaveFileContent:
    """Read a JSON state, or the plain time of earlier versions (R004-03)."""
    text = data.strip(b"\0 \t\r\n")
    if not text:
        return SaveFileContent()
    if text[:1] not in {b"{", b"["}:
        try:
            return SaveFileContent(at=config_files.as_ms(config_files.decode_json(text)))
        except config_files.InvalidJsonError:
            return SaveFileContent(at=config_files.as_ms(text.decode("ascii", "replace")))
    fields = config_files.decode_object(text)
    return SaveFileContent(
        at=config_files.as_ms(fields.get("timestamp")),
        session_id=config_files.as_title(fields.get("session_id")),
        state=config_files.as_title(fields.get("state")),
        pid=config_files.as_int(fields.get("pid")),
    )


def _read_count(data: bytes) -> SaveFileContent:
    count = config_files.as_int(config_files.decode_json(data.strip()))
    if count is None:
        raise config_files.InvalidJsonError("is not a number")
    return SaveFileContent(count=count)


def _read_configuration(data: bytes) -> SaveFileContent:
    triage = config_files.as_object(config_files.decode_object(data).get("triage"))
    return SaveFileContent(save_mode=config_files.as_title(triage.get("save_mode")))


def _names_or_none(fields: dict[str, Any], key: str) -> tuple[str, ...] | None:
    value = fields.get(key)
    if not isinstance(value, list):
        return None
    return config_files.as_titles(config_files.as_list(value), "category", "title", "name")


def _errors_or_none(fields: dict[str, Any]) -> tuple[SaveError, ...] | None:
    errors = fields.get("errors")
    if not isinstance(errors, list):
        return None
    return tuple(
        SaveError(
            config_files.as_title(error.get("category")) or "",
            config_files.as_title(error.get("error")) or "",
        )
        if isinstance(error, dict)
        else SaveError("", config_files.as_title(error) or "")
        for error in config_files.as_list(errors)
    )


_READERS: Final = {
    SaveFileKind.RESULT: _read_result,
    SaveFileKind.PENDING: _read_pending,
    SaveFileKind.TRIAGE: _read_triage,
    SaveFileKind.HANDLED: _read_state,
    SaveFileKind.STOP_FLAG: _read_state,
    SaveFileKind.LOCK: _read_state,
    SaveFileKind.FIRE_COUNT: _read_count,
    SaveFileKind.CONFIG: _read_configuration,
}
