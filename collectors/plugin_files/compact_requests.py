"""The files through which ctxtop asks the module inside Claude Code to compact a session.

In the folder `asking` beside the logs of a store, 0700, and each file in it 0600:

    SESSION.REQUEST.ask     a request that the module may take
    SESSION.REQUEST.taken   the same while it is carried out: whoever renames it owns it

The module lists it every second, so everything else is in its subfolder `kept`:

    SESSION.REQUEST.asked   what was asked, when, and by which way
    SESSION.REQUEST.result  how it ended; without it after ORPHAN_AFTER_S the request is an orphan
    SESSION.REQUEST.told    the same result, after the session was told of it
    PID.alive               the module of this client reported that it runs

Every file is written under another name and then renamed. No link is followed.
"""

from __future__ import annotations

import os
import stat
import time

from .plugin_log import FOLDER_MODE, log_folder, open_safely
from .state_files import write_atomically

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any, Final


REQUEST_VERSION: Final = 1  # of the files' form
MAX_REQUEST_BYTES: Final = 64 * 1024  # the longest text has at most 24,000 bytes as JSON
MAX_INSTRUCTION_CHARS: Final = 2000  # a person types them in one line
ORPHAN_AFTER_S: Final = 300.0  # for a request without a result (requirements 004: as for saves)
ASK: Final = "ask"
TAKEN: Final = "taken"
ALIVE: Final = "alive"
ASKED: Final = "asked"
RESULT: Final = "result"
TOLD: Final = "told"

REQUEST_CHARS: Final = 16  # of a request's id: 64 random bits
_UUID_GROUPS: Final = (8, 4, 4, 4, 12)
_HEX_DIGITS: Final = frozenset("0123456789abcdef")


class UnsafeFolderError(OSError):
    """The folder is a link, another user's, or open to others: nothing in it is trusted."""


def request_folder(store: str) -> str:
    return f"{log_folder(store)}/asking"


def request_history_folder(store: str) -> str:
    return f"{request_folder(store)}/kept"


def request_path(store: str, session_id: str, request: str, kind: str) -> str:
    """Name a request's file; raises ValueError for an invalid id."""
    if not (is_session_id(session_id) and _is_request_id(request)):
        raise ValueError("not the id of a session or a request")
    folder = request_folder if kind in {ASK, TAKEN} else request_history_folder
    return f"{folder(store)}/{session_id}.{request}.{kind}"


def list_requests(store: str, kind: str, session_id: str | None = None) -> list[tuple[str, str]]:
    """List the session and request ids of all files of a kind, or of one session's, sorted."""
    folder = request_folder if kind in {ASK, TAKEN} else request_history_folder
    names = [name.split(".") for name in sorted(os.listdir(folder(store)))]
    return [
        (parts[0], parts[1])
        for parts in names
        if len(parts) == 3
        and parts[2] == kind
        and session_id in {None, parts[0]}
        and is_session_id(parts[0])
        and _is_request_id(parts[1])
    ]


def is_session_id(session_id: str) -> bool:
    """Whether this is a UUID, as the client's session ids are."""
    groups = session_id.split("-")
    return tuple(map(len, groups)) == _UUID_GROUPS and all(
        _HEX_DIGITS.issuperset(part) for part in groups
    )


def _is_request_id(request: str) -> bool:
    return len(request) == REQUEST_CHARS and _HEX_DIGITS.issuperset(request)


def instruction_problem(text: str) -> str | None:
    """Explain why a text cannot be passed as instructions; None if it can."""
    if len(text) > MAX_INSTRUCTION_CHARS:
        return f"the text has {len(text):,} characters, more than {MAX_INSTRUCTION_CHARS:,}"
    if text and not text.isprintable():
        return "the text has control characters or line breaks: use one line of plain text"
    return None


def make_request_folders(store: str) -> None:
    """Make the folders of a store's requests; raises OSError if they are not safe."""
    os.makedirs(log_folder(store), FOLDER_MODE, exist_ok=True)
    for folder in (request_folder(store), request_history_folder(store)):
        if not os.path.lexists(folder):
            os.makedirs(folder, FOLDER_MODE, exist_ok=True)
    check_request_folders(store)


def check_request_folders(store: str) -> None:
    """Raise OSError if somebody else could have put something into the folders."""
    for folder in (log_folder(store), request_folder(store), request_history_folder(store)):
        status = os.lstat(folder)
        if not stat.S_ISDIR(status.st_mode):
            raise UnsafeFolderError(0, "is a link or not a folder: remove it", folder)
        if status.st_uid != os.geteuid():
            raise UnsafeFolderError(0, "belongs to another user: remove it", folder)
        if status.st_mode & 0o022 or (folder != log_folder(store) and status.st_mode & 0o077):
            raise UnsafeFolderError(
                0, f"is accessible to other users: run chmod 700 {folder}", folder
            )


def write_request_file(path: str, value: dict[str, Any]) -> None:
    import json  # takes 4 ms, which a hook that finds no file need not wait

    data = json.dumps({"v": REQUEST_VERSION} | value, ensure_ascii=True).encode() + b"\n"
    write_atomically(path, data)


def read_request_file(path: str) -> dict[str, Any]:
    """Read a file; raises OSError, and ValueError for a file of an unknown format."""
    import json

    with open_safely(path, "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(0, "is not a regular file", path)
        data = file.read(MAX_REQUEST_BYTES + 1)
    if len(data) > MAX_REQUEST_BYTES:
        raise ValueError("too large")
    try:
        value = json.loads(data)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(value, dict) or value.get("v") != REQUEST_VERSION:
        raise ValueError("of an unknown format")
    return value


def now_ms() -> int:
    return time.time_ns() // 1_000_000
