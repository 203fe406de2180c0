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


WRAPPED_TIMEOUT_S: Final = 2.0  # the client asks again at every answer, and ends what still runs
MAX_OUTPUT_BYTES: Final = 64 * 1024  # shown of its output; a line has a few hundred
_SHELL: Final = "/bin/sh"
_POLL_S: Final = 0.02  # between two checks that the shell runs: its children may hold our pipe
_CHUNK_BYTES: Final = 16 * 1024


def run_wrapped_command(command: str, stdin_data: bytes) -> bytes:
    """Run a shell command on this stdin; return what it printed in time, even if it failed.

    Raises OSError if no process can be made.
    """
    deadline = time.monotonic() + WRAPPED_TIMEOUT_S
    stdin, feed = os.pipe()
    output, stdout = os.pipe()
    try:
        actions = [(os.POSIX_SPAWN_DUP2, stdin, 0), (os.POSIX_SPAWN_DUP2, stdout, 1)]
        # A process group of its own: what hangs is ended with all that it started.
        pid = os.posix_spawn(
            _SHELL, ["sh", "-c", command], os.environ, file_actions=actions, setpgroup=0
        )
    except OSError:
        os.close(feed)
        os.close(output)
        raise
    finally:
        os.close(stdin)
        os.close(stdout)
    printed, has_ended = _pump_pipes(pid, (feed, output), stdin_data, deadline)
    if not has_ended:
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
    return printed


def _pump_pipes(
    pid: int, ends: tuple[int, int], stdin_data: bytes, deadline: float
) -> tuple[bytes, bool]:
    """Feed the shell and read its output until it ends or time runs out; close both pipes.

    The second value is whether it ended by itself: then any background processes it left,
    which may still hold our pipe as their stdout, are left alone. `deadline` is monotonic time.
    """
    feed, output = ends
    printed = b""
    has_ended = False
    rest = memoryview(stdin_data)
    is_open = {feed, output}
    os.set_blocking(feed, False)
    try:
        while time.monotonic() < deadline and len(printed) <= MAX_OUTPUT_BYTES:
            had_ended = has_ended
            feeding = [feed] if feed in is_open else []
            readable, writable, _ = select.select([output], feeding, [], _POLL_S)
            if writable:
                rest = _write_stdin(feed, rest)
                if not rest:
                    os.close(feed)
                    is_open.discard(feed)
            piece = os.read(output, _CHUNK_BYTES) if readable else b""
            printed += piece
            has_ended = has_ended or os.waitpid(pid, os.WNOHANG)[0] == pid
            # Its last output may have come since we looked: read once more, then.
            if not piece and (readable or had_ended):
                has_ended = True
                break
    finally:
        for end in is_open:
            os.close(end)
    return printed[:MAX_OUTPUT_BYTES], has_ended


def _write_stdin(feed: int, rest: memoryview) -> memoryview:
    try:
        return rest[os.write(feed, rest) :]
    except BrokenPipeError:
        # It reads no stdin.
        return rest[:0]
    except BlockingIOError:
        return rest
