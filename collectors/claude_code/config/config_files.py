"""Reads configuration files that others may write to, and follows their changes in the store."""

import os
import stat
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import msgspec

from ....core.files.safe_open import NOT_REGULAR_FILE, open_regular
from ....core.model.config_records import (
    DefinitionRecord,
    FileMark,
    SaveFileRecord,
    SettingsFileRecord,
)
from ....core.model.problem import ProblemReporter
from ....core.store.config_writer import mark_gone
from ....core.store.queries.config_queries import SeenFile, files_seen
from ....core.store.writer import Writer
from ....core.transcript.raw_lines import timestamp_to_ms
from ....core.transcript.sanitize import sanitize_title

MAX_JSON_ITEMS: Final = 100  # of a list or an object; the longest that were seen have about 30
MAX_JSON_DEPTH: Final = 8  # levels of an object that is kept whole
MAX_JSON_CHARS: Final = 8 * 1024  # of such an object; a log line of claude-memory has about 600
_MAX_SECONDS: Final = 1e11  # smaller times are in seconds (to 5138), others in ms (from 1973)
_MAX_MS: Final = 1 << 53


class InvalidJsonError(ValueError):
    """Bytes that are not the JSON that is needed; the message says why, in one line."""


def decode_json(data: bytes) -> Any:  # noqa: ANN401 -- any JSON
    try:
        return msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"))
    except UnicodeDecodeError as error:
        raise InvalidJsonError("is not UTF-8") from error
    except RecursionError as error:
        raise InvalidJsonError("is nested too deeply") from error
    except msgspec.DecodeError as error:
        raise InvalidJsonError(f"is not JSON: {sanitize_title(str(error))}") from error


def decode_object(data: bytes) -> dict[str, Any]:
    value = decode_json(data)
    if not isinstance(value, dict):
        raise InvalidJsonError("is not a JSON object")
    return value


def as_object(value: object) -> dict[str, Any]:
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
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def as_ms(value: object) -> int | None:
    """Return a time as ms since 1970; accepts ISO 8601, seconds and milliseconds."""
    if isinstance(value, str):
        return timestamp_to_ms(value)
    number = as_float(value)
    if number is None or not 0 <= number < _MAX_MS:
        return None
    return round(number * 1000) if number < _MAX_SECONDS else round(number)


def as_titles(values: Iterable[object], *keys: str) -> tuple[str, ...]:
    """Return the titles among the values; for an object, the first of its `keys` that has one."""
    titles: list[str | None] = []
    for value in values:
        candidates = [value.get(key) for key in keys] if isinstance(value, dict) else [value]
        titles.append(next(filter(None, map(as_title, candidates)), None))
    return tuple(filter(None, titles))


def encode_bounded(value: object) -> str | None:
    text = msgspec.json.encode(_sanitized(value, MAX_JSON_DEPTH)).decode()
    return text if len(text) <= MAX_JSON_CHARS else None


def _sanitized(value: object, levels: int) -> object:
    if isinstance(value, str):
        return sanitize_title(value)
    if isinstance(value, (list, dict)) and not levels:
        return None
    if isinstance(value, list):
        return [_sanitized(item, levels - 1) for item in as_list(value)]
    if isinstance(value, dict):
        items = list(value.items())[:MAX_JSON_ITEMS]
        return {sanitize_title(str(key)): _sanitized(item, levels - 1) for key, item in items}
    if isinstance(value, int) and not isinstance(value, bool):
        return as_int(value)
    return value


LINK_PROBLEM: Final = "is a link"
OUTSIDE_LINK_PROBLEM: Final = "is a link that leads out of its folder"
NOT_UTF8_PROBLEM: Final = "has a name that is not UTF-8"

MAX_FOLDER_ENTRIES: Final = 10_000
"""Read of one folder, or of one tree that is searched for definitions: a link inside a project may
lead to its root, and a repository may hold any number of files."""


class FileTooLargeError(OSError): ...


class ConfigPath(msgspec.Struct, frozen=True):
    """A file or folder that was found; `real` is its path without links."""

    path: Path
    real: Path
    status: os.stat_result
    problem: str | None = None  # why it is not read

    @property
    def is_folder(self) -> bool:
        return self.problem is None and stat.S_ISDIR(self.status.st_mode)

    @property
    def mark(self) -> FileMark:
        status = self.status
        # SQLite's integers are signed; the inodes of some network mounts use all 64 bits.
        return FileMark(status.st_size, status.st_mtime_ns, status.st_ino & ((1 << 63) - 1))


def resolve_folder(path: Path) -> ConfigPath | None:
    """Find a folder, following links; None if it is missing, OSError if it is not accessible."""
    try:
        real = path.resolve(strict=True)
        return ConfigPath(path, real, real.stat())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except RuntimeError as error:  # a loop of links, before Python 3.13
        raise OSError(0, "is a circular link", str(path)) from error


def find_unlinked_folder(path: Path) -> ConfigPath | None:
    """Find a folder that must not be a link; raises OSError if it is not accessible."""
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return ConfigPath(path, path, status, LINK_PROBLEM if stat.S_ISLNK(status.st_mode) else None)


def find_child(parent: ConfigPath | None, name: str, root: Path) -> ConfigPath | None:
    """Find an entry, None without one; raises OSError. A link out of `root` is a problem."""
    if parent is None or not parent.is_folder:
        return None
    real = parent.real / name
    try:
        status = real.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return _check_link(parent.path / name, real, status, root)


def list_children(
    parent: ConfigPath | None, root: Path, at_most: int = MAX_FOLDER_ENTRIES
) -> list[ConfigPath]:
    """List a folder's entries by name; raises OSError, also for more than `at_most`."""
    if parent is None or not parent.is_folder:
        return []
    found = []
    with os.scandir(parent.real) as entries:
        listed = list(islice(entries, at_most + 1))
        if len(listed) > at_most:
            raise OSError(
                0, f"contains more than {MAX_FOLDER_ENTRIES:,} files and folders", str(parent.path)
            )
        for entry in sorted(listed, key=lambda entry: entry.name):
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            shown = os.fsencode(entry.name).decode("utf-8", "replace")
            if shown != entry.name:
                # The store takes only text.
                found.append(ConfigPath(parent.path / shown, parent.real, status, NOT_UTF8_PROBLEM))
            elif child := _check_link(parent.path / shown, parent.real / shown, status, root):
                found.append(child)
    return found


def read_config_file(found: ConfigPath, largest: int) -> bytes:
    """Read a whole file; raises FileTooLargeError, or OSError if it cannot be read."""
    if found.problem:
        raise OSError(0, found.problem, str(found.path))
    if not stat.S_ISREG(found.status.st_mode):
        # Checked before opening it: some devices react to that alone.
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
        # A loop, or a folder that is closed to us.
        pass
    return ConfigPath(path, real, status, OUTSIDE_LINK_PROBLEM)


RecordT = TypeVar("RecordT", SettingsFileRecord, DefinitionRecord, SaveFileRecord)


def add_content(
    record: RecordT, found: ConfigPath, largest: int, read: Callable[[bytes], dict[str, Any]]
) -> RecordT:
    """Add the fields of `read`, which may raise InvalidJsonError, or a problem; raises OSError."""
    if record.problem:
        return record
    try:
        return msgspec.structs.replace(record, **read(read_config_file(found, largest)))
    except FileTooLargeError as error:
        return msgspec.structs.replace(record, problem=error.strerror)
    except InvalidJsonError as error:
        return msgspec.structs.replace(record, problem=str(error))


class FileFollower(Generic[RecordT]):
    """The files of one table that the store knows, by folder; read again when they change."""

    def __init__(
        self,
        writer: Writer,
        problems: ProblemReporter,
        table: str,
        save: Callable[[Writer, list[RecordT]], None],
        fix: str | None = None,
    ) -> None:
        """Problems of the files are reported only with a `fix`."""
        self._writer: Final = writer
        self._problems: Final = problems
        self._table: Final = table
        self._save: Final[Callable[[Writer, list[RecordT]], None]] = save
        self._fix: Final = fix
        self._known: Final = files_seen(writer.connection, table)

    def follow_file(
        self, path: Path, found: ConfigPath | None, read: Callable[[ConfigPath], RecordT]
    ) -> None:
        """Store a file if it changed, or that it is gone."""
        self._follow(str(path.parent), {str(path): found}, read)

    def follow_folder(
        self, folder: Path, found: Iterable[ConfigPath], read: Callable[[ConfigPath], RecordT]
    ) -> None:
        """Store what changed in a folder; known files that were not found are gone."""
        present = {str(each.path): each for each in found}
        missing = dict.fromkeys(self._known.get(str(folder), ()))
        self._follow(str(folder), missing | present, read)

    def _follow(
        self,
        folder: str,
        files: Mapping[str, ConfigPath | None],
        read: Callable[[ConfigPath], RecordT],
    ) -> None:
        known = self._known.get(folder, {})
        changed = [
            record
            for path, found in files.items()
            if found and (record := self._read_if_changed(path, found, known.get(path), read))
        ]
        gone = [path for path in known if path in files and files[path] is None]
        if not changed and not gone:
            return
        with self._writer.transaction():
            self._save(self._writer, changed)
            mark_gone(self._writer, self._table, gone)
        for path in gone:
            self._problems.resolve(path)
        known = {path: seen for path, seen in known.items() if path not in gone}
        known |= {record.path: SeenFile(record.mark, record.problem) for record in changed}
        self._known[folder] = known

    def _read_if_changed(
        self,
        path: str,
        found: ConfigPath,
        seen: SeenFile | None,
        read: Callable[[ConfigPath], RecordT],
    ) -> RecordT | None:
        is_known = seen is not None and seen.mark == found.mark
        try:
            record = None if is_known else read(found)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._problems.report_unreadable(path, error)
            return None
        current = record or seen
        if self._fix and current:
            self._problems.report_or_resolve(path, current.problem, self._fix)
        elif record:
            self._problems.resolve(path)
        return record

    def forget(self, folder: Path) -> None:
        mark_gone(self._writer, self._table, self._known.pop(str(folder), {}))
