"""The log that ctxtop's hooks and status line append to: one record, one line, one write.

Claude Code waits for these processes and runs several at once: this module imports nothing slow,
takes no lock, and never raises into its caller.

A full file is renamed, and the next record starts a new one. A writer that still has the old file
open appends to the renamed file: readers look at renamed files again, and only readers remove
them, long after.
"""

from __future__ import annotations

import os
import stat
import time

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import IO, Any, Final

    Scan = Callable[[str, int], tuple[Any, int]]


RECORD_VERSION: Final = 1  # of a record's form
HOOKS_LOG: Final = "hooks.jsonl"
STATUS_LINE_LOG: Final = "statusline.jsonl"
PLUGIN_LOG: Final = "plugin.jsonl"  # what the module inside the client pushes
ANSWER_FAULTS: Final = "answering"  # no log: names the file of the faults of answers
ROTATE_BYTES: Final = 4 * 1024 * 1024
"""A file of this size is renamed: readers read such a file at once, and remove it as a whole."""

FAULT_CHARS: Final = 400  # of one fault
FAULTS_BYTES: Final = 16 * 1024  # a file of faults of this size replaces the one before it
FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600

# As far as the system has them: no link is followed, a FIFO does not block, no child inherits.
SAFE_OPEN_FLAGS: Final = (
    getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
)
_APPEND_FLAGS: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | SAFE_OPEN_FLAGS
# What a client, a hook's input or a file of ours may say; a number outside is shown as unreadable.
MAX_TOKENS: Final = 1_000_000_000  # the largest windows have a million
MAX_PERCENT: Final = 1_000  # a limit or a window may be exceeded, but never ten times
MIN_TIME_S: Final = 1_000_000_000  # of 2001: less is a duration
MAX_TIME_S: Final = 4_102_444_800  # of 2100: more is in milliseconds


def is_time_in_seconds(value: float) -> bool:
    return MIN_TIME_S <= value <= MAX_TIME_S


def plausible_window(size: int | None, used: int | None) -> int | None:
    """Return a window's size in tokens; None where that much cannot be in use of it."""
    return size if size and 100 * (used or 0) <= MAX_PERCENT * size else None


MAX_STDIN_BYTES: Final = 64 * 1024 * 1024  # the client's largest tool outputs have 50 MB
_CHUNK_BYTES: Final = 1024 * 1024
_NS_PER_MS: Final = 1_000_000


def open_safely(path: str | Path, mode: str) -> IO[bytes]:
    """Open a binary file of the user's own without following a link or blocking."""
    return open(
        path, mode, opener=lambda name, flags: os.open(name, flags | SAFE_OPEN_FLAGS, FILE_MODE)
    )


def log_folder(store: str) -> str:
    """Name the folder of a store's logs: two stores never share one."""
    return f"{store}.logs"


def log_path(store: str, log: str) -> str:
    return f"{log_folder(store)}/{log}"


def fault_path(path: str) -> str:
    """Name the file of the newest faults of a log's writers, one a line."""
    return f"{path}.fault"


def older_fault_path(path: str) -> str:
    return f"{path}.fault.old"


def append_record(path: str, event: str, data: bytes) -> str | None:
    """Append what the client sent; return why that failed, or None."""
    try:
        _append(path, _record_line(event, data))
    except Exception as error:  # noqa: BLE001 -- whatever it is, the client must not fail by it
        return note_fault(path, f"{type(error).__name__}: {error}")
    return None


def _append(path: str, line: bytes) -> None:
    status = _write(path, line)
    if not status.st_nlink:
        # A reader removed the file between opening and writing, which may be days apart.
        status = _write(path, line)
    if status.st_size >= ROTATE_BYTES:
        _rotate(path, status)


def _write(path: str, line: bytes) -> os.stat_result:
    descriptor = _open(path)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path} is not a regular file")
        written = os.write(descriptor, line)
        status = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    if written != len(line):
        raise OSError(f"only {written} of {len(line)} bytes were written")
    return status


def _open(path: str) -> int:
    try:
        return os.open(path, _APPEND_FLAGS, FILE_MODE)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), FOLDER_MODE, exist_ok=True)
        return os.open(path, _APPEND_FLAGS, FILE_MODE)


def _rotate(path: str, full: os.stat_result) -> None:
    """Rename the full file to an unused name that sorts by time."""
    try:
        now = os.stat(path, follow_symlinks=False)
        if (now.st_dev, now.st_ino) != (full.st_dev, full.st_ino):
            return
        # If two writers get here, the later one renames a file that is not full. That does no
        # harm: each name is unique.
        part = f"{path}.{time.time_ns():020d}-{os.getpid()}"
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY | SAFE_OPEN_FLAGS, FILE_MODE))
        try:
            os.rename(path, part)
        except OSError:
            os.unlink(part)
            raise
    except FileNotFoundError:
        # Another writer was faster.
        return


RECORD_BYTES: Final = 32 * 1024  # kept of one stdin; the client's largest field can have 50 MB
TEXT_CHARS: Final = 2000  # of one field: a transcript holds every text in full
SIZE_ONLY_FIELDS: Final = frozenset(
    {
        "action",  # of an elicitation: what a person answered
        "content",
        "delta",
        "permission_suggestions",
        "prompt",
        "requested_schema",
        "tool_calls",
        "tool_input",  # may hold secrets; the transcript has it
        "tool_response",
    }
)
"""Fields of which only the size is noted."""


def _record_line(event: str, given: bytes) -> bytes:
    client = os.environ.get("CLAUDE_PID", "")
    now = time.time_ns()
    about = {
        "v": RECORD_VERSION,
        "at": now // _NS_PER_MS,
        # A file is identified by its first record: no two may be the same.
        "ns": now % _NS_PER_MS,
        "pid": os.getpid(),
        "client_pid": int(client) if client.isdecimal() else None,
        "event": event[:TEXT_CHARS],
        "bytes": len(given),
    }
    text = given.decode("utf-8", "replace").strip()
    fields = decode_object(text)
    content = {"garbage": text[:TEXT_CHARS]} if fields is None else _fit_fields(fields)
    # The newline in front ends a line that a full disk has cut off; half a surrogate pair
    # is not UTF-8.
    return f"\n{encode_json(about | content)}\n".encode("utf-8", "replace")


def decode_object(text: str) -> dict[str, Any] | None:
    """Decode a JSON object; None for anything else."""
    try:
        value, end = _scan(text, 0)
    except (ValueError, StopIteration, RecursionError):
        return None
    return value if isinstance(value, dict) and end == len(text) else None


def _fit_fields(fields: dict[str, Any]) -> dict[str, Any]:
    """Keep what there is room for as `given`; `cut` has the true sizes of the rest.

    A size counts the characters of a text, the items of a list, the fields of an object.
    """
    given: dict[str, Any] = {}
    cut: dict[str, int] = {}
    room = RECORD_BYTES
    for number, (name, value) in enumerate(fields.items()):
        kept = _shorten(name, value)
        room -= len(encode_json([name, name, kept]))
        if room < 0:
            return {"given": given, "cut": cut, "dropped": len(fields) - number}
        if kept is not None or value is None:
            given[name] = kept
        if kept != value:
            cut[name] = len(value) if isinstance(value, (str, dict, list)) else 0
    return {"given": given, "cut": cut}


def _shorten(name: str, value: object) -> object:
    """Cut a text; return None for what is left out."""
    if name in SIZE_ONLY_FIELDS:
        return None
    if isinstance(value, str):
        return value[:TEXT_CHARS]
    try:
        return value if len(encode_json(value)) <= TEXT_CHARS else None
    except (ValueError, RecursionError):
        # A number that JSON does not have, or too deep.
        return None


def note_fault(path: str, fault: str) -> str:
    """Note a fault beside a log; return it, with the reason if it could not be noted."""
    words = " ".join(fault[:FAULT_CHARS].split())
    line = f"{time.time_ns() // _NS_PER_MS} {words}\n".encode("utf-8", "backslashreplace")
    notes = fault_path(path)
    try:
        descriptor = _open(notes)
        try:
            os.write(descriptor, line)
            size = os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)
        if size >= FAULTS_BYTES:
            os.replace(notes, older_fault_path(path))
    except OSError as error:
        return f"{fault}; {error}"
    return fault


def reserve_standard_streams() -> None:
    """Open the streams that the client closed: else a file gets their number and our output."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)


def read_stdin() -> bytes:
    """Read all of stdin, as the client waits until it is; keep MAX_STDIN_BYTES of it."""
    pieces: list[bytes] = []
    size = 0
    while piece := os.read(0, _CHUNK_BYTES):
        if size < MAX_STDIN_BYTES:
            pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)


def write_stdout(data: bytes) -> None:
    """Write all of it to stdout; raises OSError."""
    while data:
        data = data[os.write(1, data) :]


class _ScannerContext:
    """The options of the C scanner: plain values, and null for NaN and Infinity."""

    strict = False
    object_hook = object_pairs_hook = array_hook = None
    parse_int = int
    parse_float = float

    @staticmethod
    def parse_constant(_: str) -> None:
        return None


def _codec() -> tuple[Scan, Callable[[object], str]]:
    try:
        # The C half of json: importing all of it takes as long as starting Python.
        from _json import encode_basestring, make_encoder, make_scanner

        flags = (False, False, False)  # sort_keys, skipkeys, allow_nan
        pieces = make_encoder(None, _reject_value, encode_basestring, None, ":", ",", *flags)
        return make_scanner(_ScannerContext), lambda value: "".join(pieces(value, 0))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    except (ImportError, AttributeError, TypeError):
        # Not CPython, or a version that has changed them.
        import json

        decoder = json.JSONDecoder(strict=False, parse_constant=_ScannerContext.parse_constant)
        encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return decoder.raw_decode, encoder.encode


def _reject_value(value: object) -> None:
    raise TypeError(f"not JSON: {value!r}")


_scan, encode_json = _codec()


STATUS_FILE_VERSION: Final = 1  # a status line reads no other version


def status_folder(store: str) -> str:
    return f"{store}.line"


def status_path(store: str, session_id: str) -> str | None:
    """Name a session's file; None if its id is no safe file name."""
    plain = session_id.replace("-", "")
    if not (plain.isascii() and plain.isalnum()):
        return None
    return f"{status_folder(store)}/{session_id.lower()}.json"
