"""Reads configuration files that others may write to, and single values of their JSON."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from ....core.files.safe_open import NOT_REGULAR_FILE, open_regular
from ....core.store.config_records import FileMark
from ....core.transcript.raw_lines import timestamp_to_ms
from ....core.transcript.sanitize import sanitize_title

if TYPE_CHECKING:
    from ....core.model.problem import ProblemReporter
    from ....core.store.queries.config_queries import SeenFile


MAX_JSON_ITEMS: Final = 100  # of a list or an object; the longest that were seen have about 30
MAX_JSON_DEPTH: Final = 8  # levels of an object that is kept whole
MAX_JSON_CHARS: Final = 8 * 1024
"""Characters of such an object as JSON; a log line of claude-memory has about 600."""

_MAX_SECONDS: Final = 1e11
"""Less than this is a time in seconds, more is one in milliseconds: the year 5138, or 1973."""

_MAX_MS: Final = 1 << 53


class InvalidJsonError(ValueError):
    """Bytes that are no JSON; the message says why, in one line."""


def decode_json(data: bytes) -> Any:  # noqa: ANN401 -- any JSON
    """Decode bytes; raises InvalidJsonError."""
    try:
        return msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"))
    except UnicodeDecodeError as error:
        raise InvalidJsonError("is not UTF-8") from error
    except RecursionError as error:
        raise InvalidJsonError("is nested too deeply") from error
    except msgspec.DecodeError as error:
        raise InvalidJsonError(f"is not JSON: {sanitize_title(str(error))}") from error


def as_object(value: object) -> dict[str, Any]:
    """Return a dict as it is; {} for anything else."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """Return a list's first `MAX_JSON_ITEMS` items; [] for anything else."""
    return value[:MAX_JSON_ITEMS] if isinstance(value, list) else []


def as_title(value: object) -> str | None:
    """Return a text or a number as one sanitized line; None for anything else or a blank."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    return sanitize_title(str(value)) or None


def as_int(value: object) -> int | None:
    """Return an integer that fits the store's 64 bits; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if abs(value) < 1 << 63 else None


def as_float(value: object) -> float | None:
    """Return a number as a float; None for anything else, including a bool."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def as_bool(value: object) -> bool | None:
    """Return a bool as it is; None for anything else."""
    return value if isinstance(value, bool) else None


def as_ms(value: object) -> int | None:
    """Return a time as ms since 1970; accepts ISO 8601, seconds and milliseconds."""
    if isinstance(value, str):
        return timestamp_to_ms(value)
    seen = as_float(value)
    if seen is None or not 0 <= seen < _MAX_MS:
        return None
    return round(seen * 1000) if seen < _MAX_SECONDS else round(seen)


def as_titles(values: Iterable[object], *keys: str) -> tuple[str, ...]:
    """Return the titles among the values; for an object, the first of its `keys` that has one."""
    found = (
        _first_title(value, keys) if isinstance(value, dict) else as_title(value)
        for value in values
    )
    return tuple(each for each in found if each)


def _first_title(value: dict[str, Any], keys: tuple[str, ...]) -> str | None:
    return next((found for key in keys if (found := as_title(value.get(key)))), None)


def encode_bounded(value: object) -> str | None:
    """Encode an object that is kept whole, with its texts cleaned; None where it is too long."""
    text = msgspec.json.encode(_sanitized(value, MAX_JSON_DEPTH)).decode()
    return text if len(text) <= MAX_JSON_CHARS else None


def _sanitized(value: object, levels: int) -> object:
    if isinstance(value, str):
        return sanitize_title(value)
    if isinstance(value, (list, dict)) and not levels:
        return None
    if isinstance(value, list):
        return [_sanitized(each, levels - 1) for each in as_list(value)]
    if isinstance(value, dict):
        some = list(value.items())[:MAX_JSON_ITEMS]
        return {sanitize_title(str(key)): _sanitized(each, levels - 1) for key, each in some}
    if isinstance(value, int) and not isinstance(value, bool):
        return as_int(value)
    return value


_INODE_BITS: Final = (1 << 63) - 1
"""As many as SQLite's integer holds; some network mounts use one more."""

LINK_PROBLEM: Final = "is a link"
OUTSIDE_LINK_PROBLEM: Final = "is a link out of its folder"
NOT_UTF8_PROBLEM: Final = "has a name that is not UTF-8"


MAX_FOLDER_ENTRIES: Final = 10_000
"""Of one folder, or of one tree that is searched for definitions: a link inside a project may lead
to its root, and a repository may hold any number of files."""


class FileTooLargeError(OSError):
    """A file is larger than what is read of its kind."""


class ConfigPath(msgspec.Struct, frozen=True):
    """What stands at a path; `real` is the same without links."""

    path: Path
    real: Path
    status: os.stat_result
    problem: str | None = None  # why it is not looked into

    @property
    def is_folder(self) -> bool:
        """It can be looked into."""
        return self.problem is None and stat.S_ISDIR(self.status.st_mode)

    @property
    def mark(self) -> FileMark:
        """How to tell that it did not change."""
        status = self.status
        return FileMark(status.st_size, status.st_mtime_ns, status.st_ino & _INODE_BITS)


def resolve_folder(path: Path) -> ConfigPath | None:
    """Look at a folder whose own links are followed; None where there is none.

    Raises OSError where it cannot be looked at.
    """
    try:
        real = path.resolve(strict=True)
        return ConfigPath(path, real, real.stat())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except RuntimeError as error:  # a loop of links, before Python 3.13
        raise OSError(0, "is a loop of links", str(path)) from error


def find_unlinked_folder(path: Path) -> ConfigPath | None:
    """Look at a folder that is to be no link; raises OSError where it cannot be looked at."""
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return ConfigPath(path, path, status, LINK_PROBLEM if stat.S_ISLNK(status.st_mode) else None)


def find_child(parent: ConfigPath, name: str, root: Path) -> ConfigPath | None:
    """Look at what is in a folder; a link out of `root`, which has none itself, is a problem.

    None where there is nothing, or no folder. Raises OSError where it cannot be looked at.
    """
    if not parent.is_folder:
        return None
    real = parent.real / name
    try:
        status = real.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return _check_link(parent.path / name, real, status, root)


def list_children(
    parent: ConfigPath, root: Path, at_most: int = MAX_FOLDER_ENTRIES
) -> list[ConfigPath]:
    """Look at all that is in a folder, by name.

    Raises OSError where that is not possible, and where there is more than `at_most`.
    """
    if not parent.is_folder:
        return []
    found = []
    with os.scandir(parent.real) as entries:
        listed = list(islice(entries, at_most + 1))
        if len(listed) > at_most:
            raise OSError(
                0, f"holds more than {MAX_FOLDER_ENTRIES:,} files and folders", str(parent.path)
            )
        for entry in sorted(listed, key=lambda each: each.name):
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            shown = os.fsencode(entry.name).decode("utf-8", "replace")
            if shown != entry.name:
                # The store takes only text.
                found.append(ConfigPath(parent.path / shown, parent.real, status, NOT_UTF8_PROBLEM))
            elif each := _check_link(parent.path / shown, parent.real / shown, status, root):
                found.append(each)
    return found


def read_config_file(found: ConfigPath, largest: int) -> bytes:
    """Read a file whole; raises FileTooLargeError, or OSError where it cannot be read."""
    if found.problem:
        raise OSError(0, found.problem, str(found.path))
    if not stat.S_ISREG(found.status.st_mode):
        # Before it is opened: opening alone wakes some devices.
        raise OSError(0, NOT_REGULAR_FILE, str(found.path))
    with open_regular(found.real) as file:
        data = file.read(largest + 1)
    if len(data) > largest:
        raise FileTooLargeError(0, f"is larger than {largest >> 10} KiB", str(found.path))
    return data


def read_problem(found: ConfigPath) -> str | None:
    """Explain why a path that was found is not read; None if it is a regular file."""
    if found.problem:
        return found.problem
    return None if stat.S_ISREG(found.status.st_mode) else NOT_REGULAR_FILE


def _check_link(path: Path, real: Path, status: os.stat_result, root: Path) -> ConfigPath | None:
    if not stat.S_ISLNK(status.st_mode):
        return ConfigPath(path, real, status)
    try:
        target = real.resolve(strict=True)
        if target.is_relative_to(root):
            return ConfigPath(path, target, target.stat())
    except FileNotFoundError:
        return None
    except (OSError, RuntimeError):
        # A loop, or a way that is closed to us: it leads nowhere that we may go.
        return ConfigPath(path, real, status, OUTSIDE_LINK_PROBLEM)
    return ConfigPath(path, real, status, OUTSIDE_LINK_PROBLEM)


ConfigFactT = TypeVar("ConfigFactT")


def read_changed_files(
    present: Mapping[str, ConfigPath],
    known: Mapping[str, SeenFile],
    read: Callable[[ConfigPath], ConfigFactT],
    problems: ProblemReporter,
) -> list[ConfigFactT]:
    """Read the files, by path, that are not as they are known; one that cannot be read is told."""
    changed = []
    for path, found in present.items():
        seen = known.get(path)
        if seen and seen.mark == found.mark:
            continue
        try:
            changed.append(read(found))
        except FileNotFoundError:
            continue
        except OSError as error:
            problems.report_unreadable(path, error)
        else:
            problems.resolve(path)
    return changed
