"""Letting the n-th system call fail, end the process, or come after another one's write."""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CALLS: Final = (
    "open", "write", "fsync", "replace", "link", "unlink", "mkdir", "rmdir", "utime", "truncate",
    "fchmod", "stat",
)  # fmt: skip


class KilledError(BaseException):
    """The process has ended: nothing that it does from now on has an effect."""


class Faults:
    """What happens at which call; calls are counted from 1."""

    def __init__(self) -> None:
        self.count = 0
        self.kill_at: int | None = None
        self.fail_at: int | None = None
        self.then: dict[int, Callable[[], None]] = {}
        """What another process does just before a call."""
        self.log: list[tuple[str, str]] = []
        """Names of the calls so far, and what each was about."""
        self._real: Final = {name: getattr(os, name) for name in CALLS}
        self._busy = False

    @contextmanager
    def armed(self) -> Iterator[None]:
        """Count every call of CALLS in this block and inject the faults.

        Calls that sync to disk return at once.
        """
        try:
            for name in CALLS:
                setattr(os, name, self._counting(name))
            yield
        finally:
            for name, real in self._real.items():
                setattr(os, name, real)

    def _counting(self, name: str) -> Callable[..., Any]:
        real = self._real[name]

        def call(*values: Any, **named: Any) -> Any:  # noqa: ANN401 -- any call of os
            if self._busy:
                return real(*values, **named)
            self.count += 1
            self.log.append((name, str(values[0])))
            self._others_go_first()
            if self.kill_at is not None and self.count >= self.kill_at:
                if name == "write" and self.count == self.kill_at:
                    real(values[0], bytes(values[1])[: len(values[1]) // 2])
                raise KilledError
            if self.count == self.fail_at:
                raise OSError(errno.EIO, "fault", name)
            return None if name == "fsync" else real(*values, **named)

        return call

    def _others_go_first(self) -> None:
        act = self.then.pop(self.count, None)
        if act is not None:
            self._busy = True
            try:
                act()
            finally:
                self._busy = False
