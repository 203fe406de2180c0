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
    from typing import Any, Final

    Scan = Callable[[str, int], tuple[Any, int]]


RECORD_VERSION: Final = 1  # of a record's form
HOOKS_LOG: Final = "hooks.jsonl"
STATUS_LINE_LOG: Final = "statusline.jsonl"
PLUGIN_LOG: Final = "plugin.jsonl"  # what the module inside the client pushes
ANSWER_FAULTS: Final = "answering"  # no log: beside it stand the faults of what hooks answer
ROTATE_BYTES: Final = 4 * 1024 * 1024
"""A file that has this much is renamed: it is read at once, and removed whole."""

RECORD_BYTES: Final = 32 * 1024
"""What of one stdin is kept at the most; the client's largest field alone can be 50 MB."""

TEXT_CHARS: Final = 2000  # of one field: a transcript holds every text whole
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

FAULT_CHARS: Final = 400  # of one fault
FAULTS_BYTES: Final = 16 * 1024
"""A file of faults that has this much takes the place of the one before it."""

FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600

# What a system has of these: no link is followed, a FIFO does not block, no child inherits.
SAFE_OPEN_FLAGS: Final = (
    getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
)
_APPEND_FLAGS: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | SAFE_OPEN_FLAGS
MAX_STDIN_BYTES: Final = 64 * 1024 * 1024
"""Of stdin is looked at at the most: the client's largest tool outputs are 50 MB."""

_CHUNK_BYTES: Final = 1024 * 1024

_NS_PER_MS: Final = 1_000_000


def log_folder(store: str) -> str:
    """Name the folder of a store's logs: two stores never share one."""
    return f"{store}.logs"


def log_path(store: str, log: str) -> str:
    """Name the file to which a store's log (HOOKS, STATUS_LINE, PLUGIN) is written."""
    return f"{log_folder(store)}/{log}"


def fault_path(path: str) -> str:
    """Name the file that holds the newest faults of a log's writers, one a line."""
    return f"{path}.fault"


def older_fault_path(path: str) -> str:
    """Name the file that holds the faults before those."""
    return f"{path}.fault.old"


def append_record(path: str, event: str, data: bytes) -> str | None:
    """Append what the client gave; give back None, or in words why that failed."""
    try:
        _append(path, _record_line(event, data))
    except Exception as error:  # noqa: BLE001 -- whatever it is, the client must not fail by it
        return note_fault(path, f"{type(error).__name__}: {error}")
    return None


def _append(path: str, line: bytes) -> None:
    status = _write(path, line)
    if not status.st_nlink:
        # Stopped for days between opening and writing, until a reader removed the file.
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
    """Rename the full file to a name that nobody has, in the order of time."""
    try:
        now = os.stat(path, follow_symlinks=False)
        if (now.st_dev, now.st_ino) != (full.st_dev, full.st_ino):
            return
        # Two writers may both come here: the later one then renames a file that is not
        # full, under a name of its own.
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


def _record_line(event: str, given: bytes) -> bytes:
    client = os.environ.get("CLAUDE_PID", "")
    now = time.time_ns()
    about = {
        "v": RECORD_VERSION,
        "at": now // _NS_PER_MS,
        # A file is known by its first record: no two may be the same.
        "ns": now % _NS_PER_MS,
        "pid": os.getpid(),
        "client_pid": int(client) if client.isdecimal() else None,
        "event": event[:TEXT_CHARS],
        "bytes": len(given),
    }
    text = given.decode("utf-8", "replace").strip()
    fields = decode_object(text)
    more = {"garbage": text[:TEXT_CHARS]} if fields is None else _fit_fields(fields)
    # The line end in front closes what a full disk has cut off; half a surrogate pair is
    # no UTF-8.
    return f"\n{encode_json(about | more)}\n".encode("utf-8", "replace")


def decode_object(text: str) -> dict[str, Any] | None:
    """Decode an object; None where it is none."""
    try:
        value, end = _scan(text, 0)
    except (ValueError, StopIteration, RecursionError):
        return None
    return value if isinstance(value, dict) and end == len(text) else None


def _fit_fields(fields: dict[str, Any]) -> dict[str, Any]:
    """Choose what there is room for: `given`, and `cut` with the true sizes of the rest.

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
    """Cut a text; give back None for what is left out whole."""
    if name in SIZE_ONLY_FIELDS:
        return None
    if isinstance(value, str):
        return value[:TEXT_CHARS]
    try:
        return value if len(encode_json(value)) <= TEXT_CHARS else None
    except (ValueError, RecursionError):
        # A number that JSON has not, or too deep.
        return None


def note_fault(path: str, fault: str) -> str:
    """Note beside a log what went wrong; give it back, with what was in the way of noting it."""
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
    """Open what the client closed: a file that took its number would get what we print."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)


def read_stdin() -> bytes:
    """Read all of stdin, keep GIVEN_BYTES of it; the client waits until it is taken."""
    pieces: list[bytes] = []
    size = 0
    while piece := os.read(0, _CHUNK_BYTES):
        if size < MAX_STDIN_BYTES:
            pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)


def write_stdout(data: bytes) -> None:
    """Write to stdout; raises OSError where nobody takes it."""
    while data:
        data = data[os.write(1, data) :]


class _ScannerContext:
    """What the C scanner asks for: plain values, and null for what JSON has not."""

    strict = False
    object_hook = object_pairs_hook = array_hook = None
    parse_int = int
    parse_float = float

    @staticmethod
    def parse_constant(_: str) -> None:
        """Read NaN and Infinity as nothing."""


def _codec() -> tuple[Scan, Callable[[object], str]]:
    try:
        # The C half of json alone: the whole takes as long to import as Python to start.
        from _json import encode_basestring, make_encoder, make_scanner

        flags = (False, False, False)  # sort_keys, skipkeys, allow_nan
        pieces = make_encoder(None, _reject_value, encode_basestring, None, ":", ",", *flags)
        return make_scanner(_ScannerContext), lambda value: "".join(pieces(value, 0))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    except (ImportError, AttributeError, TypeError):
        # Another Python than CPython, or one that has changed them.
        import json

        decoder = json.JSONDecoder(strict=False, parse_constant=_ScannerContext.parse_constant)
        encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return decoder.raw_decode, encoder.encode


def _reject_value(value: object) -> None:
    raise TypeError(f"no JSON: {value!r}")


_scan, encode_json = _codec()
