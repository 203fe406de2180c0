"""Run the status line command that was configured before ctxtop's, with limits."""

from __future__ import annotations

import os
import select
import signal
import time
from contextlib import suppress

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Final


WRAPPED_TIMEOUT_S: Final = 2.0
"""How long it may take: the client asks again at every answer, and ends what still runs."""

MAX_OUTPUT_BYTES: Final = 64 * 1024  # of its output is shown; a line has a few hundred
_SHELL: Final = "/bin/sh"
_POLL_S: Final = 0.02
"""Between two looks whether the shell has ended: a process that it left may hold our pipe."""

_CHUNK_BYTES: Final = 16 * 1024


def run_wrapped_command(command: str, stdin_data: bytes) -> bytes:
    """Run a shell's command on this stdin; give what it printed in time, even where it failed.

    Raises OSError where no process can be made.
    """
    deadline = time.monotonic() + WRAPPED_TIMEOUT_S
    stdin, feed = os.pipe()
    output, stdout = os.pipe()
    try:
        actions = [
            (os.POSIX_SPAWN_DUP2, stdin, 0),
            (os.POSIX_SPAWN_DUP2, stdout, 1),
        ]
        # A group of its own: what hangs in it is ended with it.
        pid = os.posix_spawn(
            _SHELL, ["sh", "-c", command], os.environ, file_actions=actions, setpgroup=0
        )
    except OSError:
        for end in (feed, output):
            os.close(end)
        raise
    finally:
        os.close(stdin)
        os.close(stdout)
    found, has_ended = _pump_pipes(pid, (feed, output), stdin_data, deadline)
    if not has_ended:
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
    return found


def _pump_pipes(
    pid: int, ends: tuple[int, int], given: bytes, deadline: float
) -> tuple[bytes, bool]:
    """Feed the shell and read its output until it ends or time runs out; close both pipes.

    The second value is whether it ended by itself: then any background processes it left,
    which may still hold our pipe as their stdout, are left alone. `deadline` is monotonic time.
    """
    feed, output = ends
    found: list[bytes] = []
    size, has_ended = 0, False
    rest = memoryview(given)
    waiting = {feed, output}
    os.set_blocking(feed, False)
    try:
        while time.monotonic() < deadline and size <= MAX_OUTPUT_BYTES:
            had_ended = has_ended
            giving = [feed] if feed in waiting else []
            readable, writable, _ = select.select([output], giving, [], _POLL_S)
            if writable:
                rest = _write_stdin(feed, rest)
                if not rest:
                    os.close(feed)
                    waiting.discard(feed)
            piece = os.read(output, _CHUNK_BYTES) if readable else b""
            found.append(piece)
            size += len(piece)
            has_ended = has_ended or os.waitpid(pid, os.WNOHANG)[0] == pid
            # What it said last may have come since we looked: once more, then.
            if not piece and (readable or had_ended):
                has_ended = True
                break
    finally:
        for end in waiting:
            os.close(end)
    return b"".join(found)[:MAX_OUTPUT_BYTES], has_ended


def _write_stdin(feed: int, rest: memoryview) -> memoryview:
    try:
        return rest[os.write(feed, rest) :]
    except BrokenPipeError:
        # It wants no stdin.
        return rest[:0]
    except BlockingIOError:
        return rest
