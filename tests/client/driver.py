"""The process inside the namespace: it serves the scripted API and runs the client.

Speaks JSON lines over its own stdin and stdout, and ends, with all that it started,
when stdin ends: a test run that is killed leaves nothing behind.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from .api import ScriptedApi

if TYPE_CHECKING:
    from collections.abc import Callable

Json = dict[str, Any]

TIMED_OUT: Final = -1
"""Code of a program that was stopped because it took too long."""


class Driver:
    """Runs programs in groups of their own, and ends those groups only."""

    def __init__(self) -> None:
        self.api = ScriptedApi()
        self.started: dict[int, subprocess.Popen[bytes]] = {}

    def serve(self) -> None:
        """Answer one request a line until there are no more."""
        self.api.start()
        actions: dict[str, Callable[[Json], Any]] = {
            "url": lambda _: self.api.url,
            "run": self.run,
            "start": self.start,
            "stop": self.stop,
            "asked": lambda _: len(self.api.exchanges),
            "exchanges": lambda asked: self.api.exchanges[asked["since"] :],
        }
        try:
            for line in sys.stdin:
                asked = json.loads(line)
                print(json.dumps(actions[asked["do"]](asked)), flush=True)
        finally:
            for pid in list(self.started):
                self.stop({"pid": pid})

    def run(self, asked: Json) -> Json:
        """Run a program to its end."""
        child = subprocess.Popen(
            asked["argv"],
            cwd=asked["cwd"],
            env=asked["env"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            out, err = child.communicate(timeout=asked["timeout"])
            code = child.returncode
        except subprocess.TimeoutExpired:
            _end_group(child.pid)
            out, err = child.communicate()
            code = TIMED_OUT
        _end_group(child.pid)
        return {
            "code": code,
            "out": out.decode("utf-8", "replace"),
            "err": err.decode("utf-8", "replace"),
        }

    def start(self, asked: Json) -> int:
        """Start a program that goes on by itself; say its process id."""
        child = subprocess.Popen(
            asked["argv"],
            cwd=asked["cwd"],
            env=asked["env"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.started[child.pid] = child
        return child.pid

    def stop(self, asked: Json) -> None:
        """End a program that was started here, by its id."""
        child = self.started.pop(asked["pid"])
        _end_group(child.pid)
        child.wait()


def _end_group(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


if __name__ == "__main__":
    Driver().serve()
