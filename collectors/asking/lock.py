"""A session's lock: one request at a time, and a dead process holds none."""

from __future__ import annotations

import os
import secrets
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core.processes import is_running, start_of
from ..plugin import exchange
from .outcome import NotCompactedError, Why

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def locked(store: Path, session_id: str) -> Iterator[None]:
    """Hold a session's lock: one request at a time.

    Raises NotCompactedError where another process holds it, OSError where the folder is not safe.
    """
    exchange.make_folders(str(store))
    lock = Path(exchange.asking_folder(str(store)), f"{session_id}.{exchange.LOCK}")
    mine = {"pid": os.getpid(), "start": start_of(os.getpid()), "mark": secrets.token_hex(8)}
    try:
        exchange.write_once(str(lock), mine)
    except FileExistsError:
        _remove_stale(lock)
        try:
            exchange.write_once(str(lock), mine)
        except FileExistsError:
            raise _held(lock) from None
    try:
        yield
    finally:
        if _read(lock).get("mark") == mine["mark"]:
            lock.unlink(missing_ok=True)


def _read(lock: Path) -> dict[str, Any]:
    try:
        return exchange.read(str(lock))
    except (OSError, ValueError):
        return {}


def _remove_stale(lock: Path) -> None:
    """Remove the lock of a process that has ended."""
    held = _read(lock)
    if held and _is_same_process(held):
        return
    aside = lock.with_name(f"{lock.name}.{secrets.token_hex(4)}")
    with suppress(FileNotFoundError):
        lock.rename(aside)
        if _read(aside).get("mark") != held.get("mark"):
            # Another process was faster, and this one is its own.
            with suppress(FileExistsError):
                os.link(aside, lock)
        aside.unlink()


def _held(lock: Path) -> NotCompactedError:
    holder = _read(lock).get("pid")
    return NotCompactedError(
        Why.LIVE, f"process {holder} is asking this session to compact already: wait for it"
    )


def _is_same_process(held: dict[str, Any]) -> bool:
    pid, start = held.get("pid"), held.get("start")
    if not isinstance(pid, int) or not isinstance(start, (int, float)):
        return False
    return is_running(pid, start)
