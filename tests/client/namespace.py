"""A network of its own, with loopback alone, and the driver that runs in it."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Json = dict[str, Any]

REPOSITORY: Final = Path(__file__).parents[2]
CLIENT_VARIABLE: Final = "CTXTOP_LAB_CLIENT"
"""Names another build of the client than that of the package."""

ANSWER_S: Final = 30.0
"""The driver's own answers come at once; this only ends a test run that hangs."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended, and what it said."""

    code: int
    out: str
    err: str


class NamespaceError(Exception):
    """There can be no namespace here, or its driver has gone."""


def find_client() -> Path | None:
    """Find the real client: a path that was named, else the one that the SDK's wheel carries."""
    named = os.environ.get(CLIENT_VARIABLE)
    if named:
        return Path(named)
    found = find_spec("claude_agent_sdk")
    for place in (found.submodule_search_locations or ()) if found else ():
        client = Path(place) / "_bundled" / "claude"
        if client.is_file():
            return client
    return None


def why_not() -> str | None:
    """Return why this machine cannot create a network namespace; None if it can."""
    for program in ("unshare", "ip", "perl"):
        if shutil.which(program) is None:
            return f"there is no `{program}`"
    tried = subprocess.run(
        [*_isolated(), "true"], capture_output=True, text=True, timeout=ANSWER_S, check=False
    )
    return None if tried.returncode == 0 else f"no network of its own: {tried.stderr.strip()}"


class Namespace:
    """The driver's other end; everything in it ends with close() or with this process."""

    def __init__(self) -> None:
        self._child = subprocess.Popen(
            [*_isolated(), sys.executable, "-m", "tests.client.driver"],
            cwd=REPOSITORY,
            env={"PATH": os.environ.get("PATH", os.defpath), "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self._left = b""
        self.url: Final = str(self._ask({"do": "url"}))

    def run(
        self, argv: Sequence[str], cwd: Path, env: Mapping[str, str], timeout: float = ANSWER_S
    ) -> Ended:
        """Run a program to its end; its code is -1 where it took too long."""
        asked = {"do": "run", "argv": list(argv), "cwd": str(cwd), "env": dict(env)}
        return Ended(**self._ask(asked | {"timeout": timeout}, timeout + ANSWER_S))

    def start(self, argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> int:
        """Start a program that goes on by itself; say its process id."""
        asked = {"do": "start", "argv": list(argv), "cwd": str(cwd), "env": dict(env)}
        return int(self._ask(asked))

    def stop(self, pid: int) -> None:
        """End a program that was started here."""
        self._ask({"do": "stop", "pid": pid})

    def asked(self) -> int:
        """Return how often the API was asked so far."""
        return int(self._ask({"do": "asked"}))

    def exchanges(self, since: int) -> list[Json]:
        """List what the API was asked and answered, from the one numbered `since` (0 is first)."""
        found: list[Json] = self._ask({"do": "exchanges", "since": since})
        return found

    def close(self) -> None:
        """End the driver and all that it started."""
        if self._child.stdin:
            self._child.stdin.close()
        try:
            self._child.wait(ANSWER_S)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(self._child.pid, signal.SIGKILL)
            self._child.wait()
        if self._child.stdout:
            self._child.stdout.close()

    def _ask(self, asked: Json, timeout: float = ANSWER_S) -> Any:  # noqa: ANN401 -- any JSON
        if self._child.stdin is None:
            raise NamespaceError("the driver has no input")
        self._child.stdin.write(json.dumps(asked).encode() + b"\n")
        self._child.stdin.flush()
        return json.loads(self._line(timeout))

    def _line(self, timeout: float) -> bytes:
        if self._child.stdout is None:
            raise NamespaceError("the driver has no output")
        until = time.monotonic() + timeout
        descriptor = self._child.stdout.fileno()
        parts = [self._left]
        while b"\n" not in parts[-1]:
            ready, _, _ = select.select([descriptor], [], [], max(0.0, until - time.monotonic()))
            part = os.read(descriptor, 1 << 20) if ready else b""
            if not part:
                raise NamespaceError("the driver has gone" if ready else "the driver is silent")
            parts.append(part)
        line, _, self._left = b"".join(parts).partition(b"\n")
        return line


def _isolated() -> list[str]:
    """Begin a command that sees loopback alone."""
    namespace = ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-rn"]
    return [*namespace, "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
