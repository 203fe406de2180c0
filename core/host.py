"""Processes, folders and addresses of this machine."""

import ipaddress
import os
import shutil
import sys
from collections.abc import Mapping
from typing import Final

_SESSION_VARIABLES: Final = ("CLAUDECODE", "CLAUDE_CODE_CHILD_SESSION", "CLAUDE_CODE_SESSION_ID")
"""Variables that a client sets for what it starts: a client that is run under them keeps no
transcript (reference: claude-code-formats 4.2)."""


def find_program(name: str, environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the absolute path of a program on the PATH, or None.

    Relative and empty entries of the PATH are skipped: they mean the folder that the program is
    started in, which can be somebody else's repository.
    """
    entries = environ.get("PATH", os.defpath).split(os.pathsep)
    return shutil.which(name, path=os.pathsep.join(filter(os.path.isabs, entries)))


def python_command(module: str, *words: str) -> list[str]:
    """Return the command that runs a module with this interpreter.

    Without -P, Python would import from the current folder before anything else: a cloned
    repository needs no more than a file named ctxtop.py or json.py there.
    """
    return [sys.executable, "-P", "-m", module, *words]


def client_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a run of the client that belongs to no running session."""
    return {name: value for name, value in environ.items() if name not in _SESSION_VARIABLES}


START_TOLERANCE_S: Final = 1.0  # two readings of one process's start differ by less


def process_start_time(pid: int) -> float | None:
    """Return when a process started, in seconds since 1970; None if it does not exist."""
    import psutil

    try:
        return float(psutil.Process(pid).create_time())
    except (psutil.Error, ValueError, OverflowError):
        return None


def is_running(pid: int, start: float) -> bool:
    """Return whether the process with this id is still the one that started at `start`."""
    now = process_start_time(pid)
    return now is not None and abs(now - start) < START_TOLERANCE_S


LOOPBACK: Final = "127.0.0.1"  # the only address that is listened to; elsewhere use `ssh -L`

_LOOPBACK_NAMES: Final = (LOOPBACK, "localhost")


def is_loopback(host: str) -> bool:
    """Return whether a name or address always leads to this machine (RFC 6761, RFC 5735)."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def loopback_hosts(port: int) -> tuple[str, ...]:
    """Return the Host headers that a request to a port of this machine may have.

    After DNS rebinding, a page of another site sends its own name instead.
    """
    return tuple(f"{name}:{port}" for name in _LOOPBACK_NAMES)
