"""A command in a pseudo-terminal: its keys, its processes, their time and memory."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from typing import TYPE_CHECKING, Final

import psutil

if TYPE_CHECKING:
    from collections.abc import Sequence

SIZE: Final = (120, 40)
GRACE_S: Final = 5.0


class Terminal:
    """Runs `ctxtop` with some words; what it writes is read away and the end is kept."""

    def __init__(
        self, words: list[str], environ: dict[str, str], python: str = sys.executable
    ) -> None:
        self._began = time.monotonic()
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            os.execve(python, [python, "-m", "ctxtop", *words], environ)
        size = struct.pack("HHHH", SIZE[1], SIZE[0], 0, 0)
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, size)
        self.written = bytearray()
        self.frames = 0
        """Reads that brought something."""

    def wait(self, seconds: float) -> None:
        """Read the output for some seconds, so that the process never blocks on a full terminal."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            ready, _, _ = select.select([self._terminal], [], [], left)
            if ready:
                self.written += os.read(self._terminal, 1 << 16)
                self.frames += 1
                del self.written[:-65536]

    def wait_for(self, words: bytes, seconds: float = 60.0) -> None:
        """Wait until the process has written these words; raises TimeoutError after `seconds`."""
        end = time.monotonic() + seconds
        while words not in self.written:
            if time.monotonic() > end:
                raise TimeoutError(f"{words!r} was not written within {seconds} s")
            self.wait(0.05)

    def times_of(self, marks: Sequence[re.Pattern[bytes]], seconds: float = 60.0) -> list[float]:
        """Return the seconds from the start until each of these was written.

        Raises TimeoutError where one is not written within `seconds`.
        """
        times: dict[re.Pattern[bytes], float] = {}
        while len(times) < len(marks):
            now = time.monotonic()
            if now > self._began + seconds:
                raise TimeoutError(f"{set(marks) - set(times)!r} not written within {seconds} s")
            times |= {
                each: now - self._began
                for each in marks
                if each not in times and each.search(self.written)
            }
            if select.select([self._terminal], [], [], 0.05)[0]:
                self.written += os.read(self._terminal, 1 << 16)
        return [times[each] for each in marks]

    def press(self, keys: str) -> None:
        """Type."""
        os.write(self._terminal, keys.encode())

    def answer_ms(self, keys: str, seconds: float = 2.0) -> float:
        """Type, and return the milliseconds until something is written; at most `seconds`."""
        began = time.perf_counter()
        self.press(keys)
        select.select([self._terminal], [], [], seconds)
        return (time.perf_counter() - began) * 1000

    @property
    def processes(self) -> list[psutil.Process]:
        """The dashboard, and what reads for it."""
        first = psutil.Process(self.pid)
        return [first, *first.children(recursive=True)]

    @property
    def cpu_s(self) -> float:
        """Seconds of a core so far, of those that run and those that ended."""
        times = [each.cpu_times() for each in self.processes]
        own = times[0]
        return sum(each.user + each.system for each in times) + (
            own.children_user + own.children_system
        )

    @property
    def memory_mb(self) -> float:
        """What only they hold, in MB."""
        return sum(each.memory_full_info().uss for each in self.processes) / 1e6

    def close(self) -> None:
        """End it as a terminal does."""
        os.kill(self.pid, signal.SIGTERM)
        end = time.monotonic() + GRACE_S
        while time.monotonic() < end:
            self.wait_quietly()
            if os.waitpid(self.pid, os.WNOHANG)[0]:
                break
        else:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._terminal)

    def wait_quietly(self) -> None:
        """Read what is written on the way out."""
        try:
            self.wait(0.1)
        except OSError:
            time.sleep(0.05)
