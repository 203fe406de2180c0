"""The files in which claude-memory keeps how a save goes, in every place it ever used."""

from __future__ import annotations

import hashlib
import stat
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ...core.store.surroundings_facts import (
    Generation,
    SaveContent,
    SaveError,
    SaveFileFact,
    SaveKind,
    SavePlaceFact,
    TriageCategory,
)
from .contained import TooLargeError, read_found, why_not
from .loose import (
    MOST_ITEMS,
    BadJsonError,
    decode_json,
    fields,
    flag,
    items,
    moment,
    number,
    title,
    titles,
    whole,
)

if TYPE_CHECKING:
    from pathlib import Path

    from .contained import Found
    from .machine import Machine

LARGEST: Final = 256 * 1024
"""Bytes; a result has at most 10 KB (R004-02), triage data about 4 KB."""

RESULT: Final = "last-save-result.json"
STOP_FLAG: Final = ".stop_hook_active"
"""Stands in the project's .claude/ itself, beside the staging folder's files."""

STAGING: Final = ".claude-memory-staging-"
"""What the names of staging folders outside a project begin with (R004-01)."""

HASH_CHARS: Final = 12
"""Of the sha256 that follows it."""

_KINDS: Final = {
    RESULT: SaveKind.RESULT,
    "triage-data.json": SaveKind.TRIAGE,
    ".triage-pending.json": SaveKind.PENDING,
    ".triage-handled": SaveKind.HANDLED,
    STOP_FLAG: SaveKind.STOP_FLAG,
    ".stop_hook_lock": SaveKind.LOCK,
    ".triage-fire-count": SaveKind.FIRE_COUNT,
}

_OF_OTHERS: Final = 0o077
"""Bits of a mode that let others in."""


class Staging(msgspec.Struct, frozen=True):
    """A folder that may hold one project's files."""

    path: Path
    generation: Generation
    project: str | None


def staging_places(machine: Machine, project: str, real: Path) -> list[Staging]:
    """Name one project's staging folders outside of it, oldest generation first.

    `real` is the project's folder without links.
    """
    plain = _hash(str(real))
    of_user = _hash(f"{machine.user_id}:{real}")
    return [
        Staging(
            base / (STAGING + (plain if generation is Generation.TMP else of_user)),
            generation,
            project,
        )
        for generation, base in machine.staging_roots
    ]


def check_place(found: Found, staging: Staging, user_id: int) -> SavePlaceFact:
    """Say whether a staging folder may be looked into (R004-16)."""
    mode = stat.S_IMODE(found.status.st_mode)
    return SavePlaceFact(
        path=str(staging.path),
        generation=staging.generation,
        project=staging.project or "",
        mode=mode,
        problem=_place_problem(found, staging, user_id, mode),
    )


def kind_of(name: str) -> SaveKind | None:
    """Tell what a file in such a folder is for; None for what is not followed."""
    if name.startswith("context-") and name.endswith(".txt"):
        return SaveKind.CONTEXT
    return _KINDS.get(name)


def read_save_file(found: Found, kind: SaveKind, staging: Staging, user_id: int) -> SaveFileFact:
    """Read one file; a torn or foreign one is kept as that.

    Raises OSError where it cannot be read now.
    """
    fact = SaveFileFact(
        path=str(found.path),
        folder=str(staging.path),
        kind=kind,
        generation=staging.generation,
        project=staging.project,
        mark=found.mark,
        problem=why_not(found) or _owner_problem(found, user_id),
    )
    if fact.problem or kind is SaveKind.CONTEXT:
        return fact
    try:
        data = read_found(found, LARGEST)
    except TooLargeError as error:
        return msgspec.structs.replace(fact, problem=error.strerror)
    fact = msgspec.structs.replace(fact, raw=data)
    try:
        return msgspec.structs.replace(fact, content=_READERS[kind](data))
    except BadJsonError as error:
        return msgspec.structs.replace(fact, problem=str(error))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:HASH_CHARS]


def _place_problem(found: Found, staging: Staging, user_id: int, mode: int) -> str | None:
    if found.problem:
        return found.problem
    if not stat.S_ISDIR(found.status.st_mode):
        return "is not a folder"
    # Inside a project the folder has the project's own permissions.
    if staging.generation is not Generation.PROJECT and mode & _OF_OTHERS:
        return f"lets others in (mode {mode:04o})"
    return _owner_problem(found, user_id)


def _owner_problem(found: Found, user_id: int) -> str | None:
    owner = found.status.st_uid
    return None if owner == user_id else f"belongs to user {owner}, not to {user_id}"


def _object(data: bytes) -> dict[str, Any]:
    said = decode_json(data)
    if not isinstance(said, dict):
        raise BadJsonError("is not a JSON object")
    return said


def _result(data: bytes) -> SaveContent:
    said = _object(data)
    timing = fields(said.get("phase_timing"))
    return SaveContent(
        at=moment(said.get("saved_at")),
        session_id=title(said.get("session_id")),
        project=title(said.get("project")),
        categories=_names(said, "categories"),
        titles=_names(said, "titles"),
        errors=_errors(said),
        phase_ms={
            title(name) or "": taken
            for name, value in list(timing.items())[:MOST_ITEMS]
            if (taken := number(value)) is not None
        }
        or None,
    )


def _pending(data: bytes) -> SaveContent:
    said = _object(data)
    return SaveContent(
        at=moment(said.get("timestamp")),
        session_id=title(said.get("session_id")),
        reason=title(said.get("reason")),
        categories=_names(said, "categories"),
        succeeded=_names(said, "succeeded_categories"),
        errors=_errors(said),
    )


def _triage(data: bytes) -> SaveContent:
    said = _object(data)
    parallel = fields(said.get("parallel_config"))
    models = fields(parallel.get("category_models")) | {
        "default": parallel.get("default_model"),
        "verification": parallel.get("verification_model"),
    }
    wanted = [
        TriageCategory(
            category=name,
            score=number(entry.get("score")),
            context_file=title(entry.get("context_file")),
            description=title(entry.get("description")),
        )
        for entry in map(fields, items(said.get("categories")))
        if (name := title(entry.get("category")))
    ]
    return SaveContent(
        at=moment(said.get("triage_start_ts")),
        categories=_names(said, "categories"),
        triage=tuple(wanted),
        models={
            title(name) or "": model
            for name, value in list(models.items())[:MOST_ITEMS]
            if (model := title(value))
        }
        or None,
        parallel=flag(parallel.get("enabled")),
    )


def _state(data: bytes) -> SaveContent:
    """Read a JSON state, or the plain time of earlier versions (R004-03)."""
    text = data.strip(b"\0 \t\r\n")
    if not text:
        return SaveContent()
    if text[:1] not in {b"{", b"["}:
        return SaveContent(at=_plain_time(text))
    said = _object(text)
    return SaveContent(
        at=moment(said.get("timestamp")),
        session_id=title(said.get("session_id")),
        state=title(said.get("state")),
        pid=whole(said.get("pid")),
    )


def _count(data: bytes) -> SaveContent:
    count = whole(decode_json(data.strip()))
    if count is None:
        raise BadJsonError("is not a number")
    return SaveContent(count=count)


def _plain_time(text: bytes) -> int | None:
    try:
        return moment(decode_json(text))
    except BadJsonError:
        return moment(text.decode("ascii", "replace"))


def _names(said: dict[str, Any], key: str) -> tuple[str, ...] | None:
    """Give a list of names as it stands: an empty one says something else than none."""
    value = said.get(key)
    return titles(items(value), "category", "title", "name") if isinstance(value, list) else None


def _errors(said: dict[str, Any]) -> tuple[SaveError, ...] | None:
    value = said.get("errors")
    if not isinstance(value, list):
        return None
    return tuple(_error(each) for each in items(value))


def _error(value: object) -> SaveError:
    said = fields(value)
    if said:
        return SaveError(title(said.get("category")) or "", title(said.get("error")) or "")
    return SaveError("", title(value) or "")


_READERS: Final = {
    SaveKind.RESULT: _result,
    SaveKind.PENDING: _pending,
    SaveKind.TRIAGE: _triage,
    SaveKind.HANDLED: _state,
    SaveKind.STOP_FLAG: _state,
    SaveKind.LOCK: _state,
    SaveKind.FIRE_COUNT: _count,
}
