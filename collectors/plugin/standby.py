"""The process that stays after a slow answer, and gives the next ones.

Nine tenths of such an answer's time go into loading code. So a hook that has loaded it leaves a
child, which keeps the code and nothing else: for each question it works out, from the files as they
are then, what the hook would have. It ends after LINGER_S without a question, and when a file of
its code or its socket is no longer the same. If it is not there, or busy, a hook answers itself.

The socket is 0600, in the folder of the store's logs, 0700: a hook asks none that another user may
have made. One that sees other files or processes (in a container), or that runs another Python or
another ctxtop, gets no answer.
"""

from __future__ import annotations

import os
import stat
import sys
import time

from ..plugin_files.plugin_log import (
    ANSWER_FAULTS,
    FILE_MODE,
    FOLDER_MODE,
    log_folder,
    log_path,
    note_fault,
)

TYPE_CHECKING = False

if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Callable, Sequence
    from typing import Final

    Answer = Callable[[Sequence[str], bytes], bytes]


LINGER_S: Final = 600.0  # a working session's prompts and agents come closer than that
CHECK_S: Final = 10.0  # between two looks at its files while nobody asks
START_S: Final = 0.5  # until it has begun to answer: a hook loads everything in less
READ_S: Final = 2.0  # for a question, which a hook has whole
MAX_MEMORY_KB: Final = 200_000  # it has 25,000; after a huge session it ends
_BACKLOG: Final = 32
_PIECE_BYTES: Final = 1024 * 1024
_MAX_DESCRIPTOR: Final = 1024  # a hook opens a dozen
_BEGUN: Final = b"+"
_ANSWER: Final = b"="
_VIEW: Final = ("/", "/proc/self/ns/mnt", "/proc/self/ns/pid", "/proc/self/ns/user")
"""The same for two processes that see the same files and processes."""


def socket_path(store: str) -> str:
    return f"{log_folder(store)}/answers.socket"


def ask(store: str, words: Sequence[str], data: bytes, until: float) -> bytes | None:
    """Ask the standby process, until a time of `monotonic`; None if it gives no answer."""
    path = socket_path(store)
    try:
        if not _is_own(path):
            return None
        import _socket  # the C half: the whole takes ten times as long

        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    except (OSError, ImportError, AttributeError):
        return None
    try:
        connection.settimeout(START_S)
        connection.connect(path)
        if connection.recv(1) != _BEGUN:
            return None
        connection.settimeout(max(START_S, until - time.monotonic()))
        connection.sendall(_encode_question(words, data))
        connection.shutdown(_socket.SHUT_WR)
        answer = _read_all(connection)
    except OSError:
        return None
    finally:
        connection.close()
    return answer[1:] if answer.startswith(_ANSWER) else None


def _is_own(path: str) -> bool:
    """Whether only this user can have made the socket; raises OSError."""
    folder, file = os.lstat(os.path.dirname(path)), os.lstat(path)
    return (
        stat.S_ISSOCK(file.st_mode)
        and stat.S_IMODE(folder.st_mode) == FOLDER_MODE
        and file.st_uid == folder.st_uid == os.geteuid()
    )


def _encode_question(words: Sequence[str], data: bytes) -> bytes:
    """Join all that an answer depends on beside files; raises OSError without a current folder."""
    variables = (name + b"=" + value for name, value in os.environb.items())
    asked = [os.fsencode(word) for word in (os.getcwd(), *words)]
    head = b"\0".join((_describe_process(), b"%d" % len(asked), *asked, *variables))
    return b"%d\n%b%b" % (len(head), head, data)


def _describe_process() -> bytes:
    rights = (os.getuid(), os.geteuid(), os.getgid(), os.getegid(), os.getgroups())
    python = (sys.version, sys.getfilesystemencoding(), __file__)
    seen = [_stamp(path)[:2] for path in _VIEW]
    return repr((rights, python, seen)).encode("utf-8", "replace")


def _stamp(path: str) -> tuple[int, ...]:
    """Return what stays the same while a file does; empty if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def _read_all(connection: socket) -> bytes:
    pieces = []
    while piece := connection.recv(_PIECE_BYTES):
        pieces.append(piece)
    return b"".join(pieces)


def stand_by(store: str, answer: Answer) -> None:
    """End, and leave a process that answers; raises OSError if none can be left."""
    if os.fork():
        os._exit(0)
    try:
        path = os.path.abspath(socket_path(store))
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(nothing, stream)
        # The client waits until nobody has its streams open.
        os.closerange(3, _MAX_DESCRIPTOR)
        _Standby(path, answer).run()
    except Exception as error:  # noqa: BLE001 -- whatever it is, hooks answer by themselves
        if os.path.isdir(log_folder(store)):
            fault = f"standby: {type(error).__name__}: {error}"
            note_fault(log_path(store, ANSWER_FAULTS), fault)
    finally:
        os._exit(0)


class _Standby:
    def __init__(self, path: str, answer: Answer) -> None:
        """Replace an earlier standby process, which then ends; raises OSError."""
        import socket

        self._path: Final = path
        self._answer: Final = answer
        self._listener: Final = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        part = f"{path}.{os.getpid()}"
        before = os.umask(~FILE_MODE & 0o777)
        self._listener.bind(part)
        os.umask(before)
        self._listener.listen(_BACKLOG)
        os.rename(part, path)
        self._own: Final = _stamp(path)
        self._code: Final[dict[str, tuple[int, ...]]] = {}

    def run(self) -> None:
        """Answer one question after another: whoever waits longer than START_S answers itself."""
        asked_at = time.monotonic()
        while self._is_current() and time.monotonic() - asked_at < LINGER_S:
            self._listener.settimeout(CHECK_S)
            os.chdir("/")
            try:
                connection, _ = self._listener.accept()
            except TimeoutError:
                continue
            asked_at = time.monotonic()
            with connection:
                if not self._is_current() or not self._reply(connection):
                    break
        self._listener.close()
        if _stamp(self._path) == self._own:
            os.unlink(self._path)

    def _is_current(self) -> bool:
        """Whether the socket and every file of the code are those that this process has loaded."""
        files = [getattr(module, "__file__", None) for module in sys.modules.copy().values()]
        current = {path: _stamp(path) for path in files if path}
        known = {path: self._code.setdefault(path, stamp) for path, stamp in current.items()}
        return current == known and _stamp(self._path) == self._own

    def _reply(self, connection: socket) -> bool:
        """Answer a question; return whether this process may answer another."""
        import resource

        connection.settimeout(READ_S)
        try:
            connection.sendall(_BEGUN)
            length, _, rest = _read_all(connection).partition(b"\n")
            head, data = rest[: int(length)], rest[int(length) :]
            process, count, *parts = head.split(b"\0")
            if process != _describe_process():
                return True
            folder, *words = parts[: int(count)]
            os.chdir(folder)
            os.environb.clear()
            for name, _, value in (part.partition(b"=") for part in parts[int(count) :]):
                os.environb[name] = value
            time.tzset()
            connection.sendall(_ANSWER + self._answer([os.fsdecode(word) for word in words], data))
        except (OSError, ValueError):
            # The hook has gone, or it answers itself.
            return True
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        # macOS counts bytes.
        return (most >> 10 if sys.platform == "darwin" else most) < MAX_MEMORY_KB
